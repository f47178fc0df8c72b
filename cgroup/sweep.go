package cgroup

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Sweep kills what is in the groups that dead owners have left, where this place
// makes groups, where this process would with other limits, and in scopes beside
// its own that were made for that, and removes them.
// It returns how many that were. A group whose owner lives, in whatever pid
// namespace, is left alone.
func (p *Place) Sweep(ctx context.Context) (n int, err error) {
	if len(p.trees) == 0 {
		return 0, nil
	}
	var errs []error
	for _, dir := range p.sweepFolders() {
		m, err := p.sweepIn(ctx, dir)
		n += m
		errs = append(errs, err)
	}
	return n, errors.Join(errs...)
}

// sweepFolders are those in which there may be groups in the first hierarchy.
func (p *Place) sweepFolders() []string {
	t := &p.trees[0]
	dirs := []string{t.parent}
	if !t.unified || t.own == "" {
		return dirs
	}
	for dir := t.own; strings.HasPrefix(dir+"/", t.mount+"/"); dir = path.Dir(dir) {
		if dir != t.parent {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// sweepIn sweeps one folder.
func (p *Place) sweepIn(ctx context.Context, dir string) (n int, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	var errs []error
	for _, e := range entries {
		switch {
		case !e.IsDir():
		case strings.HasPrefix(e.Name(), prefix):
			swept, err := p.sweep(ctx, dir+"/"+e.Name())
			if swept {
				n++
			}
			errs = append(errs, err)
		case strings.HasPrefix(e.Name(), scopePrefix):
			m, err := p.sweepIn(ctx, dir+"/"+e.Name())
			n += m
			errs = append(errs, err)
		}
	}
	return n, errors.Join(errs...)
}

// sweep removes a group, if its owner is dead.
func (p *Place) sweep(ctx context.Context, group string) (bool, error) {
	if unix.Access(group, unix.W_OK) != nil {
		return false, nil //nolint:nilerr // it is gone, or another user's
	}
	locked, err := lock(group)
	if errors.Is(err, errTaken) {
		return false, nil // its owner lives
	}
	if err != nil {
		return false, err
	}
	first := p.trees[0].hierarchy
	g := &Group{place: p, name: path.Base(group), made: true, lock: locked, parts: []part{{hierarchy: first, path: group, dir: -1, join: -1}}}
	// Whoever made it may have had other limits.
	for i := range p.machine.hierarchies {
		h := &p.machine.hierarchies[i]
		if h.unified || h == first {
			continue
		}
		if other := p.parentIn(h) + "/" + g.name; unix.Access(other, unix.F_OK) == nil {
			g.parts = append(g.parts, part{hierarchy: h, path: other, dir: -1, join: -1})
		}
	}
	if err := g.Kill(ctx); err != nil {
		return false, errors.Join(err, g.Remove(ctx))
	}
	return true, g.Remove(ctx)
}

// parentIn returns where groups are made in another hierarchy.
func (p *Place) parentIn(h *hierarchy) string {
	if i := slices.IndexFunc(p.trees, func(t tree) bool { return t.hierarchy == h }); i >= 0 {
		return p.trees[i].parent
	}
	first := p.trees[0]
	if first.parent == first.own {
		return h.own
	}
	return h.mount + strings.TrimPrefix(first.parent, first.mount)
}
