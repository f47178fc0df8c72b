package landlock

import (
	"errors"
	"strings"
	"syscall"
	"testing"
)

func TestProbe(t *testing.T) {
	s := Probe()
	if (s.ABI > 0) != (s.Err == nil) || (s.ABI > 0) != (s.Reason() == "") {
		t.Errorf("Probe() = %+v, reason %q; want an ABI, or an error with a reason", s, s.Reason())
	}
	if s.Errata != 0 && s.ABI == 0 {
		t.Errorf("Probe() = %+v; want no errata without an ABI", s)
	}
}

func TestReason(t *testing.T) {
	for _, tt := range []struct {
		err    error
		reason string
		mend   string
	}{
		{nil, "has no Landlock", "CONFIG_SECURITY_LANDLOCK"},
		{syscall.ENOSYS, "gVisor", "Linux 6.2"},
		{syscall.EOPNOTSUPP, "at boot", "lsm="},
		{syscall.EPERM, "seccomp", "container"},
		{syscall.EACCES, "seccomp", "container"},
		{syscall.EINVAL, "invalid argument", ""},
		{errors.New("odd"), "odd", ""},
	} {
		s := Support{Err: tt.err}
		if got := s.Reason(); !strings.Contains(got, tt.reason) {
			t.Errorf("Support{%v}.Reason() = %q; want %q in it", tt.err, got, tt.reason)
		}
		if got := s.Mend(); !strings.Contains(got, tt.mend) || (tt.mend == "") != (got == "") {
			t.Errorf("Support{%v}.Mend() = %q; want %q in it", tt.err, got, tt.mend)
		}
	}
	if s := (Support{ABI: 1}); s.Reason() != "" || s.Mend() != "" {
		t.Errorf("%+v: reason %q, mend %q; want none", s, s.Reason(), s.Mend())
	}
}

func TestFixed(t *testing.T) {
	s := Support{ABI: 7, Errata: 0b0101}
	for number, want := range map[int]bool{-1: false, 0: false, 1: true, 2: false, 3: true, 4: false, 32: false, 33: false} {
		if got := s.Fixed(number); got != want {
			t.Errorf("Fixed(%d) = %v; want %v", number, got, want)
		}
	}
	for i, e := range Errata {
		if e.Number != i+1 || e.ABI < 1 || e.Name == "" || e.Unfixed == "" {
			t.Errorf("Errata[%d] = %+v", i, e)
		}
	}
}
