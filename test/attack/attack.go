// Package attack tries to change what lies outside a confinement, and to reach
// processes outside, by every way that it knows. Programs of tests call [Main]
// where they are confined.
//
//	-in DIR -out DIR [-host PID -host-addr ADDR -host-fd N] [-leak-file N -leak-dir N]
//	-list
//
// Each operation on a file is tried in a folder beneath -out, where it should
// be refused, and the same in one beneath -in, where it should work; each one
// on a process on the process -host and each of its threads, and on a child of
// its own. Both folders must have, for each name that -list prints and [Files]
// returns, what [Prepare] makes.
//
// What became of each is printed as a line of JSON, a [Result]. The exit code is
// 0 whatever that is.
//
// Attacks that take a process of their own start the program again, by the name
// [Name]: it must call [Main] then, too.
package attack

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
)

// Name is the name (os.Args[0]) by which the program is started again.
const Name = "attack"

// Result is what became of one operation.
type Result struct {
	// Name is the attack's.
	Name string `json:"name"`
	// Where is "outside" or "inside" for files, "host", "thread" or "child" for
	// processes, and "system" for what there is one of.
	Where string `json:"where"`
	// Op is the call that failed; empty if none did.
	Op string `json:"op,omitempty"`
	// Errno is what it failed with, 0 for success and −1 for no errno.
	Errno int `json:"errno"`
	// Text is the error in words.
	Text string `json:"text,omitempty"`
	// Skip says why it could not be tried here.
	Skip string `json:"skip,omitempty"`
	// TID is the thread where Where is "thread".
	TID int `json:"tid,omitempty"`
}

// settings are what the flags say.
type settings struct {
	in, out           string
	host, hostFD      int
	hostAddr          uint64
	leakFile, leakDir int
	list              bool
	sleep             bool
	as, asDir, asOwn  string
}

// Main does what the arguments say, and returns the exit code. The calling
// goroutine stays on its thread.
func Main(args []string) int {
	runtime.LockOSThread() // a tracer is a thread
	var s settings
	set := flag.NewFlagSet(Name, flag.ContinueOnError)
	set.StringVar(&s.in, "in", "", "folder that is granted")
	set.StringVar(&s.out, "out", "", "folder that is not")
	set.IntVar(&s.host, "host", 0, "process outside")
	set.IntVar(&s.hostFD, "host-fd", 0, "descriptor that it has open for writing")
	set.Uint64Var(&s.hostAddr, "host-addr", 0, "address in it that can be written to")
	set.IntVar(&s.leakFile, "leak-file", -1, "descriptor, open for writing, that should not have come here")
	set.IntVar(&s.leakDir, "leak-dir", -1, "descriptor of a folder that should not have come here")
	set.BoolVar(&s.list, "list", false, "print the names of the attacks on files")
	set.BoolVar(&s.sleep, "sleep", false, "wait for the end of standard input")
	set.StringVar(&s.as, "as", "", "do one attack on files")
	set.StringVar(&s.asDir, "as-dir", "", "there")
	set.StringVar(&s.asOwn, "as-own", "", "with this folder that is granted")
	if err := set.Parse(args); err != nil {
		return 2
	}

	out := json.NewEncoder(os.Stdout)
	report := func(r Result) {
		if err := out.Encode(r); err != nil {
			fmt.Fprintln(os.Stderr, "attack:", err)
		}
	}
	switch {
	case s.list:
		for _, name := range Files() {
			fmt.Println(name)
		}
	case s.sleep:
		sleep()
	case s.as != "":
		asMain(s, report)
	default:
		attackFiles(s, report)
		attackSystem(s, report)
		if s.host != 0 {
			attackProcesses(s, report)
		}
	}
	return 0
}

// again returns a command that runs this program again.
func again(args ...string) *exec.Cmd {
	self := "/proc/self/exe"
	if _, err := os.Stat(self); err != nil {
		self = os.Args[0] // no /proc is mounted
	}
	cmd := exec.Command(self, args...)
	cmd.Args[0] = Name
	return cmd
}

// Files are the names of the attacks on files.
func Files() (names []string) {
	for _, a := range fileAttacks() {
		names = append(names, a.name)
	}
	return names
}

