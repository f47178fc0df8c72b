package landlock

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/policy"
)

// short writes features as "write+ read+ metadata-".
func short(fs []policy.Feature) string {
	var words []string
	for _, f := range fs {
		sign := map[policy.State]string{policy.Enforced: "+", policy.Absent: "-", policy.VerifiedAfter: "~"}[f.State]
		words = append(words, string(f.Promise)+sign)
	}
	return strings.Join(words, " ")
}

func TestFeatures(t *testing.T) {
	repo := &policy.Repo{WorkTree: "/wt", GitDir: "/repo/.git/worktrees/wt", CommonDir: "/repo/.git"}
	plain := policy.Policy{Mode: policy.WorkspaceWrite}
	wt := []policy.Grant{{Path: "/wt", Access: policy.Write}}
	tcp := policy.Network{ConnectTCP: []uint16{443}}
	udp := policy.Network{ConnectUDP: []uint16{53}}
	for _, tt := range []struct {
		abi  int
		r    policy.Resolved
		want string
	}{
		{0, policy.Resolved{Policy: plain}, "write- metadata- device-ioctl- signals- abstract-sockets- path-sockets-"},
		{1, policy.Resolved{Policy: plain}, "write- metadata- device-ioctl- signals- abstract-sockets- path-sockets-"},
		{2, policy.Resolved{Policy: plain}, "write- metadata- device-ioctl- signals- abstract-sockets- path-sockets-"},
		{3, policy.Resolved{Policy: plain}, "write+ metadata- device-ioctl- signals- abstract-sockets- path-sockets-"},
		{5, policy.Resolved{Policy: plain}, "write+ metadata- device-ioctl+ signals- abstract-sockets- path-sockets-"},
		{6, policy.Resolved{Policy: plain}, "write+ metadata- device-ioctl+ signals+ abstract-sockets+ path-sockets-"},
		{8, policy.Resolved{Policy: plain}, "write+ metadata- device-ioctl+ signals+ abstract-sockets+ path-sockets-"},
		{9, policy.Resolved{Policy: plain}, "write+ metadata- device-ioctl+ signals+ abstract-sockets+ path-sockets+"},
		{99, policy.Resolved{Policy: plain}, "write+ metadata- device-ioctl+ signals+ abstract-sockets+ path-sockets+"},

		{7, policy.Resolved{Policy: policy.Policy{Read: []policy.Path{}}}, "write+ read+ metadata- device-ioctl+ signals+ abstract-sockets+ path-sockets-"},
		{0, policy.Resolved{Policy: policy.Policy{Read: []policy.Path{}}}, "write- read- metadata- device-ioctl- signals- abstract-sockets- path-sockets-"},
		{7, policy.Resolved{Policy: policy.Policy{IPC: policy.IPC{AllowSignals: true}}}, "write+ metadata- device-ioctl+ abstract-sockets+ path-sockets-"},
		{7, policy.Resolved{Policy: policy.Policy{IPC: policy.IPC{AllowAbstract: true}}}, "write+ metadata- device-ioctl+ signals+ path-sockets-"},

		{7, policy.Resolved{Policy: plain, Repo: repo, Grants: wt}, "write+ protect- metadata- device-ioctl+ signals+ abstract-sockets+ path-sockets-"},
		{7, policy.Resolved{Policy: plain, Repo: repo, Grants: []policy.Grant{{Path: "/repo/.git/objects", Access: policy.Write}}}, "write+ protect- metadata- device-ioctl+ signals+ abstract-sockets+ path-sockets-"},
		{7, policy.Resolved{Policy: policy.Policy{NoProtect: true}, Repo: repo, Grants: wt}, "write+ metadata- device-ioctl+ signals+ abstract-sockets+ path-sockets-"},
		{7, policy.Resolved{Repo: repo, Grants: []policy.Grant{{Path: "/dev/null", Access: policy.Write}, {Path: "/wt", Access: policy.Read}}}, "write+ protect+ metadata- device-ioctl+ signals+ abstract-sockets+ path-sockets-"},
		{2, policy.Resolved{Repo: repo}, "write- protect- metadata- device-ioctl- signals- abstract-sockets- path-sockets-"},

		{7, policy.Resolved{Policy: policy.Policy{Require: []policy.Promise{policy.PromiseHide, policy.PromisePrivateTmp, policy.PromiseLimits}}}, "write+ hide- private-tmp- metadata- device-ioctl+ signals+ abstract-sockets+ path-sockets- limits-"},

		{11, policy.Resolved{Policy: policy.Policy{Network: policy.Network{Mode: policy.NetworkNone}}}, "write+ metadata- device-ioctl+ signals+ abstract-sockets+ path-sockets+ network-"},
		{11, policy.Resolved{Policy: policy.Policy{Network: tcp}}, "write+ metadata- device-ioctl+ signals+ abstract-sockets+ path-sockets+ network-"},
		{3, policy.Resolved{Policy: policy.Policy{Network: tcp}}, "write+ metadata- device-ioctl- signals- abstract-sockets- path-sockets- network-"},
		{9, policy.Resolved{Policy: policy.Policy{Network: udp}}, "write+ metadata- device-ioctl+ signals+ abstract-sockets+ path-sockets+ network-"},
		{10, policy.Resolved{Policy: policy.Policy{Network: udp}}, "write+ metadata- device-ioctl+ signals+ abstract-sockets+ path-sockets+ network+"},

		{7, policy.Resolved{Policy: policy.Policy{Mode: policy.Unconfined}}, "write- metadata- device-ioctl- signals- abstract-sockets- path-sockets-"},
	} {
		s := Support{ABI: tt.abi, Errata: 0xf}
		if tt.abi == 0 {
			s = Support{Err: syscall.EOPNOTSUPP}
		}
		fs := Features(s, &tt.r)
		if got := short(fs); got != tt.want {
			t.Errorf("Features(ABI %d, %+v) =\n%s; want\n%s", tt.abi, tt.r, got, tt.want)
		}
		checkFeatures(t, s, fs)
	}
}

