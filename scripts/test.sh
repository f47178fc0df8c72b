#!/usr/bin/env bash
# Runs all tests as this user, under the race detector where there is a C
# compiler to build it with. Arguments go to go test.
set -u
cd "$(dirname "$0")/.." || exit

race=()
if [ "$(CGO_ENABLED=1 go env CGO_ENABLED)" = 1 ] && sh -c "$(go env CC) --version" >/dev/null 2>&1; then
	race=(-race)
	export CGO_ENABLED=1
	# Else each process with the detector, helpers too, sleeps for a second
	# before it ends.
	export GORACE="atexit_sleep_ms=0${GORACE:+ $GORACE}"
else
	echo 'no C compiler: testing without the race detector'
fi

# The tests make and remove files by the hundred thousand, for which some file
# systems take several times as long as memory does. As root they have them
# there, as another user (test-as-user.sh) on this machine's disk.
inMemory=()
if [ "$(id -u)" -eq 0 ] && unshare --mount mount -t tmpfs -o mode=1777 tmpfs /var/tmp 2>/dev/null; then
	inMemory=(unshare --mount sh -c 'mount -t tmpfs -o mode=1777 tmpfs /var/tmp && exec "$@"' sh)
fi
exec "${inMemory[@]}" go test "${race[@]}" -shuffle=on -timeout 20m "$@" ./...
