package bwrap

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// lines puts each option on a line of its own.
func lines(args []string) string {
	var b strings.Builder
	for i, a := range args {
		if i > 0 {
			b.WriteByte(" \n"[btoi(strings.HasPrefix(a, "--"))])
		}
		b.WriteString(a)
	}
	return b.String()
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// dir and file are short for entries.
func dir(kind Kind, path string) Entry { return Entry{Path: path, Kind: kind, Dir: true} }

func file(kind Kind, path string) Entry { return Entry{Path: path, Kind: kind} }

func try(e Entry) Entry {
	e.Optional = true
	return e
}

func TestArgs(t *testing.T) {
	for _, tt := range []struct {
		name string
		l    Layout
		fd   Descriptors
		want string
	}{
		{
			name: "nothing is granted",
			want: `--die-with-parent
--ro-bind / /
--dev /dev
--remount-ro /dev
--chdir /`,
		},
		{
			name: "everything that has an option",
			l: Layout{
				NewUser: true, NewPid: true, NewNet: true, Caps: []string{"kill", "chown"},
				Options: Options{Init: true, NewSession: true, Dir: "/wt", Terminal: "/dev/pts/7"},
			},
			fd: Descriptors{Status: 9},
			want: `--die-with-parent
--unshare-user
--unshare-pid
--as-pid-1
--unshare-net
--new-session
--cap-drop ALL
--cap-add CAP_CHOWN
--cap-add CAP_KILL
--json-status-fd 9
--ro-bind / /
--dev /dev
--dev-bind-try /dev/pts/7 /dev/console
--proc /proc
--remount-ro /dev
--remount-ro /proc
--chdir /wt`,
		},
		{
			name: "no pid namespace, so bwrap has no first process and /proc stays",
			l:    Layout{Options: Options{Init: true}},
			want: `--die-with-parent
--ro-bind / /
--dev /dev
--remount-ro /dev
--chdir /`,
		},
		{
			name: "a pid namespace for an inner stage with a namespace of its own",
			l:    Layout{NewPid: true, Options: Options{Init: true, OpenProc: true}},
			want: `--die-with-parent
--unshare-pid
--as-pid-1
--ro-bind / /
--dev /dev
--proc /proc
--remount-ro /dev
--chdir /`,
		},
		{
			name: "root without a capability",
			l:    Layout{Caps: []string{}},
			want: `--die-with-parent
--cap-drop ALL
--ro-bind / /
--dev /dev
--remount-ro /dev
--chdir /`,
		},
		{
			name: "root with all capabilities",
			l:    Layout{Caps: []string{}, KeepCaps: true},
			want: `--die-with-parent
--ro-bind / /
--dev /dev
--remount-ro /dev
--chdir /`,
		},
		{
			name: "the built-in grants",
			l: Layout{Entries: []Entry{
				dir(Open, "/home/me/wt"), try(dir(Open, "/tmp")), try(dir(Open, "/var/tmp/mine")),
				try(file(Device, "/dev/null")), try(file(Device, "/dev/tty")), try(file(Device, "/dev/ptmx")),
				try(dir(Device, "/dev/pts")), try(dir(Open, "/dev/shm")), dir(Open, "/home/me/.cache/ours/x"),
			}},
			want: `--die-with-parent
--ro-bind / /
--dev /dev
--bind-try /dev/shm /dev/shm
--bind /home/me/.cache/ours/x /home/me/.cache/ours/x
--bind /home/me/wt /home/me/wt
--bind-try /tmp /tmp
--bind-try /var/tmp/mine /var/tmp/mine
--remount-ro /dev
--chdir /`,
		},
		{
			name: "what lies in something granted adds nothing, a device does",
			l: Layout{Entries: []Entry{
				dir(Open, "/a"), dir(Open, "/a/b"), file(Open, "/a/f"), file(Device, "/a/dev"), dir(Open, "/a-b"),
				dir(Device, "/d"), dir(Open, "/d/x"), file(Device, "/d/y"), dir(Shown, "/a/s"),
			}},
			want: `--die-with-parent
--ro-bind / /
--bind /a /a
--dev-bind /a/dev /a/dev
--bind /a-b /a-b
--dev-bind /d /d
--dev /dev
--remount-ro /dev
--chdir /`,
		},
		{
			name: "one path, asked for twice",
			l: Layout{Entries: []Entry{
				try(dir(Open, "/a")), dir(Open, "/a"), dir(Open, "/b"), try(dir(Device, "/b")), dir(Open, "/c"), dir(Frozen, "/c"),
			}},
			want: `--die-with-parent
--ro-bind / /
--bind /a /a
--dev-bind /b /b
--dev /dev
--remount-ro /dev
--chdir /`,
		},
		{
			name: "a worktree in a /tmp of the command's own",
			l: Layout{ModeOption: true, Entries: []Entry{
				dir(Open, "/tmp/wt"), dir(Private, "/tmp"), dir(Private, "/tmp/go"), dir(Private, "/dev/shm"), dir(Frozen, "/tmp/other"),
			}},
			want: `--die-with-parent
--ro-bind / /
--dev /dev
--perms 1777
--tmpfs /dev/shm
--perms 1777
--tmpfs /tmp
--dir /tmp/go
--bind /tmp/wt /tmp/wt
--remount-ro /dev
--chdir /`,
		},
		{
			name: "git's folders",
			l: Layout{Entries: []Entry{
				dir(Open, "/r/wt"), dir(Open, "/r/.git"), file(Frozen, "/r/wt/.git"), dir(Frozen, "/r/.git/hooks"), file(Frozen, "/r/.git/config"),
				dir(Frozen, "/r/.git/worktrees"), dir(Reopened, "/r/.git/worktrees/wt"), file(Frozen, "/r/.git/worktrees/wt/gitdir"),
				dir(Pinned, "/r/.git/info"), file(Frozen, "/r/.git/info/attributes"), dir(Open, "/r/.git/hooks/in"), dir(Pinned, "/r/.git/hooks/x"),
			}},
			want: `--die-with-parent
--ro-bind / /
--dev /dev
--bind /r/.git /r/.git
--ro-bind /r/.git/config /r/.git/config
--ro-bind /r/.git/hooks /r/.git/hooks
--bind /r/.git/info /r/.git/info
--ro-bind /r/.git/info/attributes /r/.git/info/attributes
--ro-bind /r/.git/worktrees /r/.git/worktrees
--bind /r/.git/worktrees/wt /r/.git/worktrees/wt
--ro-bind /r/.git/worktrees/wt/gitdir /r/.git/worktrees/wt/gitdir
--bind /r/wt /r/wt
--ro-bind /r/wt/.git /r/wt/.git
--remount-ro /dev
--chdir /`,
		},
		{
			name: "protected, and outside of all grants",
			l: Layout{Entries: []Entry{
				dir(Frozen, "/r/hooks"), dir(Pinned, "/r"), dir(Reopened, "/r/hooks/a"), dir(Reopened, "/r/hooks/b"), dir(Open, "/r/hooks/b"), dir(Open, "/r/hooks/c"),
			}},
			want: `--die-with-parent
--ro-bind / /
--dev /dev
--bind /r/hooks/b /r/hooks/b
--remount-ro /dev
--chdir /`,
		},
		{
			name: "hidden",
			l: Layout{Entries: []Entry{
				dir(Hidden, "/home/me"), dir(Hidden, "/home/me/sub"), file(Hidden, "/etc/secret"), dir(Open, "/home/me/wt"),
				file(Hidden, "/home/me/wt/.env"), dir(Hidden, "/home/me/wt/keys"), dir(Open, "/home/me/wt/keys/pub"), dir(Frozen, "/home/me/x"), file(Hidden, "/dev/kmsg"),
			}},
			fd: Descriptors{Empty: []int{11, 12}},
			want: `--die-with-parent
--ro-bind / /
--dev /dev
--ro-bind-data 11 /etc/secret
--tmpfs /home/me
--bind /home/me/wt /home/me/wt
--ro-bind-data 12 /home/me/wt/.env
--tmpfs /home/me/wt/keys
--bind /home/me/wt/keys/pub /home/me/wt/keys/pub
--remount-ro /dev
--remount-ro /home/me
--remount-ro /home/me/wt/keys
--chdir /`,
		},
		{
			name: "a read list",
			l: Layout{
				ReadList: true, NewPid: true,
				Entries: []Entry{
					dir(Shown, "/usr"), dir(Shown, "/usr/lib"), try(dir(Shown, "/etc")), dir(Open, "/wt"), file(Shown, "/run/agent.sock"), dir(Open, "/usr/src"),
				},
				Links: []Link{{"/bin", "usr/bin"}, {"/lib", "usr/lib"}, {"/usr/x", "y"}, {"/dev/stdin", "/proc/self/fd/0"}, {"/var/run", "/run"}, {"/bin", "usr/bin"}},
			},
			want: `--die-with-parent
--unshare-pid
--symlink usr/bin /bin
--dev /dev
--ro-bind-try /etc /etc
--symlink usr/lib /lib
--proc /proc
--ro-bind /run/agent.sock /run/agent.sock
--ro-bind /usr /usr
--bind /usr/src /usr/src
--symlink /run /var/run
--bind /wt /wt
--remount-ro /
--remount-ro /dev
--remount-ro /proc
--chdir /`,
		},
		{
			name: "a read list without a pid namespace",
			l:    Layout{ReadList: true},
			want: `--die-with-parent
--dev /dev
--ro-bind /proc /proc
--remount-ro /
--remount-ro /dev
--chdir /`,
		},
		{
			name: "a read list of everything",
			l:    Layout{ReadList: true, Entries: []Entry{dir(Shown, "/"), dir(Shown, "/usr")}},
			want: `--die-with-parent
--ro-bind / /
--dev /dev
--remount-ro /dev
--chdir /`,
		},
		{
			name: "everything is granted",
			l:    Layout{NewPid: true, Entries: []Entry{dir(Device, "/"), dir(Open, "/wt"), file(Device, "/dev/null"), dir(Frozen, "/r/hooks"), dir(Hidden, "/s")}},
			want: `--die-with-parent
--unshare-pid
--dev-bind / /
--proc /proc
--ro-bind /r/hooks /r/hooks
--tmpfs /s
--remount-ro /s
--chdir /`,
		},
		{
			name: "all devices are granted",
			l:    Layout{NewPid: true, Entries: []Entry{dir(Device, "/dev"), file(Device, "/dev/null"), dir(Open, "/dev/shm"), dir(Device, "/dev/pts")}},
			want: `--die-with-parent
--unshare-pid
--ro-bind / /
--dev-bind /dev /dev
--proc /proc
--remount-ro /proc
--chdir /`,
		},
		{
			name: "a device, and a folder for shared memory that is elsewhere",
			l:    Layout{Entries: []Entry{file(Device, "/dev/kvm"), {Path: "/dev/shm", Source: "/run/shm", Kind: Open, Dir: true}}},
			want: `--die-with-parent
--ro-bind / /
--dev /dev
--dev-bind /dev/kvm /dev/kvm
--bind /run/shm /dev/shm
--remount-ro /dev
--chdir /`,
		},
		{
			name: "a link in a folder of the command's own",
			l:    Layout{Entries: []Entry{dir(Private, "/tmp"), dir(Open, "/tmp/wt")}, Links: []Link{{"/tmp/link", "wt"}, {"/home/link", "/tmp/wt"}}},
			want: `--die-with-parent
--ro-bind / /
--dev /dev
--tmpfs /tmp
--symlink wt /tmp/link
--bind /tmp/wt /tmp/wt
--remount-ro /dev
--chdir /`,
		},
		{
			name: "any byte but NUL",
			l:    Layout{Entries: []Entry{dir(Open, "/a b"), dir(Open, "/a\nb"), dir(Open, "/a\xff"), dir(Open, "/--bind"), dir(Open, "/'\"\\")}},
			want: "--die-with-parent\n--ro-bind / /\n--bind /'\"\\ /'\"\\\n--bind /--bind /--bind\n--bind /a\nb /a\nb\n--bind /a b /a b\n--bind /a\xff /a\xff\n" +
				"--dev /dev\n--remount-ro /dev\n--chdir /",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := fmt.Sprintf("%+v", tt.l)
			got, err := tt.l.Args(tt.fd)
			if err != nil {
				t.Fatalf("Args(%+v) = %v", tt.l, err)
			}
			if lines(got) != tt.want {
				t.Errorf("Args(%+v) =\n%s\nwant:\n%s", tt.l, lines(got), tt.want)
			}
			if n := tt.l.EmptyFiles(); n != len(tt.fd.Empty) {
				t.Errorf("EmptyFiles() = %d; want %d", n, len(tt.fd.Empty))
			}
			if after := fmt.Sprintf("%+v", tt.l); after != before {
				t.Errorf("Args changed the layout:\n%s\nwant:\n%s", after, before)
			}
			// The order of what comes in means nothing.
			slices.Reverse(tt.l.Entries)
			slices.Reverse(tt.l.Links)
			if again, err := tt.l.Args(tt.fd); err != nil || lines(again) != tt.want {
				t.Errorf("Args of the same in another order =\n%s, %v\nwant:\n%s", lines(again), err, tt.want)
			}
		})
	}
}

