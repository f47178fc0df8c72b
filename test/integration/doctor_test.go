package integration

import (
	"encoding/json"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/shofer-dev/shofer-sandbox/bwrap"
	"github.com/shofer-dev/shofer-sandbox/internal/tamper"
	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/launch"
	"github.com/shofer-dev/shofer-sandbox/policy"
)

// doctorOf runs --doctor, as text and as JSON, below the programs in front, and
// checks that both say the same.
func (s *stage) doctorOf(t *testing.T, front []string, args ...string) (*launch.Report, testenv.Result) {
	t.Helper()
	run := func(options ...string) testenv.Result {
		t.Helper()
		line := slices.Concat(front, []string{s.launcher, "--doctor"}, options, args)
		r := testenv.Run(t, s.command(line[0], line[1:]...))
		if r.Stderr != "" {
			t.Errorf("%q wrote to standard error: %v", line, r)
		}
		return r
	}
	text, js := run(), run("--json")
	var report launch.Report
	dec := json.NewDecoder(strings.NewReader(js.Stdout))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&report); err != nil {
		t.Fatalf("--doctor --json: %v, %v", err, js)
	}
	want := 1
	if report.Full() {
		want = 0
	}
	if text.Code != want || js.Code != want {
		t.Errorf("--doctor exits with %d, with --json %d; want %d", text.Code, js.Code, want)
	}
	rows := map[string]string{}
	for line := range strings.Lines(text.Stdout) {
		if f := strings.Fields(line); len(f) > 1 && strings.HasPrefix(line, "  ") {
			rows[f[0]+" "+f[1]] = line
		}
	}
	for _, h := range report.Promises {
		row, says := rows[string(h.Promise)+" "+string(h.State)], h.Why
		if h.State != policy.Absent {
			says = "by " + h.By
		}
		if !strings.Contains(row, says) {
			t.Errorf("--doctor says %q of %s; --json says %+v", row, h.Promise, h)
		}
		if h.State == policy.Absent && h.Mend != "" && !strings.Contains(text.Stdout, h.Mend) {
			t.Errorf("--doctor lacks the mend for %s: %s", h.Promise, h.Mend)
		}
	}
	for _, c := range slices.Concat(report.Mechanisms, report.Checks) {
		if row := rows[c.Name+" "+string(c.Grade)]; !strings.Contains(row, c.Text) || !strings.Contains(text.Stdout, c.Mend) {
			t.Errorf("--doctor says %q of %s; --json says %+v", row, c.Name, c)
		}
	}
	return &report, text
}

func promise(t *testing.T, r *launch.Report, p policy.Promise) launch.Held {
	t.Helper()
	i := slices.IndexFunc(r.Promises, func(h launch.Held) bool { return h.Promise == p })
	if i < 0 {
		t.Fatalf("the report lacks %s", p)
	}
	return r.Promises[i]
}

func named(t *testing.T, list []launch.Check, name string) launch.Check {
	t.Helper()
	i := slices.IndexFunc(list, func(c launch.Check) bool { return c.Name == name })
	if i < 0 {
		t.Fatalf("the report lacks %s", name)
	}
	return list[i]
}

// TestDoctor: it says what a run says of the same promises, and changes nothing.
func TestDoctor(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		s := newStage(t, u)
		repo := u.NewRepoAt(t, s.base+"/repo")
		work := repo.WorktreeBeside()
		tmp := s.base + "/temporary"
		s.mkdir(tmp)
		s.env = []string{"TMPDIR=" + tmp}
		before := snapshot(t, s.tree, s.home, repo.Dir, work.Dir)
		r, _ := s.doctorOf(t, nil)
		if r.Repo != nil {
			t.Errorf("a repository without a worktree: %+v", r.Repo)
		}
		r, _ = s.doctorOf(t, nil, work.Dir)
		if r.Repo == nil || r.Repo.Kind != policy.RepoLinked || !r.Repo.Trusted || string(r.Repo.CommonDir) != repo.Dir+"/.git" {
			t.Errorf("repository %+v; want that of %s", r.Repo, work.Dir)
		}
		before.same(t, snapshot(t, s.tree, s.home, repo.Dir, work.Dir))
		if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}

		run := testenv.Run(t, s.launch("--explain", "--json", work.Dir))
		var a launch.Applied
		if err := json.Unmarshal([]byte(run.Stdout), &a); err != nil {
			t.Fatal(err)
		}
		if a.Backend != r.Backend {
			t.Errorf("backend %s; a run has %s", r.Backend, a.Backend)
		}
		for _, f := range a.Features {
			h := promise(t, r, f.Promise)
			if !h.Default || h.With == "" && f.State != policy.VerifiedAfter && h.State != f.State {
				t.Errorf("%s: %+v; a run has %+v", f.Promise, h, f)
			}
		}
		for _, args := range [][]string{{"nonexistent"}, {"--json", "nonexistent"}, {"--rw", ".", "."}, {".", "--", "true"}} {
			r := testenv.Run(t, s.launch(append([]string{"--doctor"}, args...)...))
			if says := ownOutput(t, r); r.Code != 125 || says.err == "" || r.Stdout != "" {
				t.Errorf("--doctor %q: %v; want exit 125 and an error", args, r)
			}
		}
	})
}

