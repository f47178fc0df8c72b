package cgroup

import (
	"testing"

	"github.com/shofer-dev/shofer-sandbox/policy"
	"github.com/shofer-dev/shofer-sandbox/spawn"
)

// BenchmarkStart compares a start without a group with one in a group that is
// made, read out and removed.
func BenchmarkStart(b *testing.B) {
	for _, bm := range []struct {
		name  string
		l     policy.Limits
		group bool
	}{
		{"without", policy.Limits{}, false},
		{"none", policy.Limits{}, true},
		{"pids", policy.Limits{Pids: 100}, true},
		{"memory", policy.Limits{Memory: 1 << 30}, true},
		{"memory,pids", policy.Limits{Memory: 1 << 30, Pids: 100}, true},
		{"weight", policy.Limits{CPUWeight: 100}, true},
		{"io", policy.Limits{IORead: []policy.IORate{{Rate: 1 << 30}}}, true},
		{"memory,pids,cpus", policy.Limits{Memory: 1 << 30, Pids: 100, CPUs: 1}, true},
	} {
		b.Run(bm.name, func(b *testing.B) {
			p := place(b, bm.l)
			for b.Loop() {
				if !bm.group {
					wait(b, start(b, &spawn.Plan{Path: "/bin/true", Argv: []string{"true"}, Files: []int{-1, -1, -1}}))
					continue
				}
				g, err := p.Create()
				if err != nil {
					b.Fatal(err)
				}
				plan := &spawn.Plan{Path: "/bin/true", Argv: []string{"true"}, Files: []int{-1, -1, -1}, CgroupFD: max(0, g.FD()), JoinFDs: g.Join()}
				wait(b, start(b, plan))
				if _, err := g.End(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("find", func(b *testing.B) {
		for b.Loop() {
			place(b, policy.Limits{Memory: 1 << 30, Pids: 100})
		}
	})
	b.Run("sweep", func(b *testing.B) {
		p := place(b, policy.Limits{Memory: 1 << 30, Pids: 100})
		for b.Loop() {
			if _, err := p.Sweep(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
}
