package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
)

// tree is a command that starts others in ways that make them hard to find, and
// says their numbers.
const tree = `
	echo $$ >shell
	sh -c 'echo $$ >child; exec sleep 300' &
	setsid sh -c 'echo $$ >session; exec sleep 300' &
	(setsid env -i sh -c 'echo $$ >orphan; exec sleep 300' &)
	trap '' TERM HUP INT
	wait; sleep 300
`

func (p *place) treePids() []int {
	p.t.Helper()
	return []int{p.pidIn("shell"), p.pidIn("child"), p.pidIn("session"), p.pidIn("orphan")}
}

// A signal to the runner ends the command with its tree.
func TestRunSignals(t *testing.T) {
	each(t, func(t *testing.T, p *place) {
		for sig, want := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143, syscall.SIGHUP: 129} {
			t.Run(sig.String(), func(t *testing.T) {
				q := &place{p.Repo, t, p.exe}
				cmd := q.runner("run", "--kill-after", "0.3", tree)
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				pids := q.treePids()
				if err := cmd.Process.Signal(sig); err != nil {
					t.Fatal(err)
				}
				_ = cmd.Wait()
				if got := cmd.ProcessState.ExitCode(); got != want {
					t.Errorf("exit code %d; want %d", got, want)
				}
				q.gone(pids...)
				q.clear()
			})
		}
	})
}

func (p *place) clear() {
	p.t.Helper()
	for _, name := range []string{"shell", "child", "session", "orphan"} {
		if err := os.Remove(filepath.Join(p.Dir, name)); err != nil {
			p.t.Fatal(err)
		}
	}
}

// The second signal doesn't wait for a command that won't end.
func TestRunSecondSignal(t *testing.T) {
	each(t, func(t *testing.T, p *place) {
		// Two that come before the first was taken are one: so it is waited for.
		told := "trap 'echo 1 >told' INT; trap '' TERM HUP\n" + strings.Replace(tree, "trap '' TERM HUP INT\n", "", 1)
		cmd := p.runner("run", "--kill-after", "1h", told)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		pids := p.treePids()
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		p.pidIn("told")
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		if got := cmd.ProcessState.ExitCode(); got != 130 {
			t.Errorf("exit code %d; want 130", got)
		}
		p.gone(pids...)
	})
}

// Nothing is left of a command when the runner is killed.
func TestRunKilled(t *testing.T) {
	each(t, func(t *testing.T, p *place) {
		cmd := p.runner("run", tree)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		pids := p.treePids()
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		p.gone(pids...)
	})
}

