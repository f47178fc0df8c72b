package bwrap

import (
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/policy"
)

// BenchmarkLayout is what a start costs before bwrap runs.
func BenchmarkLayout(b *testing.B) {
	repo := testenv.Self().NewRepo(b)
	tree := repo.WorktreeBeside()
	r, err := policy.Resolve(
		policy.Policy{Mode: policy.WorkspaceWrite, Worktree: policy.Path(tree.Dir), NoCache: true},
		policy.Options{Environ: testenv.GitEnv(repo.Home), MountLayer: true},
	)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("Find", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			Find("")
		}
	})
	s := Find("")
	b.Run("Look", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := Look(s, r, Options{Init: true}); err != nil {
				b.Fatal(err)
			}
		}
	})
	l, err := Look(s, r, Options{Init: true})
	if err != nil {
		b.Fatal(err)
	}
	b.Run("Args", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := l.Args(Descriptors{Status: 3}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