// TestDoctorOldKernel: what an older Landlock doesn't hold is named with what
// would hold it, unless bubblewrap does.
func TestDoctorOldKernel(t *testing.T) {
	sim := buildProgram(t, "./test/llsim")
	boxes := bwrap.Probe(t.Context(), "").Usable()
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		s := newStage(t, u)
		for _, tt := range []struct{ abi, why, mend string }{
			{"0", "has no Landlock", "6.2"},
			{"off", "not switched on at boot", "lsm="},
			{"2", "truncate(2)", "6.2"},
		} {
			r, text := s.doctorOf(t, []string{sim, "-abi", tt.abi, "--"})
			h, m := promise(t, r, policy.PromiseWrite), named(t, r.Mechanisms, "landlock")
			c := named(t, r.Checks, "start")
			switch {
			case boxes && (h.State != policy.Enforced || h.By != bwrap.Name || c.Grade != launch.OK || r.Backend != launch.BackendBwrap):
				t.Errorf("ABI %s: write = %+v, start = %+v; want it enforced by bwrap", tt.abi, h, c)
			case !boxes && (h.State != policy.Absent || !strings.Contains(h.Why, tt.why) || h.Mend == "" || c.Grade != launch.Fault):
				t.Errorf("ABI %s: write = %+v, start = %+v; want it absent, since %q", tt.abi, h, c, tt.why)
			}
			if m.Grade != launch.Fault || !strings.Contains(m.Text, tt.why) || !strings.Contains(m.Mend, tt.mend) {
				t.Errorf("ABI %s: landlock = %+v; want %q and %q", tt.abi, m, tt.why, tt.mend)
			}
			if text.Code != 1 {
				t.Errorf("ABI %s: exit %d; want 1", tt.abi, text.Code)
			}
		}
	})
}

// TestDoctorNoNamespaces: without user namespaces an ordinary user has no mount
// layer, and is told what takes them away.
func TestDoctorNoNamespaces(t *testing.T) {
	u := testenv.Ordinary()
	s := newStage(t, u)
	for _, tt := range []struct {
		program string
		args    []string
		why     string
	}{
		{"./test/llsim", []string{"-no-userns", "--"}, ""},
		{"./test/nouserns", []string{"--"}, "max_user_namespaces"},
	} {
		front := append([]string{buildProgram(t, tt.program)}, tt.args...)
		r, _ := s.doctorOf(t, front)
		m, c := named(t, r.Mechanisms, "mountns"), named(t, r.Checks, "user-namespaces")
		if m.Grade != launch.Fault || m.Mend == "" || !strings.Contains(m.Text, tt.why) || c.Grade != launch.Fault {
			t.Errorf("%s: mountns = %+v, user namespaces = %+v; want gaps with a mend", tt.program, m, c)
		}
		if b := named(t, r.Mechanisms, "bwrap"); b.Grade == launch.OK {
			t.Errorf("%s: bwrap = %+v", tt.program, b)
		}
		if h := promise(t, r, policy.PromiseWrite); h.State != policy.Enforced {
			t.Errorf("%s: write = %+v; want it enforced all the same", tt.program, h)
		}
		for _, p := range []policy.Promise{policy.PromiseMetadata, policy.PromiseHide, policy.PromisePrivateTmp} {
			if h := promise(t, r, p); h.State != policy.Absent || h.With != "" || h.Why == "" || h.Mend != m.Mend {
				t.Errorf("%s: %s = %+v; want it absent, with the mend for mounts", tt.program, p, h)
			}
		}
		if c := named(t, r.Checks, "ssh"); c.Grade != launch.OK {
			t.Errorf("%s: ssh = %+v; without a namespace there is no trap", tt.program, c)
		}
	}
}

