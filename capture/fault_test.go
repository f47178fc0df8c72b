package capture

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
)

// Failures of the disk are the kernel's own: limits, full and read-only file
// systems, folders that go away. Each is made to happen at each step of the life
// of two artifacts.

// faultShape makes artifacts that take several blocks and get a gap.
var faultShape = shape{Head: 8 << 10, Tail: 8 << 10, Step: 4 << 10}

const (
	faultSteps = 24
	faultChunk = 3000
)

// outcome is what became of the artifacts, of stdout and stderr.
type outcome struct {
	reasons [2]error
	ids     [2]ID
}

// live takes two streams through their lives. Each write, and the end, is done
// by during, which may make it fail. It returns an error when anything but the
// artifacts suffers.
func live(store *Store, during func(step int, f func())) (o outcome, err error) {
	store.shape = faultShape
	c := New(Options{Store: store, Stdout: HeadTail(Small)})
	models := map[*Stream]*model{}
	for _, s := range c.streams() {
		models[s] = &model{s: s}
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	r := newRand(1)
	text := bytes.Repeat([]byte("one line and another €\n\n"), faultChunk)
	check := func() error {
		for i, s := range c.streams() {
			m := models[s]
			if err := m.check(s.w.Window); err != nil {
				return err
			}
			shot := s.Snapshot()
			if (shot.Artifact != "") == (shot.SpillErr != nil) && shot.Omitted > 0 {
				return fmt.Errorf("%d bytes omitted, artifact %q, reason %w", shot.Omitted, shot.Artifact, shot.SpillErr)
			}
			if shot.Artifact != "" {
				from, to := store.shape.gap(int64(len(m.all)))
				if err := checkSource(s, m.all, from, to, r); err != nil {
					return err
				}
			} else {
				from, to := s.w.gap()
				if err := checkSource(s, m.all, from, to, r); err != nil && !errors.Is(shot.SpillErr, ErrGone) {
					return err
				}
			}
			o.reasons[i], o.ids[i] = shot.SpillErr, shot.Artifact
		}
		return nil
	}
	for step := range faultSteps {
		s := c.streams()[step%2]
		m := models[s]
		p := text[len(m.all):][:faultChunk]
		var n int
		var err error
		during(step, func() { n, err = s.Write(p) })
		if n != len(p) || err != nil {
			return o, fmt.Errorf("Write(%d bytes) = %d, %w", len(p), n, err)
		}
		m.all = append(m.all, p...)
		if err := check(); err != nil {
			return o, fmt.Errorf("after step %d: %w", step, err)
		}
	}
	during(faultSteps, c.End)
	if err := check(); err != nil {
		return o, fmt.Errorf("after the end: %w", err)
	}
	return o, checkStore(store, o, models[c.Stdout].all)
}

// checkStore says whether the store has what it should and nothing else. Both
// streams had the same text.
func checkStore(store *Store, o outcome, text []byte) error {
	infos, err := store.List()
	if err != nil {
		return err
	}
	// What can't be removed is emptied.
	infos = slices.DeleteFunc(infos, func(i Info) bool {
		return i.Size == 0 && i.State == Abandoned && i.ID != o.ids[0] && i.ID != o.ids[1]
	})
	want := 0
	for _, id := range o.ids {
		if id != "" {
			want++
		}
	}
	if len(infos) != want {
		return fmt.Errorf("%d artifacts; want %v: %+v", len(infos), o.ids, infos)
	}
	names, err := os.ReadDir(store.Path())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, name := range names {
		if id := ID(name.Name()[:min(26, len(name.Name()))]); id != o.ids[0] && id != o.ids[1] {
			if st, err := name.Info(); err != nil || st.Size() > 200 { // an entry's
				return fmt.Errorf("%s was left behind: %w", name.Name(), err)
			}
		}
	}
	for _, i := range infos {
		if i.State == Live {
			return fmt.Errorf("live after the end: %+v", i)
		}
		a, err := store.Open(i.ID)
		if err != nil {
			return err
		}
		from, to := faultShape.gap(i.Size)
		err = checkSource(a, text, from, to, newRand(2))
		if err := errors.Join(err, a.Close()); err != nil {
			return err
		}
	}
	return nil
}

// faults are the kinds of failure: what a helper does with a folder of its own,
// and how it says that something was wrong. Each must see both artifacts fail
// and, somewhere, both succeed.
var faults = map[string]struct {
	want error // what the reasons match
	ns   bool  // needs namespaces
	user bool  // as an ordinary user
	f    func(dir string, see func(outcome, error)) error
}{
	"file size": {want: unix.EFBIG, f: func(dir string, see func(outcome, error)) error {
		for limit := 0; limit < 50<<10; limit += 331 {
			see(withStore(dir, limited(unix.RLIMIT_FSIZE, func() int { return limit })))
		}
		return nil
	}},
	"descriptors": {want: unix.EMFILE, f: func(dir string, see func(outcome, error)) error {
		for extra := range 8 {
			for step := range faultSteps + 1 {
				see(withStore(dir, at(step, limited(unix.RLIMIT_NOFILE, func() int { return freeFD() + extra }))))
			}
		}
		return nil
	}},
	"removed folder": {want: ErrGone, f: func(dir string, see func(outcome, error)) error {
		for step := range faultSteps + 1 {
			see(withStore(dir, at(step, func(now int, f func()) {
				if now > step {
					f()
					return
				}
				if err := os.RemoveAll(filepath.Join(dir, "store")); err != nil {
					panic(err)
				}
				f()
			})))
		}
		return nil
	}},
	"folder for reading only": {want: unix.EACCES, user: true, f: func(dir string, see func(outcome, error)) error {
		for step := range faultSteps + 1 {
			see(withStore(dir, at(step, func(_ int, f func()) {
				store := filepath.Join(dir, "store")
				if err := os.Chmod(store, 0o500); err != nil {
					panic(err)
				}
				f()
				if err := os.Chmod(store, 0o700); err != nil {
					panic(err)
				}
			})))
		}
		return nil
	}},
	"full": {want: unix.ENOSPC, ns: true, f: func(dir string, see func(outcome, error)) error {
		for pages := 1; pages < 20; pages++ {
			see(withMount(dir, "tmpfs", fmt.Sprintf("mode=700,size=%d", pages*os.Getpagesize()), untouched))
		}
		return nil
	}},
	"no inodes": {want: unix.ENOSPC, ns: true, f: func(dir string, see func(outcome, error)) error {
		for inodes := 1; inodes < 10; inodes++ {
			see(withMount(dir, "tmpfs", fmt.Sprintf("mode=700,nr_inodes=%d", inodes), untouched))
		}
		return nil
	}},
	"read-only": {want: unix.EROFS, ns: true, f: func(dir string, see func(outcome, error)) error {
		for step := range faultSteps + 1 {
			see(withMount(dir, "tmpfs", "mode=700", at(step, func(_ int, f func()) {
				// It is refused as long as a file is open for writing.
				err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, "")
				f()
				if err == nil {
					if err := unix.Mount("", dir, "", unix.MS_REMOUNT, ""); err != nil {
						panic(err)
					}
				}
			})))
		}
		return nil
	}},
	"no holes": {want: unix.EOPNOTSUPP, ns: true, f: func(dir string, see func(outcome, error)) error {
		see(withMount(dir, "ramfs", "mode=700", untouched))
		see(withMount(dir, "tmpfs", "mode=700", untouched)) // to see it work
		return nil
	}},
}

