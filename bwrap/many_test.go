package bwrap

import (
	"errors"
	"strconv"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/policy"
)

// TestMany runs with many grants, and with more than bwrap takes.
func TestMany(t *testing.T) {
	u := testenv.Self()
	r, top := wt(t, u)
	grant := func(n int, in string) *policy.Resolved {
		many := *r
		for i := range n {
			path := top + in + "/" + strconv.Itoa(i%100)
			if i < 100 {
				mkdir(t, path)
			}
			many.Grants = append(many.Grants, policy.Grant{Path: path, Access: policy.Write, Origin: policy.FromUser})
		}
		return &many
	}
	few := grant(100, "/out")
	b := newBox(t, u, few, Options{Init: true})
	var ops []op
	for _, g := range few.Grants {
		ops = append(ops, op{"create", []string{g.Path + "/x"}, "ok"})
	}
	b.try(append(ops, op{"create", []string{top + "/out/x"}, "EROFS"}))

	inside := grant(3000, "/wt")
	b = newBox(t, u, inside, Options{Init: true})
	b.try([]op{{"create", []string{inside.Grants[3000].Path + "/x"}, "ok"}, {"create", []string{top + "/x"}, "EROFS"}})

	l := &Layout{}
	for i := range 3000 {
		l.Entries = append(l.Entries, dir(Open, "/g/"+strconv.Itoa(i)))
	}
	var many *TooManyError
	if _, err := l.Args(Descriptors{}); !errors.As(err, &many) || many.Mounts < 3000 {
		t.Errorf("Args of 3,000 grants = %v; want a TooManyError", err)
	}
}
