package seccomp

import (
	"errors"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/policy"
)

func init() {
	operations["probe"] = func([]string) error {
		err := Probe()
		var e *SupportError
		if err != nil && !errors.As(err, &e) {
			panic(err)
		}
		return err
	}
}

// denying returns a program that answers seccomp(2) with e.
func denying(t *testing.T, e syscall.Errno) []unix.SockFilter {
	t.Helper()
	raw, err := bpf.Assemble([]bpf.Instruction{
		bpf.LoadAbsolute{Off: offsetNumber, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.SYS_SECCOMP, SkipFalse: 1},
		bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(e)},
		bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW},
	})
	if err != nil {
		t.Fatal(err)
	}
	var code []unix.SockFilter
	for _, r := range raw {
		code = append(code, unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K})
	}
	return code
}

// TestProbe asks under filters that answer as other kernels and container
// runtimes do.
func TestProbe(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		if got := runOps(t, u, setup{}, []op{do("probe")}); got[0] != 0 {
			t.Errorf("Probe() = %v; want nil", got[0])
		}
		for _, e := range []syscall.Errno{syscall.EPERM, syscall.ENOSYS, syscall.EINVAL} {
			if got := runOps(t, u, setup{Extra: denying(t, e)}, []op{do("probe")}); got[0] != e {
				t.Errorf("Probe() where seccomp(2) says %v = %v; want an error that is it", e, got[0])
			}
		}
	})
}

func TestSupportError(t *testing.T) {
	for e, want := range map[syscall.Errno]string{
		0:              "makes no sense",
		syscall.ENOSYS: "has no seccomp(2)",
		syscall.EINVAL: "built without seccomp filters",
		syscall.EPERM:  "container",
		syscall.EACCES: "container",
		syscall.EIO:    "input/output error",
	} {
		err := &SupportError{e}
		if got := err.Error(); !strings.HasPrefix(got, "seccomp: ") || !strings.Contains(got, want) {
			t.Errorf("SupportError{%d}.Error() = %q; want it to have %q", e, got, want)
		}
		if e != 0 && e != syscall.EIO && err.Mend() == "" {
			t.Errorf("SupportError{%d}.Mend() is empty", e)
		}
	}
	if err := error(&SupportError{}); errors.Is(err, syscall.Errno(0)) {
		t.Error("SupportError{0} wraps an errno of 0")
	}
}

func TestFeatures(t *testing.T) {
	blocked := &SupportError{syscall.EPERM}
	for _, tt := range []struct {
		f           Filter
		unsupported error
		want        []policy.Feature
	}{
		{Filter{}, nil, nil},
		{filterOf(allFields &^ 1), nil, nil},
		{Filter{NoNetwork: true}, nil, []policy.Feature{{Promise: policy.PromiseNetwork, State: policy.Enforced, By: "seccomp"}}},
		{Filter{NoNetwork: true}, blocked, []policy.Feature{{Promise: policy.PromiseNetwork, State: policy.Absent, Why: blocked.Reason(), Mend: blocked.Mend()}}},
		{Filter{NoNetwork: true}, &SupportError{syscall.EIO}, []policy.Feature{{Promise: policy.PromiseNetwork, State: policy.Absent, Why: (&SupportError{syscall.EIO}).Reason(), Mend: "a network namespace"}}},
		{Filter{NoNetwork: true}, errors.New("no"), []policy.Feature{{Promise: policy.PromiseNetwork, State: policy.Absent, Why: "no", Mend: "a network namespace"}}},
	} {
		if got := tt.f.Features(tt.unsupported); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("(%v).Features(%v) = %+v; want %+v", tt.f, tt.unsupported, got, tt.want)
		}
	}
}
