package integration

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/launch"
)

// TestWhy: it says of one path what a run would do, and changes nothing.
func TestWhy(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		s := newStage(t, u)
		work := u.NewRepoAt(t, s.base+"/repo").WorktreeBeside()
		before := snapshot(t, s.base)
		for _, tt := range []struct {
			args []string
			code int
			out  string
		}{
			{[]string{"--why", work.Dir + "/new", work.Dir}, 0, "(worktree)"},
			{[]string{"--why", s.outside, work.Dir}, 1, "--rw " + s.outside},
			{[]string{"--why", s.outside, work.Dir, "read"}, 0, "everything can be read"},
			{[]string{"--why", s.outside, work.Dir, "--", "read"}, 0, "everything can be read"},
			{[]string{"--why", s.outside + "/new", work.Dir, "mkdir"}, 1, "--rw-create " + s.outside + "/new"},
			{[]string{"--rw", s.outside, "--why", s.outside + "/new", work.Dir, "mkdir"}, 0, "(user)"},
			{[]string{"--mode", "read-only", "--why", work.Dir + "/new", work.Dir}, 1, "--mode workspace-write"},
			{[]string{"--mode", "read-only", "--why", s.outside, work.Dir}, 1, "--mode workspace-write --rw " + s.outside},
			{[]string{"--read", "system", "--why", s.outside, work.Dir, "read"}, 1, "--read " + s.outside},
			{[]string{"--mode", "unconfined", "--why", s.outside, work.Dir}, 0, "unconfined"},
			{[]string{"--backend", "landlock", "--why", s.base + "/repo/.git/config", work.Dir}, 1, "outside the sandbox"},
			{[]string{"--why", "/proc/sys/kernel/core_pattern", work.Dir}, 1, "can't be granted"},
			{[]string{"--why", s.outside, work.Dir, "fly"}, 125, "one of read, "},
			{[]string{"--explain", "--why", s.outside, work.Dir}, 125, "exclude each other"},
			{[]string{"--why", s.outside}, 125, "worktree directory is missing"},
		} {
			r := testenv.Run(t, s.launch(tt.args...))
			if r.Code != tt.code || !strings.Contains(r.Stdout+r.Stderr, tt.out) {
				t.Errorf("%q: %v; want exit %d and %q", tt.args, r, tt.code, tt.out)
			}
		}
		before.same(t, snapshot(t, s.base))

		link := work.Dir + "/link"
		if err := os.Symlink(s.outside, link); err != nil {
			t.Fatal(err)
		}
		r := testenv.Run(t, s.launch("--json", "--why", link, work.Dir))
		var a launch.Answer
		dec := json.NewDecoder(strings.NewReader(r.Stdout))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&a); err != nil || r.Code != 1 || a.Allowed || string(a.Real) != s.outside || a.Flag != "--rw "+s.outside || a.By == "" {
			t.Errorf("--json --why of a link: %v, %v", err, r)
		}
	})
}
