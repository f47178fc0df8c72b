package record

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/landlock"
	"github.com/shofer-dev/shofer-sandbox/launch"
	"github.com/shofer-dev/shofer-sandbox/policy"
	"golang.org/x/sys/unix"
)

// confinesVar says what the machine is known to hold; see the package comment.
const confinesVar = "SHOFER_TEST_CONFINES"

// mustConfine and mustRefuse say what the launcher's answer to a default run has
// to be on this machine; both are false where either will do.
func mustConfine() bool {
	if known := os.Getenv(confinesVar); known != "" {
		return known == "yes"
	}
	return landlock.Probe().ABI >= 3
}

func mustRefuse() bool { return os.Getenv(confinesVar) == "no" }

// refusals are the errnos by which something may be refused. What a mount or a
// namespace hides isn't there.
func refusals(p policy.Promise) []syscall.Errno {
	refused := []syscall.Errno{unix.EACCES, unix.EPERM}
	switch p {
	case policy.PromiseWrite, policy.PromiseProtect, policy.PromiseMetadata:
		// Where all that isn't read isn't there, nor is what would be written.
		return append(refused, unix.EROFS, unix.EXDEV, unix.EBUSY, unix.EBADF, unix.ENOENT)
	case policy.PromiseRead:
		return append(refused, unix.ENOENT)
	case policy.PromiseSignals:
		return append(refused, unix.ESRCH)
	case policy.PromiseAbstractSockets, policy.PromisePathSockets:
		return append(refused, unix.ECONNREFUSED, unix.ENOENT)
	case networkTCP, networkUDP:
		return append(refused, unix.EPROTONOSUPPORT, unix.EAFNOSUPPORT, unix.ENETUNREACH, unix.ECONNREFUSED)
	}
	return refused
}

// profile is a way to call the launcher.
type profile struct {
	name    string
	options []string
	// network are the attempts that its limits of the network forbid.
	network []string
	// without are the controls that it takes away.
	without []string
}

var (
	tcpConnect = []string{"network-tcp-connect", "network-tcp-connect-mptcp"}
	tcpBind    = []string{"network-tcp-bind"}
	udp        = []string{"network-udp-connect", "network-udp-bind", "network-udp-send"}
)

var profiles = []profile{
	{name: "default", options: []string{}},
	{name: "best-effort", options: []string{"--best-effort"}},
	{
		name: "read-only", options: []string{"--mode", "read-only"},
		without: []string{"change", "truncate", "move", "special", "own-socket", "tmp"},
	},
	{name: "read", options: []string{"--read", "system"}},
	{name: "connect-tcp", options: []string{"--connect-tcp", "none"}, network: tcpConnect},
	{
		// Who may bind no port may not listen on any socket.
		name: "bind-tcp", options: []string{"--bind-tcp", "none"}, network: tcpBind,
		without: []string{"listen", "own-socket", "own-abstract-socket"},
	},
	{name: "udp", options: []string{"--connect-udp", "none", "--bind-udp", "none"}, network: udp},
	{
		name: "no-network", options: []string{"--net", "none"}, network: slices.Concat(tcpConnect, tcpBind, udp),
		without: []string{"listen"},
	},
}

// Without the launcher, all that is attempted can be done.
func TestUnconfined(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		s := newScene(t, u).fresh(t)
		r, _, outcomes := s.attempt(nil)
		if r.Code != 0 {
			t.Fatalf("attempts: %v", r)
		}
		for _, o := range outcomes {
			if o.Skipped || o.Errno == unix.EPROTONOSUPPORT { // a kernel without MPTCP
				continue
			}
			if o.Text != "" {
				t.Errorf("%s %s can't be done even unconfined: %s", o.Promise, o.What, o.Text)
			}
		}
		if n := s.stop(); n == 0 {
			t.Error("no signal reached the bystander")
		}
	})
}

