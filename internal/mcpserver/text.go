package mcpserver

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/shofer-dev/shofer-sandbox/capture"
	"github.com/shofer-dev/shofer-sandbox/runner"
)

// text is what a model is told of a command. The sentences at its beginning, the
// report and the mark of the omission are those that agents were taught. Whole
// says that all of its output can be read by its id.
func text(r *runner.Result, whole bool) string {
	if !r.State.Final() {
		return withFacts(running(r), r)
	}
	report := capture.Report{Dir: r.Dir, ExitCode: r.ExitCode, Output: snapshot(r, whole)}
	first := ""
	switch r.KilledBy {
	case runner.CauseNone:
	case runner.CauseTimeout:
		report.TimedOut = r.Timeout
	case runner.CauseAborted, runner.CauseClosed:
		report.Aborted = true
	case runner.CauseIdle:
		first = "The command was ended because it printed nothing for too long.\n"
	case runner.CauseKilled:
		first = "The command was killed.\n"
	case runner.CauseMemory:
		first = "The command was killed because it used too much memory.\n"
	case runner.CauseUnknown:
		first = fmt.Sprintf("The command was ended by signal %d (%s).\n", int(r.Signal), r.Signal)
	}
	return withFacts(first+report.Text(), r)
}

// withFacts adds what else a model should know, after a blank line.
func withFacts(text string, r *runner.Result) string {
	more := facts(r)
	switch {
	case more == "":
		return text
	case strings.HasSuffix(text, "\n"):
		return text + more
	}
	return text + "\n" + more
}

// running is the text of a command that goes on.
func running(r *runner.Result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Command is still running in working directory '%s' after %ss, and goes on in the background. Id: %s\n", r.Dir, seconds(r.Duration.Round(100*time.Millisecond)), r.ID)
	shown := string(r.Merged.Text())
	if shown == "" {
		shown = capture.NoOutput
	}
	fmt.Fprintf(&b, "Output so far (%s):\n%s", capture.HumanSize(r.Merged.Bytes), shown)
	if !strings.HasSuffix(shown, "\n") {
		b.WriteByte('\n')
	}
	for _, w := range r.AwaitingInput {
		fmt.Fprintf(&b, "\n[%s waits for input; write_stdin gives it some]", w.Name)
	}
	fmt.Fprintf(&b, "\nUse read_command_output with this id and offset %d to see what comes next, and kill_command to end it.", r.Merged.Bytes)
	return b.String()
}

// facts are lines, each after its end of the line before.
func facts(r *runner.Result) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, "\n"+format, args...) }
	if s := r.Sandbox; s != nil && s.Denied {
		line("[sandbox: file access denied under %s mode]", s.Mode)
		for _, d := range s.Denials {
			line("denied: %s", &d)
			if d.Hint != "" {
				line("hint for the user: %s", d.Hint)
			}
		}
	}
	if s := r.Sandbox; s != nil {
		for _, u := range s.Untraced {
			line("[not all of %s was traced: %s]", u.Program, u.Why)
		}
	}
	if s := r.Sandbox; s != nil && len(s.Tampered) > 0 {
		for _, t := range s.Tampered {
			line("[sandbox: a protected file changed meanwhile: %s: %s]", t.Path, t.What)
		}
		for _, done := range s.Restored {
			line("[sandbox: restored: %s]", done)
		}
	}
	if n := len(r.PipeStatus) - 1; n > 0 && slices.ContainsFunc(r.PipeStatus[:n], failed) {
		line("[the stages of the last pipeline exited with %s]", strings.Trim(strings.ReplaceAll(fmt.Sprint(r.PipeStatus), " ", ", "), "[]"))
	}
	for _, l := range r.LimitsHit {
		line("[a limit was reached: %s]", l)
	}
	if r.OutputHeldOpen {
		line("[a process still held the output open; there may be more of it]")
	}
	for _, l := range r.Leftover {
		line("[a process that it left was ended: %s]", l.Name)
	}
	for _, l := range r.Survivors {
		line("[a process of it still lives: %s, pid %d]", l.Name, l.Pid)
	}
	for _, n := range r.Notes {
		line("[note: %s]", n)
	}
	for _, f := range r.Feedback {
		line("<user_feedback>\n%s\n</user_feedback>", f)
	}
	return b.String()
}

// snapshot is a result's output as reports have it. What has no artifact may be
// read by the command's id.
func snapshot(r *runner.Result, whole bool) capture.Snapshot {
	o := r.Merged
	id := capture.ID(o.Artifact)
	if id == "" && whole {
		id = capture.ID(r.ID)
	}
	return capture.Snapshot{
		Head: o.Head, Tail: o.Tail, Omitted: o.Omitted, OmittedLines: o.OmittedLines,
		Bytes: o.Bytes, Lines: o.Lines, Artifact: id, SpillErr: o.ArtifactErr,
	}
}

// row is a command in a list.
func row(r *runner.Result) string {
	how := string(r.State)
	switch {
	case r.ExitCode >= 0:
		how = fmt.Sprintf("exit code %d", r.ExitCode)
	case r.KilledBy != runner.CauseNone:
		how = "ended: " + string(r.KilledBy)
	}
	size := int64(0)
	if r.Merged != nil {
		size = r.Merged.Bytes
	}
	return fmt.Sprintf("%s | %s | %ss | %s | %s\n", r.ID, how, seconds(r.Duration.Round(100*time.Millisecond)), capture.HumanSize(size), r.Label)
}

// failed tells exit codes of stages that say something. One that wrote more than
// was read of it, as a head's, hasn't failed.
func failed(code int) bool { return code != 0 && code != 128+int(syscall.SIGPIPE) }
