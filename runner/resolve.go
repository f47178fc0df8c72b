package runner

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/shofer-dev/shofer-sandbox/runner/environ"
	"github.com/shofer-dev/shofer-sandbox/runner/intercept"
)

// maxArg is from how many bytes on the kernel refuses an argument, its NUL
// included: MAX_ARG_STRLEN of linux/binfmts.h, with pages of 4 KiB.
const maxArg = 128 << 10

// Resolve turns a request into a spec. It runs nothing. Errors are
// [ErrEmptyCommand], [ErrInvalidInput], among these [*DirError], and
// [*BlockedError].
func (r *Runner) Resolve(q Request) (*Spec, error) {
	s := &Spec{
		Label: q.Label, Owner: q.Owner, Authority: r.authority,
		Stdin: q.Stdin, OpenStdin: q.OpenStdin, Terminal: q.Terminal,
		StopBound: r.config.StopBound, DrainIdle: r.config.DrainIdle, DrainMax: r.config.DrainMax,
		Merge: q.Merge || q.Terminal != nil, Stdout: q.Stdout, Stderr: q.Stderr,
	}
	for _, step := range []func(*Spec, *Request) error{
		r.resolveCommand, r.resolveDir, r.resolveTimeouts, r.resolveEnding, r.resolveCapture, r.resolveEnv,
	} {
		if err := step(s, &q); err != nil {
			return nil, err
		}
	}
	s.Label = s.title()
	return s, nil
}

func (r *Runner) resolveCommand(s *Spec, q *Request) error {
	command := intercept.Trim(q.Command)
	switch {
	case command == "" && len(q.Argv) == 0:
		return ErrEmptyCommand
	case command != "" && len(q.Argv) > 0:
		return invalid("both a command and an argv are given")
	case strings.IndexByte(command, 0) >= 0 || slices.ContainsFunc(q.Argv, hasNUL):
		return invalid("the command has a NUL byte")
	case len(q.Argv) > 0:
		if q.Argv[0] == "" {
			return ErrEmptyCommand
		}
		if q.PipeStatus {
			return invalid("a program that is run without a shell has no stages")
		}
		s.Argv = slices.Clone(q.Argv)
		s.origin("argv", fmt.Sprintf("%q", s.Argv), FromRequest, "")
		return nil
	}
	command, err := r.route(s, command)
	if err != nil {
		return err
	}
	shell, from := q.Shell, FromRequest
	if len(shell) == 0 {
		shell, from = r.config.Shell, FromDefault
	}
	s.origin("shell", strings.Join(shell, " "), from, "")
	s.Command = command
	if s.PipeStatus = q.PipeStatus; s.PipeStatus && filepath.Base(shell[0]) != "bash" {
		return invalid("the stages' exit codes are known of bash alone, not of %s", shell[0])
	}
	transport, from, why := q.Transport, FromRequest, ""
	switch {
	case transport == "" || transport == TransportAuto:
		transport, from = TransportArgv, FromDefault
		if len(command) >= maxArg {
			transport, why = TransportFD, "the kernel takes no argument that long"
		}
	case transport != TransportArgv && transport != TransportFD:
		return invalid("transport %q is none of auto, argv and fd", string(transport))
	case transport == TransportArgv && len(command) >= maxArg:
		return invalid("the command has %d bytes, and an argument fewer than %d", len(command), maxArg)
	}
	s.origin("transport", transport, from, why)
	if transport == TransportFD {
		if s.PipeStatus {
			command = tellStages(4) + command
		}
		s.Argv, s.Script = append(slices.Clone(shell), "/dev/fd/3"), []byte(command+"\n")
		return nil
	}
	if s.PipeStatus {
		command = tellStages(3) + command
	}
	s.Argv = append(slices.Clone(shell), "-c", command)
	return nil
}

// tellStages is what bash is told before a command, in the command's first line
// so that those keep their numbers.
func tellStages(fd int) string {
	return fmt.Sprintf(`trap '\builtin printf "%%s " "${PIPESTATUS[@]}" 2>/dev/null >&%d' EXIT; `, fd)
}

func hasNUL(s string) bool { return strings.IndexByte(s, 0) >= 0 }

func (r *Runner) resolveDir(s *Spec, q *Request) error {
	from := FromRequest
	switch {
	case q.Dir == "":
		s.Dir, from = r.config.Dir, FromDefault
	case filepath.IsAbs(q.Dir):
		s.Dir = q.Dir
	default:
		s.Dir = filepath.Join(r.config.Dir, q.Dir)
	}
	s.origin("dir", s.Dir, from, "")
	c, ok := r.config.Executor.(DirChecker)
	if !ok {
		return nil
	}
	if err := c.CheckDir(s.Dir); err != nil {
		return &DirError{Dir: s.Dir, Err: err, File: errors.Is(err, syscall.ENOTDIR)}
	}
	return nil
}