// TestDoctorMachine: what makes commands fail here is named.
func TestDoctorMachine(t *testing.T) {
	u := testenv.Ordinary()
	s := newStage(t, u)
	s.need("unshare", "mount", "sh")
	in := []string{"unshare", "--user", "--map-root-user", "--mount", "sh", "-c"}
	if r := testenv.Run(t, s.command(in[0], append(in[1:], "true")...)); r.Code != 0 {
		testenv.Skip(t, "needs user namespaces: %v", r)
	}
	tmp := s.base + "/temporary"
	s.mkdir(tmp)
	s.env = []string{"TMPDIR=" + tmp}
	r, _ := s.doctorOf(t, append(in, `mount -t tmpfs -o noexec none "$TMPDIR" && exec "$@"`, "sh"))
	if c := named(t, r.Checks, "tmp"); c.Grade != launch.Fault || !strings.Contains(c.Text, "noexec") || !strings.Contains(c.Mend, "GOTMPDIR") {
		t.Errorf("tmp = %+v; want a gap: noexec", c)
	}
	if h := promise(t, r, policy.PromiseWrite); h.State != policy.Enforced {
		t.Errorf("write = %+v; a folder from which nothing is executed changes nothing about it", h)
	}

	s.env = []string{"XDG_CACHE_HOME=/proc/nowhere", "container=example"}
	r, _ = s.doctorOf(t, nil)
	if c := named(t, r.Checks, "cache"); c.Grade != launch.Fault || !strings.Contains(c.Mend, "XDG_CACHE_HOME") {
		t.Errorf("cache = %+v; want a gap", c)
	}
	if c := named(t, r.Checks, "container"); c.Grade != launch.Info {
		t.Errorf("container = %+v", c)
	}

	s.env = nil
	r, _ = s.doctorOf(t, append(in, `mount -t tmpfs none /proc && exec "$@"`, "sh"))
	if c := named(t, r.Checks, "proc"); c.Grade != launch.Fault || !strings.Contains(c.Mend, "mount -t proc") {
		t.Errorf("proc = %+v; want a gap", c)
	}

	r, _ = s.doctorOf(t, []string{s.launcher, ".", "--"})
	if c, m := named(t, r.Checks, "confined"), named(t, r.Mechanisms, "mountns"); c.Grade != launch.Info || m.Grade != launch.Fault || !strings.Contains(m.Mend, "outside the sandbox") {
		t.Errorf("in a sandbox: confined = %+v, mountns = %+v", c, m)
	}
}

// TestDoctorSSH: copies are laid over the files that ssh refuses where they look
// like nobody's, or, without a place for copies, the files are named.
func TestDoctorSSH(t *testing.T) {
	u := testenv.Ordinary()
	s := newStage(t, u)
	s.need("unshare", "mount", "sh")
	folder := s.base + "/ssh_config.d"
	s.mkdir(folder)
	id := strconv.Itoa(u.UID)
	front := []string{
		"unshare", "--user", "--map-root-user", "--mount", "sh", "-c",
		`mount --bind "$0" /etc/ssh/ssh_config.d && exec unshare --user --map-user=` + id + ` --map-group=` + id + ` "$@"`, folder,
	}
	if r := testenv.Run(t, s.command(front[0], append(front[1:], "true")...)); r.Code != 0 {
		testenv.Skip(t, "needs user namespaces in one another, and /etc/ssh/ssh_config.d: %v", r)
	}
	r, _ := s.doctorOf(t, front)
	if c := named(t, r.Checks, "ssh"); c.Grade != launch.OK {
		t.Errorf("an empty folder: ssh = %+v", c)
	}
	s.write(folder+"/example.conf", "Host example\n  Port 77\n", 0o644)
	r, _ = s.doctorOf(t, front)
	if c := named(t, r.Checks, "ssh"); c.Grade != launch.OK || !strings.Contains(c.Text, "copies") {
		t.Errorf("ssh = %+v; want copies", c)
	}
	r, _ = s.doctorOf(t, append([]string{"env", "-u", "HOME", "-u", "XDG_CACHE_HOME"}, front...))
	c := named(t, r.Checks, "ssh")
	if c.Grade != launch.Fault || !strings.Contains(c.Text, "/etc/ssh/ssh_config.d/example.conf") || !strings.Contains(c.Mend, "HOME") {
		t.Errorf("ssh = %+v; want a gap that names the file", c)
	}
	if r.Backend != launch.BackendMountns || promise(t, r, policy.PromiseWrite).State != policy.Enforced {
		t.Errorf("backend %s, %+v; want it to matter to nothing else", r.Backend, promise(t, r, policy.PromiseWrite))
	}
}

// TestDoctorSockets: a socket within reach is listed.
func TestDoctorSockets(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		s := newStage(t, u)
		path := s.base + "/docker.sock"
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		s.chown(path)
		s.env = []string{"XDG_RUNTIME_DIR=" + s.base}
		r, text := s.doctorOf(t, nil)
		if !slices.Contains(r.Sockets, launch.Socket{Path: policy.Path(path), What: "Docker"}) || !strings.Contains(text.Stdout, path) {
			t.Errorf("sockets %v; want %s\n%s", r.Sockets, path, text.Stdout)
		}
	})
}

