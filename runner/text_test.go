package runner

import (
	"testing"
)

func TestBrief(t *testing.T) {
	r := &Result{
		Stdout: &Output{Head: []byte("all\n"), Bytes: 4, Lines: 1},
		Stderr: &Output{},
	}
	b := r.Brief()
	if want := (Output{Omitted: 4, OmittedLines: 1, Bytes: 4, Lines: 1, Truncated: true}); b.Stdout.Omitted != want.Omitted ||
		b.Stdout.Bytes != want.Bytes || !b.Stdout.Truncated || len(b.Stdout.Head) > 0 {
		t.Errorf("Brief: %+v; want %+v", *b.Stdout, want)
	}
	if b.Stderr.Truncated || b.Merged != nil {
		t.Errorf("Brief: %+v, %+v", *b.Stderr, b.Merged)
	}
	if string(r.Stdout.Text()) != "all\n" {
		t.Errorf("Brief has changed the result: %q", r.Stdout.Text())
	}
}
