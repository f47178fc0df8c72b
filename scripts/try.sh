#!/usr/bin/env bash
# Shows what the launcher does, on a throw-away repository with a linked
# worktree beside it. Needs git and go, and leaves nothing behind.
set -eu

launcher=$(realpath "${1:?usage: try.sh LAUNCHER}")

# Not in /tmp or $TMPDIR, where a confined command may write.
base=
for b in /var/tmp "${XDG_CACHE_HOME:-${HOME:-/nonexistent}/.cache}"; do
	case $(realpath -m "$b")/ in /tmp/* | "$(realpath -m "${TMPDIR:-/tmp}")"/*) continue ;; esac
	if mkdir -p "$b" 2>/dev/null && [ -w "$b" ]; then
		base=$b
		break
	fi
done
[ -n "$base" ] || { echo 'try: found no folder outside /tmp to write to'; exit 1; }
dir=$(mktemp -d "$base/shofer-try-XXXXXX")
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT

# Nothing of the user's own configuration, and no cache that stays.
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 XDG_CACHE_HOME="$dir/cache"
git init --quiet "$dir/repo"
cd "$dir/repo"
git config user.name Somebody
git config user.email somebody@example.com
printf 'module example.com/hello\n\ngo 1.21\n' >go.mod
printf 'package main\n\nfunc main() { println("hello") }\n' >main.go
printf '/hello\n' >.gitignore
git add .
git commit --quiet -m 'first'
git worktree add --quiet -b feature "$dir/worktree"
cd "$dir/worktree"

# inside SHELL-COMMAND: runs it by the launcher in this folder.
inside() {
	printf "\n\$ shofer-sandbox . -- sh -c '%s'\n" "$1"
	"$launcher" --status-fd 3 . -- sh -c "$1" 3>"$dir/status" 2>&1
}
fail() {
	echo "try: $1"
	exit 1
}

echo "A repository, $dir/repo,"
echo "and a worktree of it beside it, $dir/worktree, where these run:"
echo '// changed inside' >>main.go
inside 'git commit -a -m "from inside"' || fail 'the commit should have succeeded'
[ "$(git log -1 --format=%s)" = 'from inside' ] || fail 'the commit is not there'
inside 'go build -o hello . && ./hello' || fail 'the build should have succeeded'
inside "echo bad >>$dir/repo/main.go" && fail 'the write outside should have been refused'
git -C "$dir/repo" diff --quiet || fail 'the file outside was changed'
inside "echo bad >$dir/repo/.git/hooks/pre-commit" && fail 'the hook should have been refused'
[ ! -e "$dir/repo/.git/hooks/pre-commit" ] || fail 'there is a hook'

# The last line of its kind counts: what was tried first may not work here.
applied=$(grep '"event":"applied"' "$dir/status" | tail -n 1)
# field NAME: a word of it.
field() { grep -o "\"$1\":\"\?[^\",}]*" <<<"$applied" | head -n 1 | sed 's/.*://; s/"//g'; }
promises() { grep -o "\"promise\":\"[^\"]*\",\"state\":\"$1\"" <<<"$applied" | cut -d'"' -f4 | paste -sd' '; }
echo
echo 'The commit and the build succeeded, the writes outside were refused.'
echo "Enforced by $(field backend) (Linux $(uname -r), Landlock ABI $(field landlock_abi)): $(promises enforced)"
after=$(promises verified-after)
[ -z "$after" ] || echo "Compared afterwards, as far as it isn't enforced: $after"
absent=$(promises absent)
[ -z "$absent" ] || echo "Not enforced here (shofer-sandbox --explain . says why): $absent"
