#!/usr/bin/env bash
# When root, runs the tests as an ordinary user without privileges, in a copy of
# this tree that belongs to that user, without cgo. As somebody else there is
# nothing to do: make test runs them as that user anyway.
#
# go test compiles each test and starts it by this script (its -exec flag).
set -eu

user=1000

if [ -n "${SHOFER_TEST_TREE:-}" ]; then # called by go test: TEST ARG...
	tree=$SHOFER_TEST_TREE
	dir=$tree/src${PWD#"$SHOFER_TEST_ROOT"}
	test=$1
	shift
	# go test's own folder for it can be entered by root only.
	copy=$(mktemp "$tree/test-XXXXXX")
	cp "$test" "$copy"
	chmod 0755 "$copy"
	cd "$dir"
	exec setpriv --reuid $user --regid $user --clear-groups --inh-caps=-all \
		env -i PATH="$PATH" HOME="$tree/home" USER=tester LOGNAME=tester \
		GOTOOLCHAIN=local GOFLAGS="${GOFLAGS:-}" GOPROXY="$SHOFER_TEST_GOPROXY" \
		${TERM:+TERM="$TERM"} ${CI:+CI="$CI"} \
		${SHOFER_TEST_REQUIRE:+SHOFER_TEST_REQUIRE="$SHOFER_TEST_REQUIRE"} \
		SHOFER_TEST_LAUNCHER="$tree/shofer-sandbox" SHOFER_TEST_RUNNER="$tree/runner" "$copy" "$@"
fi

cd "$(dirname "$0")/.."
if [ "$(id -u)" -ne 0 ]; then
	echo 'not root: the tests run as this user only'
	exit
fi
command -v setpriv >/dev/null || { echo 'no setpriv: not testing as another user'; exit; }

# Outside /tmp, which a confined command may write to.
tree=$(mktemp -d /var/tmp/shofer-as-user-XXXXXX)
trap 'chmod -R u+w "$tree"; rm -rf "$tree"' EXIT
chmod 0755 "$tree"
mkdir "$tree/src" "$tree/home"
if git rev-parse --git-dir >/dev/null 2>&1; then
	git ls-files -z --cached --others --exclude-standard |
		tar -c --null --files-from=- --ignore-failed-read 2>/dev/null | tar -x -C "$tree/src"
else
	tar -c --exclude=./bin . | tar -x -C "$tree/src"
fi
# What this module needs, in the module cache of that user's home.
goproxy=$(go env GOPROXY)
cache=$(go env GOMODCACHE)
env -u GOPATH -u GOMODCACHE HOME="$tree/home" GOFLAGS=-modcacherw GOSUMDB=off \
	GOPROXY="file://$cache/cache/download,$goproxy" go -C "$tree/src" mod download
chown -R $user:$user "$tree/src" "$tree/home"
CGO_ENABLED=0 go build -trimpath -o "$tree/" ./cmd/shofer-sandbox ./cmd/runner

# The structure of the source is the same for every user.
mapfile -t packages < <(go list ./... | grep -v '/internal/archtest$')
SHOFER_TEST_TREE=$tree SHOFER_TEST_ROOT=$PWD SHOFER_TEST_GOPROXY=$goproxy CGO_ENABLED=0 \
	go test -shuffle=on -timeout 20m -exec "$PWD/scripts/test-as-user.sh" "$@" "${packages[@]}"
