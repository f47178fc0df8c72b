package policy

import (
	"errors"
	"math"
	"testing"
)

func TestParseSize(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "1": 1, "512": 512, "512B": 512, "512b": 512,
		"1K": 1 << 10, "1k": 1 << 10, "1KiB": 1 << 10, "1kb": 1000, "1kB": 1000, "1KB": 1000,
		"2M": 2 << 20, "2MiB": 2 << 20, "2MB": 2e6, "1.5G": 3 << 29, "1.5GiB": 3 << 29, "1.5GB": 15e8,
		"3T": 3 << 40, "3tb": 3e12, "1P": 1 << 50, "0.5": 0, "0.1k": 102, "64 MiB": 64 << 20, "8191P": 8191 << 50,
	} {
		if got, err := ParseSize(text); got != want || err != nil {
			t.Errorf("ParseSize(%q) = %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "x", "-1", "+1", "1e3", "1.", ".5", "1..5", "1.5.5", "1 K iB", "1KK", "1Ki", "K", "0x10", "1,5M", " 1", "1 ", "1_000",
		"9223372036854775808", "8192P", "99999999999T", "1E", "١",
	} {
		var e *Error
		if got, err := ParseSize(text); !errors.As(err, &e) {
			t.Errorf("ParseSize(%q) = %d, %v; want an *Error", text, got, err)
		}
	}
}

func FuzzParseSize(f *testing.F) {
	for _, s := range []string{"1.5GiB", "9223372036854775807", "0.99999999999999999999k", "8191.99999999999999999999P", "9007199254740993K"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if n, err := ParseSize(s); n < 0 || err != nil && n != 0 {
			t.Errorf("ParseSize(%q) = %d, %v", s, n, err)
		}
	})
}

func TestLimits(t *testing.T) {
	one := int64(1)
	for _, tt := range []struct {
		l              Limits
		group, process bool
	}{
		{Limits{}, false, false},
		{Limits{BestEffort: true, CgroupParent: "/x"}, false, false},
		{Limits{Memory: 1}, true, false},
		{Limits{Swap: new(int64)}, true, false},
		{Limits{Pids: 1}, true, false},
		{Limits{CPUs: 1}, true, false},
		{Limits{CPUWeight: 1}, true, false},
		{Limits{IORead: []IORate{{Rate: 1}}}, true, false},
		{Limits{IOWrite: []IORate{{Rate: 1}}}, true, false},
		{Limits{Cgroup: []Path{"/x"}}, true, false},
		{Limits{OOMScoreAdj: new(int64)}, false, true},
		{Limits{OpenFiles: 1}, false, true},
		{Limits{FileSize: 1}, false, true},
		{Limits{Core: new(int64)}, false, true},
		{Limits{Nice: 1}, false, true},
		{Limits{Core: &one, Pids: 1}, true, true},
	} {
		if g, p, any := tt.l.Group(), tt.l.Process(), tt.l.Any(); g != tt.group || p != tt.process || any != (g || p) {
			t.Errorf("%+v: Group %t, Process %t, Any %t; want %t, %t", tt.l, g, p, any, tt.group, tt.process)
		}
		want := tt.group || tt.process
		for _, p := range []Policy{{Limits: tt.l}, {Limits: tt.l, Mode: Unconfined}} {
			if got := p.Requires(PromiseLimits); got != (want && !tt.l.BestEffort) {
				t.Errorf("%+v: Requires(limits) = %t", p, got)
			}
			p.Limits.BestEffort = true
			if p.Requires(PromiseLimits) {
				t.Errorf("%+v: Requires(limits)", p)
			}
			p.Require = []Promise{PromiseLimits}
			if !p.Requires(PromiseLimits) {
				t.Errorf("%+v: not Requires(limits)", p)
			}
		}
	}
}

// What the schema can't say.
func TestValidateLimits(t *testing.T) {
	for _, l := range []Limits{
		{BestEffort: true},
		{Cgroup: []Path{"/x"}, Memory: 1},
		{Cgroup: []Path{"/x"}, CgroupParent: "/y"},
		{CPUs: math.NaN()},
		{CPUs: math.Inf(1)},
	} {
		var e *Error
		if err := (Policy{Limits: l}).Validate(); !errors.As(err, &e) {
			t.Errorf("Validate(%+v) = %v; want an *Error", l, err)
		}
	}
	for want, l := range map[string]Limits{
		`limits.cpus "1048577": is not a number of processors from 0.01 to 1048576`:    {CPUs: 1<<20 + 1},
		`limits.nofile "1073741825": is not a number of descriptors, up to 1073741824`: {OpenFiles: 1<<30 + 1},
	} {
		if err := (Policy{Limits: l}).Validate(); err == nil || err.Error() != want {
			t.Errorf("Validate(%+v) = %v; want %s", l, err, want)
		}
	}
	if err := (Policy{Limits: Limits{Cgroup: []Path{"/x"}, Nice: 5}}).Validate(); err != nil {
		t.Error(err)
	}
}
