package main

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
)

func TestMain(m *testing.M) {
	if os.Args[0] == nothing {
		return
	}
	os.Exit(testenv.Main(m, testenv.Helpers{"probe": func([]string) int {
		main()
		return 0
	}}))
}

func TestProbe(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		r := testenv.Run(t, u.Helper(t, "probe", "-want", "uid="+strconv.Itoa(u.UID), "-want", "kernel=*"))
		if r.Code != 0 || !strings.Contains(r.Stdout, "\nuid="+strconv.Itoa(u.UID)+"\n") {
			t.Errorf("probe = %v; want exit 0 and the uid", r)
		}
		if n := strings.Count(r.Stdout, "\n"); n != len(facts) {
			t.Errorf("probe prints %d lines; want %d", n, len(facts))
		}
	})
}

func TestProbeWants(t *testing.T) {
	for _, tt := range []struct {
		want string
		code int
		says string
	}{
		{"uid=*", 0, ""},
		{"uid=x", 1, `uid is "`},
		{"nosuch=x", 2, "no fact"},
		{"uid", 2, "KEY=VALUE"},
	} {
		if r := testenv.Run(t, testenv.Helper(t, "probe", "-want", tt.want)); r.Code != tt.code || !strings.Contains(r.Stderr, tt.says) {
			t.Errorf("probe -want %s = %v; want exit %d and %q", tt.want, r, tt.code, tt.says)
		}
	}
}

func TestMatches(t *testing.T) {
	for _, tt := range []struct {
		has, want string
		ok        bool
	}{
		{"6.1.0-57", "6.1.*", true},
		{"6.12.1", "6.1.*", false},
		{"no", "no", true},
		{"none", "no", false},
	} {
		if got := matches(tt.has, tt.want); got != tt.ok {
			t.Errorf("matches(%q, %q) = %v; want %v", tt.has, tt.want, got, tt.ok)
		}
	}
}
