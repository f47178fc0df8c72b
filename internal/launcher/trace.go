package launcher

import (
	"fmt"

	"github.com/shofer-dev/shofer-sandbox/launch"
)

// told bounds how many refusals are named on standard error. The status record
// has more.
const told = 20

// tell says on standard error what a traced command was refused, and what would
// allow it.
func (o *options) tell(t *launch.Trace) {
	if len(t.Refused) == 0 {
		o.warn("trace: the sandbox refused nothing that was seen")
	}
	for i, r := range t.Refused {
		if i == told {
			o.warn(fmt.Sprintf("trace: and %d more: the status record (--status-fd) has them", len(t.Refused)-told+t.More))
			break
		}
		o.warn(refusal(&r))
		if advice := r.Advice(); advice != "" {
			o.warn("hint: " + advice)
		}
	}
	for _, u := range t.Unseen {
		o.warn(fmt.Sprintf("trace: not all of %s was seen: %s", name(u.Program), u.Why))
	}
}

// refusal says what was refused, to whom, and why.
func refusal(r *launch.Refusal) string {
	path := r.Path.String()
	if r.Real != "" {
		path += " (" + r.Real.String() + ")"
	}
	times := ""
	if r.Count > 1 {
		times = fmt.Sprintf(", %d times", r.Count)
	}
	return fmt.Sprintf("trace: refused: %s %s (%s of %s, pid %d%s): %s", r.Op, path, r.Call, name(r.Program), r.Pid, times, r.Text)
}

// name is how a program is called, as far as it is known.
func name(program string) string {
	if program == "" {
		return "a program"
	}
	return program
}