func (r *Runner) resolveTimeouts(s *Spec, q *Request) error {
	for _, t := range []time.Duration{q.Timeout, q.SoftTimeout, q.IdleTimeout} {
		if t < 0 && t != None {
			return invalid("a timeout of %v is negative", t)
		}
	}
	s.Timeout = r.timeout(s, q)
	s.SoftTimeout = optional(s, "soft_timeout", q.SoftTimeout, r.config.SoftTimeout)
	s.IdleTimeout = optional(s, "idle_timeout", q.IdleTimeout, r.config.IdleTimeout)
	return nil
}

// timeout chooses the hard timeout, 0 for none.
func (r *Runner) timeout(s *Spec, q *Request) time.Duration {
	t, from := q.Timeout, FromRequest
	if t == 0 {
		t, from = r.config.Timeout, FromDefault
	}
	if q.Timeout == 0 && r.exempt(s.Command, s.Argv) {
		s.origin("timeout", "none", FromDefault, "the command is on the list of those without")
		return 0
	}
	why := ""
	switch {
	case t == None && r.config.AllowNoTimeout:
		s.origin("timeout", "none", from, "")
		return 0
	case t == None:
		t, why = r.config.MaxTimeout, "no timeout was asked for, which isn't allowed"
	case t > r.config.MaxTimeout:
		t, why = r.config.MaxTimeout, fmt.Sprintf("%v was asked for", t)
	}
	if why != "" {
		from = FromCap
		s.Notes = append(s.Notes, fmt.Sprintf("the timeout is %v, the longest allowed: %s", t, why))
	}
	s.origin("timeout", t, from, why)
	return t
}

// optional chooses a timeout that may be none, which is 0 in a spec.
func optional(s *Spec, field string, asked, standard time.Duration) time.Duration {
	t, from := asked, FromRequest
	if t == 0 {
		t, from = standard, FromDefault
	}
	if t == None || t == 0 {
		s.origin(field, "none", from, "")
		return 0
	}
	s.origin(field, t, from, "")
	return t
}

func (r *Runner) resolveEnding(s *Spec, q *Request) error {
	from := FromRequest
	s.Stop = q.Stop
	if s.Stop == nil {
		s.Stop, from = r.config.Stop, FromDefault
	}
	if err := checkStop(s.Stop); err != nil {
		return invalid("%w", err)
	}
	s.origin("stop", stopText(s.Stop), from, "")

	s.Leftover, from = q.Leftover, FromRequest
	if s.Leftover == "" {
		s.Leftover, from = r.config.Leftover, FromDefault
	}
	if err := s.Leftover.check(); err != nil {
		return invalid("%w", err)
	}
	if s.Leftover != LeftoverKill && r.authority.OnlyKill {
		if from == FromRequest {
			return invalid("leftover %q: the executor %q always kills what is left", string(s.Leftover), r.authority.Name)
		}
		s.Leftover, from = LeftoverKill, FromCap
	}
	s.origin("leftover", s.Leftover, from, "")
	return nil
}

func stopText(steps []StopStep) string {
	var b strings.Builder
	for _, st := range steps {
		fmt.Fprintf(&b, "%s, %v, ", signalName(st.Signal), st.Wait)
	}
	return b.String() + "SIGKILL"
}

func (r *Runner) resolveCapture(s *Spec, q *Request) error {
	from := FromRequest
	switch {
	case q.Budget < 0:
		return invalid("a budget of %d bytes is negative", q.Budget)
	case q.Budget > 0:
		s.Budget = q.Budget
	case s.Budget == 0:
		s.Budget, from = r.config.Budget, FromDefault
	}
	s.origin("budget", s.Budget, from, "")
	from = FromRequest
	if q.Keep != "" {
		s.Keep = q.Keep
	} else if s.Keep == "" {
		s.Keep, from = r.config.Keep, FromDefault
	}
	if s.Lines.Tail > 0 {
		s.Keep = KeepTail
	}
	if err := s.Keep.check(); err != nil {
		return invalid("%w", err)
	}
	s.origin("keep", s.Keep, from, "")
	return nil
}

func (r *Runner) resolveEnv(s *Spec, q *Request) (err error) {
	h := r.config.Hardening
	h.Terminal = h.Terminal || q.Terminal != nil
	s.Env, s.EnvDecisions, err = environ.Build(environ.Layers{
		Ambient: r.config.Executor.Environ(), Scrub: r.config.Scrub, Hardening: h,
		Caller: append(slices.Clone(r.config.Env), q.Env...), Unset: q.Unset, Managed: q.Managed,
	})
	if err != nil {
		return invalid("%w", err)
	}
	return nil
}
