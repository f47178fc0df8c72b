package launch_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/launch"
	"github.com/shofer-dev/shofer-sandbox/policy"
)

// What the command plants where no mount can be is named afterwards, and put
// back if that is asked for; with Landlock alone that goes for everything.
func TestTampered(t *testing.T) {
	needLandlock(t)
	repo := testenv.Self().NewRepo(t)
	wt := repo.WorktreeBeside()
	common := filepath.Join(repo.Dir, ".git")
	for _, tt := range []struct {
		name    string
		backend launch.Backend
		dir     string
		script  string
		want    []string // the base names that changed
	}{
		{"a name that didn't exist", launch.BackendAuto, wt.Dir, `echo .. > "$0/commondir"`, []string{"commondir"}},
		{"nothing", launch.BackendAuto, wt.Dir, `echo x > file && git add file && git commit -qm x`, nil},
		{"hooks by Landlock alone", launch.BackendLandlock, repo.Dir, `echo x > "$0/hooks/post-commit"; git config core.fsmonitor ./evil`, []string{"config", "post-commit"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.backend == launch.BackendAuto {
				needLayer(t)
			}
			p := workspace(tt.dir)
			p.NoCache = true
			s, err := launch.Prepare(p, launch.Options{Backend: tt.backend, Environ: testenv.GitEnv(repo.Home)})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = s.Close() }()
			if f := held(t, s, policy.PromiseProtect); f.State == policy.Absent {
				t.Errorf("protect is absent: %s", f.Why)
			}
			c := s.Command("sh", "-c", tt.script, common)
			c.Dir = tt.dir
			if out, err := c.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			var got []string
			for _, change := range c.Tampered {
				got = append(got, filepath.Base(string(change.Path)))
				if change.Why == "" || change.What == "" {
					t.Errorf("%+v says too little", change)
				}
			}
			slices.Sort(got)
			if !slices.Equal(got, tt.want) {
				t.Errorf("Tampered = %v; want %v", c.Tampered, tt.want)
			}
			for _, name := range []string{"commondir", "hooks/post-commit"} {
				_ = os.Remove(filepath.Join(common, name))
			}
			repo.TryGit("config", "--unset", "core.fsmonitor")
		})
	}
}

// The launcher says it, in words and in the record, and puts it back.
func TestLauncherRestores(t *testing.T) {
	needLayer(t)
	repo := testenv.Self().NewRepo(t)
	wt := repo.WorktreeBeside()
	planted := filepath.Join(repo.Dir, ".git", "commondir")
	cmd := testenv.Command(t, testenv.BuildLauncher(t), "--no-cache", "--restore", "--status-fd", "3", wt.Dir, "--", "sh", "-c", `echo .. > "$0"`, planted)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	cmd.ExtraFiles = []*os.File{w}
	res := testenv.Run(t, cmd)
	_ = w.Close()
	if res.Code != 0 || !strings.Contains(res.Stderr, "warning: "+planted+" was created") || !strings.Contains(res.Stderr, "restore: "+planted) {
		t.Errorf("%v", res)
	}
	if _, err := os.Lstat(planted); err == nil {
		t.Errorf("%s is still there", planted)
	}
	var last struct {
		Event    string
		Tampered []launch.Change
	}
	for dec := json.NewDecoder(r); dec.More(); {
		if err := dec.Decode(&last); err != nil {
			t.Fatal(err)
		}
	}
	if last.Event != "exited" || len(last.Tampered) != 1 || string(last.Tampered[0].Path) != planted {
		t.Errorf("the record ends with %+v", last)
	}
}