// What the status record calls enforced is.
func TestRecordIsTrue(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		repo := newScene(t, u)
		for _, p := range profiles {
			t.Run(p.name, func(t *testing.T) {
				s := repo.fresh(t)
				before := contents(t, s.Outside)
				options := p.options
				if p.name == "read" { // the attempting program, wherever it lies
					options = append(slices.Clone(options), "--read", filepath.Dir(u.Helper(t, "attempt").Path))
				}
				r, rec, outcomes := s.attempt(options)
				said, code := s.explain(options...)
				if r.Code == launch.ExitSetup {
					checkRefusal(t, r, rec, said, code)
					if p.name == "default" && mustConfine() {
						t.Errorf("this machine is one to confine on: %v", r)
					}
					return
				}
				if r.Code != 0 {
					t.Fatalf("the launcher: %v", r)
				}
				if p.name == "default" && mustRefuse() {
					t.Errorf("this machine is one to refuse on, and the record says %+v", rec.applied.Features)
				}
				checkApplied(t, rec, said, code)
				held := p.check(t, rec.applied.Features, outcomes)
				if p.name == "best-effort" && mustConfine() && !held[policy.PromiseWrite] {
					t.Error("the best effort does not hold writes, and the default does")
				}
				if t.Failed() {
					t.Logf("standard error: %s", r.Stderr)
				}
				if held[policy.PromiseWrite] {
					if after := contents(t, s.Outside); after != before {
						t.Errorf("outside, before:\n%s\nafter:\n%s", before, after)
					}
				}
				if n := s.stop(); held[policy.PromiseSignals] && n != 0 {
					t.Errorf("%d signals reached the bystander", n)
				}
			})
		}
	})
}

// check compares what came of the attempts with what is called enforced, and
// returns that.
func (p profile) check(t *testing.T, features []policy.Feature, outcomes []outcome) map[policy.Promise]bool {
	t.Helper()
	held := map[policy.Promise]bool{}
	for _, f := range features {
		held[f.Promise] = held[f.Promise] || f.State == policy.Enforced // one may have two entries
	}
	tried := map[policy.Promise]int{}
	without := p.without
	for _, f := range features {
		if f.Promise == policy.PromiseWrite && f.State == policy.Enforced && f.Why != "" {
			t.Logf("write is held at a price: %s", f.Why)
			// A price counts if it is named.
			for control, word := range map[string]string{"truncate": "truncate", "move": "rename"} {
				if strings.Contains(f.Why, word) {
					without = append(slices.Clone(without), control)
				}
			}
		}
	}
	for _, o := range outcomes {
		switch {
		case o.Skipped:
			t.Logf("%s %s: nothing to try it on", o.Promise, o.What)
		case o.Promise == control:
			if o.Text != "" && !slices.Contains(without, o.What) {
				t.Errorf("%s can't be done inside: %s", o.What, o.Text)
			}
		case !held[o.Promise] && (!held[policy.PromiseNetwork] || !slices.Contains(p.network, string(o.Promise)+"-"+o.What)):
		case o.Text == "":
			t.Errorf("%s is called enforced, and %s was done", o.Promise, o.What)
		case !slices.Contains(refusals(o.Promise), o.Errno):
			t.Errorf("%s %s failed, but not as a refusal: %s", o.Promise, o.What, o.Text)
		default:
			tried[o.Promise]++
		}
	}
	t.Logf("refused: %v", tried)
	return held
}

// A launcher that finds out only by trying that a mechanism doesn't work says
// anew what it goes on with.
var (
	ranEvents     = regexp.MustCompile(`^(applied )*applied( started exited)?$`)
	refusedEvents = regexp.MustCompile(`^(applied )*setup-failed$`)
)