// Groups are those names by what they are about: "open", "tree" and "transfer"
// are ordinary ways to change files, "uring", "detour" and "child" ways to do so
// that a sandbox may not see, and "mount" needs a user namespace.
func Groups() map[string][]string {
	all := map[string][]string{}
	for _, g := range groups() {
		for _, a := range g.attacks {
			all[g.name] = append(all[g.name], a.name)
		}
	}
	return all
}

// Processes are the names of the attacks on a process outside: those that signal
// it, and the others.
func Processes() (signals, others []string) {
	for _, a := range processAttacks {
		if a.signals {
			signals = append(signals, a.name)
		} else {
			others = append(others, a.name)
		}
	}
	return signals, others
}

// Once are the attacks on a process that aren't tried on its threads.
func Once() (names []string) {
	for _, a := range processAttacks {
		if a.once {
			names = append(names, a.name)
		}
	}
	return names
}

// Prepare makes in dir a folder for each attack on files, with what it wants.
func Prepare(dir string) error {
	for _, name := range Files() {
		for _, sub := range []string{"empty", "sub", "deep/work"} {
			if err := os.MkdirAll(filepath.Join(dir, name, sub), 0o755); err != nil {
				return err
			}
		}
		for _, f := range []string{"file", "other", "sub/file", "deep/work/file"} {
			if err := os.WriteFile(filepath.Join(dir, name, f), []byte(name+" "+f+"\n"), 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// sleep says that it is there and waits for the end of standard input.
func sleep() {
	fmt.Println("here")
	_, _ = io.Copy(io.Discard, os.Stdin) // whatever ends it
}

// opError says which call failed.
type opError struct {
	op  string
	err error
}

func (e *opError) Error() string { return e.op + ": " + e.err.Error() }
func (e *opError) Unwrap() error { return e.err }

// do names the call that err is of.
func do(op string, err error) error {
	if err == nil {
		return nil
	}
	return &opError{op, err}
}

// skipError says that something could not be tried.
type skipError string

func (e skipError) Error() string { return string(e) }

func resultOf(name, where string, err error) Result {
	r := Result{Name: name, Where: where}
	var skip skipError
	var op *opError
	var errno syscall.Errno
	switch {
	case err == nil:
		return r
	case errors.As(err, &skip):
		r.Skip = string(skip)
		return r
	}
	r.Errno, r.Text = -1, err.Error()
	if errors.As(err, &op) {
		r.Op = op.op
	}
	if errors.As(err, &errno) {
		r.Errno = int(errno)
	}
	return r
}

// place is where an attack on files works.
type place struct {
	// dir is the folder with the prepared files.
	dir string
	// own is an empty folder that is granted.
	own string
	s   *settings
}

func (p place) at(name string) string   { return filepath.Join(p.dir, name) }
func (p place) mine(name string) string { return filepath.Join(p.own, name) }

// fileAttack is a way to change a file.
type fileAttack struct {
	name string
	run  func(place) error
}

// groups are the attacks on files by what they are about.
func groups() []group {
	return []group{
		{"open", openAttacks},
		{"tree", treeAttacks},
		{"transfer", transferAttacks},
		{"uring", ringAttacks},
		{"detour", slices.Concat(detourAttacks, btrfsAttacks)},
		{"child", childAttacks},
		{"mount", mountAttacks},
	}
}

type group struct {
	name    string
	attacks []fileAttack
}

func fileAttacks() (all []fileAttack) {
	for _, g := range groups() {
		all = append(all, g.attacks...)
	}
	return all
}

// attackFiles tries every attack outside first, so that nothing that went
// well inside can help.
func attackFiles(s settings, report func(Result)) {
	for _, where := range []string{"outside", "inside"} {
		dir := s.out
		if where == "inside" {
			dir = s.in
		}
		for _, a := range fileAttacks() {
			p := place{dir: filepath.Join(dir, a.name), own: filepath.Join(s.in, "own-"+where+"-"+a.name), s: &s}
			err := os.Mkdir(p.own, 0o755)
			if err == nil {
				err = a.run(p)
			}
			report(resultOf(a.name, where, err))
		}
	}
}