// A supervisor that is killed takes its command with it, which is then reported
// as lost; what it had printed is there.
func TestSupervisorKilled(t *testing.T) {
	each(t, func(t *testing.T, p *place) {
		p.must(0, "start", "--name", "victim", "echo printed;"+tree)
		pids := p.treePids()
		var list []struct {
			Supervisor int `json:"supervisor_pid"`
		}
		if err := json.Unmarshal([]byte(p.must(0, "ps", "--json")), &list); err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		if err := syscall.Kill(list[0].Supervisor, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		p.gone(append(pids, list[0].Supervisor)...)
		if out := p.must(0, "ps", "--all"); !strings.Contains(out, "victim  lost") {
			t.Errorf("ps: %s; want it lost", out)
		}
		if out := p.must(0, "read", "victim"); out != "printed\n" {
			t.Errorf("read: %q", out)
		}
		r := p.run("wait", "victim")
		if r.Code != 125 || !strings.Contains(r.Stderr, "its supervisor was killed") {
			t.Errorf("wait: %v; want exit 125 and the reason", r)
		}
		p.must(0, "kill", "victim")
		p.must(0, "start", "--name", "victim", "true") // the name is free
	})
}

// SIGTERM to a supervisor ends its command in order.
func TestSupervisorTerminated(t *testing.T) {
	each(t, func(t *testing.T, p *place) {
		p.must(0, "start", "--name", "c", "--kill-after", "0.2", tree)
		pids := p.treePids()
		var list []struct {
			Supervisor int `json:"supervisor_pid"`
		}
		if err := json.Unmarshal([]byte(p.must(0, "ps", "--json")), &list); err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		if err := syscall.Kill(list[0].Supervisor, syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		p.gone(append(pids, list[0].Supervisor)...)
		p.must(137, "wait", "c")
	})
}

// A stopped supervisor doesn't answer, and is killed.
func TestSupervisorStopped(t *testing.T) {
	if testing.Short() {
		t.Skip("takes the patience of kill")
	}
	each(t, func(t *testing.T, p *place) {
		p.must(0, "start", "--name", "c", tree)
		pids := p.treePids()
		var list []struct {
			Supervisor int `json:"supervisor_pid"`
		}
		if err := json.Unmarshal([]byte(p.must(0, "ps", "--json")), &list); err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		if err := syscall.Kill(list[0].Supervisor, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		if out := p.must(0, "ps"); !strings.Contains(out, " c  ") {
			t.Errorf("ps: %s", out)
		}
		r := p.run("kill", "--patience", "0.3", "c")
		if r.Code != 0 || !strings.Contains(r.Stderr, "doesn't answer") {
			t.Errorf("kill: %v", r)
		}
		p.gone(append(pids, list[0].Supervisor)...)
	})
}

// Who starts a command in the background isn't kept waiting by what it
// inherits, and the command lives on when its caller is killed.
func TestStartLetsGo(t *testing.T) {
	each(t, func(t *testing.T, p *place) {
		sh := p.Command("sh", "-c", `exec 7>&1; "$0" start --name c 'echo hello >&2; exec sleep 300'; exec 7>&-; kill -9 $$`, p.exe)
		sh.WaitDelay = 30 * time.Second
		begin := time.Now()
		r := testenv.Run(t, sh)
		if r.Signal != syscall.SIGKILL || time.Since(begin) > 20*time.Second {
			t.Errorf("%v, after %v; its output was held open", r, time.Since(begin))
		}
		if out := p.must(0, "read", "--wait", "60", "c"); out != "hello\n" {
			t.Errorf("read: %q", out)
		}
		p.must(0, "kill", "c")
	})
}

// A confined command can't use another one's supervisor to get out.
func TestConfinedPeer(t *testing.T) {
	each(t, func(t *testing.T, p *place) {
		p.must(0, "start", "--name", "shell", "-i", "--no-sandbox", "sh")
		outside := filepath.Join(p.Home, "escaped")
		for _, backend := range []string{"landlock", "landlock+mountns"} {
			r := p.run("run", "--backend", backend, "--", p.exe, "write", "shell", "touch "+outside)
			if r.Code == 0 || !strings.Contains(r.Stderr, "no confined ones") {
				t.Errorf("%s: write from inside: %v; want it refused", backend, r)
			}
			if r := p.run("run", "--backend", backend, "--", p.exe, "kill", "shell"); r.Code == 0 {
				t.Errorf("%s: kill from inside: %v; want it refused", backend, r)
			}
		}
		p.must(0, "write", "shell", "echo alive")
		if out := p.must(0, "read", "--wait", "60", "shell"); out != "alive\n" {
			t.Errorf("read: %q", out)
		}
		if _, err := os.Stat(outside); err == nil {
			t.Error("the confined command got out")
		}
		p.must(0, "kill", "shell")
	})
}

// Output reaches a reader that takes its time, and all of it.
func TestRunSlowReader(t *testing.T) {
	each(t, func(t *testing.T, p *place) {
		cmd := p.Command("sh", "-c", `"$0" run 'seq 1 60000' | (sleep 5; cksum)`, p.exe)
		got := testenv.Output(t, cmd)
		want := testenv.Output(t, p.Command("sh", "-c", "seq 1 60000 | cksum"))
		if got != want {
			t.Errorf("cksum = %q; want %q", got, want)
		}
	})
}

// A reader that has seen enough ends the command as a pipe would.
func TestRunClosedPipe(t *testing.T) {
	each(t, func(t *testing.T, p *place) {
		cmd := p.Command("bash", "-c", `"$0" run yes | head -n 2; echo "${PIPESTATUS[0]}"`, p.exe)
		if out := testenv.Output(t, cmd); out != "y\ny\n141\n" {
			t.Errorf("%q; want two lines and 141", out)
		}
	})
}
