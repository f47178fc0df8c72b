package local

import (
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
		r := runner.Denial{Path: d.Path, Op: d.Op, Reason: d.Reason, Text: d.Text, Line: d.Line, Flag: d.Flag, Hint: d.Advice()}
		if d.Missing != nil {
			r.Missing = d.Missing.Path
		}
		denials = append(denials, r)
	}
	return denials
}
