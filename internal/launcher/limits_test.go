package launcher

import (
	"reflect"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/policy"
)

func TestParseLimits(t *testing.T) {
	n := func(i int64) *int64 { return &i }
	t.Chdir("/")
	for _, tt := range []struct {
		args []string
		want policy.Limits
	}{
		{nil, policy.Limits{}},
		{
			[]string{"--memory", "1.5GiB", "--swap", "1GB", "--pids", "9", "--cpus", "0.5", "--cpu-weight", "7"},
			policy.Limits{Memory: 3 << 29, Swap: n(1e9), Pids: 9, CPUs: 0.5, CPUWeight: 7},
		},
		{[]string{"--swap", "0"}, policy.Limits{Swap: n(0)}},
		{[]string{"--swap", "max"}, policy.Limits{Swap: n(policy.Unlimited)}},
		{[]string{"--io-read", "10M", "--io-read", "/dev/x:y:1K", "--io-write", "dev/z:1"}, policy.Limits{
			IORead:  []policy.IORate{{Rate: 10 << 20}, {Device: "/dev/x:y", Rate: 1 << 10}},
			IOWrite: []policy.IORate{{Device: "/dev/z", Rate: 1}},
		}},
		{
			[]string{"--nofile", "64", "--fsize", "1K", "--core", "0", "--nice", "-5", "--oom-score-adj", "0"},
			policy.Limits{OpenFiles: 64, FileSize: 1 << 10, Core: n(0), Nice: -5, OOMScoreAdj: n(0)},
		},
		{[]string{"--limits", "best-effort", "--pids", "1"}, policy.Limits{Pids: 1, BestEffort: true}},
		{[]string{"--limits", "best-effort", "--limits=required", "--pids", "1"}, policy.Limits{Pids: 1}},
		{[]string{"--cgroup", "a", "--cgroup", "/b"}, policy.Limits{Cgroup: []policy.Path{"/a", "/b"}}},
		{[]string{"--cgroup-parent", "a"}, policy.Limits{CgroupParent: "/a"}},
	} {
		o, err := parse(append(tt.args, "/w", "true"))
		if err != nil || !reflect.DeepEqual(o.policy.Limits, tt.want) {
			t.Errorf("parse(%q) = %+v, %v; want %+v", tt.args, o.policy.Limits, err, tt.want)
		}
	}
}
