package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/landlock"
)

// unlocked lets the goroutine that confines itself go to another thread before
// it becomes the command, as the scheduler may at any call; the runtime's own
// threads are there since the start. Where it is locked to its thread, it stays.
var unlocked = testenv.Edit{
	File: "spawn/fork_unsafe.go",
	From: "	runtimeBeforeExec()\n	g.run(false)\n",
	To: `	if !(g.mapIDs() && g.session() && g.signals(false) && g.enter() && g.descriptors() && g.restrict()) {
		return g.failed(g.report)
	}
	first := unix.Gettid()
	for range 1000 {
		if unix.Gettid() != first {
			break
		}
		go func() {
			for range 100000 {
				_ = unix.Getpid
			}
		}()
		runtime.Gosched()
	}
	runtimeBeforeExec()
	_, _, e := syscall.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(g.path)), uintptr(unsafe.Pointer(&g.argv[0])), uintptr(unsafe.Pointer(&g.env[0])))
	g.fail(StageExec, 0, e)
`,
}

// mutants are launchers that were broken on purpose.
var mutants = []struct {
	name    string
	edits   []testenv.Edit
	options string
	run     string // which checks to try
	broken  string // one of them; empty for a launcher that isn't broken
	abi     int    // what the kernel must have for the part that is
}{
	{
		"the thread is not locked",
		[]testenv.Edit{unlocked, {File: "cmd/shofer-sandbox/main.go", From: "runtime.LockOSThread()", To: "runtime.GOMAXPROCS(0)"}},
		"--no-protect", "^write/", "write/open-wronly", 3,
	},
	{"the thread is locked", []testenv.Edit{unlocked}, "--no-protect", "^write/", "", 3},
	{
		"rename is not granted", []testenv.Edit{{
			File: "landlock/abi.go",
			From: "ll.AccessFSWriteFile | ll.AccessFSTruncate | ll.AccessFSRefer |", To: "ll.AccessFSWriteFile | ll.AccessFSTruncate |",
		}}, "", "^control/inside-", "control/inside-rename-away", 3,
	},
	{
		"truncate is not handled", []testenv.Edit{{
			File: "landlock/rules.go", From: "HandledFS: fs & abi.FS}", To: "HandledFS: fs & abi.FS &^ (1 << 14)}",
		}}, "", "^write/", "write/truncate", 3,
	},
	{
		"descriptors stay open", []testenv.Edit{{
			File: "spawn/child_unsafe.go",
			From: "_, _, e := syscall.RawSyscall(unix.SYS_CLOSE_RANGE, uintptr(n), ^uintptr(0)>>32, unix.CLOSE_RANGE_CLOEXEC)", To: "var e syscall.Errno",
		}}, "", "^descriptor/", "descriptor/leaked-file", 3,
	},
	{
		"hooks are granted",
		[]testenv.Edit{{File: "policy/protect.go", From: "p.hooks(dir)", To: ""}},
		"--backend landlock+mountns", "^git/", "git/new-hook", 3,
	},
	{
		"signals are not scoped",
		[]testenv.Edit{{File: "landlock/rules.go", From: "!r.Policy.IPC.AllowSignals", To: "false"}},
		"", "^signal/", "signal/kill", 6,
	},
}

// The suite finds what is broken in a launcher.
func TestMutants(t *testing.T) {
	testenv.NeedTool(t, "go")
	if testing.Short() {
		t.Skip("builds many launchers")
	}
	testenv.BuildLauncher(t) // looks at every source file, so that go test does
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			if s := landlock.Probe(); s.ABI < m.abi {
				testenv.Skip(t, "needs Landlock ABI %d, this kernel has %d", m.abi, s.ABI)
			}
			exe := testenv.Mutant(t, m.edits...)
			r, code := conform(t, testenv.Self(), "--run", m.run, "--launcher", exe+" "+m.options+" {tree} --")
			var found []string
			for _, x := range r.Results {
				if x.Verdict == broken && (x.Family != "git" || !slices.Contains(unborn, x.Check)) {
					found = append(found, x.Family+"/"+x.Check)
				}
			}
			switch {
			case r.Refused != "":
				if strings.Contains(r.Refused, "mount layer") {
					testenv.Skip(t, "%s", r.Refused)
				}
				t.Errorf("exit %d: %s", code, r.Refused)
			case m.broken == "" && found != nil, m.broken != "" && !slices.Contains(found, m.broken):
				t.Errorf("broken: %q; want %q", found, m.broken)
			}
			t.Logf("broken: %q", found)
		})
	}
}
