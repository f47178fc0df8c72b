package launch

import (
	"errors"
	"slices"
	"strings"

	"github.com/shofer-dev/shofer-sandbox/landlock"
	"github.com/shofer-dev/shofer-sandbox/policy"
	"github.com/shofer-dev/shofer-sandbox/seccomp"
	"golang.org/x/sys/unix"
)

// filterOf returns what the policy wants from seccomp on this kernel, whatever
// the command's terminal.
func filterOf(p *policy.Policy, s landlock.Support) seccomp.Filter {
	f := seccomp.ForNetwork(p.Network)
	// Who may bind no port at all may not listen either.
	f.NoListen = p.Network.BindTCP != nil && len(p.Network.BindTCP) == 0
	// Landlock doesn't see truncation before ABI 3. The filter refuses it
	// inside the grants too, so it has to be asked for.
	f.NoTruncate = p.BestEffort && (s.ABI == 1 || s.ABI == 2)
	f = f.With(shutting(policy.PromiseWrite))
	if !p.IPC.AllowSignals {
		f = f.With(shutting(policy.PromiseSignals))
	}
	return f
}

// shutting returns the filter for what Landlock doesn't see of a promise.
func shutting(promise policy.Promise) seccomp.Filter {
	var names []string
	for _, g := range landlock.GapsIn(promise) {
		names = append(names, string(g))
	}
	return seccomp.ForGaps(names...)
}

// withFilter corrects what Landlock alone holds by what the filter adds, and
// says where it lacks it. unsupported is why there are no filters, nil if
// there are.
func withFilter(features []policy.Feature, p *policy.Policy, s landlock.Support, f seccomp.Filter, unsupported error) {
	const both = landlock.Name + "+" + seccomp.Name
	for i := range features {
		feature := &features[i]
		if feature.Promise == policy.PromiseNetwork {
			*feature = network(*feature, p, s, f, unsupported)
			continue
		}
		if feature.Promise == policy.PromiseWrite && f.NoTruncate && unsupported == nil {
			price := "truncate(2) is refused inside the grants too"
			if s.ABI == 1 {
				price += ", and no file can be renamed or linked into another folder"
			}
			*feature = policy.Feature{Promise: feature.Promise, State: policy.Enforced, By: both, Why: price}
		}
		if feature.State != policy.Enforced {
			continue
		}
		if open := uncovered(landlock.GapsIn(feature.Promise), f, unsupported); len(open) > 0 {
			feature.Why = "except for what Landlock doesn't see: " + strings.Join(open, ", ") + reason(unsupported)
		} else if len(landlock.GapsIn(feature.Promise)) > 0 {
			feature.By = both
		}
	}
}

// uncovered lists the gaps that the filter leaves open.
func uncovered(gaps []landlock.Gap, f seccomp.Filter, unsupported error) (open []string) {
	for _, g := range gaps {
		if unsupported != nil || !f.Covers(string(g)) {
			open = append(open, string(g))
		}
	}
	return open
}

// reason is why there are no filters, as the end of a sentence.
func reason(unsupported error) string {
	var e *seccomp.SupportError
	if errors.As(unsupported, &e) {
		return " (" + e.Reason() + ")"
	}
	return ""
}

func network(f policy.Feature, p *policy.Policy, s landlock.Support, filter seccomp.Filter, unsupported error) policy.Feature {
	if filter.NoNetwork {
		return filter.Features(unsupported)[0]
	}
	n := p.Network
	tcp := n.ConnectTCP != nil || n.BindTCP != nil
	udp := n.ConnectUDP != nil || n.BindUDP != nil
	if !tcp || s.ABI < landlock.ABITCP || udp && s.ABI < landlock.ABIUDP {
		return f
	}
	open := uncovered(landlock.Gaps(s, n), filter, unsupported)
	switch {
	case len(open) == 0:
		return policy.Feature{Promise: f.Promise, State: policy.Enforced, By: landlock.Name + "+" + seccomp.Name}
	case slices.Equal(open, []string{string(landlock.GapListen)}):
		f.Why = "listen(2) on a socket that isn't bound takes a port that the kernel chooses, and no filter can tell"
		f.Mend = "add port 0 to the list, which allows such ports, or allow none"
	default:
		f.Why = "Landlock's rights for TCP don't see " + strings.Join(open, ", ") + reason(unsupported)
	}
	return f
}

// filters compiles the filter for a command with these files. A command that
// shares its caller's terminal may not type into it.
func (v *variant) filters(files []int, newSession bool) ([][]unix.SockFilter, error) {
	f, programs := v.filter, &v.programs[0]
	if !newSession && !v.noFilters && hasTerminal(files) {
		f.NoTerminalInjection, programs = true, &v.programs[1]
	}
	if p := programs.Load(); p != nil {
		return *p, nil
	}
	p, err := f.Compile()
	if err == nil {
		programs.Store(&p)
	}
	return p, err
}

// hasTerminal reports whether one of the files is a terminal, or whether this
// process has one by its session.
func hasTerminal(files []int) bool {
	for i, fd := range files {
		if i < 3 && fd >= 0 {
			if _, err := unix.IoctlGetTermios(fd, unix.TCGETS); err == nil {
				return true
			}
		}
	}
	tty, err := unix.Open("/dev/tty", unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return false
	}
	_ = unix.Close(tty)
	return true
}
