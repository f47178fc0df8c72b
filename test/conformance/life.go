package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// life is a way for a command and its launcher to end. Whatever it is, nothing
// that the command has started may be left.
type life struct {
	name string
	// leader is what the command does; see lifeMain.
	leader string
	// end ends the launcher; nil waits until it ends by itself.
	end func(cmd *exec.Cmd)
	// below starts the launcher as the child of a process, which is what end
	// gets.
	below bool
}

func killIt(cmd *exec.Cmd) { _ = cmd.Process.Kill() }

var lives = []life{
	{name: "daemon-left", leader: "daemon-exit"},
	{name: "background-left", leader: "background-exit"},
	{name: "term-ignored", leader: "daemon-deaf", end: func(cmd *exec.Cmd) {
		_ = cmd.Process.Signal(unix.SIGTERM)
		<-time.After(200 * time.Millisecond) // what a caller grants before it kills
		killIt(cmd)
	}},
	{name: "launcher-killed", leader: "daemon-stay", end: killIt},
	{name: "group-killed", leader: "daemon-stay", end: func(cmd *exec.Cmd) { _ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }},
	{name: "parent-killed", leader: "daemon-stay", below: true, end: killIt},
	{name: "fork-storm", leader: "storm-stay", end: killIt},
}

func lifeChecks() (checks []check) {
	for _, l := range lives {
		checks = append(checks, check{"lifetime", l.name, false})
	}
	return checks
}

// lifeLimit ends what nobody else ends.
const lifeLimit = time.Minute

// lifeMain is what the command is made of. The first argument says which part:
//
//	daemon-exit, daemon-deaf, daemon-stay
//	                 start a daemon and exit, or stay, deaf for SIGTERM
//	background-exit  start a child and exit
//	storm-stay       start processes that start one and exit, and stay
//	fork             start a daemon and exit
//	beat             write a letter again and again
//	chain            start another chain, write a letter, and exit
//	idle             wait
//
// The second is a file: when it is there, all of them end.
func lifeMain(args []string) int {
	stop := args[1]
	start := func(part string, session bool) {
		if err := startPart(part, stop, session); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	switch args[0] {
	case "fork":
		start("beat", true)
		return 0
	case "beat":
		signal.Ignore(unix.SIGTERM, unix.SIGHUP, unix.SIGINT)
		beat()
		_ = os.NewFile(3, "started").Close() // who started it waits for that
		untilStop(stop, beat)
		return 0
	case "chain":
		signal.Ignore(unix.SIGTERM, unix.SIGHUP, unix.SIGINT)
		if _, err := os.Stat(stop); err != nil && beat() {
			<-time.After(20 * time.Millisecond) // or there would be too many
			start("chain", true)
		}
		return 0
	case "background-exit":
		start("beat", false)
		return 0
	case "daemon-exit":
		start("fork", false)
		return 0
	case "daemon-deaf":
		signal.Ignore(unix.SIGTERM)
		start("fork", false)
	case "daemon-stay":
		start("fork", false)
	case "storm-stay":
		for range 8 {
			start("chain", true)
		}
	}
	untilStop(stop, func() bool { return true })
	return 0
}

// startPart starts another part. It returns when that one, or what that one
// starts, has written a letter, or at once for a chain.
func startPart(part, stop string, session bool) error {
	cmd := exec.Command(selfPath(), "conformance-life", part, stop)
	cmd.Stdout = os.Stdout
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: session}
	switch part {
	case "chain":
		return cmd.Start()
	case "fork":
		return cmd.Run()
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	cmd.ExtraFiles = []*os.File{w}
	err = cmd.Start()
	w.Close()
	if err == nil {
		_, err = r.Read(make([]byte, 1))
	}
	if errors.Is(err, io.EOF) { // it was closed
		return nil
	}
	return err
}

// beat writes a letter, and reports whether somebody could read it.
func beat() bool {
	_, err := os.Stdout.Write([]byte("b"))
	return err == nil
}

// untilStop calls f now and then, until it returns false or the file is there.
func untilStop(stop string, f func() bool) {
	tick := time.NewTicker(30 * time.Millisecond)
	defer tick.Stop()
	end := time.After(lifeLimit)
	for {
		if _, err := os.Stat(stop); err == nil || !f() {
			return
		}
		select {
		case <-tick.C:
		case <-end:
			return
		}
	}
}

// parentMain runs a command as a child, and can't do anything for it when it is
// killed.
func parentMain(args []string) int {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return 1
	}
	return 0
}