// checkApplied holds the record against the machine and against --explain.
func checkApplied(t *testing.T, rec record, said launch.Applied, code int) {
	t.Helper()
	if !ranEvents.MatchString(rec.events) {
		t.Errorf("events = %q; want applied, and started and exited if there is a parent", rec.events)
	}
	if code != 0 || len(said.Unmet) > 0 {
		t.Errorf("the command ran, but --explain exits %d and finds %v unmet", code, said.Unmet)
	}
	if got, want := states(rec.applied.Features), states(said.Features); got != want {
		t.Errorf("the record says %s, --explain says %s", got, want)
	}
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		t.Fatal(err)
	}
	s := landlock.Probe()
	if k := rec.applied.Kernel; k.Release != unix.ByteSliceToString(u.Release[:]) || k.LandlockABI != s.ABI || k.Why != s.Reason() {
		t.Errorf("kernel = %+v; want %s with ABI %d", k, u.Release[:], s.ABI)
	}
	for _, f := range rec.applied.Features {
		if (f.State != policy.Absent) != (f.By != "") || f.State != policy.Enforced && f.Why == "" {
			t.Errorf("feature %+v: by what, or why not?", f)
		}
	}
}

// checkRefusal holds a refusal to its form: nothing ran, the promises are named
// and so is what would mend it.
func checkRefusal(t *testing.T, r testenv.Result, rec record, said launch.Applied, code int) {
	t.Helper()
	if r.Stdout != "" || !refusedEvents.MatchString(rec.events) {
		t.Errorf("refused, and yet: stdout %q, events %q", r.Stdout, rec.events)
	}
	if rec.failed.Code != launch.ExitSetup || rec.failed.Stage != launch.StageProbe {
		t.Errorf("record of the refusal = %+v; want exit code 125 and the stage probe", rec.failed)
	}
	if code != launch.ExitSetup || len(said.Unmet) == 0 {
		t.Errorf("refused, but --explain exits %d and finds %v unmet", code, said.Unmet)
	}
	for _, f := range said.Features {
		if !slices.Contains(said.Unmet, f.Promise) {
			continue
		}
		quoted := fmt.Sprintf("%q", f.Promise)
		for _, text := range []string{r.Stderr, rec.failed.Error} {
			if !strings.Contains(text, quoted) || !strings.Contains(text, f.Why) {
				t.Errorf("the refusal doesn't name %s and %q: %s", quoted, f.Why, text)
			}
		}
		for _, text := range []string{r.Stderr, rec.failed.Hint} {
			if f.Mend == "" || !strings.Contains(text, f.Mend) {
				t.Errorf("the refusal of %s doesn't name the mend %q: %s", quoted, f.Mend, text)
			}
		}
	}
}

func states(features []policy.Feature) string {
	var list []string
	for _, f := range features {
		list = append(list, fmt.Sprintf("%s %s", f.Promise, f.State))
	}
	return strings.Join(list, ", ")
}

// contents describes the files beneath a folder.
func contents(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fmt.Fprint(&b, path, " ", e.Type())
		if e.Type().IsRegular() {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, " %q", text)
		}
		b.WriteByte('\n')
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// A promise that is required is held, or the run is refused because of it.
func TestRequire(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		s := newScene(t, u)
		said, _ := s.explain("--best-effort")
		for _, f := range said.Features {
			options := []string{"--best-effort", "--require", string(f.Promise)}
			if f.State == policy.Absent {
				// What isn't held otherwise may be held when it is asked for.
				with, _ := s.explain(options...)
				for _, g := range with.Features {
					if g.Promise == f.Promise {
						f = g
					}
				}
			}
			cmd := u.Command(t, "/bin/true")
			recorded := s.confine(cmd, options)
			s.environ(cmd)
			r := testenv.Run(t, cmd)
			rec := recorded()
			switch held := f.State != policy.Absent; {
			case held && r.Code != 0:
				t.Errorf("%s is held, but required: %v", f.Promise, r)
			case !held && r.Code != launch.ExitSetup:
				t.Errorf("%s is not held, but required: %v", f.Promise, r)
			case !held:
				if !strings.Contains(r.Stderr, fmt.Sprintf("%q", f.Promise)) || !strings.Contains(r.Stderr, f.Mend) || !refusedEvents.MatchString(rec.events) {
					t.Errorf("required %s: %v, events %q; want it and its mend %q named", f.Promise, r, rec.events, f.Mend)
				}
			}
		}
	})
}

