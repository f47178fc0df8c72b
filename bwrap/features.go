package bwrap

import (
	"slices"
	"strings"

	"github.com/shofer-dev/shofer-sandbox/policy"
)

// Features reports for each promise of r whether a sandbox that a bwrap as s
// makes of it, with o, holds it by itself, in the order in which package policy
// has them. The state is [policy.Enforced] or [policy.Absent], and By is [Name]
// where it is enforced. What the inner stage adds comes on top: of two answers
// the better one counts.
//
// What r doesn't ask for is left out: read without a read list, network without
// a limit, protect without a repository, protect, signals and abstract-sockets
// where the policy turns them off, and hide, private-tmp and limits unless o or
// r.Policy.Require has them.
//
// Enforced write takes for granted that the inner stage runs [Reopen] and
// [Check]. Enforced protect is for what exists: see [policy.Unborn] and
// [policy.Compared].
func Features(s Support, r *policy.Resolved, o Options) []policy.Feature {
	p := &r.Policy
	f := features{s: s, unconfined: p.Mode == policy.Unconfined, fs: make([]policy.Feature, 0, 12)}
	required := func(x policy.Promise) bool { return slices.Contains(p.Require, x) }
	pid := s.wantsPid(r)
	mounts, mend := f.mounts(p, pid)

	f.add(policy.PromiseWrite, mounts, mend)
	if p.Read != nil {
		f.read(p, mounts, mend)
	}
	if r.Repo != nil && !p.NoProtect {
		f.protect(r, mounts, mend)
	}
	if len(o.Hide) > 0 || required(policy.PromiseHide) {
		f.add(policy.PromiseHide, mounts, mend)
	}
	switch {
	case o.PrivateTmp:
		f.add(policy.PromisePrivateTmp, mounts, mend)
	case required(policy.PromisePrivateTmp):
		f.add(policy.PromisePrivateTmp, "the temporary folders are shared", "--private-tmp")
	}
	f.add(policy.PromiseMetadata, mounts, mend)
	f.add(policy.PromiseDeviceIoctl, mounts, mend)
	if !p.IPC.AllowSignals {
		if pid {
			f.add(policy.PromiseSignals, "", "")
		} else {
			f.add(policy.PromiseSignals, "signals take a pid namespace, and a new /proc can't be mounted here",
				"Linux 6.12 or newer, or a container whose /proc isn't masked")
		}
	}
	if !p.IPC.AllowAbstract {
		switch {
		case p.Network.Mode != policy.NetworkNone:
			f.add(policy.PromiseAbstractSockets, "abstract sockets take a network namespace, which has no network", "--net none, or Linux 6.12 or newer")
		case !s.NetNS:
			f.add(policy.PromiseAbstractSockets, "no network namespace can be made here", "Linux 6.12 or newer")
		default:
			f.add(policy.PromiseAbstractSockets, "", "")
		}
	}
	f.add(policy.PromisePathSockets, "a read-only mount doesn't stop connect(2)", "Linux 7.1 or newer")
	if p.Network.Limited() {
		f.network(p.Network)
	}
	if required(policy.PromiseLimits) {
		f.add(policy.PromiseLimits, "bubblewrap limits no resources", "a control group")
	}
	return f.fs
}

// features collects the answers.
type features struct {
	s          Support
	unconfined bool
	fs         []policy.Feature
}

// add reports a promise that holds unless there is a reason why not.
func (f *features) add(p policy.Promise, why, mend string) {
	switch {
	case f.unconfined:
		why, mend = "the mode is unconfined", ""
	case !f.s.Usable():
		why, mend = f.s.Reason(), f.s.Mend()
	case why == "":
		f.fs = append(f.fs, policy.Feature{Promise: p, State: policy.Enforced, By: Name})
		return
	}
	f.fs = append(f.fs, policy.Feature{Promise: p, State: policy.Absent, Why: why, Mend: mend})
}

// mounts says why the command could get around the mounts, "" if it can't.
func (f *features) mounts(p *policy.Policy, pid bool) (why, mend string) {
	if name := p.UndoingCap(); f.s.Root && name != "" {
		return "with the capability " + name + " a command can get around mounts", "leave it out of --caps"
	}
	if !pid && !f.s.UserNS {
		// Through /proc/PID/root, or by ptrace, of a process outside that has
		// the same user and no more capabilities.
		return "without a user or a pid namespace a command can get at the mounts of processes outside",
			"a container whose /proc isn't masked, or user namespaces"
	}
	return "", ""
}

// read reports whether nothing but the read list can be read. /proc always can.
func (f *features) read(p *policy.Policy, why, mend string) {
	proc := slices.ContainsFunc(p.Read, func(path policy.Path) bool {
		return path == policy.ReadSystem || strings.TrimRight(string(path), "/") == "/proc" || path == "/"
	})
	if why == "" && !proc {
		why, mend = "a command under bubblewrap always has a /proc to read", "--read /proc, or the preset "+string(policy.ReadSystem)
	}
	f.add(policy.PromiseRead, why, mend)
}

// protect reports whether what git executes or follows is covered. Where no
// grant opens anything of the repository there is nothing to cover.
func (f *features) protect(r *policy.Resolved, why, mend string) {
	if why == "" && len(r.Protect) == 0 && writesRepo(r) {
		why = "no protected path was asked for"
	}
	f.add(policy.PromiseProtect, why, mend)
}

// network reports the promise of n, which limits something.
func (f *features) network(n policy.Network) {
	switch {
	case n.Mode != policy.NetworkNone:
		f.add(policy.PromiseNetwork, "bubblewrap knows no ports", "Linux 6.7 or newer for TCP, 7.2 for UDP")
	case !f.s.NetNS:
		f.add(policy.PromiseNetwork, "no network namespace can be made here", "a seccomp filter")
	default:
		f.add(policy.PromiseNetwork, "a network namespace doesn't shut AF_VSOCK", "a seccomp filter")
	}
}

// writesRepo reports whether a grant lets anything of r's repository be
// written.
func writesRepo(r *policy.Resolved) bool {
	for i := range r.Grants {
		g := &r.Grants[i]
		if g.Access&policy.Write == 0 {
			continue
		}
		for _, p := range [...]string{r.Repo.WorkTree, r.Repo.GitDir, r.Repo.CommonDir} {
			if p != "" && (beneath(p, g.Path) || beneath(g.Path, p)) {
				return true
			}
		}
	}
	return false
}
