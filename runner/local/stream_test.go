package local_test

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/runner"
)

// Everything that a command prints reaches a pipe, whatever it prints to itself.
func TestStreamToPipe(t *testing.T) {
	const command = "seq 400000"
	for name, tc := range map[string]struct {
		q   runner.Request
		end string
	}{
		"pipe":     {runner.Request{Command: command}, "\n"},
		"merged":   {runner.Request{Command: command, Merge: true}, "\n"},
		"terminal": {runner.Request{Command: command, Terminal: &runner.Size{Rows: 24, Cols: 80}}, "\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, _ string, c runner.Config) {
				want, size := sha256.New(), int64(0)
				for i := range 400000 {
					n, _ := fmt.Fprintf(want, "%d%s", i+1, tc.end)
					size += int64(n)
				}
				r, w, err := os.Pipe()
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = r.Close() }()
				got, done := sha256.New(), make(chan int64)
				go func() {
					n, _ := io.Copy(got, r)
					done <- n
				}()
				q := tc.q
				q.Stdout = w
				res := run(t, newRunner(t, c), q)
				if err := w.Close(); err != nil {
					t.Error(err)
				}
				n := <-done
				out := res.Stdout
				if out == nil {
					out = res.Merged
				}
				if n != size || string(got.Sum(nil)) != string(want.Sum(nil)) {
					t.Errorf("the pipe got %d bytes, which aren't the %d printed", n, size)
				}
				if out.Bytes != size || out.Lines != 400000 {
					t.Errorf("%d bytes, %d lines; want %d, 400000", out.Bytes, out.Lines, size)
				}
			})
		})
	}
}
