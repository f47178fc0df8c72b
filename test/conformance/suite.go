package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/shofer-dev/shofer-sandbox/test/attack"
	"golang.org/x/sys/unix"
)

// suite tries launchers.
type suite struct {
	checks   []check
	dir      string
	patience time.Duration
	// without is what comes of everything without a sandbox.
	without outcomes
	wanted  map[string]bool
}

const (
	// gatherTime bounds all starts of a launcher, and sessionTime one.
	gatherTime  = 5 * time.Minute
	sessionTime = time.Minute
)

// newSuite tries everything without a sandbox.
func newSuite(checks []check, dir string) (*suite, error) {
	// What is ignored here, as under nohup, launchers leave so.
	for _, sig := range []os.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGTERM} {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig) // which a child gets with its default
		}
	}
	s := &suite{checks: checks, wanted: map[string]bool{}}
	for _, c := range checks {
		s.wanted[c.String()] = true
	}
	var err error
	if s.dir, err = workDir(dir); err != nil {
		return nil, err
	}
	s.without, err = s.gather(launcher{})
	return s, err
}

// workDir is a folder outside /tmp and $TMPDIR, which sandboxes grant.
func workDir(dir string) (string, error) {
	if dir != "" {
		return filepath.Abs(dir)
	}
	for _, d := range []string{"/var/tmp", os.Getenv("HOME")} {
		if d != "" && unix.Access(d, unix.W_OK|unix.X_OK) == nil && !within(d, "/tmp") && !within(d, os.TempDir()) {
			return d, nil
		}
	}
	return "", errors.New("there is no folder outside /tmp to work in; --dir names one")
}

// within reports whether path is dir, or lies in it.
func within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

func (s *suite) want(c check) bool { return s.wanted[c.String()] }

// try returns what a launcher holds.
func (s *suite) try(l launcher) (report, error) {
	r := report{Launcher: l.name, Command: strings.Join(l.words, " ")}
	got, err := s.gather(l)
	var refused *refusedError
	if errors.As(err, &refused) {
		r.Refused = refused.words
		return r, nil
	}
	if err != nil {
		return r, err
	}
	for _, c := range s.checks {
		r.Results = append(r.Results, judge(c, s.without, got))
	}
	return r, nil
}

// refusedError says that a launcher doesn't run anything.
type refusedError struct{ words string }

func (e *refusedError) Error() string { return e.words }

// start lets a launcher run something that can't fail.
func (l launcher) start(ctx context.Context, a *arena) error {
	out, err := l.command(ctx, a, "/bin/true").CombinedOutput()
	if err != nil {
		return &refusedError{strings.TrimSpace(fmt.Sprintf("%v: %s", err, bytes.TrimSpace(out)))}
	}
	return nil
}

// gather tries everything in one arena.
func (s *suite) gather(l launcher) (all outcomes, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), gatherTime)
	defer cancel()
	a, err := newArena(ctx, s.dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, a.close()) }()
	if err := l.start(ctx, a); err != nil {
		return nil, err
	}
	if s.patience == 0 {
		if s.patience, err = measure(ctx, a); err != nil {
			return nil, err
		}
	}
	all = outcomes{}
	add := func(list []outcome) {
		for _, o := range list {
			all.add(o)
		}
	}
	list, err := terminalSession(ctx, a, l, s.want)
	if err != nil {
		return nil, err
	}
	add(list)
	add(contractSession(ctx, a, l, s.want))
	add(environmentSession(ctx, a, l, s.want))
	add(lifeSession(ctx, a, l, s.want, s.patience))
	if list, err = s.attackSession(ctx, a, l); err != nil {
		return nil, err
	}
	add(list)
	if list, err = s.insideSession(ctx, a, l); err != nil {
		return nil, err
	}
	add(list)
	return all, s.addLastWords(a, all)
}

// leakedFD is the number of a descriptor that a careless caller left open; the
// folder's is the next one. They are high enough that nothing of the command's
// own has them.
const leakedFD = 250

