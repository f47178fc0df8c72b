package bwrap_test

import (
	"fmt"
	"strings"

	"github.com/shofer-dev/shofer-sandbox/bwrap"
)

// A layout can be looked at anywhere: only Look, Find and Probe touch the
// system. Here a worktree lies in /tmp, which is replaced by a folder of the
// command's own, and git's hooks are protected.
func Example() {
	l := &bwrap.Layout{
		Entries: []bwrap.Entry{
			{Path: "/tmp/wt/.git/hooks", Kind: bwrap.Frozen, Dir: true},
			{Path: "/tmp/wt/.git", Kind: bwrap.Pinned, Dir: true},
			{Path: "/tmp/wt", Kind: bwrap.Open, Dir: true},
			{Path: "/tmp/wt/sub", Kind: bwrap.Open, Dir: true},
			{Path: "/tmp", Kind: bwrap.Private, Dir: true},
			{Path: "/home/me/.ssh", Kind: bwrap.Hidden, Dir: true},
		},
		NewPid:  true,
		Options: bwrap.Options{Init: true},
	}
	args, err := l.Args(bwrap.Descriptors{Status: 3})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(strings.ReplaceAll(strings.Join(args, " "), " --", "\n--"))
	line, err := bwrap.Command("/usr/bin/bwrap", 4, 5)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(line)

	// Output:
	// --die-with-parent
	// --unshare-pid
	// --as-pid-1
	// --json-status-fd 3
	// --ro-bind / /
	// --dev /dev
	// --tmpfs /home/me/.ssh
	// --proc /proc
	// --tmpfs /tmp
	// --bind /tmp/wt /tmp/wt
	// --bind /tmp/wt/.git /tmp/wt/.git
	// --ro-bind /tmp/wt/.git/hooks /tmp/wt/.git/hooks
	// --remount-ro /dev
	// --remount-ro /home/me/.ssh
	// --remount-ro /proc
	// --chdir /
	// [/usr/bin/bwrap --args 4 -- /proc/self/fd/5]
}
