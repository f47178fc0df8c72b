package bwrap

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/policy"
)

// bwrapVar names a bwrap to test in place of the machine's own.
const bwrapVar = "SHOFER_TEST_BWRAP"

// need returns the support for u, and skips t where there is no bwrap that
// works.
func need(t testing.TB, u testenv.User) Support {
	t.Helper()
	s := Probe(t.Context(), os.Getenv(bwrapVar))
	if !s.Usable() {
		testenv.Skip(t, "needs bubblewrap: %s", s.Reason())
	}
	if u != testenv.Self() { // an ordinary user, where this process is root
		s.Root, s.Caps, s.UserNS = false, 0, !s.Setuid
	}
	if !s.PidNS || !s.NetNS {
		testenv.Skip(t, "needs bubblewrap to make pid and network namespaces")
	}
	return s
}

// box is a sandbox to run programs in, as the launcher would.
type box struct {
	t      testing.TB
	u      testenv.User
	l      *Layout
	s      Support
	status string // what bwrap said about itself in the last run
	// plain leaves out what the inner stage does to the descriptors.
	plain bool
	// nested tries ops in a user namespace of their own.
	nested bool
}

func newBox(t testing.TB, u testenv.User, r *policy.Resolved, o Options) *box {
	t.Helper()
	s := need(t, u)
	l, err := Look(s, r, o)
	if err != nil {
		t.Fatalf("Look = %v", err)
	}
	return &box{t: t, u: u, l: l, s: s}
}

// command returns a command that runs argv in the box.
func (b *box) command(argv ...string) *exec.Cmd {
	b.t.Helper()
	cmd := b.u.Helper(b.t, "inner")
	inner, err := os.Open(cmd.Path)
	if err != nil {
		b.t.Fatal(err)
	}
	ids, err := json.Marshal(innerJob{Identities: b.l.Identities(), Argv: argv, Plain: b.plain})
	if err != nil {
		b.t.Fatal(err)
	}
	job, err := ArgsFile([]string{string(ids)})
	if err != nil {
		b.t.Fatal(err)
	}
	// Descriptors 3 and up.
	files := []*os.File{nil, inner, job}
	fd := Descriptors{}
	for range b.l.EmptyFiles() {
		f, err := os.Open(os.DevNull)
		if err != nil {
			b.t.Fatal(err)
		}
		fd.Empty = append(fd.Empty, 3+len(files))
		files = append(files, f)
	}
	status, err := os.CreateTemp(b.t.TempDir(), "status")
	if err != nil {
		b.t.Fatal(err)
	}
	fd.Status = 3 + len(files)
	files = append(files, status)
	args, err := b.l.Args(fd)
	if err != nil {
		b.t.Fatal(err)
	}
	if files[0], err = ArgsFile(args); err != nil {
		b.t.Fatal(err)
	}
	line, err := Command(b.s.Path, 3, 4, "5")
	if err != nil {
		b.t.Fatal(err)
	}
	cmd.Path, cmd.Args, cmd.Dir, cmd.ExtraFiles = line[0], line, "/", files
	b.t.Cleanup(func() {
		for _, f := range files {
			f.Close()
		}
	})
	return cmd
}

// run runs argv in the box to its end.
func (b *box) run(argv ...string) testenv.Result {
	b.t.Helper()
	cmd := b.command(argv...)
	r := testenv.Run(b.t, cmd)
	status := cmd.ExtraFiles[len(cmd.ExtraFiles)-1]
	text, err := os.ReadFile(status.Name())
	if err != nil {
		b.t.Fatal(err)
	}
	b.status = string(text)
	return r
}

// sh runs a shell script and returns its output. It fails the test if the
// script fails.
func (b *box) sh(script string) string {
	b.t.Helper()
	r := b.run("/bin/sh", "-c", script)
	if r.Code != 0 {
		b.t.Fatalf("%s: %v", script, r)
	}
	return r.Stdout
}

// op is something that is tried in a box, and what comes of it: "ok" or the
// name of an errno; several, parted by "|", where kernels or users differ.
type op struct {
	what string
	args []string
	want string
}

