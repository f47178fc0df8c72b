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

// stream compares what comes through the program runner with what the command
// writes itself. Passed on, it goes through a process that does nothing but that:
// what any third process costs, however little it does.
func (b *bench) stream(what, line string) func() (section, error) {
	return func() (section, error) {
		s := section{
			Title: "output of " + line + ", through the runner or not", As: b.as, Rounds: b.heavy,
			Against: []string{what, what + ", passed on", what + " to tee", what + " to a file", what + " to /dev/null"},
		}
		if b.runner == "" {
			s.Notes = append(s.Notes, "there is no runner: make build makes it")
			return s, nil
		}
		self, err := os.Executable()
		if err != nil {
			return s, err
		}
		dir := filepath.Dir(b.repo)
		file, state := filepath.Join(dir, "out"), filepath.Join(dir, "state")
		run, save := b.runner+" run --no-save -- "+line, b.runner+" run --state "+state+" -- "+line
		got, err := interleave(b.heavy, []contender{
			{what, b.shell(line + " | cat >/dev/null")},
			{what + ", passed on", b.shell(fmt.Sprintf("%s | %s %s | cat >/dev/null", line, self, passArg))},
			{what + ", runner run --no-save", b.shell(run + " | cat >/dev/null")},
			{what + " to tee", b.shell(fmt.Sprintf("%s | tee %s | cat >/dev/null; rm %[2]s", line, file))},
			{what + ", runner run", b.shell(fmt.Sprintf("%s | cat >/dev/null; rm -f %s/output/*", save, state))},
			{what + " to a file", b.shell(fmt.Sprintf("%s >%s; rm %[2]s", line, file))},
			{what + " to a file, runner run --no-save", b.shell(fmt.Sprintf("%s >%s; rm %[2]s", run, file))},
			{what + " to /dev/null", b.shell(line + " >/dev/null")},
			{what + " to /dev/null, runner run --no-save", b.shell(run + " >/dev/null")},
		})
		s.rows(got)
		return s, err
	}
}

// shell returns a function that runs a shell's line.
func (b *bench) shell(line string) func() error {
	return func() error {
		cmd := exec.Command("/bin/sh", "-c", line)
		cmd.Dir, cmd.Env, cmd.Stderr = b.dir, b.env(), os.Stderr
		return cmd.Run()
	}
}