func TestArgsRefuses(t *testing.T) {
	many := func(n int, format string) (l Layout) {
		for i := range n {
			l.Entries = append(l.Entries, dir(Open, fmt.Sprintf(format, i)))
		}
		return l
	}
	for _, tt := range []struct {
		name string
		l    Layout
		fd   Descriptors
		want any // a string, or a type to find in the chain
	}{
		{name: "3,000 grants in places of their own", l: many(3000, "/g/%d"), want: new(*TooManyError)},
		{name: "a NUL in a path", l: Layout{Entries: []Entry{dir(Open, "/a\x00b")}}, want: "contains a NUL byte"},
		{name: "a NUL in the folder", l: Layout{Options: Options{Dir: "/\x00"}}, want: "contains a NUL byte"},
		{name: "too few empty files", l: Layout{Entries: []Entry{file(Hidden, "/a"), file(Hidden, "/b")}}, fd: Descriptors{Empty: []int{5}}, want: "a descriptor of an empty file is needed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			args, err := tt.l.Args(tt.fd)
			switch want := tt.want.(type) {
			case string:
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("Args() = %q, %v; want an error with %q", args, err, want)
				}
			default:
				if !errors.As(err, want) {
					t.Errorf("Args() = %d arguments, %v; want %T", len(args), err, want)
				}
			}
		})
	}

	// What lies in a grant costs nothing, however much there is of it.
	l := many(3000, "/g/wt/%d")
	l.Entries = append(l.Entries, dir(Open, "/g/wt"))
	args, err := l.Args(Descriptors{})
	if err != nil || len(args) > 20 {
		t.Errorf("Args of 3,000 grants within another = %d arguments, %v; want a few", len(args), err)
	}

	if _, err := Command("/usr/bin/bwrap", 3, 4, make([]string, maxInner+1)...); err == nil {
		t.Error("Command with too many arguments succeeded")
	}
	line, err := Command("/usr/bin/bwrap", 3, 4, make([]string, maxInner)...)
	if err != nil || len(line)-1 != maxInner+lineArgs {
		t.Errorf("Command = %d arguments, %v; want %d", len(line)-1, err, maxInner+lineArgs)
	}
}
