#!/usr/bin/env bash
# Checks that the programs which the tests use can be run, by running them, as
# this user and, when root, as the ordinary user that the tests also run as.
# Installs the packages of those that can't, where apt and the right to use it
# are there. Otherwise it says what is missing. Tests that need what is missing
# are then skipped; with SHOFER_TEST_REQUIRE set this script fails instead.
set -u

user=1000
apt=false
declare -a missing packages

# need PACKAGE WHY COMMAND...: COMMAND must succeed.
need() {
	local package=$1 why=$2 as
	shift 2
	try "$@" && { [ "$(id -u)" -ne 0 ] || try_user "$@"; } && return
	as=
	[ "$(id -u)" -ne 0 ] || ! try "$@" || as=" as uid $user"
	missing+=("$1$as (Debian package $package): $why")
	for p in $package; do packages+=("$p"); done
}

# Like need, for a package that starts a server: it is installed where nothing
# would start it, or where nothing may be missing.
need_server() {
	local -a others=("${packages[@]}")
	need "$@"
	if [ -d /run/systemd/system ] && [ -z "${SHOFER_TEST_REQUIRE:-}" ]; then
		packages=("${others[@]}")
	fi
}

# Without a home folder, so that version managers' shims count only where they
# work for everybody.
try() { timeout 60 "$@" </dev/null >/dev/null 2>&1; }
try_user() {
	command -v setpriv >/dev/null || return 0
	(cd / && timeout 60 setpriv --reuid $user --regid $user --clear-groups \
		env HOME=/nonexistent "$@" </dev/null >/dev/null 2>&1)
}

check() {
	missing=() packages=()
	need git           'repositories and worktrees' git --version
	need make          'builds inside' make --version
	need gcc           'cgo for the race detector, C builds inside' gcc --version
	need libc6-dev     'C builds inside' sh -c 'echo "#include <stdio.h>" | gcc -E - '
	need util-linux    'dropping privileges' setpriv --version
	need bsdutils      'pseudo-terminals' script --version
	need tmux          'job control at a terminal' tmux -V
	need bash-completion 'completion of commands' test -r /usr/share/bash-completion/bash_completion
	need zsh           'the same in another shell' zsh --version
	need fish          'the same in another shell' fish --version
	need procps        'looking at processes' ps --version
	need bubblewrap    'the other sandbox, for comparison' bwrap --version
	need 'python3 python3-venv python3-setuptools python3-wheel python3-pip' \
		'Python builds inside' /usr/bin/python3 -c 'import setuptools, wheel, pip, venv, ensurepip'
	need curl          'what a program says without network' curl --version
	need npm           'Node builds inside' npm --version
	need 'cargo rustc' 'Rust builds inside' sh -c 'cargo --version && rustc --version'
	need default-jdk-headless 'Java builds inside' sh -c 'javac -version && jar --help'
	need qemu-user-static 'the start of a program on arm64' qemu-aarch64-static --version
	need qemu-system-x86 'other kernels' qemu-system-x86_64 --version
	need mmdebstrap    "the guests' root file system" mmdebstrap --version
	need 'xz-utils zstd lz4' "the guests' kernels" sh -c 'xz --version && zstd --version && lz4 --version'
	need e2fsprogs     "the guests' root file system" sh -c 'PATH=$PATH:/usr/sbin mke2fs -V'
	need 'fakeroot uidmap' 'the same without root' sh -c 'fakeroot --version && command -v newuidmap'
	need openssh-client 'git over ssh' ssh -V
	need_server openssh-server 'git over ssh' sh -c 'PATH=$PATH:/usr/sbin sshd -V'
	# Only root can mount it.
	[ "$(id -u)" -ne 0 ] ||
		need btrfs-progs 'a file system with calls of its own' sh -c 'PATH=$PATH:/usr/sbin mkfs.btrfs --version'
}

# Only what can be done without a password.
installer() {
	command -v apt-get >/dev/null || return
	if [ "$(id -u)" -eq 0 ]; then
		apt='env'
	elif sudo -n true 2>/dev/null; then
		apt='sudo -n env'
	fi
}

check
if [ ${#packages[@]} -gt 0 ]; then
	installer
	if [ "$apt" != false ]; then
		echo "installing: ${packages[*]}"
		log=$(mktemp)
		# An old package list is reason enough for a failed install.
		{ $apt apt-get update && $apt DEBIAN_FRONTEND=noninteractive \
			apt-get install -y --no-install-recommends "${packages[@]}"; } >"$log" 2>&1 ||
			{ echo 'apt-get failed:'; tail -n 20 "$log"; }
		rm -f "$log"
		check
	fi
fi
[ ${#missing[@]} -eq 0 ] && { echo 'all programs that the tests use are there'; exit 0; }

echo 'missing for the tests (apt-get install has them):'
printf '  %s\n' "${missing[@]}"
if [ -n "${SHOFER_TEST_REQUIRE:-}" ]; then
	echo 'SHOFER_TEST_REQUIRE is set, so nothing may be missing'
	exit 1
fi
echo 'going on without: tests that need them are skipped'