// try tries ops in the box, in order.
func (b *box) try(ops []op) {
	b.t.Helper()
	list := make([][]policy.Path, len(ops))
	for i, o := range ops {
		list[i] = []policy.Path{policy.Path(o.what)}
		for _, a := range o.args {
			list[i] = append(list[i], policy.Path(a))
		}
	}
	_ = b.u.Helper(b.t, "ops") // marks it as used; the binary itself is descriptor 4
	text, err := json.Marshal(list)
	if err != nil {
		b.t.Fatal(err)
	}
	argv := []string{"/usr/bin/env", helperEnv + "ops", "/proc/self/fd/4", string(text)}
	if b.nested {
		_ = b.u.Helper(b.t, "nested")
		argv = []string{"/usr/bin/env", helperEnv + "nested", "/proc/self/fd/4", "/proc/self/fd/4", string(text)}
	}
	r := b.run(argv...)
	var got []string
	if err := json.Unmarshal([]byte(r.Stdout), &got); r.Code != 0 || err != nil || len(got) != len(ops) {
		b.t.Fatalf("ops: %v %v", r, err)
	}
	for i, o := range ops {
		ok := false
		for _, want := range strings.Split(o.want, "|") {
			ok = ok || want == got[i]
		}
		if !ok {
			b.t.Errorf("%s %q = %s; want %s", o.what, o.args, got[i], o.want)
		}
	}
}

const helperEnv = "SHOFER_TEST_HELPER="

// innerJob is what the inner stage of a test has to do.
type innerJob struct {
	Identities []Identity
	Argv       []string
	Plain      bool
}

// innerMain is an inner stage: it checks, reopens, and becomes the command. Its
// argument is the descriptor of the job.
func innerMain(args []string) int {
	fail := func(err error) int {
		fmt.Fprintln(os.Stderr, "inner:", err)
		return 99
	}
	fd, err := strconv.Atoi(args[0])
	if err != nil {
		return fail(err)
	}
	text := make([]byte, 1<<20)
	n, err := syscall.Read(fd, text)
	if err != nil {
		return fail(err)
	}
	var job innerJob
	if err := json.Unmarshal(text[:n-1], &job); err != nil { // ArgsFile ends it with a NUL
		return fail(err)
	}
	if err := Check(job.Identities); err != nil {
		return fail(err)
	}
	for fd := range 3 {
		if job.Plain {
			break
		}
		if err := Reopen(fd); err != nil {
			return fail(err)
		}
	}
	// Only the test binary itself goes on, for what is tried with it.
	for fd := 3; fd < 64; fd++ {
		if fd != 4 {
			unix.CloseOnExec(fd)
		}
	}
	return fail(syscall.Exec(job.Argv[0], job.Argv, os.Environ()))
}

// wt returns a policy for a new folder of u's that is writable, and that folder.
// Beside it lie a folder "out" and a file "file", which are not.
func wt(t testing.TB, u testenv.User) (r *policy.Resolved, top string) {
	t.Helper()
	top = u.Dir(t)
	for _, name := range []string{"wt", "out"} {
		mkdir(t, filepath.Join(top, name))
	}
	write(t, filepath.Join(top, "file"), "outside\n")
	write(t, filepath.Join(top, "out", "file"), "outside\n")
	write(t, filepath.Join(top, "wt", "file"), "inside\n")
	u.Own(t, top)
	r = &policy.Resolved{
		Policy:   policy.Policy{Mode: policy.WorkspaceWrite, Worktree: policy.Path(top + "/wt")},
		Worktree: top + "/wt",
		Grants: []policy.Grant{
			{Path: top + "/wt", Access: policy.Read | policy.Write, Origin: policy.FromWorktree},
		},
	}
	return r, top
}

func mkdir(t testing.TB, path string) {
	t.Helper()
	if err := os.MkdirAll(path, 0o755); err != nil {
		t.Fatal(err)
	}
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// tree lists everything in a folder, with its type, size and mode.
func tree(t testing.TB, root string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(root, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%q %v %d\n", path, info.Mode(), info.Size())
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}
