package policy_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/policy"
)

// A path is judged by where it leads: through links, back up, and where nothing
// is yet.
func TestJudge(t *testing.T) {
	base := testenv.Dir(t)
	work, out := base+"/work", base+"/out"
	for _, dir := range []string{work + "/sub", out, base + "/workshop"} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{
		work + "/out": out, work + "/up": "../out/new", work + "/a": "b", work + "/b": "a",
		out + "/in": work, work + "/chain": "out/in/sub",
	} {
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
	}
	r, err := policy.Resolve(policy.Policy{Mode: policy.WorkspaceWrite, Worktree: policy.Path(work), NoCache: true}, policy.Options{Environ: []string{"HOME=" + base}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		path   string
		op     policy.Op
		real   string
		exists bool
		reason policy.Reason
	}{
		{work, policy.OpWrite, work, true, policy.ReasonGranted},
		{work + "/sub/../new", policy.OpWrite, work + "/new", false, policy.ReasonGranted},
		{base + "/workshop", policy.OpWrite, base + "/workshop", true, policy.ReasonNotGranted},
		{base + "/workshop/../work/x", policy.OpWrite, work + "/x", false, policy.ReasonGranted},
		{work + "/out/x/y", policy.OpWrite, out + "/x/y", false, policy.ReasonNotGranted},
		{work + "/up", policy.OpCreate, out + "/new", false, policy.ReasonNotGranted},
		{work + "/up", policy.OpRemove, work + "/up", true, policy.ReasonGranted},
		{work + "/chain", policy.OpWrite, work + "/sub", true, policy.ReasonGranted},
		{out + "/in", policy.OpWrite, work, true, policy.ReasonGranted},
		{out + "/in", policy.OpRename, out + "/in", true, policy.ReasonNotGranted},
		{out, policy.OpRead, out, true, policy.ReasonUnlimited},
		{work + "/a", policy.OpRemove, work + "/a", true, policy.ReasonGranted},
		{"/../../dev/null", policy.OpWrite, "/dev/null", true, policy.ReasonGranted},
		{"/", policy.OpWrite, "/", true, policy.ReasonNotGranted},
	} {
		v := r.Judge(tt.path, tt.op, nil)
		if v.Real != tt.real || v.Exists != tt.exists || v.Reason != tt.reason {
			t.Errorf("Judge(%s, %s) = %+v; want %s, exists %v, %s", tt.path, tt.op, v, tt.real, tt.exists, tt.reason)
		}
	}
	if v := r.Judge(work+"/a", policy.OpWrite, nil); v.Exists {
		t.Errorf("a circle of links: %+v; want one that doesn't exist", v)
	}
}

// What could not be granted is said as [policy.Resolve] would, and nothing is
// made.
func TestCheckWrite(t *testing.T) {
	base := testenv.Dir(t)
	env := []string{"HOME=" + filepath.Dir(base)}
	for _, tt := range []struct {
		path   string
		create bool
		broad  bool
		ok     bool
	}{
		{base, false, false, true},
		{base + "/new", false, false, false},
		{base + "/new", true, false, true},
		{filepath.Dir(base), false, false, false},
		{filepath.Dir(base), false, true, true},
		{"/", false, false, false},
		{"/proc/sys", false, false, false},
	} {
		err := policy.CheckWrite(policy.Policy{AllowBroad: tt.broad}, tt.path, tt.create, env)
		var refused *policy.Error
		if (err == nil) != tt.ok || err != nil && (!errors.As(err, &refused) || refused.Why == "") {
			t.Errorf("CheckWrite(%s, %v) = %v; want ok %v", tt.path, tt.create, err, tt.ok)
		}
	}
	if _, err := os.Stat(base + "/new"); err == nil {
		t.Error("CheckWrite has made a folder")
	}
}