// TestVerify: it finds what a command could have planted, runs nothing of it,
// and the exit code says whether there is anything.
func TestVerify(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		s := newStage(t, u)
		repo := u.NewRepoAt(t, s.base+"/repo")
		verify := func(code int) (findings []tamper.Finding, text testenv.Result) {
			t.Helper()
			text = testenv.Run(t, s.launch("--verify", repo.Dir))
			js := testenv.Run(t, s.launch("--verify", "--json", repo.Dir))
			var v struct {
				Worktree   policy.Path      `json:"worktree"`
				Suspicious bool             `json:"suspicious"`
				Findings   []tamper.Finding `json:"findings"`
				Look       string           `json:"look"`
			}
			dec := json.NewDecoder(strings.NewReader(js.Stdout))
			dec.DisallowUnknownFields()
			if err := dec.Decode(&v); err != nil {
				t.Fatalf("--verify --json: %v, %v", err, js)
			}
			if text.Code != code || js.Code != code || v.Suspicious != (code == 1) || string(v.Worktree) != repo.Dir {
				t.Errorf("--verify: %v, with --json %v; want exit %d", text, js, code)
			}
			for _, f := range v.Findings {
				if !strings.Contains(text.Stdout, f.String()) || !strings.Contains(text.Stdout, f.Look) {
					t.Errorf("--verify lacks %v: %v", f, text)
				}
			}
			return v.Findings, text
		}
		before := snapshot(t, repo.Dir)
		if _, text := verify(0); !strings.Contains(text.Stdout, "nothing suspicious") {
			t.Errorf("--verify of a new repository: %v", text)
		}
		before.same(t, snapshot(t, repo.Dir))

		repo.Git("config", "core.fsmonitor", "touch "+s.outside+"/ran")
		before = snapshot(t, repo.Dir)
		found, text := verify(1)
		if !slices.ContainsFunc(found, func(f tamper.Finding) bool { return f.Key == "core.fsmonitor" && f.Severity == tamper.Danger }) {
			t.Errorf("--verify found %v; want core.fsmonitor", found)
		}
		if !strings.Contains(text.Stdout, "-c core.fsmonitor=false") {
			t.Errorf("--verify doesn't say how to look: %v", text)
		}
		before.same(t, snapshot(t, repo.Dir))
		if _, err := os.Lstat(s.outside + "/ran"); err == nil {
			t.Error("--verify ran what it found")
		}
		for _, args := range [][]string{{}, {"nonexistent"}, {"--doctor", "."}, {".", "true"}} {
			r := testenv.Run(t, s.launch(append([]string{"--verify"}, args...)...))
			if says := ownOutput(t, r); r.Code != 125 || says.err == "" || r.Stdout != "" {
				t.Errorf("--verify %q: %v; want exit 125 and an error", args, r)
			}
		}
	})
}

// TestLook: a command can plant what even a careful git executes. The warning
// says to look first, and what --verify says to run executes it confined.
func TestLook(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		s := newStage(t, u)
		repo := u.NewRepoAt(t, s.base+"/repo")
		planted := s.outside + "/ran"
		r := testenv.Run(t, s.launch(repo.Dir, "--", "sh", "-c", `cd "$0" && git init -q --bare evil &&
			cp -r .git/objects .git/refs evil/ && mkdir -p evil/info && echo '* filter=x' >evil/info/attributes &&
			git -C evil config filter.x.clean "touch $1; cat" && echo "$0/evil" >.git/commondir`, repo.Dir, planted))
		if says := ownOutput(t, r); r.Code != 0 || !strings.HasSuffix(says.hint, "shofer-sandbox --verify "+repo.Dir) {
			t.Fatalf("%v; want a hint to look by --verify", r)
		}
		r = testenv.Run(t, s.launch("--verify", repo.Dir))
		_, look, found := strings.Cut(r.Stdout, "\n  shofer-sandbox ")
		if r.Code != 1 || !found {
			t.Fatalf("--verify: %v; want a command to look by", r)
		}
		git := func(line string) testenv.Result {
			t.Helper()
			later := time.Now().Add(time.Second) // git has to read what is newer than its index
			if err := os.Chtimes(repo.Dir+"/README", later, later); err != nil {
				t.Fatal(err)
			}
			return testenv.Run(t, s.command("sh", "-c", line))
		}
		if r := git("exec " + s.launcher + " " + look); r.Code != 0 || !strings.Contains(r.Stderr, planted) {
			t.Errorf("%v; want the filter to run and to be refused its write", r)
		}
		if _, err := os.Lstat(planted); err == nil {
			t.Error("what --verify says to run wrote outside")
		}
		if r := git("git -C " + repo.Dir + " -c core.fsmonitor=false -c core.hooksPath=/dev/null status"); r.Code != 0 {
			t.Errorf("git status: %v", r)
		}
		if _, err := os.Lstat(planted); err != nil {
			t.Errorf("git status without the launcher did not run the filter: %v", err)
		}
	})
}
