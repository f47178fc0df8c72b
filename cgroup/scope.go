package cgroup

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shofer-dev/shofer-sandbox/policy"
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

// scopePrefix begins the names of scopes: not as those of groups do, which a
// sweep ends when nobody has locked them.
const scopePrefix = "shofer-scope-"

// ScopeName returns a name for a transient scope that nobody else has, and by
// which a [Place.Sweep] finds what is left in it.
func ScopeName() string {
	return scopePrefix + decimal(int64(os.Getpid())) + "-" + strconv.FormatInt(time.Now().UnixNano(), 36) + "-" + decimal(counter.Add(1)) + ".scope"
}

// Scope is what the user's systemd gives.
type Scope struct {
	// Controllers are those that limits can be set by.
	Controllers []string
}

// TryScope asks the user's systemd for a transient scope with delegation, in
// which a shell says which controllers it has. It takes some fifty milliseconds.
// The error is a [*SupportError].
func TryScope(ctx context.Context) (*Scope, error) {
	run := SystemdRun()
	if run == "" {
		return nil, &SupportError{Why: "there is no systemd-run"}
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
		return nil, &SupportError{Why: "systemd-run makes no scope: " + why, Err: err}
	}
	return &Scope{strings.Fields(string(out))}, nil
}

// Holds reports whether limits can be set in the scope. The error is a
// [*SupportError].
func (s *Scope) Holds(l policy.Limits, o Options) error {
	r, err := Resources(l, o.Worktree)
	if err != nil {
		return err
	}
	if contains(s.Controllers, controllers(settingsV2(r))) {
		return nil
	}
	return &SupportError{
		Why:  "the user's systemd gives scopes with these controllers only: " + strings.Join(s.Controllers, ", "),
		Mend: delegateHint,
	}
}

// delegateHint is how a user's systemd gets more controllers.
const delegateHint = "as root, have systemd delegate them: systemctl edit user@.service, with [Service] and Delegate=cpu memory pids io"

// busTimeout is the variable that bounds each of systemd-run's calls, which ends
// after 25 seconds otherwise, and on a busy machine too soon.
const busTimeout = "SYSTEMD_BUS_TIMEOUT"

// ScopeEnv returns the environment env with what systemd-run needs to find the
// user's systemd, and the patience to wait for it.
func ScopeEnv(env []string) []string {
	env = slices.Clip(env)
	for _, v := range [][2]string{{"XDG_RUNTIME_DIR", "/run/user/" + decimal(int64(os.Geteuid()))}, {busTimeout, "120"}} {
		if !slices.ContainsFunc(env, func(e string) bool { return strings.HasPrefix(e, v[0]+"=") }) {
			env = append(env, v[0]+"="+v[1])
		}
	}
	return env
}

// ScopeVars are the variables that ScopeEnv adds, or systemd-run, which a
// command is not to see.
func ScopeVars() []string { return []string{"XDG_RUNTIME_DIR", busTimeout, "INVOCATION_ID"} }
