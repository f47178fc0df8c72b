package local_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/shofer-dev/shofer-sandbox/runner"
)

// Who waits for input is named, and nobody else is.
func TestAwaitingInput(t *testing.T) {
	size := &runner.Size{Rows: 24, Cols: 80}
	each(t, func(t *testing.T, way string, c runner.Config) {
		r := newRunner(t, c)
		for _, tt := range []struct {
			name string
			q    runner.Request
			want string // a name, or none
		}{
			{"reads", runner.Request{Command: "echo ready; exec cat", OpenStdin: true}, "cat"},
			{"a child reads", runner.Request{Command: "echo ready; cat; :", OpenStdin: true}, "cat"},
			{"the shell reads", runner.Request{Command: "echo ready; read x; :", OpenStdin: true}, "bash"},
			{"reads the terminal", runner.Request{Command: "echo ready; exec cat", Terminal: size}, "cat"},
			{"reads the terminal by name", runner.Request{Command: "echo ready; exec cat </dev/tty", Terminal: size}, "cat"},
			{"edits a line", runner.Request{Command: "echo ready; read -e x; :", Terminal: size}, "bash"},
			{"sleeps", runner.Request{Command: "echo ready; exec sleep 1000", OpenStdin: true}, ""},
			{"reads something else", runner.Request{Command: "echo ready; sleep 1000 | cat", OpenStdin: true}, ""},
			{"sleeps at a terminal", runner.Request{Command: "echo ready; exec sleep 1000", Terminal: size}, ""},
		} {
			spec, err := r.Resolve(tt.q)
			if err != nil {
				t.Fatal(err)
			}
			e, err := r.Start(t.Context(), spec)
			if err != nil {
				t.Fatal(err)
			}
			out, _ := e.Output()
			if err := out.Wait(t.Context(), int64(len("ready"))); err != nil {
				t.Fatal(err)
			}
			got := ""
			look := func() bool {
				var names []string
				for _, p := range e.AwaitingInput() {
					names = append(names, p.Name)
				}
				got = strings.Join(names, " ")
				return got != ""
			}
			if tt.want != "" {
				for deadline := time.Now().Add(time.Minute); !look() && time.Now().Before(deadline); {
					<-time.After(5 * time.Millisecond)
				}
			} else {
				for range 20 {
					if look() {
						break
					}
					<-time.After(5 * time.Millisecond)
				}
			}
			if got != tt.want {
				t.Errorf("%s: AwaitingInput() = %q; want %q", tt.name, got, tt.want)
			}
			if w := e.Result().AwaitingInput; (len(w) > 0) != (tt.want != "") {
				t.Errorf("%s: Result().AwaitingInput = %v", tt.name, w)
			}
			if _, err := e.Kill(context.WithoutCancel(t.Context()), runner.Immediate); err != nil {
				t.Error(err)
			}
			if w := e.Result().AwaitingInput; len(w) > 0 {
				t.Errorf("%s: %v await input after the end", tt.name, w)
			}
		}
	})
}
