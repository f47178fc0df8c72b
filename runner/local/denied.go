package local

import (
	"github.com/shofer-dev/shofer-sandbox/launch"
	"github.com/shofer-dev/shofer-sandbox/launch/denial"
	"github.com/shofer-dev/shofer-sandbox/policy"
	"github.com/shofer-dev/shofer-sandbox/runner"
)

// Denials looks for refusals of the sandbox in what a failed command printed, as
// package denial does.
func (e *Executor) Denials(s *runner.Spec, exit runner.Exit, stderr, stdout []byte) (denials []runner.Denial) {
	if exit.Sandbox == nil || exit.Sandbox.Mode == policy.Unconfined {
		return nil
	}
	sandbox, err := e.take()
	if err != nil {
		return nil // there is nobody to ask
	}
	defer e.give(sandbox)
	c := denial.Command{Text: s.Command, Dir: s.Dir, Code: exit.Code, Stderr: stderr, Stdout: stdout}
	for _, d := range denial.Find(&c, sandbox.Why) {
		r := denialOf(d.Answer)
		r.Source, r.Line = runner.SourceOutput, d.Line
		denials = append(denials, r)
	}
	return denials
}

// denialOf is an answer in the runner's words.
func denialOf(a *launch.Answer) runner.Denial {
	d := runner.Denial{Path: a.Path, Op: a.Op, Reason: a.Reason, Text: a.Text, Flag: a.Flag, Hint: a.Advice()}
	if a.Missing != nil {
		d.Missing = a.Missing.Path
	}
	return d
}

// addTrace adds what a trace saw; nil is none.
func addTrace(box *runner.Sandbox, t *launch.Trace) {
	if t == nil {
		return
	}
	box.Traced = true
	for _, r := range t.Refused {
		d := denialOf(r.Answer)
		d.Source, d.Program, d.Pid, d.Call, d.Count = runner.SourceTrace, r.Program, r.Pid, r.Call, r.Count
		box.Denials = append(box.Denials, d)
	}
	box.Denied = len(box.Denials) > 0
	for _, u := range t.Unseen {
		box.Untraced = append(box.Untraced, runner.Untraced(u))
	}
}
