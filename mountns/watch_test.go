package mountns

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/shofer-dev/shofer-sandbox/policy"
	"golang.org/x/sys/unix"
)

// watchOf watches a file for this process, which is a command for want of a
// better one, and looks only when the test does.
func watchOf(t *testing.T) (w *Watch, add func() (remove func())) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w = NewWatch(&policy.Resolved{Protect: []policy.Protected{{Path: file, Kind: policy.Frozen}}})
	w.first = time.AfterFunc(time.Hour, w.begin)
	return w, func() func() {
		t.Helper()
		fd, err := unix.PidfdOpen(os.Getpid(), 0)
		if err != nil {
			t.Fatal(err)
		}
		remove, err := w.Add(os.Getpid(), fd)
		if err != nil {
			t.Fatal(err)
		}
		return remove
	}
}

// withoutFiles does something while no file can be opened, nor polled.
func withoutFiles(t *testing.T, do func()) {
	t.Helper()
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	do()
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
}

// A watch for which there is no descriptor looks later.
func TestWatchWithoutFiles(t *testing.T) {
	for name, look := range map[string]func(w *Watch){
		"begin": (*Watch).begin,
		"look":  func(w *Watch) { w.look(w.changed) },
	} {
		w, add := watchOf(t)
		remove := add()
		if name == "look" {
			fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
			if err != nil {
				t.Fatal(err)
			}
			w.changed = fd
		}
		withoutFiles(t, func() { look(w) })
		w.mu.Lock()
		if w.first == nil || w.changed >= 0 || len(w.commands) != 1 {
			t.Errorf("%s: timer %v, descriptor %d, %d commands; want a timer, none, 1", name, w.first, w.changed, len(w.commands))
		}
		w.mu.Unlock()
		remove()
		w.mu.Lock()
		if w.first != nil || w.changed >= 0 {
			t.Errorf("%s: in the end timer %v, descriptor %d; want none", name, w.first, w.changed)
		}
		w.mu.Unlock()
	}
}

// While a command can't be looked at, others come and go.
func TestWatchHung(t *testing.T) {
	w, add := watchOf(t)
	remove := add()
	var hung *command
	for c := range w.commands {
		hung = c
	}
	hung.mu.Lock()
	looked := make(chan struct{})
	go func() {
		defer close(looked)
		w.begin()
	}()
	for begun := false; !begun; {
		w.mu.Lock()
		begun = w.changed >= 0
		w.mu.Unlock()
	}
	add()()
	hung.mu.Unlock()
	remove()
	<-looked
	if w.first != nil || w.changed >= 0 {
		t.Errorf("in the end timer %v, descriptor %d; want none", w.first, w.changed)
	}
}

// A path that can't be covered is given up for its command, and for no other.
func TestWatchGivesUp(t *testing.T) {
	w, _ := watchOf(t)
	one := func() *command {
		c := newCommand(os.Getpid(), -1)
		for path, fd := range map[string]*int{"/": &c.root, "/proc/self/mountinfo": &c.table} {
			var err error
			if *fd, err = unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
				t.Fatal(err)
			}
		}
		t.Cleanup(c.leave)
		return c // without a namespace to mount in
	}
	stubborn := one()
	tries := 0
	for again := true; again; tries++ {
		_, again, _ = stubborn.look(w.frozen)
	}
	if tries != lookHard {
		t.Errorf("%d tries; want %d", tries, lookHard)
	}
	for range 10 {
		_, _, _ = stubborn.look(w.frozen)
	}
	if got := stubborn.attempts[0].failed; got > lookHard+5 {
		t.Errorf("%d tries at once after having been given up", got-lookHard)
	}
	if _, again, err := one().look(w.frozen); !again || err != nil {
		t.Errorf("another command: %v, %v; want to try again", again, err)
	}
}