// checkFeatures holds what is true of every list of features.
func checkFeatures(t *testing.T, s Support, fs []policy.Feature) {
	t.Helper()
	all := policy.Promises()
	last := -1
	for _, f := range fs {
		at := slices.Index(all, f.Promise)
		if at <= last {
			t.Errorf("ABI %d: %s is out of order", s.ABI, f.Promise)
		}
		last = at
		enforced := f.State == policy.Enforced
		if enforced != (f.By == Name) || enforced != (f.Why == "") || enforced && f.Mend != "" || !enforced && f.State != policy.Absent {
			t.Errorf("ABI %d: %+v", s.ABI, f)
		}
	}
}

func TestFeatureReasons(t *testing.T) {
	r := &policy.Resolved{Policy: policy.Policy{Network: policy.Network{ConnectTCP: []uint16{1}, BindTCP: []uint16{}}}}
	for _, tt := range []struct {
		s         Support
		promise   policy.Promise
		why, mend string
	}{
		{Support{ABI: 2}, policy.PromiseWrite, "truncate(2)", "bubblewrap"},
		{Support{ABI: 2}, policy.PromiseWrite, "this kernel has ABI 2", "Linux 6.2"},
		{Support{ABI: 1}, policy.PromiseWrite, "into another folder", "bubblewrap"},
		{Support{Err: syscall.EOPNOTSUPP}, policy.PromiseWrite, "at boot", "lsm="},
		{Support{Err: syscall.EPERM}, policy.PromiseSignals, "seccomp", "container"},
		{Support{ABI: 7}, policy.PromiseMetadata, "chmod, chown, utime, xattr", "mount layer"},
		{Support{ABI: 7}, policy.PromisePathSockets, "ABI 9", "Linux 7.1"},
		{Support{ABI: 7, Errata: 1}, policy.PromiseNetwork, "mptcp, smc, tcp-fast-open, listen", "seccomp"},
		{Support{ABI: 4}, policy.PromiseNetwork, "tcp-fast-open, listen", "seccomp"},
		{Support{ABI: 3}, policy.PromiseNetwork, "from ABI 4", "Linux 6.7"},
	} {
		fs := Features(tt.s, r)
		i := slices.IndexFunc(fs, func(f policy.Feature) bool { return f.Promise == tt.promise })
		if i < 0 || !strings.Contains(fs[i].Why, tt.why) || !strings.Contains(fs[i].Mend, tt.mend) {
			t.Errorf("Features(%+v): %s: got %+v; want %q, %q", tt.s, tt.promise, fs, tt.why, tt.mend)
		}
	}
}

func TestGapsOf(t *testing.T) {
	connect, bind := policy.Network{ConnectTCP: []uint16{1}}, policy.Network{BindTCP: []uint16{}}
	for _, tt := range []struct {
		errata uint32
		n      policy.Network
		want   string
	}{
		{0xf, policy.Network{}, "[]"},
		{0xf, policy.Network{ConnectUDP: []uint16{1}, BindUDP: []uint16{1}}, "[]"},
		{0xf, connect, "[mptcp smc tcp-fast-open]"},
		{0xf, bind, "[mptcp smc listen]"},
		{0, connect, "[tcp-fast-open]"},
		{0, bind, "[listen]"},
	} {
		if got := fmt.Sprint(Gaps(Support{ABI: 7, Errata: tt.errata}, tt.n)); got != tt.want {
			t.Errorf("Gaps(%#x, %+v) = %s; want %s", tt.errata, tt.n, got, tt.want)
		}
	}
	for promise, want := range map[policy.Promise]string{
		policy.PromiseWrite: "[overlay btrfs]", policy.PromiseSignals: "[prlimit]", policy.PromiseRead: "[]",
	} {
		if got := fmt.Sprint(GapsIn(promise)); got != want {
			t.Errorf("GapsIn(%s) = %s; want %s", promise, got, want)
		}
	}
}