func untouched(_ int, f func()) { f() }

// at restricts what befalls to one step and those after it.
func at(step int, befall func(int, func())) func(int, func()) {
	return func(now int, f func()) {
		if now < step {
			f()
			return
		}
		befall(now, f)
	}
}

// limited does each step under a resource limit.
func limited(resource int, value func() int) func(int, func()) {
	return func(_ int, f func()) {
		var old unix.Rlimit
		if err := unix.Getrlimit(resource, &old); err != nil {
			panic(err)
		}
		if err := unix.Setrlimit(resource, &unix.Rlimit{Cur: uint64(value()), Max: old.Max}); err != nil {
			panic(err)
		}
		f()
		if err := unix.Setrlimit(resource, &old); err != nil {
			panic(err)
		}
	}
}

// freeFD returns the number that the next descriptor would get.
func freeFD() int {
	fd, err := unix.Dup(0)
	if err != nil {
		panic(err)
	}
	_ = unix.Close(fd)
	return fd
}

func withStore(dir string, during func(int, func())) (outcome, error) {
	return liveIn(filepath.Join(dir, "store"), during)
}

func withMount(dir, kind, data string, during func(int, func())) (outcome, error) {
	if err := unix.Mount(kind, dir, kind, 0, data); err != nil {
		return outcome{}, err
	}
	o, err := liveIn(dir, during)
	return o, errors.Join(err, unix.Unmount(dir, 0)) // refused where a descriptor is left open
}

func liveIn(path string, during func(int, func())) (outcome, error) {
	store, err := OpenStore(path, Limits{Free: -1})
	if err != nil {
		return outcome{}, err
	}
	o, err := live(store, during)
	if _, clearErr := store.Clear(); err == nil {
		err = clearErr
	}
	return o, errors.Join(err, store.Close())
}

func faultsHelper(args []string) int {
	fault, dir := faults[args[0]], args[1]
	failed, kept, bad := 0, 0, 0
	err := fault.f(dir, func(o outcome, err error) {
		if err != nil {
			fmt.Println(err)
			bad++
		}
		if o.ids[0] != "" && o.ids[1] != "" {
			kept++
		}
		for _, reason := range o.reasons {
			if reason != nil {
				failed++
				if !errors.Is(reason, fault.want) {
					fmt.Printf("no artifact because of %v; want %v\n", reason, fault.want)
					bad++
				}
			}
		}
	})
	if err != nil || bad > 0 || failed < 2 || kept == 0 {
		fmt.Printf("%v; %d artifacts failed, %d times both were kept, %d times something was wrong\n", err, failed, kept, bad)
		return 1
	}
	fmt.Printf("%d artifacts failed, %d times both were kept\n", failed, kept)
	return 0
}

func TestFaults(t *testing.T) {
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			u := testenv.Self()
			if fault.user {
				u = testenv.Ordinary()
			}
			cmd := u.Helper(t, "faults", name, u.Dir(t))
			if fault.ns {
				cmd.SysProcAttr = ownMounts()
				if err := tryNamespaces(t); err != nil {
					testenv.Skip(t, "no user namespaces: %v", err)
				}
			}
			if res := testenv.Run(t, cmd); res.Code != 0 {
				t.Error(res)
			} else {
				t.Log(res.Stdout)
			}
		})
	}
}

// tryNamespaces returns why this process can't have a user namespace.
func tryNamespaces(t *testing.T) error {
	cmd := testenv.Command(t, "true")
	cmd.SysProcAttr = ownMounts()
	return cmd.Run()
}

// ownMounts gives a child namespaces in which it may mount.
func ownMounts() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
}
