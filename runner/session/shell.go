package session

import (
	"bufio"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// killTimeout bounds how long a shell that was killed is waited for. Tests make
// it shorter.
var killTimeout = 10 * time.Second

// shell is a bash that reads its script from a pipe. The script is written as
// it goes: for each request a few lines that end in a report.
//
// The script is its standard input; its other streams are the null device, so
// that what it says about our lines, and what traces of them it makes, goes
// nowhere. A command gets streams of its own for as long as it runs; what bash
// puts aside meanwhile it closes on exec.
type shell struct {
	proc    Process
	control *os.File
	status  *os.File
	out     *stream
	errs    *stream

	over chan struct{} // closed when the shell has ended, or isn't waited for

	mu       sync.Mutex
	exit     Exit
	stuck    bool
	killed   bool
	expected string // the mark of the report that is waited for
	reports  chan place
}

// place is what a report says.
type place struct {
	code     int
	dir      string // as PWD says
	real     string // as the shell remembers it, without links
	gone     bool   // dir isn't where the shell is
	children []int
	info     os.FileInfo // of dir, as this process sees it; may be nil
}

// The descriptors of a shell after its first line: reports, output, errors.
const firstLine = "exec 50>&3 51>&4 52>&5 3>&- 4>&- 5>&- 2>/dev/null; BASH_ARGV0=bash\n"

// startShell starts a shell and waits until it says where it is.
func startShell(ctx context.Context, c *Config) (*shell, error) {
	sh, err := newShell(ctx, c)
	if err != nil || c.Snapshot == nil {
		return sh, err
	}
	bounded, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	reports, end := sh.eval(c.Snapshot.text, true)
	select {
	case <-reports:
		if sh.wait(bounded, end) { // else the first command would get it
			return sh, nil
		}
	case <-sh.over:
	case <-bounded.Done():
	}
	_ = sh.kill() // it is done without
	sh.close()
	return newShell(ctx, c)
}

func newShell(ctx context.Context, c *Config) (*shell, error) {
	sh, err := openShell(ctx, c)
	if err != nil {
		return nil, &StartError{Err: err}
	}
	if _, err := sh.request(ctx, firstLine, "0"); err != nil {
		_ = sh.kill()
		said := sh.errs.said()
		sh.close()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, &StartError{Said: said, Err: err}
	}
	return sh, nil
}

// openShell starts bash.
func openShell(ctx context.Context, c *Config) (_ *shell, err error) {
	var ours, theirs []*os.File
	defer func() {
		closeAll(theirs)
		if err != nil {
			closeAll(ours)
		}
	}()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	theirs = append(theirs, null)
	pipe := func() (r, w *os.File) {
		if err == nil {
			r, w, err = os.Pipe()
		}
		return r, w
	}
	controlR, controlW := pipe()
	statusR, statusW := pipe()
	outR, outW := pipe()
	errR, errW := pipe()
	theirs = append(theirs, controlR, statusW, outW, errW)
	ours = append(ours, controlW, statusR, outR, errR)
	if err != nil {
		return nil, err
	}
	proc, err := c.Starter.StartProgram(ctx, Program{
		Args:  []string{c.Shell, "--noprofile", "--norc"},
		Env:   withoutStartup(c.Env),
		Dir:   c.Dir,
		Files: []*os.File{controlR, null, errW, statusW, outW, errW},
	})
	if err != nil {
		return nil, err
	}
	sh := &shell{
		proc: proc, control: controlW, status: statusR,
		out: newStream(outR), errs: newStream(errR), over: make(chan struct{}),
	}
	go sh.await()
	go sh.readStatus()
	go sh.out.loop()
	go sh.errs.loop()
	return sh, nil
}

// withoutStartup is an environment that names no start-up file.
func withoutStartup(env []string) []string {
	kept := make([]string, 0, len(env)) // never nil, which might stand for the host's own
	for _, entry := range env {
		if !strings.HasPrefix(entry, "BASH_ENV=") && !strings.HasPrefix(entry, "ENV=") {
			kept = append(kept, entry)
		}
	}
	return kept
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close() // nil for a pipe that wasn't made
	}
}

