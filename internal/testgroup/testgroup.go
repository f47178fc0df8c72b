// Package testgroup makes control groups for tests.
package testgroup

import (
	"context"
	"os"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/cgroup"
	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/policy"
)

// Place finds a place for groups with the limits l, or skips the test where this
// user has none: only root has one everywhere.
func Place(t testing.TB, l policy.Limits) *cgroup.Place {
	t.Helper()
	p, err := cgroup.Find(l, cgroup.Options{})
	switch {
	case err == nil:
		return p
	case os.Getuid() != 0:
		t.Skip(err) // a machine needn't delegate anything
	default:
		testenv.Skip(t, "%v", err)
	}
	return nil
}

// Create makes a group in p, which ends with the test.
func Create(t testing.TB, p *cgroup.Place) *cgroup.Group {
	t.Helper()
	g, err := p.Create()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := g.End(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return g
}
