package mcpserver

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/shofer-dev/shofer-sandbox/policy"
	"github.com/shofer-dev/shofer-sandbox/runner"
)

// TestText holds what a model is told to the letter, where a command would take
// long to come to it.
func TestText(t *testing.T) {
	const report = "Command executed in terminal within working directory '/w'.\nExit code: unknown\nOutput:\nout\n"
	result := func(set func(*runner.Result)) *runner.Result {
		r := &runner.Result{
			ID: "ID", State: runner.StateKilled, Dir: "/w", ExitCode: -1,
			Merged: &runner.Output{Head: []byte("out\n"), Bytes: 4, Lines: 1},
		}
		set(r)
		return r
	}
	tests := []struct {
		set  func(*runner.Result)
		want string
	}{
		{
			func(r *runner.Result) { r.KilledBy, r.Timeout = runner.CauseTimeout, 1500*time.Millisecond },
			"The command was terminated after exceeding a user-configured 1.5s timeout. Do not try to re-run the command.\n" + report,
		},
		{func(r *runner.Result) { r.KilledBy = runner.CauseIdle }, "The command was ended because it printed nothing for too long.\n" + report},
		{func(r *runner.Result) { r.KilledBy = runner.CauseAborted }, "Command execution was aborted by the user.\n" + report},
		{func(r *runner.Result) { r.KilledBy = runner.CauseClosed }, "Command execution was aborted by the user.\n" + report},
		{func(r *runner.Result) { r.KilledBy = runner.CauseMemory }, "The command was killed because it used too much memory.\n" + report},
		{
			func(r *runner.Result) { r.KilledBy, r.Signal = runner.CauseUnknown, syscall.SIGKILL },
			"The command was ended by signal 9 (killed).\n" + report,
		},
		{func(r *runner.Result) {
			r.State, r.Duration, r.Feedback, r.Notes = runner.StateBackgrounded, 61*time.Second, []string{"go on"}, []string{"n"}
			r.Merged = &runner.Output{}
		}, "Command is still running in working directory '/w' after 61s, and goes on in the background. Id: ID\n" +
			"Output so far (0 bytes):\n(no output)\n\n" +
			"Use read_command_output with this id and offset 0 to see what comes next, and kill_command to end it.\n" +
			"\n[note: n]\n<user_feedback>\ngo on\n</user_feedback>"},
		{
			func(r *runner.Result) { r.PipeStatus = []int{1, 141, 0} },
			report + "\n[the stages of the last pipeline exited with 1, 141, 0]",
		},
		{func(r *runner.Result) { r.PipeStatus = []int{0, 141, 3} }, report},
		{func(r *runner.Result) { r.PipeStatus = []int{3} }, report},
		{func(r *runner.Result) {
			r.State, r.AwaitingInput, r.Merged = runner.StateBackgrounded, []runner.Survivor{{Pid: 3, Name: "cat"}}, &runner.Output{}
		}, "Command is still running in working directory '/w' after 0s, and goes on in the background. Id: ID\n" +
			"Output so far (0 bytes):\n(no output)\n\n[cat waits for input; write_stdin gives it some]\n" +
			"Use read_command_output with this id and offset 0 to see what comes next, and kill_command to end it."},
		{func(r *runner.Result) {
			r.OutputHeldOpen, r.LimitsHit = true, []string{"pids"}
			r.Leftover, r.Survivors = []runner.Survivor{{Pid: 1, Name: "a"}}, []runner.Survivor{{Pid: 2, Name: "b"}}
			r.Sandbox = &runner.Sandbox{
				Mode: policy.ReadOnly, Denied: true, Denials: []runner.Denial{{Path: "/x", Hint: "h"}},
				Tampered: []runner.Tampered{{Path: "/y", What: "changed"}},
			}
		}, report + "\n[sandbox: file access denied under read-only mode]\ndenied: /x\nhint for the user: h" +
			"\n[sandbox: a protected file changed meanwhile: /y: changed]\n[a limit was reached: pids]\n[a process still held the output open; there may be more of it]" +
			"\n[a process that it left was ended: a]\n[a process of it still lives: b, pid 2]"},
		{func(r *runner.Result) {
			r.Merged.Omitted, r.Merged.Bytes, r.Merged.Tail, r.Merged.ArtifactErr = 10, 18, []byte("end"), errors.New("full")
		}, "Command executed in '/w'. Exit code: unknown\n\nOutput (18 bytes) not persisted: full.\n\nPreview:\nout\n" +
			"[...10 bytes omitted...]\nend\n\nWhat was omitted is lost."},
	}
	for _, tt := range tests {
		if got := text(result(tt.set), false); got != tt.want {
			t.Errorf("text: %q; want %q", got, tt.want)
		}
	}
}
