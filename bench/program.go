package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// program compares the program runner with the launcher, on a command that does
// nothing.
func (b *bench) program() (section, error) {
	s := section{Title: "run of /bin/true by a program", As: b.as, Rounds: b.rounds, Against: []string{"launcher"}}
	if b.runner == "" {
		s.Notes = append(s.Notes, "there is no runner: make build makes it")
		return s, nil
	}
	const what = "/bin/true"
	state := filepath.Join(filepath.Dir(b.repo), "state")
	got, err := interleave(b.rounds, []contender{
		{"launcher", b.command(b.launcher, b.tree, "--", what)},
		{"launcher --supervise", b.command(b.launcher, "--supervise", b.tree, "--", what)},
		{"runner run", b.command(b.runner, "run", "--state", state, "--", what)},
		{"runner run --no-save", b.command(b.runner, "run", "--no-save", "--", what)},
		{"runner run --no-save --leftover report", b.command(b.runner, "run", "--no-save", "--leftover", "report", "--", what)},
	})
	s.rows(got)
	return s, err
}

// stream compares what comes through the program runner with what comes through
// a pipe alone: 160 MiB of numbers, and 256 MiB of zeros, which cost nothing to make.
func (b *bench) stream() (section, error) {
	s := section{Title: "output to a pipe and cat, through the runner or not", As: b.as, Rounds: b.heavy, Against: []string{"seq", "zeros", "zeros, and tee to a file"}}
	if b.runner == "" {
		s.Notes = append(s.Notes, "there is no runner: make build makes it")
		return s, nil
	}
	dir := filepath.Dir(b.repo)
	state := filepath.Join(dir, "state")
	const seq, zeros = "seq 20000000", "head -c 256M /dev/zero"
	file := filepath.Join(dir, "tee")
	got, err := interleave(b.heavy, []contender{
		{"seq", b.shell(seq + " | cat >/dev/null")},
		{"seq, runner run --no-save", b.shell(fmt.Sprintf("%s run --no-save -- %s | cat >/dev/null", b.runner, seq))},
		{"seq, runner run", b.shell(fmt.Sprintf("%s run --state %s -- %s | cat >/dev/null", b.runner, state, seq))},
		{"zeros", b.shell(zeros + " | cat >/dev/null")},
		{"zeros, runner run --no-save", b.shell(fmt.Sprintf("%s run --no-save -- %s | cat >/dev/null", b.runner, zeros))},
		{"zeros, and tee to a file", b.shell(fmt.Sprintf("%s | tee %s | cat >/dev/null; rm %[2]s", zeros, file))},
		{"zeros, runner run", b.shell(fmt.Sprintf("%s run --state %s -- %s | cat >/dev/null; rm -f %[2]s/output/*", b.runner, state, zeros))},
	})
	s.rows(got)
	return s, err
}

// shell returns a function that runs a shell's line.
func (b *bench) shell(line string) func() error {
	return func() error {
		cmd := exec.Command("/bin/sh", "-c", line)
		cmd.Dir, cmd.Env, cmd.Stderr = b.dir, b.env(), os.Stderr
		return cmd.Run()
	}
}
