package bwrap

import (
	"slices"
	"strings"
	"testing"
)

// fuzzPath turns a number into a path of up to four parts. Few names, so that
// many paths lie in others; odd ones, so that order and bytes matter.
func fuzzPath(n byte) string {
	names := [...]string{"a", "a-", "b\n \xff", "dev"}
	path := ""
	for depth := 0; ; depth++ {
		path += "/" + names[n&3]
		if n >>= 2; depth == 3 || n&3 == 3 {
			return path
		}
	}
}

// FuzzArgs makes layouts and carries their options out on paper, where mounts
// lie over one another as in the kernel. What a path then shows must be what
// the entries, taken one by one from the outside in, say that it is.
func FuzzArgs(f *testing.F) {
	f.Add([]byte{4, 1, 7, 5, 6, 9, 8, 33}, uint8(0))
	f.Add([]byte{2, 0, 4, 4, 3, 20, 7, 84, 6, 200}, uint8(1))
	f.Add([]byte{5, 3, 4, 7, 8, 67, 1, 3}, uint8(2))
	f.Add([]byte{}, uint8(7))
	f.Fuzz(func(t *testing.T, data []byte, flags uint8) {
		l := Layout{ReadList: flags&1 != 0, NewPid: flags&2 != 0}
		var empty []int
		for i := 0; i+1 < len(data) && i < 80; i += 2 {
			e := Entry{Path: fuzzPath(data[i+1]), Kind: Kind(data[i]%8) + Shown, Dir: true, Optional: data[i]&8 != 0}
			if data[i]&16 != 0 && e.Kind == Hidden {
				e.Dir = false
				empty = append(empty, 100+i)
			}
			if e.Path == "/dev" && (e.Kind == Hidden || e.Kind == Private) {
				continue // Look refuses the first; nobody asks for the second
			}
			l.Entries = append(l.Entries, e)
		}
		if flags&4 != 0 {
			l.Entries = append(l.Entries, dir(Device, "/"))
		}
		args, err := l.Args(Descriptors{Empty: empty})
		if err != nil {
			t.Fatal(err)
		}
		mounts := carryOut(t, args)
		for i, m := range mounts {
			for _, later := range mounts[i+1:] {
				if later.path != m.path && beneath(m.path, later.path) {
					t.Fatalf("the mount at %q hides the one at %q:\n%s", later.path, m.path, lines(args))
				}
			}
		}
		for n := range 256 {
			path := fuzzPath(byte(n))
			if provided(path) || !l.leads(path) {
				continue
			}
			if got, want := shown(mounts, path), l.asked(path); got != want {
				t.Fatalf("%q is %v; want %v:\n%+v\n%s", path, got, want, l.Entries, lines(args))
			}
		}
	})
}

// paper is a mount that was made on paper.
type paper struct {
	path string
	view view
}

// carryOut makes the mounts that args ask for, in order.
func carryOut(t *testing.T, args []string) (mounts []paper) {
	views := map[string]view{
		"--ro-bind": outside, "--bind": open, "--dev-bind": devices, "--tmpfs": scratch, "--dev": scratch,
		"--proc": scratch, "--ro-bind-data": blank,
	}
	mounts = []paper{{"/", scratch}}
	for i := 0; i < len(args); i++ {
		option := strings.TrimSuffix(args[i], "-try")
		switch option {
		case "--die-with-parent", "--unshare-pid":
		case "--chdir":
			i++
		case "--dir":
			i++
			if v := shown(mounts, args[i]); v != scratch {
				t.Fatalf("a folder is made in what is %v:\n%s", v, lines(args))
			}
		case "--remount-ro":
			i++
			at := slices.IndexFunc(mounts, func(m paper) bool { return m.path == args[i] && m.view != outside })
			if at < 0 {
				t.Fatalf("%q is no mount point:\n%s", args[i], lines(args))
			}
			mounts[at].view = blank
		case "--ro-bind", "--bind", "--dev-bind":
			if args[i+1] != args[i+2] {
				t.Fatalf("%q is bound on %q", args[i+1], args[i+2])
			}
			mounts = append(mounts, paper{args[i+2], views[option]})
			i += 2
		case "--tmpfs", "--dev", "--proc":
			i++
			mounts = append(mounts, paper{args[i], views[option]})
		case "--ro-bind-data":
			mounts = append(mounts, paper{args[i+2], views[option]})
			i += 2
		default:
			t.Fatalf("what is %q?", args[i])
		}
	}
	return mounts
}

// shown returns what path shows: the last mount on the way to it.
func shown(mounts []paper, path string) (v view) {
	for _, m := range mounts {
		if beneath(path, m.path) {
			v = m.view
		}
	}
	return v
}

// leads reports whether path can be there: not beneath something that is hidden
// as a file.
func (l *Layout) leads(path string) bool {
	for _, e := range l.Entries {
		if e.Kind == Hidden && !e.Dir && path != e.Path && beneath(path, e.Path) {
			return false
		}
	}
	return true
}

// asked returns what the entries say that path is, by looking at each folder
// above it.
func (l *Layout) asked(path string) view {
	now, frozen, over := outside, false, outside
	if l.ReadList {
		now = blank
	}
	everything := slices.ContainsFunc(l.Entries, func(e Entry) bool { return e.Path == "/" })
	if everything {
		now = devices
	}
	allDevices := slices.ContainsFunc(l.Entries, func(e Entry) bool { return e.Path == "/dev" && e.Kind == Device })
	for i := 1; i <= len(path); i++ {
		if i < len(path) && path[i] != '/' {
			continue
		}
		at := path[:i]
		if at == "/dev" && !everything && !allDevices {
			now, frozen = blank, false
		}
		var kind Kind
		device, granted := false, false
		for _, e := range l.Entries {
			if e.Path == at {
				kind = max(kind, e.Kind)
				device = device || e.Kind == Device
				granted = granted || e.Kind == Open || e.Kind == Device
			}
		}
		want := open
		if device {
			want = devices
		}
		switch kind {
		case Shown:
			if now < outside {
				now = outside
			}
		case Private:
			if !frozen && now != scratch {
				now, over = scratch, scratch
			}
		case Open, Device:
			if !frozen {
				now = max(now, want)
			}
		case Reopened:
			switch {
			case granted && device:
				now, frozen = devices, false
			case granted:
				if frozen {
					now = over
				}
				now, frozen = max(now, open), false
			case frozen && over >= open:
				now, frozen = over, false
			}
		case Frozen:
			if !frozen {
				frozen, over = true, now
				now = min(now, outside)
			}
		case Hidden:
			if now >= outside {
				now = blank
			}
		}
	}
	return now
}
