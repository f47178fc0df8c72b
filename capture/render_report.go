package capture

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Report is what a command came to, for those who want it as one text.
type Report struct {
	// Dir is the command's working directory.
	Dir string
	// ExitCode is negative when it isn't known.
	ExitCode int
	// TimedOut is the timeout that ended the command, 0 if none did; Aborted
	// says that somebody did. Each is said first.
	TimedOut time.Duration
	Aborted  bool
	Output   Snapshot
	// View is how the output's ends are shown, each by itself.
	View View
}

// Text returns the output as a whole, or its ends and where the rest is, under a
// header.
func (r Report) Text() string {
	code := "unknown"
	if r.ExitCode >= 0 {
		code = strconv.Itoa(r.ExitCode)
	}
	head, hidden := r.View.Show(r.Output.Head)
	tail, more := r.View.Show(r.Output.Tail)
	hidden += more
	var b strings.Builder
	if r.TimedOut > 0 {
		seconds := strconv.FormatFloat(r.TimedOut.Seconds(), 'f', -1, 64)
		b.WriteString("The command was terminated after exceeding a user-configured " + seconds + "s timeout. Do not try to re-run the command.\n")
	}
	if r.Aborted {
		b.WriteString("Command execution was aborted by the user.\n")
	}
	if r.Output.Omitted == 0 {
		if head == "" {
			head = NoOutput
		}
		fmt.Fprintf(&b, "Command executed in terminal within working directory '%s'.\nExit code: %s\nOutput:\n%s", r.Dir, code, head)
		if note := redactedNote(hidden); note != "" {
			endLine(&b, head)
			b.WriteString(note)
		}
		return b.String()
	}
	fmt.Fprintf(&b, "Command executed in '%s'. Exit code: %s\n\nOutput (%s) ", r.Dir, code, HumanSize(r.Output.Bytes))
	hint := "Use read_command_output tool to view full output if needed."
	switch {
	case r.Output.Artifact != "":
		fmt.Fprintf(&b, "persisted. Artifact ID: %s", r.Output.Artifact)
	case r.Output.SpillErr != nil:
		fmt.Fprintf(&b, "not persisted: %v.", r.Output.SpillErr)
		hint = "What was omitted is lost."
	default:
		b.WriteString("not persisted.")
		hint = "What was omitted is lost."
	}
	b.WriteString("\n\nPreview:\n" + head)
	endLine(&b, head)
	b.WriteString(omission(r.Output.Omitted) + "\n" + tail)
	endLine(&b, tail)
	b.WriteString(redactedNote(hidden) + "\n" + hint)
	return b.String()
}

// endLine ends the line if what was written last has left it open.
func endLine(b *strings.Builder, last string) {
	if last != "" && !strings.HasSuffix(last, "\n") {
		b.WriteByte('\n')
	}
}

func omission(n int64) string { return fmt.Sprintf("[...%d bytes omitted...]", n) }

func redactedNote(n int) string {
	switch n {
	case 0:
		return ""
	case 1:
		return "[1 secret redacted]\n"
	}
	return fmt.Sprintf("[%d secrets redacted]\n", n)
}

// HumanSize returns a number of bytes with a unit of 1024 and, from there on, one
// decimal: 52.0KB.
func HumanSize(n int64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d bytes", n)
	}
	f, unit := float64(n)/(1<<10), "KB"
	for _, u := range []string{"MB", "GB", "TB"} {
		// What would be shown as 1024.0 belongs to the next unit.
		if f < 1023.95 {
			break
		}
		f, unit = f/(1<<10), u
	}
	return strconv.FormatFloat(f, 'f', 1, 64) + unit
}