// attackSession runs package attack.
func (s *suite) attackSession(ctx context.Context, a *arena, l launcher) ([]outcome, error) {
	checks := attackChecks()
	var wanted []check
	for _, c := range checks {
		if s.want(c) {
			wanted = append(wanted, c)
		}
	}
	if wanted == nil {
		return nil, nil
	}
	if err := a.prepareAttacks(); err != nil {
		return nil, err
	}
	before, err := contents(a.Out)
	if err != nil {
		return nil, err
	}
	leaked := filepath.Join(a.Out, "leaked")
	cmd := l.command(ctx, a, a.Self, "conformance-attack", "-in", a.in(), "-out", a.Out,
		"-host", strconv.Itoa(a.Other.Pid), "-host-fd", strconv.Itoa(a.Other.FD),
		"-host-addr", strconv.FormatUint(a.Other.Addr, 10),
		"-leak-file", strconv.Itoa(leakedFD), "-leak-dir", strconv.Itoa(leakedFD+1))
	stdin, err := os.Open(leaked)
	if err != nil {
		return nil, err
	}
	defer stdin.Close()
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &stdout, &stderr
	runErr, err := startLeaking(cmd, leaked, filepath.Join(a.Out, "open-wronly"))
	if err != nil {
		return nil, err
	}
	got := map[string]outcome{}
	dec := json.NewDecoder(&stdout)
	for {
		var r attack.Result
		if err := dec.Decode(&r); err != nil {
			break // at the end, or where it was cut
		}
		c, ok := checks[r.Where+" "+r.Name]
		if !ok || !s.want(c) {
			continue
		}
		o := outcome{Check: c.String(), Err: r.Text, Skip: r.Skip}
		outcomes(got).add(o)
	}
	after, err := contents(a.Out)
	if err != nil {
		return nil, err
	}
	var all []outcome
	for where, c := range checks {
		if !s.want(c) {
			continue
		}
		o, ok := got[c.String()]
		switch {
		case ok:
		case runErr != nil:
			o = outcome{Check: c.String(), Lost: fmt.Sprintf("%v: %s", runErr, lastLine(stderr.String()))}
		default:
			o = outcome{Check: c.String(), Err: "there is nothing to try it on"}
		}
		if name, ok := strings.CutPrefix(where, "outside "); ok && before[name] != after[name] {
			o.Effect = true
		}
		all = append(all, o)
	}
	return all, nil
}

// startLeaking runs cmd with descriptors that it should not get. The first
// error is the command's.
func startLeaking(cmd *exec.Cmd, file, dir string) (runErr, err error) {
	for i, open := range []func() (int, error){
		func() (int, error) { return unix.Open(file, unix.O_RDWR|unix.O_CLOEXEC, 0) },
		func() (int, error) { return unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0) },
	} {
		fd, err := open()
		if err != nil {
			return nil, err
		}
		// No close-on-exec: every process that is started in this moment gets it.
		err = unix.Dup3(fd, leakedFD+i, 0)
		_ = unix.Close(fd)
		if err != nil {
			return nil, err
		}
		defer unix.Close(leakedFD + i)
	}
	return cmd.Run(), nil
}

// insideSession lets a process inside try one check after the other.
func (s *suite) insideSession(ctx context.Context, a *arena, l launcher) ([]outcome, error) {
	var wanted []insideCheck
	arg, err := json.Marshal(a)
	if err != nil {
		return nil, err
	}
	args := []string{a.Self, "conformance-inside", string(arg)}
	for _, c := range insideChecks() {
		if s.want(c.check) {
			wanted = append(wanted, c)
			args = append(args, c.String())
		}
	}
	if wanted == nil {
		return nil, nil
	}
	cmd := l.command(ctx, a, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bufio.NewReader(out))
	var all []outcome
	var lost error
	for _, c := range wanted {
		o := outcome{Check: c.String()}
		before := ""
		if c.state != nil {
			before = c.state(a)
		}
		if lost == nil {
			if _, lost = io.WriteString(in, "\n"); lost == nil {
				lost = dec.Decode(&o)
			}
		}
		if lost != nil {
			o.Lost = "the process inside is gone"
		}
		o.Effect = c.state != nil && c.state(a) != before
		all = append(all, o)
	}
	_ = in.Close()
	if err := cmd.Wait(); lost != nil {
		for i := range all {
			if all[i].Lost != "" {
				all[i].Lost += fmt.Sprintf(" (%v: %s)", err, lastLine(stderr.String()))
			}
		}
	}
	return all, nil
}

// memoryIntact is about the bystander's memory, which several attacks write to.
var memoryIntact = check{"process", "memory", false}

// addLastWords adds what only the bystander knows.
func (s *suite) addLastWords(a *arena, all outcomes) error {
	w, err := a.stop()
	if err != nil {
		return err
	}
	if async := (check{"signal", "async-io", false}); s.want(async) && w.Signals == 0 {
		if o, ok := all[async.String()]; ok && o.Err == "" {
			o.Err = "no signal arrived"
			all[async.String()] = o
		}
	}
	if s.want(memoryIntact) {
		o := outcome{Check: memoryIntact.String(), Effect: w.Memory != memory}
		if !o.Effect {
			o.Err = "unchanged"
		}
		all[memoryIntact.String()] = o
	}
	return nil
}