// lifeSession tries all ways at once. patience is how long what has to end may
// take to.
func lifeSession(ctx context.Context, a *arena, l launcher, want func(check) bool, patience time.Duration) []outcome {
	var wg sync.WaitGroup
	var mu sync.Mutex
	var all []outcome
	for _, life := range lives {
		c := check{"lifetime", life.name, false}
		if !want(c) {
			continue
		}
		wg.Go(func() {
			o := outcome{Check: c.String()}
			survived, err := life.try(ctx, a, l, patience)
			switch {
			case err != nil:
				o.Lost = err.Error()
			case !survived:
				o.Err = "nothing is left"
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, o)
		})
	}
	wg.Wait()
	return all
}

// try starts a command, ends it, and reports whether something of it goes on.
func (life life) try(ctx context.Context, a *arena, l launcher, patience time.Duration) (survived bool, err error) {
	stop := filepath.Join(a.in(), "stop-"+life.name)
	r, w, err := os.Pipe()
	if err != nil {
		return false, err
	}
	defer r.Close()
	cmd := l.command(ctx, a, a.Self, "conformance-life", life.leader, stop)
	if life.below {
		cmd.Args = append([]string{a.Self, "conformance-parent", cmd.Path}, cmd.Args[1:]...)
		cmd.Path = a.Self
	}
	cmd.Stdout = w
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = cmd.Start()
	w.Close()
	if err != nil {
		return false, err
	}
	beats, end := read(r)
	defer func() {
		err = errors.Join(err, os.WriteFile(stop, nil, 0o600))
		select {
		case <-end:
		case <-time.After(10 * patience): // it ends at lifeLimit
		}
	}()
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	patient := time.NewTimer(sessionTime)
	defer patient.Stop()
	select {
	case <-beats:
	case <-end:
		if len(beats) == 0 {
			return false, fmt.Errorf("it ended before anything was started: %v", <-exited)
		}
	case <-patient.C:
		killIt(cmd)
		return false, errors.New("nothing was started in " + sessionTime.String())
	}
	if life.end != nil {
		life.end(cmd)
	}
	patient.Reset(patience)
	select {
	case <-exited:
	case <-patient.C: // it waits for what is left
		killIt(cmd)
	}
	patient.Reset(patience)
	select {
	case <-end:
		return false, nil
	case <-patient.C:
	}
	for len(beats) > 0 { // those of before
		<-beats
	}
	patient.Reset(patience)
	select {
	case <-beats:
		return true, nil
	case <-end:
		return false, nil
	case <-patient.C:
		return true, nil // it holds the pipe, and is perhaps stopped
	}
}

// read sends what comes from r, as far as there is room for it, and closes end
// when there is no more.
func read(r *os.File) (beats <-chan struct{}, end <-chan struct{}) {
	b, e := make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(e)
		buf := make([]byte, 4096)
		for {
			n, err := r.Read(buf)
			if n > 0 {
				select {
				case b <- struct{}{}:
				default:
				}
			}
			if err != nil {
				return
			}
		}
	}()
	return b, e
}

// measure returns how long what has to end may take to on this machine, by the
// time that a program takes to start.
func measure(ctx context.Context, a *arena) (time.Duration, error) {
	begun := time.Now()
	for i := range 3 {
		stop := filepath.Join(a.Base, "stop-"+strconv.Itoa(i))
		if err := os.WriteFile(stop, nil, 0o600); err != nil {
			return 0, err
		}
		if err := exec.CommandContext(ctx, a.Self, "conformance-life", "idle", stop).Run(); err != nil {
			return 0, err
		}
	}
	return min(max(30*time.Since(begun)/3, 1500*time.Millisecond), 10*time.Second), nil
}
