package proctree

import (
	"bufio"
	"crypto/rand"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// start runs a shell script in a session of its own, with a mark, and returns
// its tree and what it prints first.
func start(t *testing.T, script string) (*Tree, string) {
	t.Helper()
	mark := "PROCTREE_MARK=" + rand.Text()
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", script)
	cmd.Env = append(os.Environ(), mark)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	tree := New(cmd.Process.Pid, mark)
	t.Cleanup(func() {
		end(t, tree)
		tree.Release()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return tree, strings.TrimSpace(line)
}

// end kills until nothing is left.
func end(t *testing.T, tree *Tree) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); len(tree.Signal(syscall.SIGKILL)) > 0; {
		if time.Now().After(deadline) {
			t.Errorf("left: %v", tree.Scan())
			return
		}
	}
}

func TestScan(t *testing.T) {
	tests := []struct {
		name, script string
		want         Reason
	}{
		{"child", `sleep 60 & echo $!; wait`, Session},
		{"of its own group", `set -m; sleep 60 & echo $!; wait`, Session},
		{"of its own session, its parent alive", `setsid env -i sleep 60 & echo $!; wait`, Descendant},
		{"an orphan of its own session", `(setsid sleep 60 & echo $!)`, Environment},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tree, out := start(t, tt.script+"\n")
			pid, err := strconv.Atoi(out)
			if err != nil {
				t.Fatal(err)
			}
			// Until an orphan's parent is gone it is a descendant, and while it
			// is being executed it has no environment.
			await(t, func() bool {
				return comm(pid) == "sleep" && slices.ContainsFunc(tree.Scan(), func(p Process) bool { return p.Pid == pid && p.Why == tt.want })
			})
		})
	}
}

// What is found once is found again when nothing leads to it any more.
func TestScanRemembers(t *testing.T) {
	tree, out := start(t, `setsid env -i sh -c 'sleep 60; :' & echo $!; exec sleep 60`)
	pid, err := strconv.Atoi(out)
	if err != nil {
		t.Fatal(err)
	}
	await(t, func() bool { return len(tree.Scan()) == 3 })
	if err := unix.Kill(tree.leader, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	await(t, func() bool { return len(tree.Scan()) == 2 })
	if err := unix.Kill(pid, unix.SIGKILL); err != nil { // the one between: its child has no other parent known
		t.Fatal(err)
	}
	await(t, func() bool { return len(tree.Scan()) == 1 })
}

// Another process, even one of this test, is left alone.
func TestSignalLeavesOthers(t *testing.T) {
	other, _ := start(t, `echo; exec sleep 60`)
	tree, _ := start(t, `sleep 60 & setsid sleep 60 & echo; wait`)
	await(t, func() bool { return len(tree.Scan()) == 3 })
	end(t, tree)
	if got := other.Scan(); len(got) != 1 {
		t.Errorf("Scan() of another command = %v; want its leader", got)
	}
}

// A tree that forks all the time, into sessions of its own, is ended.
func TestSignalForkStorm(t *testing.T) {
	tree, _ := start(t, `f() { setsid sh -c 'while :; do sleep 0.01 & done' & }; f; f; f; echo; wait`)
	await(t, func() bool { return len(tree.Scan()) > 20 })
	end(t, tree)
}

func TestParse(t *testing.T) {
	line := "7 (a ) b) S 1 2 3 34816 7 4194304 1 2 3 4 5 6 7 8 20 0 1 0 4242 1 2 3"
	e, ok := parse(7, []byte(line))
	want := entry{Process: Process{Pid: 7, Start: 4242, Name: "a ) b", state: 'S', ppid: 1}, group: 2, session: 3}
	if !ok || e != want {
		t.Errorf("parse(%q) = %+v, %v; want %+v", line, e, ok, want)
	}
	for _, line := range []string{"", "7 (a", "7 (a) S 1 2 3", "7 a) S", strings.Replace(line, "4242", "x", 1)} {
		if e, ok := parse(7, []byte(line)); ok {
			t.Errorf("parse(%q) = %+v; want nothing", line, e)
		}
	}
}

// A command that has ended by itself is soon seen to have left nothing, and
// only then.
func TestAlone(t *testing.T) {
	for script, want := range map[string]bool{
		"echo; exit":                        true,
		"sleep 60 & echo":                   false,
		"setsid sleep 60 & echo; sleep 0.1": false,
		"(set -m; sleep 60 & echo)":         false,
	} {
		tree, _ := start(t, script)
		await(t, func() bool { e, ok := read(tree.leader); return ok && e.state == 'Z' })
		// On a busy machine it may not be young any more when it is looked at, or
		// too many numbers may have been given since: then another one.
		got := false
		for try := 0; !got && try < 100; try++ {
			if last, _ := lastNumber(); last < tree.leader || last-tree.leader > fewNumbers/2 {
				tree, _ = start(t, script)
				await(t, func() bool { e, ok := read(tree.leader); return ok && e.state == 'Z' })
			}
			tree.made = time.Now()
			got = tree.alone()
		}
		if got != want {
			t.Errorf("%q: alone() = %v; want %v", script, got, want)
		}
		tree.made = time.Now().Add(-time.Hour)
		if tree.alone() {
			t.Errorf("%q: alone() = true of an old command", script)
		}
	}
	if last, ok := lastNumber(); !ok || last < 1 {
		t.Errorf("lastNumber() = %d, %v", last, ok)
	}
}

func BenchmarkScan(b *testing.B) {
	tree := New(os.Getpid(), "PROCTREE_MARK=none")
	defer tree.Release()
	b.Run("all", func(b *testing.B) {
		for b.Loop() {
			tree.made = time.Time{}
			tree.Scan()
		}
	})
	b.Run("young", func(b *testing.B) {
		last, _ := lastNumber()
		tree := New(last, "PROCTREE_MARK=none")
		defer tree.Release()
		for b.Loop() {
			tree.made = time.Now()
			tree.alone()
		}
	})
}

func comm(pid int) string {
	e, _ := read(pid)
	return e.Name
}

// await polls until ok.
func await(t *testing.T, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); {
		if time.Now().After(deadline) {
			t.Fatal("it didn't come to be")
		}
		<-time.After(time.Millisecond)
	}
}

// Numbers begin anew where they end, so that a child may have a lower one than
// its parent.
func TestParentsFirst(t *testing.T) {
	of := func(pid, ppid int) Process { return Process{Pid: pid, ppid: ppid} }
	for _, tt := range []struct {
		in   []Process
		want []int
	}{
		{[]Process{of(5, 32760), of(7, 5), of(32760, 1)}, []int{32760, 5, 7}},
		{[]Process{of(9, 8), of(8, 7), of(7, 6), of(3, 9)}, []int{7, 8, 9, 3}},
		{[]Process{of(4, 1), of(1, 1)}, []int{1, 4}}, // which can't be
		{nil, nil},
	} {
		var got []int
		for _, p := range parentsFirst(tt.in) {
			got = append(got, p.Pid)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("parentsFirst(%v) = %v; want %v", tt.in, got, tt.want)
		}
	}
}
