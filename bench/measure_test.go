package main

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestQuantile(t *testing.T) {
	for _, tt := range []struct {
		times []time.Duration
		q     float64
		want  time.Duration
	}{
		{nil, 0.5, 0},
		{[]time.Duration{7}, 0.95, 7},
		{[]time.Duration{30, 10, 20}, 0.5, 20},
		{[]time.Duration{40, 10, 30, 20}, 0.5, 25},
		{[]time.Duration{40, 10, 30, 20}, 0, 10},
		{[]time.Duration{40, 10, 30, 20}, 1, 40},
		{[]time.Duration{0, 100}, 0.95, 95},
	} {
		before := slices.Clone(tt.times)
		if got := quantile(tt.times, tt.q); got != tt.want {
			t.Errorf("quantile(%v, %v) = %v; want %v", tt.times, tt.q, got, tt.want)
		}
		if !slices.Equal(before, tt.times) {
			t.Errorf("quantile changed its argument to %v", tt.times)
		}
	}
}

func TestPairRatio(t *testing.T) {
	for _, tt := range []struct {
		a, b []time.Duration
		want float64
	}{
		{nil, nil, 0},
		{[]time.Duration{20, 200, 2000}, []time.Duration{10, 100, 1000}, 2},
		{[]time.Duration{10, 30}, []time.Duration{10, 10}, 2},
	} {
		if got := pairRatio(sample{times: tt.a}, sample{times: tt.b}); got != tt.want {
			t.Errorf("pairRatio(%v, %v) = %v; want %v", tt.a, tt.b, got, tt.want)
		}
	}
}

func TestInterleave(t *testing.T) {
	var order strings.Builder
	note := func(s string) contender {
		return contender{name: s, run: func() error { order.WriteString(s); return nil }}
	}
	got, err := interleave(20, []contender{note("A"), note("B"), note("C")})
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.Repeat("ABC", 22); order.String() != want {
		t.Errorf("order = %s; want %s", order.String(), want)
	}
	for i, name := range []string{"A", "B", "C"} {
		if got[i].name != name || len(got[i].times) != 20 {
			t.Errorf("sample %d = %s with %d times; want %s with 20", i, got[i].name, len(got[i].times), name)
		}
	}
	bad := errors.New("bad")
	if _, err := interleave(2, []contender{{name: "A", run: func() error { return bad }}}); !errors.Is(err, bad) {
		t.Errorf("interleave(failing) = %v; want %v", err, bad)
	}
}
