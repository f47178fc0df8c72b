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
exec go test "${race[@]}" -shuffle=on -timeout 20m "$@" ./...
