package bwrap

import (
	"strings"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/policy"
)

// short writes features as "write+ read+ metadata-".
func short(fs []policy.Feature) string {
	var words []string
	for _, f := range fs {
		sign := map[policy.State]string{policy.Enforced: "+", policy.Absent: "-"}[f.State]
		words = append(words, string(f.Promise)+sign)
	}
	return strings.Join(words, " ")
}

func TestFeatures(t *testing.T) {
	user := Support{Path: "/usr/bin/bwrap", UserNS: true, PidNS: true, NetNS: true}
	with := func(f func(*Support)) Support {
		s := user
		f(&s)
		return s
	}
	root := with(func(s *Support) { s.Root, s.UserNS = true, false })
	repo := &policy.Repo{WorkTree: "/wt", GitDir: "/repo/.git/worktrees/wt", CommonDir: "/repo/.git"}
	grant := []policy.Grant{{Path: "/wt", Access: policy.Write}}
	none := policy.Network{Mode: policy.NetworkNone}
	for _, tt := range []struct {
		name string
		s    Support
		r    policy.Resolved
		o    Options
		want string
	}{
		{"an ordinary user", user, policy.Resolved{}, Options{}, "write+ metadata+ device-ioctl+ signals+ abstract-sockets- path-sockets-"},
		{"root", root, policy.Resolved{}, Options{}, "write+ metadata+ device-ioctl+ signals+ abstract-sockets- path-sockets-"},
		{"no pid namespace", with(func(s *Support) { s.PidNS = false }), policy.Resolved{}, Options{}, "write+ metadata+ device-ioctl+ signals- abstract-sockets- path-sockets-"},
		{"root, and no pid namespace", with(func(s *Support) { s.Root, s.UserNS, s.PidNS = true, false, false }), policy.Resolved{}, Options{}, "write- metadata- device-ioctl- signals- abstract-sockets- path-sockets-"},
		{"setuid, and no pid namespace", with(func(s *Support) { s.Setuid, s.UserNS, s.PidNS = true, false, false }), policy.Resolved{}, Options{}, "write- metadata- device-ioctl- signals- abstract-sockets- path-sockets-"},
		{"setuid", with(func(s *Support) { s.Setuid, s.UserNS = true, false }), policy.Resolved{}, Options{}, "write+ metadata+ device-ioctl+ signals+ abstract-sockets- path-sockets-"},
		{"signals are allowed", user, policy.Resolved{Policy: policy.Policy{IPC: policy.IPC{AllowSignals: true, AllowAbstract: true}}}, Options{}, "write+ metadata+ device-ioctl+ path-sockets-"},
		{"no network", user, policy.Resolved{Policy: policy.Policy{Network: none}}, Options{}, "write+ metadata+ device-ioctl+ signals+ abstract-sockets+ path-sockets- network-"},
		{"no network, and no namespace", with(func(s *Support) { s.NetNS = false }), policy.Resolved{Policy: policy.Policy{Network: none}}, Options{}, "write+ metadata+ device-ioctl+ signals+ abstract-sockets- path-sockets- network-"},
		{"ports", user, policy.Resolved{Policy: policy.Policy{Network: policy.Network{ConnectTCP: []uint16{}}}}, Options{}, "write+ metadata+ device-ioctl+ signals+ abstract-sockets- path-sockets- network-"},
		{"a read list", user, policy.Resolved{Policy: policy.Policy{Read: []policy.Path{policy.ReadSystem}}}, Options{}, "write+ read+ metadata+ device-ioctl+ signals+ abstract-sockets- path-sockets-"},
		{"a read list with /proc", user, policy.Resolved{Policy: policy.Policy{Read: []policy.Path{"/usr", "/proc/"}}}, Options{}, "write+ read+ metadata+ device-ioctl+ signals+ abstract-sockets- path-sockets-"},
		{"a read list without /proc", user, policy.Resolved{Policy: policy.Policy{Read: []policy.Path{"/usr"}}}, Options{}, "write+ read- metadata+ device-ioctl+ signals+ abstract-sockets- path-sockets-"},
		{"a repository in a grant", user, policy.Resolved{Repo: repo, Grants: grant}, Options{}, "write+ protect- metadata+ device-ioctl+ signals+ abstract-sockets- path-sockets-"},
		{"a repository that is protected", user, policy.Resolved{Repo: repo, Grants: grant, Protect: []policy.Protected{{Path: "/repo/.git/hooks", Kind: policy.Frozen}}}, Options{}, "write+ protect+ metadata+ device-ioctl+ signals+ abstract-sockets- path-sockets-"},
		{"a repository outside", user, policy.Resolved{Repo: repo}, Options{}, "write+ protect+ metadata+ device-ioctl+ signals+ abstract-sockets- path-sockets-"},
		{"no protection", user, policy.Resolved{Repo: repo, Grants: grant, Policy: policy.Policy{NoProtect: true}}, Options{}, "write+ metadata+ device-ioctl+ signals+ abstract-sockets- path-sockets-"},
		{"hide, private tmp, limits", user, policy.Resolved{Policy: policy.Policy{Require: []policy.Promise{policy.PromiseLimits}}}, Options{Hide: []string{"/x"}, PrivateTmp: true}, "write+ hide+ private-tmp+ metadata+ device-ioctl+ signals+ abstract-sockets- path-sockets- limits-"},
		{"required, and not asked for", user, policy.Resolved{Policy: policy.Policy{Require: []policy.Promise{policy.PromiseHide, policy.PromisePrivateTmp}}}, Options{}, "write+ hide+ private-tmp- metadata+ device-ioctl+ signals+ abstract-sockets- path-sockets-"},
		{"root with a capability that undoes mounts", root, policy.Resolved{Policy: policy.Policy{Caps: []string{"chown", "sys_admin"}}}, Options{}, "write- metadata- device-ioctl- signals+ abstract-sockets- path-sockets-"},
		{"root with all", root, policy.Resolved{Policy: policy.Policy{Caps: []string{"all"}}}, Options{}, "write- metadata- device-ioctl- signals+ abstract-sockets- path-sockets-"},
		{"an ordinary user, who has none", user, policy.Resolved{Policy: policy.Policy{Caps: []string{"all"}}}, Options{}, "write+ metadata+ device-ioctl+ signals+ abstract-sockets- path-sockets-"},
		{"no bwrap", Support{Cause: Missing}, policy.Resolved{}, Options{}, "write- metadata- device-ioctl- signals- abstract-sockets- path-sockets-"},
		{"unconfined", user, policy.Resolved{Policy: policy.Policy{Mode: policy.Unconfined}}, Options{}, "write- metadata- device-ioctl- signals- abstract-sockets- path-sockets-"},
	} {
		fs := Features(tt.s, &tt.r, tt.o)
		if got := short(fs); got != tt.want {
			t.Errorf("%s: Features = %s; want %s", tt.name, got, tt.want)
		}
		last := -1
		for _, f := range fs {
			if (f.By == Name) != (f.State == policy.Enforced) || (f.Why == "") != (f.State == policy.Enforced) {
				t.Errorf("%s: %+v", tt.name, f)
			}
			at := -1
			for i, p := range policy.Promises() {
				if p == f.Promise {
					at = i
				}
			}
			if at <= last {
				t.Errorf("%s: %s is out of order", tt.name, f.Promise)
			}
			last = at
		}
	}
}