// Each path that the record says can be written to can.
func TestRulesAreTrue(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		s := newScene(t, u)
		probe := u.Command(t, "/bin/true")
		recorded := s.confine(probe, []string{"--best-effort"})
		s.environ(probe)
		testenv.Output(t, probe)
		rec := recorded()
		var paths []string
		for _, rule := range rec.applied.Rules {
			// A descriptor of the run itself is gone; there may be no terminal.
			if slices.Contains(rule.Access, "write") && rule.Origin != "stdio" && rule.Path != "/dev/tty" && rule.Path != "/dev/pts" {
				paths = append(paths, string(rule.Path))
			}
		}
		if rec.applied.Backend != launch.BackendNone && !slices.Contains(paths, s.Tree) {
			t.Errorf("the worktree %s is not among what can be written to: %q", s.Tree, paths)
		}
		for _, skipped := range rec.applied.Skipped {
			if _, err := os.Lstat(string(skipped.Path)); err == nil {
				t.Errorf("%s was skipped, and is there: %s", skipped.Path, skipped.Why)
			}
		}
		cmd := u.Helper(t, "write", paths...)
		s.confine(cmd, []string{"--best-effort"})
		s.environ(cmd)
		if r := testenv.Run(t, cmd); r.Code != 0 {
			t.Errorf("not all of %q can be written to: %v", paths, r)
		}
	})
}

// In a linked worktree a commit works, and a write beside it does not.
func TestCommit(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		s := newScene(t, u)
		git := func(args ...string) testenv.Result {
			cmd := s.repo.Command("git", args...)
			s.confine(cmd, nil)
			return testenv.Run(t, cmd)
		}
		s.repo.Write("README", "changed\n")
		if r := git("add", "--all"); r.Code == launch.ExitSetup && !mustConfine() {
			if staged := s.repo.Git("diff", "--cached", "--name-only"); staged != "" {
				t.Errorf("refused, and yet staged: %s", staged)
			}
			return
		} else if r.Code != 0 {
			t.Fatalf("git add inside: %v", r)
		}
		if r := git("commit", "--quiet", "--message", "from inside"); r.Code != 0 {
			t.Fatalf("git commit inside: %v", r)
		}
		if head := s.repo.Git("log", "-1", "--format=%s"); head != "from inside" {
			t.Errorf("the last commit is %q", head)
		}
		beside := filepath.Join(filepath.Dir(s.Common), "README")
		cmd := u.Command(t, "/bin/sh", "-c", `echo bad >>"$1"`, "sh", beside)
		s.confine(cmd, nil)
		s.environ(cmd)
		if r := testenv.Run(t, cmd); r.Code == 0 || r.Code == launch.ExitSetup {
			t.Errorf("a write to the repository beside: %v; want the shell's failure", r)
		}
		if text, err := os.ReadFile(beside); err != nil || string(text) != "read me\n" {
			t.Errorf("%s = %q, %v", beside, text, err)
		}
	})
}

// How a command ends is how the launcher ends.
func TestExitCodes(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		s := newScene(t, u)
		noexec := filepath.Join(s.Tree, "README")
		for _, tt := range []struct {
			argv   []string
			code   int
			signal syscall.Signal
		}{
			{[]string{"/bin/sh", "-c", "exit 7"}, 7, 0},
			{[]string{"/bin/sh", "-c", "kill -TERM $$"}, -1, unix.SIGTERM},
			{[]string{"/nonexistent"}, launch.ExitNotFound, 0},
			{[]string{noexec}, launch.ExitCannotExec, 0},
		} {
			cmd := u.Command(t, tt.argv[0], tt.argv[1:]...)
			s.confine(cmd, []string{"--best-effort"})
			s.environ(cmd)
			r := testenv.Run(t, cmd)
			// A launcher that stays as a parent exits with 128 and the signal.
			if r.Code != tt.code || r.Signal != tt.signal {
				if tt.signal == 0 || r.Code != 128+int(tt.signal) {
					t.Errorf("%q: %v; want exit %d, signal %d", tt.argv, r, tt.code, tt.signal)
				}
			}
		}
	})
}
