package background

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"github.com/shofer-dev/shofer-sandbox/runner"
)

// Load is what a command uses just now.
type Load struct {
	Processes int `json:"processes"`
	// Memory is in bytes, what is shared counted for each process; CPU is the
	// time of those that live.
	Memory int64         `json:"memory_bytes"`
	CPU    time.Duration `json:"cpu_ns"`
	// Output is how many bytes it has printed.
	Output int64 `json:"output_bytes"`
}

// Measure looks at the processes of a command.
func Measure(e *runner.Execution) Load {
	out, errs := e.Output()
	l := Load{Output: out.Size()}
	if errs != out {
		l.Output += errs.Size()
	}
	for _, p := range e.Processes() {
		if memory, cpu, ok := usage(p.Pid); ok {
			l.Processes++
			l.Memory += memory
			l.CPU += cpu
		}
	}
	return l
}

// tick is the unit of times in /proc: USER_HZ, which is 100 on the
// architectures that there are programs for.
const tick = time.Second / 100

// usage reads what a process uses.
func usage(pid int) (memory int64, cpu time.Duration, ok bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, 0, false
	}
	// The name may have anything in it; it ends at the last parenthesis.
	f := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	const state, utime, stime, rss = 0, 11, 12, 21
	if len(f) <= rss || f[state][0] == 'Z' {
		return 0, 0, false
	}
	number := func(i int) int64 {
		n, err := strconv.ParseInt(string(f[i]), 10, 64)
		if err != nil {
			return 0
		}
		return n
	}
	return number(rss) * int64(os.Getpagesize()), time.Duration(number(utime)+number(stime)) * tick, true
}

// born is when a process was started, in ticks since boot; 0 if it isn't there.
func born(pid int) uint64 {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	f := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	const start = 19
	if len(f) <= start {
		return 0
	}
	n, err := strconv.ParseUint(string(f[start]), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