// await waits for the shell's end.
func (sh *shell) await() {
	exit, err := sh.proc.Wait()
	if err != nil {
		exit = Exit{Code: -1}
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if !sh.stuck {
		sh.exit = exit
		close(sh.over)
	}
}

// kill kills the shell and waits for its end.
func (sh *shell) kill() error {
	sh.mu.Lock()
	sh.killed = true
	sh.mu.Unlock()
	if !sh.isOver() {
		_ = sh.proc.Kill() // what matters is whether it ends
	}
	timer := time.NewTimer(killTimeout)
	defer timer.Stop()
	select {
	case <-sh.over:
	case <-timer.C:
		sh.giveUp()
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.stuck {
		return &StuckError{Pid: sh.proc.Pid()}
	}
	return nil
}

// giveUp stops to wait for the shell's end.
func (sh *shell) giveUp() {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if !sh.isOver() {
		sh.stuck, sh.exit = true, Exit{Code: -1}
		close(sh.over)
	}
}

// ending is how the shell ended, once it is over.
func (sh *shell) ending() Exit {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.exit
}

// isOver reports whether the shell is of no more use.
func (sh *shell) isOver() bool {
	select {
	case <-sh.over:
		return true
	default:
		return false
	}
}

// epitaph says how the shell ended.
func (sh *shell) epitaph() string {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	switch {
	case sh.killed:
		return "it was killed"
	case sh.exit.Signal != 0:
		return "it died of a signal: " + sh.exit.Signal.String()
	}
	return "it ended with status " + strconv.Itoa(sh.exit.Code)
}

// close lets go of a shell. One that hasn't ended does so when it next reads
// its script.
func (sh *shell) close() {
	closeAll([]*os.File{sh.control, sh.status, sh.out.r, sh.errs.r})
}

// report are lines by which the shell says how and where it is. They work with
// whatever options and traps are set: nothing in them fails where errexit would
// see it, and each command is redirected by itself, since a trap that runs
// before it writes where the shell's own output goes.
func report(mark, code string) string {
	return `__shofer=` + code + `
\builtin read -r __shofer2 </proc/self/task/$$/children || \builtin :
\builtin test . -ef "${PWD-}" && __shofer3=here || __shofer3=gone
\builtin printf '%s\0' ` + mark + ` "$__shofer" "$__shofer3" "${PWD-}" "${__shofer2-}" >&50
\builtin pwd -P >&50 || \builtin :
\builtin printf '\0' >&50
\builtin unset -v __shofer __shofer2 __shofer3
`
}

// reportFields are in a report after the mark.
const reportFields = 5

// readStatus reads reports. What isn't the one that is expected is dropped.
func (sh *shell) readStatus() {
	r := bufio.NewReaderSize(sh.status, 512)
	field := func() (string, error) {
		s, err := r.ReadString(0)
		return strings.TrimSuffix(s, "\x00"), err
	}
	for {
		mark, err := field()
		if err != nil {
			return
		}
		sh.mu.Lock()
		expected := mark == sh.expected
		sh.mu.Unlock()
		if !expected {
			continue
		}
		var f [reportFields]string
		for i := range f {
			if f[i], err = field(); err != nil {
				return
			}
		}
		sh.mu.Lock()
		sh.expected = ""
		sh.reports <- newPlace(f)
		sh.mu.Unlock()
	}
}

func newPlace(f [reportFields]string) place {
	at := place{code: -1, gone: f[1] != "here", dir: f[2], real: strings.TrimSuffix(f[4], "\n")}
	if code, err := strconv.Atoi(f[0]); err == nil {
		at.code = code
	}
	for _, s := range strings.Fields(f[3]) {
		if pid, err := strconv.Atoi(s); err == nil {
			at.children = append(at.children, pid)
		}
	}
	return at
}

// newMark is a number that can't be guessed.
func newMark() string { return rand.Text() }

// send sends lines, among which a report is asked for.
func (sh *shell) send(lines func(mark string) string) <-chan place {
	mark := newMark()
	reports := make(chan place, 1)
	sh.mu.Lock()
	sh.expected, sh.reports = mark, reports
	sh.mu.Unlock()
	script := lines(mark)
	go func() {
		_, _ = io.WriteString(sh.control, script) // a shell that is gone is noticed otherwise
	}()
	return reports
}

// request sends a line and waits for the report, for a time that is long for a
// shell.
func (sh *shell) request(ctx context.Context, line, code string) (place, error) {
	reports := sh.send(func(mark string) string { return line + report(mark, code) })
	timer := time.NewTimer(startTimeout)
	defer timer.Stop()
	select {
	case at := <-reports:
		return at, nil
	case <-sh.over:
		return place{}, fmt.Errorf("the shell is gone: %s", sh.epitaph())
	case <-ctx.Done():
		_ = sh.kill() // it may answer at any time
		return place{}, context.Cause(ctx)
	case <-timer.C:
		_ = sh.kill()
		return place{}, fmt.Errorf("the shell doesn't answer")
	}
}

// ask asks where the shell is.
func (sh *shell) ask(ctx context.Context) (place, error) {
	at, err := sh.request(ctx, "", "0")
	if err != nil || !at.gone || at.real == at.dir || at.real == "" {
		return at, err
	}
	// Somebody may have set PWD.
	ok, _, err := sh.holds(ctx, `\builtin test . -ef `+quote(at.real))
	if ok {
		at.dir, at.gone = at.real, false
	}
	return at, err
}

// holds asks whether a command of the shell's succeeds.
func (sh *shell) holds(ctx context.Context, command string) (bool, place, error) {
	at, err := sh.request(ctx, "if "+command+" >/dev/null; then __shofer=0; else __shofer=1; fi\n", `$__shofer`)
	return at.code == 0, at, err
}

// change changes the directory.
func (sh *shell) change(ctx context.Context, given string) (place, error) {
	dir := given
	if !strings.HasPrefix(dir, "/") {
		dir = "./" + dir // nothing that means something to cd, and no search in CDPATH
	}
	ok, at, err := sh.holds(ctx, `\builtin cd `+quote(dir))
	if ok || err != nil {
		return at, err
	}
	e := &DirError{Dir: given, Now: at.dir}
	for _, test := range []struct{ option, why string }{
		{"-e", "working directory does not exist: "},
		{"-d", "working directory is not a directory: "},
		{"-x", "working directory may not be entered: "},
	} {
		if ok, _, err := sh.holds(ctx, `\builtin test `+test.option+` `+quote(dir)); err != nil {
			return place{}, err
		} else if !ok {
			e.Why = test.why + given
			return place{}, e
		}
	}
	e.Why = "working directory can't be entered: " + given
	return place{}, e
}

// eval runs a command. The line before resets the count of lines, so that error
// messages number the command's own. The fence follows the command out of both
// pipes. It is still in the pipe, where the shell hasn't read it, while the
// command runs: nothing that the command writes can contain it by accident.
func (sh *shell) eval(text string, merge bool) (reports <-chan place, fence fence) {
	errs := "2>&52"
	if merge {
		errs = "2>&51"
	}
	reports = sh.send(func(mark string) string {
		return "{ \\builtin :; } <<<$((LINENO=0))\n" +
			`\builtin eval ` + quote(text) + ` </dev/null >&51 ` + errs + " 50>&- 51>&- 52>&-\n" +
			report(mark, `$?`) + sh.fenceLines(&fence)
	})
	return reports, fence
}

// fence says when what was written is passed on.
type fence struct{ out, errs <-chan struct{} }

// fenceLines are lines that write a fence, for which the streams then look.
func (sh *shell) fenceLines(f *fence) string {
	mark := newMark()
	f.out, f.errs = sh.out.arm("\x1f"+mark), sh.errs.arm("\x1f"+mark)
	return `\builtin printf '\037%s' ` + mark + ` >&51
\builtin printf '\037%s' ` + mark + " >&52\n"
}

// again writes another fence.
func (sh *shell) again() (f fence) {
	sh.send(func(mark string) string { return sh.fenceLines(&f) + report(mark, "0") })
	return f
}

// wait waits for a fence. It reports false if it doesn't come.
func (sh *shell) wait(ctx context.Context, f fence) bool {
	for _, seen := range []<-chan struct{}{f.out, f.errs} {
		select {
		case <-seen:
		case <-sh.over:
			return false
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// drain waits until no more output is to be expected. It reports false if it
// gave up before.
func (sh *shell) drain(ctx context.Context) bool {
	idle, longest := time.NewTimer(drainIdle), time.NewTimer(drainMax)
	defer idle.Stop()
	defer longest.Stop()
	out, errs := sh.out.eof, sh.errs.eof
	for out != nil || errs != nil {
		select {
		case <-out:
			out = nil
		case <-errs:
			errs = nil
		case <-sh.out.activity:
			idle.Reset(drainIdle)
		case <-sh.errs.activity:
			idle.Reset(drainIdle)
		case <-idle.C:
			if sh.out.quiet() && sh.errs.quiet() {
				return true
			}
			idle.Reset(drainIdle) // this process had no time to read it, or the writer none
		case <-longest.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// quote returns a text as one word of bash, in one line. The text has no NUL.
func quote(text string) string {
	var b strings.Builder
	b.Grow(len(text) + len(text)/8 + 3)
	b.WriteString("$'")
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\'' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c < ' ' || c == 0x7f:
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('\'')
	return b.String()
}
