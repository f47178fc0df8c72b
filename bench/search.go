package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/shofer-dev/shofer-sandbox/capture"
)

// artifactSize is how large the artifact is that is read.
const artifactSize = 1 << 30

// patterns are those that a search is timed with. The last have no literal that each
// match must have.
var patterns = []string{
	"error", "error|failed", "panic|fatal|timeout=31|refused|segfault|undefined", "zzzqq", "id",
	`worker-1[0-9].*failed`, `\bpanic\b|^fatal`, `[0-9]+ms`, `\d{5}`, `[a-z]+ed [a-z]+ly$`,
}

// search compares searching an artifact with grep.
func (b *bench) search() (s section, err error) {
	s = section{Title: "search in an artifact of 1 GiB", As: b.as, Rounds: max(1, b.heavy/6), Against: []string{"grep -iE | cat"}}
	artifact, path, done, err := b.artifact()
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, done()) }()
	var cs []contender
	for _, p := range patterns {
		cs = append(cs,
			contender{"grep " + p, func() error {
				// In this locale grep is faster than in C, as a rule.
				cmd := exec.Command("sh", "-c", `grep -iE "$1" "$2" | cat >/dev/null`, "sh", p, path)
				cmd.Env = append(b.env(), "LC_ALL=C.UTF-8")
				return cmd.Run()
			}},
			contender{p, func() error {
				_, err := capture.NewReader(artifact).Search(context.Background(), capture.Query{Pattern: p})
				return err
			}})
	}
	got, err := interleave(s.Rounds, cs)
	for i := 1; i < len(got); i += 2 {
		x := got[i]
		s.Rows = append(s.Rows, row{
			Name: x.name, Median: quantile(x.times, 0.5), P95: quantile(x.times, 0.95),
			Ratios: []float64{pairRatio(x, got[i-1])},
		})
	}
	return s, err
}

// pages compares pages of an artifact. Its lines have been counted.
func (b *bench) pages() (s section, err error) {
	s = section{Title: "pages of 40 KiB of an artifact of 1 GiB", As: b.as, Rounds: b.rounds, Against: []string{"the first"}}
	artifact, _, done, err := b.artifact()
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, done()) }()
	ctx := context.Background()
	r := capture.NewReader(artifact)
	last, err := r.Page(ctx, -capture.DefaultLimit, 0)
	if err != nil {
		return s, err
	}
	line := last.Lines[len(last.Lines)/2].Number
	page := func(name string, f func() (*capture.Page, error)) contender {
		return contender{name, func() error { _, err := f(); return err }}
	}
	got, err := interleave(s.Rounds, []contender{
		page("the first", func() (*capture.Page, error) { return r.Page(ctx, 0, 0) }),
		page("one in the middle", func() (*capture.Page, error) { return r.Page(ctx, artifactSize/2, 0) }),
		page("the last", func() (*capture.Page, error) { return r.Page(ctx, last.Offset, 0) }),
		page("lines near the end", func() (*capture.Page, error) { return r.Lines(ctx, line, 200, 0) }),
		page("the last 200 lines", func() (*capture.Page, error) { return r.Tail(ctx, 200, 0) }),
		page("the last 200 lines, nothing counted", func() (*capture.Page, error) { return capture.NewReader(artifact).Tail(ctx, 200, 0) }),
		page("the last, rendered and redacted", func() (*capture.Page, error) {
			return r.With(capture.View{Render: true, Fold: true, Redact: secrets}).Page(ctx, last.Offset, 0)
		}),
	})
	s.rows(got)
	return s, err
}

var secrets = capture.NewRedactor([]string{"a-value-that-is-not-there"}, true)

// artifact makes an artifact of a log that looks like one, and returns its path too.
// It is removed by done.
func (b *bench) artifact() (a *capture.Artifact, path string, done func() error, err error) {
	store, err := capture.OpenStore(filepath.Join(b.home, "log"), capture.Limits{Artifact: -1, Total: -1, Free: -1})
	if err != nil {
		return nil, "", nil, err
	}
	c := capture.New(capture.Options{Store: store})
	w := bufio.NewWriterSize(c.Stdout, 1<<20)
	err = writeLog(w, artifactSize)
	c.End()
	shot := c.Stdout.Snapshot()
	if err = errors.Join(err, c.Close(), shot.SpillErr); err != nil {
		return nil, "", nil, err
	}
	if a, err = store.Open(shot.Artifact); err != nil {
		return nil, "", nil, err
	}
	return a, filepath.Join(store.Path(), string(shot.Artifact)), func() error {
		_, err := store.Clear()
		return errors.Join(a.Close(), err, store.Close())
	}, nil
}

// writeLog writes lines of a log until there are n bytes.
func writeLog(w *bufio.Writer, n int) error {
	words := strings.Fields(`request handled by worker connection from upstream the cache refresh completed compiling
		module internal/service testing package linked status value timeout=30s retry queue length GET /api/v1/items 200
		user session started latency`)
	r := rand.New(rand.NewPCG(1, 2))
	var line []byte
	for i := 0; n > 0; i++ {
		line = fmt.Appendf(line[:0], "2026-11-30T17:%02d:%02d.%03dZ [worker-%d] INFO", i/60000%60, i/1000%60, i%1000, r.IntN(16))
		for range 3 + r.IntN(12) {
			line = append(append(line, ' '), words[r.IntN(len(words))]...)
		}
		if r.IntN(2000) == 0 {
			line = append(line, " ERROR: something failed badly"...)
		}
		line = append(line, '\n')
		k := min(n, len(line))
		if _, err := io.Copy(w, bytes.NewReader(line[:k])); err != nil {
			return err
		}
		n -= k
	}
	return w.Flush()
}
