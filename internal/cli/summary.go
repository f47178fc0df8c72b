package cli

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/shofer-dev/shofer-sandbox/internal/tamper"
	"github.com/shofer-dev/shofer-sandbox/policy"
	"github.com/shofer-dev/shofer-sandbox/runner"
)

// report says on standard error what whoever ran a command must know, and with
// summary, or at a terminal, also how it went.
func (p *program) report(r *runner.Result, summary bool) {
	if p.quiet {
		return
	}
	for _, line := range remarks(r) {
		say(line)
	}
	if summary || isTerminal(os.Stderr) {
		say(summaryOf(r))
	}
}

// remarks are what was done to a command, and what went wrong beside it.
func remarks(r *runner.Result) (lines []string) {
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	switch r.KilledBy {
	case runner.CauseTimeout:
		add("ended after the timeout of %v", r.Timeout)
		lines = append(lines, "hint: --timeout TIME allows more, --timeout none any time")
	case runner.CauseIdle:
		add("ended, since it had printed nothing for too long (--idle-timeout)")
	case runner.CauseMemory:
		add("killed by the kernel, which had no more memory for it")
	}
	for _, l := range r.LimitsHit {
		switch {
		case l == "memory" && r.KilledBy != runner.CauseMemory:
			add("warning: processes of it were killed, since its memory was used up (--memory)")
		case l == "pids":
			add("warning: it could not start all of its processes and threads (--pids)")
		case l == "fsize":
			add("warning: it wrote a file as large as a file may become (--fsize)")
		}
	}
	if r.OutputHeldOpen {
		add("its output was still held open when it was no longer waited for: there may be more")
	}
	for _, s := range r.Survivors {
		add("process %d (%s) is left: %s", s.Pid, s.Name, s.Why)
	}
	for _, n := range r.Notes {
		add("note: %s", n)
	}
	if s := r.Sandbox; s != nil {
		for _, f := range s.Features {
			if f.Promise == policy.PromiseLimits && f.State == policy.Absent {
				add("warning: not all limits hold: %s", f.Why)
			}
		}
		for _, t := range s.Tampered {
			add("warning: %s was %s while it ran: %s", t.Path, t.What, t.Why)
		}
		for _, done := range s.Restored {
			add("restore: %s", done)
		}
		if len(s.Tampered) > 0 && len(s.Restored) == 0 {
			lines = append(lines, "hint: before you run git there: "+tamper.VerifyCommand(r.Dir))
		}
		for _, d := range s.Denials {
			add("the sandbox refused: %s", &d)
			if d.Hint != "" {
				lines = append(lines, "hint: "+d.Hint)
			}
		}
		for _, u := range s.Untraced {
			add("not all of %s was traced: %s", u.Program, u.Why)
		}
	}
	if r.Err != nil {
		add("error: %s", strings.TrimPrefix(r.Err.Error(), "runner: "))
	}
	return lines
}

// summaryOf says in a line how a command went.
func summaryOf(r *runner.Result) string {
	parts := []string{outcome(r), "after " + brief(r.Duration)}
	if u := r.Usage; u != nil {
		parts = append(parts, "cpu "+brief(u.User+u.System))
		if u.MemoryPeak > 0 {
			parts = append(parts, "memory "+bytesText(u.MemoryPeak))
		}
	}
	n := int64(0)
	for _, o := range []*runner.Output{r.Stdout, r.Stderr, r.Merged} {
		if o != nil {
			n += o.Bytes
		}
	}
	parts = append(parts, "output "+bytesText(n))
	if s := r.Sandbox; s != nil {
		parts = append(parts, "sandbox "+s.Enforcement+" ("+s.Backend+")")
	}
	for _, o := range []*runner.Output{r.Stdout, r.Stderr, r.Merged} {
		if o != nil && o.Artifact != "" {
			parts = append(parts, "kept as "+o.Artifact)
		}
	}
	return strings.Join(parts, ", ")
}

// outcome says how a command ended.
func outcome(r *runner.Result) string {
	switch {
	case !r.State.Final():
		return string(r.State)
	case r.State == runner.StateFailed:
		return "not run"
	case r.Signal != 0:
		return "killed by " + signalText(r.Signal)
	case r.ExitCode >= 0:
		return fmt.Sprintf("exit code %d", r.ExitCode)
	}
	return "its end was not seen"
}

// brief rounds a duration for people.
func brief(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// bytesText writes a number of bytes for people.
func bytesText(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	v, i := float64(n)/unit, 0
	for v >= 999.95 && i < 4 {
		v /= unit
		i++
	}
	return fmt.Sprintf("%.1f %ciB", v, "KMGTP"[i])
}
