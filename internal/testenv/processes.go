package testenv

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// patience is how long something that is sure to happen may take on a slow
// machine.
const patience = 30 * time.Second

// settleTime is how long what is to be gone at the end of a test may still be
// there. Tests of what stays make it shorter.
var settleTime = patience

// Lives reports whether there is a process of that number that hasn't ended.
func Lives(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	end := bytes.LastIndex(stat, []byte(") ")) // the name may have any byte
	return end >= 0 && stat[end+2] != 'Z' && stat[end+2] != 'X'
}

// AwaitEnd fails t if a process doesn't end soon.
func AwaitEnd(t testing.TB, pid int) {
	t.Helper()
	await(t, func() string {
		if !Lives(pid) {
			return ""
		}
		return "process " + strconv.Itoa(pid) + " lives"
	})
}

// WorkingIn lists the processes that work in a folder, each by its number and
// its command line.
func WorkingIn(t testing.TB, dir string) (processes []string) {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		if at, err := os.Readlink(link); err == nil && at == dir {
			proc := filepath.Dir(link)
			line, _ := os.ReadFile(filepath.Join(proc, "cmdline")) // of one that has just ended
			processes = append(processes, filepath.Base(proc)+" "+string(bytes.ReplaceAll(line, []byte{0}, []byte{' '})))
		}
	}
	return processes
}

// AwaitNobodyIn fails t if processes go on working in a folder.
func AwaitNobodyIn(t testing.TB, dir string) {
	t.Helper()
	await(t, func() string {
		left := WorkingIn(t, dir)
		if len(left) == 0 {
			return ""
		}
		return "in " + dir + " works " + left[0]
	})
}

// await fails t with what still keeps it waiting when that has taken too long.
func await(t testing.TB, what func() string) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); ; <-tick.C {
		still := what()
		if still == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(still)
		}
	}
}
