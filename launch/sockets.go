package launch

import (
	"strings"

	"github.com/shofer-dev/shofer-sandbox/policy"
)

// landlockSockets is the version of Landlock that knows sockets on the file
// system.
const landlockSockets = 9

// Landlock below that version does nothing about them. A mount layer that is
// there anyway, or was asked for, covers those that lead to other programs;
// without one the variables that name them are not passed on.

func (s *Sandbox) maskSockets(v *variant) {
	if s.support.ABI < landlockSockets && s.policy.Mode != policy.Unconfined {
		v.resolved.MaskSockets(s.options.Environ)
	}
}

func (s *Sandbox) dropSockets(v *variant) {
	if s.support.ABI < landlockSockets && s.policy.Mode != policy.Unconfined {
		v.dropped = v.resolved.DropSockets()
	}
}

// withSockets adds to what is said of path-sockets what was done about some. A
// list is no promise: others are left.
func (v *variant) withSockets(features []policy.Feature) {
	for i := range features {
		f := &features[i]
		if f.Promise != policy.PromisePathSockets || f.State == policy.Enforced {
			continue
		}
		var masked []string
		for _, m := range v.resolved.Mask {
			masked = append(masked, policy.Path(m.Path).String()+" ("+m.What+")")
		}
		if masked != nil {
			f.Why += "; masked: " + strings.Join(masked, ", ")
		}
		if v.dropped != nil {
			f.Why += "; not passed on: " + strings.Join(v.dropped, ", ")
		}
	}
}

// sockets lists those that this user may connect to.
func (e *examiner) sockets() {
	e.report.Sockets = []Socket{}
	for _, s := range policy.Sockets(e.environ) {
		e.report.Sockets = append(e.report.Sockets, Socket{policy.Path(s.Path), s.What})
	}
}
