package cgroup

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// scopeLimit bounds what asks systemd for a scope.
const scopeLimit = 10 * time.Second

// scopeAvailable reports whether systemd runs for this user, with the program
// that asks it for a scope.
func scopeAvailable() bool {
	dir := "/run/user/" + decimal(int64(os.Geteuid()))
	return SystemdRun() != "" && unix.Access(dir+"/systemd/private", unix.F_OK) == nil
}

// SystemdRun returns the program that asks systemd for a scope, "" if there is
// none in the system's folders.
func SystemdRun() string {
	for _, name := range []string{"/usr/bin/systemd-run", "/bin/systemd-run"} {
		if unix.Access(name, unix.X_OK) == nil {
			return name
		}
	}
	return ""
}

// TryScope finds out whether the user's systemd gives a transient scope that
// limits can be set in, by having a shell say which controllers it has there. It
// takes some fifty milliseconds. The error is a [*SupportError].
func TryScope(ctx context.Context) error {
	run := SystemdRun()
	if run == "" {
		return &SupportError{Why: "there is no systemd-run"}
	}
	ctx, cancel := context.WithTimeout(ctx, scopeLimit)
	defer cancel()
	const script = `read -r line </proc/self/cgroup && cat "/sys/fs/cgroup${line#0::}/cgroup.controllers"`
	cmd := exec.CommandContext(ctx, run, "--user", "--scope", "--quiet", "--collect", "--property=Delegate=yes", "--", "/bin/sh", "-c", script)
	cmd.Env = ScopeEnv(os.Environ())
	cmd.Dir = "/"
	cmd.WaitDelay = time.Second
	var words bytes.Buffer
	cmd.Stderr = &words
	out, err := cmd.Output()
	if err != nil {
		why := strings.TrimSpace(words.String())
		if why == "" {
			why = err.Error()
		}
		return &SupportError{Why: "systemd-run makes no scope: " + why, Err: err}
	}
	have := strings.Fields(string(out))
	if !contains(have, []string{"memory", "pids", "cpu"}) {
		return &SupportError{
			Why:  "the user's systemd gives scopes with these controllers only: " + strings.Join(have, ", "),
			Mend: "as root: systemctl edit user@.service, with [Service] Delegate=cpu memory pids io",
		}
	}
	return nil
}

// ScopeEnv returns the environment env with what systemd-run needs to find the
// user's systemd.
func ScopeEnv(env []string) []string {
	const runtimeDir = "XDG_RUNTIME_DIR="
	for _, e := range env {
		if strings.HasPrefix(e, runtimeDir) {
			return env
		}
	}
	return append(env[:len(env):len(env)], runtimeDir+"/run/user/"+decimal(int64(os.Geteuid())))
}
