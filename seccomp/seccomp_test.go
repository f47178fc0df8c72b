package seccomp

import (
	"testing"

	"github.com/shofer-dev/shofer-sandbox/policy"
)

func TestForNetwork(t *testing.T) {
	for _, tt := range []struct {
		n    policy.Network
		want Filter
	}{
		{policy.Network{}, Filter{}},
		{policy.Network{Mode: policy.NetworkAll}, Filter{}},
		{policy.Network{Mode: policy.NetworkNone}, Filter{NoNetwork: true}},
		{policy.Network{ConnectTCP: []uint16{443}}, Filter{PlainTCP: true}},
		{policy.Network{BindTCP: []uint16{}}, Filter{PlainTCP: true}},
		{policy.Network{ConnectUDP: []uint16{53}, BindUDP: []uint16{}}, Filter{}},
		{policy.Network{Mode: policy.NetworkNone, ConnectTCP: []uint16{443}}, Filter{NoNetwork: true}},
	} {
		if got := ForNetwork(tt.n); got != tt.want {
			t.Errorf("ForNetwork(%+v) = %v; want %v", tt.n, got, tt.want)
		}
	}
}

func TestString(t *testing.T) {
	for _, tt := range []struct {
		f    Filter
		want string
	}{
		{Filter{}, "nothing"},
		{Filter{NoTerminalInjection: true}, "terminal-injection"},
		{filterOf(allFields), "network, terminal-injection, truncate, tcp-variants, listen, new-filesystems, subvolumes, foreign-limits, foreign-groups"},
	} {
		if got := tt.f.String(); got != tt.want {
			t.Errorf("%#v.String() = %q; want %q", tt.f, got, tt.want)
		}
	}
}

// TestWith holds With against what it says, for all pairs.
func TestWith(t *testing.T) {
	for a := range uint16(allFields + 1) {
		for b := range uint16(allFields + 1) {
			if got, want := filterOf(a).With(filterOf(b)), filterOf(a|b); got != want {
				t.Errorf("(%v).With(%v) = %v; want %v", filterOf(a), filterOf(b), got, want)
			}
		}
	}
}
