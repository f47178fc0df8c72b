package landlock

import (
	"slices"
	"strconv"
	"strings"

	"github.com/shofer-dev/shofer-sandbox/policy"
)

// Features reports for each promise of r whether Landlock alone holds it on a
// kernel as s, in the order in which package policy has them. The state is
// [policy.Enforced] or [policy.Absent], and By is [Name] where it is enforced.
//
// What r doesn't ask for is left out: read without a read list, network without
// a limit, protect without a repository, protect, signals and abstract-sockets
// where the policy turns them off, and hide, private-tmp and limits unless
// they are asked for. In a mode of unconfined nothing is enforced.
func Features(s Support, r *policy.Resolved) []policy.Feature {
	p := &r.Policy
	f := features{s: s, unconfined: p.Mode == policy.Unconfined, fs: make([]policy.Feature, 0, 12)}
	required := func(x policy.Promise) bool { return slices.Contains(p.Require, x) || p.Asks(x) }

	unheld := "below ABI 3 Landlock lets truncate(2) empty files outside"
	if s.ABI == 1 {
		unheld += ", on ABI 1 no file can be renamed or linked into another folder"
	}
	f.add(policy.PromiseWrite, 3, unheld, "bubblewrap, or Linux 6.2 or newer")
	if p.Read != nil {
		f.add(policy.PromiseRead, 1, "", "bubblewrap, or Linux 5.13 or newer")
	}
	if r.Repo != nil && !p.NoProtect || len(p.Protect) > 0 {
		if len(p.Protect) > 0 || writesRepo(r) {
			f.absent(policy.PromiseProtect, "Landlock can't except a path beneath a writable folder", "a mount layer (user namespaces, or root)")
		} else {
			f.add(policy.PromiseProtect, 3, unheld, "bubblewrap, or Linux 6.2 or newer")
		}
	}
	for _, x := range [...]struct {
		promise policy.Promise
		why     string
	}{
		{policy.PromiseHide, "Landlock can refuse to read a path, but not hide it"},
		{policy.PromisePrivateTmp, "Landlock can't give a command folders of its own"},
	} {
		if required(x.promise) {
			f.absent(x.promise, x.why, "a mount layer (user namespaces, or root)")
		}
	}
	f.absent(policy.PromiseMetadata, "Landlock has no right for chmod, chown, utime, xattr", "a mount layer (user namespaces, or root)")
	f.add(policy.PromiseDeviceIoctl, 5, "Landlock has the right for device ioctls from ABI 5", "Linux 6.10 or newer")
	if !p.IPC.AllowSignals {
		f.add(policy.PromiseSignals, 6, "Landlock scopes signals from ABI 6", "Linux 6.12 or newer")
	}
	if !p.IPC.AllowAbstract {
		f.add(policy.PromiseAbstractSockets, 6, "Landlock scopes abstract sockets from ABI 6", "Linux 6.12 or newer")
	}
	f.add(policy.PromisePathSockets, 9, "Landlock has the right for sockets on the file system from ABI 9", "Linux 7.1 or newer")
	f.network(p.Network)
	if required(policy.PromiseLimits) {
		f.absent(policy.PromiseLimits, "Landlock limits no resources", "a control group")
	}
	return f.fs
}

// features collects the answers for one kernel.
type features struct {
	s          Support
	unconfined bool
	fs         []policy.Feature
}

// add reports a promise that Landlock holds from an ABI on.
func (f *features) add(p policy.Promise, from int, why, mend string) {
	if !f.unconfined && f.s.ABI >= from {
		f.fs = append(f.fs, policy.Feature{Promise: p, State: policy.Enforced, By: Name})
		return
	}
	if f.s.ABI > 0 {
		why += ", and this kernel has ABI " + strconv.Itoa(f.s.ABI)
	}
	f.absent(p, why, mend)
}

// absent reports a promise that nothing holds. Without any Landlock the reason
// is that, whatever the promise.
func (f *features) absent(p policy.Promise, why, mend string) {
	switch {
	case f.unconfined:
		why, mend = "the mode is unconfined", ""
	case f.s.ABI < 1 && heldByAny(p):
		why = f.s.Reason()
		if m := f.s.Mend(); m != "" {
			mend = m
		}
	}
	f.fs = append(f.fs, policy.Feature{Promise: p, State: policy.Absent, Why: why, Mend: mend})
}

// heldByAny reports whether some ABI holds p.
func heldByAny(p policy.Promise) bool {
	for i := range ABIs {
		if slices.Contains(ABIs[i].Promises, p) {
			return true
		}
	}
	return false
}

// network reports the promise of n, if it makes one.
func (f *features) network(n policy.Network) {
	tcp := n.ConnectTCP != nil || n.BindTCP != nil
	udp := n.ConnectUDP != nil || n.BindUDP != nil
	switch {
	case n.Mode == policy.NetworkNone:
		f.absent(policy.PromiseNetwork, "Landlock knows TCP and UDP ports, and no other way out", "a seccomp filter or a network namespace")
	case udp && f.s.ABI < 10:
		f.add(policy.PromiseNetwork, 10, "Landlock has the rights for UDP from ABI 10", "Linux 7.2 or newer")
	case tcp && f.s.ABI < 4:
		f.add(policy.PromiseNetwork, 4, "Landlock has the rights for TCP from ABI 4", "Linux 6.7 or newer")
	case tcp:
		gaps := Gaps(f.s, n)
		names := make([]string, len(gaps))
		for i, g := range gaps {
			names[i] = string(g)
		}
		f.absent(policy.PromiseNetwork, "Landlock's rights for TCP don't see "+strings.Join(names, ", "), "a seccomp filter")
	case udp:
		f.add(policy.PromiseNetwork, 10, "", "")
	}
}

// writesRepo reports whether a grant lets anything of r's repository be
// written: one that is above, on or beneath it, or beneath the .git of the
// worktree.
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
