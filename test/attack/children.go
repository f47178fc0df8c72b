package attack

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// childAttacks are done by a process of ours.
var childAttacks = []fileAttack{
	{"child", func(p place) error { return p.inChild("open-wronly", nil) }},
	{"child-session", func(p place) error {
		return p.inChild("open-wronly", &syscall.SysProcAttr{Setsid: true})
	}},
	// A ruleset of one's own, that allows everything, is one more layer.
	{"own-ruleset", func(p place) error { return p.inChild("as-own-ruleset", nil) }},
	{"proc-child-root", func(p place) error {
		return withChild(func(pid int) error {
			return openWrite(filepath.Join("/proc", itoa(pid), "root", p.at("file")), unix.O_WRONLY)
		})
	}},
	{"proc-child-cwd", func(p place) error {
		return inside(p.dir, func() error {
			return withChild(func(pid int) error {
				return openWrite(filepath.Join("/proc", itoa(pid), "cwd", "file"), unix.O_WRONLY)
			})
		})
	}},
	{"core-dump", coreDump},
}

// asAttacks are those that only a child of ours does.
var asAttacks = []fileAttack{
	{"as-own-ruleset", func(p place) error {
		fd, err := ll.LandlockCreateRuleset(&ll.RulesetAttr{HandledAccessFS: ll.AccessFSWriteFile}, 0)
		if err != nil {
			return do("landlock_create_ruleset", err)
		}
		root, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return do("open /", err)
		}
		if err := ll.LandlockAddPathBeneathRule(fd, &ll.PathBeneathAttr{AllowedAccess: ll.AccessFSWriteFile, ParentFd: root}, 0); err != nil {
			return do("landlock_add_rule", err)
		}
		if err := ll.LandlockRestrictSelf(fd, 0); err != nil {
			return do("landlock_restrict_self", err)
		}
		return openWrite(p.at("file"), unix.O_WRONLY)
	}},
}

// asMain does one attack and reports it.
func asMain(s settings, report func(Result)) {
	for _, list := range [][]fileAttack{openAttacks, asAttacks, asMountAttacks} {
		for _, a := range list {
			if a.name == s.as {
				report(resultOf(s.as, "", a.run(place{dir: s.asDir, own: s.asOwn, s: &s})))
				return
			}
		}
	}
	report(resultOf(s.as, "", errors.New("no attack is called that")))
}

// inChild does one attack in a child with the given attributes.
func (p place) inChild(name string, attr *syscall.SysProcAttr) error {
	cmd := again("-as", name, "-as-dir", p.dir, "-as-own", p.own)
	cmd.SysProcAttr = attr
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return do("start", err)
	}
	var r Result
	if err := json.Unmarshal(out, &r); err != nil {
		return errors.New("a child said " + string(out) + errs.String())
	}
	switch {
	case r.Skip != "":
		return skipError(r.Skip)
	case r.Errno > 0:
		return do(r.Op, syscall.Errno(r.Errno))
	case r.Errno < 0:
		return errors.New(r.Text)
	}
	return nil
}

// withChild calls f while a child of ours sleeps, in a group of its own.
func withChild(f func(pid int) error) error {
	cmd := again("-sleep")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return do("pipe", err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return do("pipe", err)
	}
	if err := cmd.Start(); err != nil {
		return do("start", err)
	}
	// Before it says something it may be in the middle of its exec.
	if _, err = stdout.Read(make([]byte, 1)); err == nil {
		err = f(cmd.Process.Pid)
	}
	_ = stdin.Close() // that ends it
	_ = cmd.Wait()    // how, doesn't matter
	return err
}

// coreDump lets the kernel write: a process that dies leaves its memory in its
// working directory.
func coreDump(p place) error {
	pattern, err := os.ReadFile("/proc/sys/kernel/core_pattern")
	if err != nil {
		return do("read core_pattern", err)
	}
	if strings.ContainsAny(string(pattern), "|/") {
		return skipError("the kernel's core_pattern is " + strings.TrimSpace(string(pattern)))
	}
	cmd := exec.Command("sh", "-c", "ulimit -c unlimited && kill -SEGV $$")
	cmd.Dir = p.dir
	var dead *exec.ExitError
	if err := cmd.Run(); !errors.As(err, &dead) {
		return do("start sh", err)
	}
	ws, ok := dead.Sys().(syscall.WaitStatus)
	if !ok || !ws.Signaled() {
		return skipError("no core can be asked for: " + dead.Error())
	}
	cores, err := filepath.Glob(p.at("core*"))
	if err != nil {
		return err
	}
	if len(cores) == 0 {
		return do("core", syscall.EACCES) // nobody tells the dead
	}
	return nil
}
