package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"syscall"

	"github.com/shofer-dev/shofer-sandbox/internal/linux"
	"github.com/shofer-dev/shofer-sandbox/internal/witness"
	"github.com/shofer-dev/shofer-sandbox/policy"
	"github.com/shofer-dev/shofer-sandbox/seccomp"
	"github.com/shofer-dev/shofer-sandbox/spawn"
	"golang.org/x/sys/unix"
)

// Refusal is something that a command was refused, as seen when it was tried
// ([Options.TraceDenials]).
type Refusal struct {
	*Answer
	// Pid and Program are the first process that tried it, by its number and the
	// name that it goes by.
	Pid     int    `json:"pid"`
	Program string `json:"program"`
	// Call is the system call, as "openat".
	Call string `json:"call"`
	// Count is how often a program of that name tried.
	Count int `json:"count"`
}

// Trace is what was seen of a command that is traced.
type Trace struct {
	// Refused are in the order in which they were tried first.
	Refused []Refusal
	// Unseen are programs of which not everything was seen.
	Unseen []Unseen
	// More is how many refusals there were that aren't in the list, since it was
	// full.
	More int
}

// Unseen is a program that couldn't be traced, or not in all that it did.
type Unseen struct {
	Program string `json:"program"`
	Why     string `json:"why"`
	// Count is how many calls that is about.
	Count int `json:"count"`
}

// traceLimit bounds how many refusals are kept, and of how many programs what
// wasn't seen.
const traceLimit = 1000

// whyRing is said of programs that make an io_uring.
const whyRing = "it uses io_uring, and what is done by that isn't seen"

// whyMore is said of all programs together that the list has no place for.
const whyMore = "there are more such programs than are listed"

// WitnessError says that a command can't be traced.
type WitnessError struct {
	// Err is the kernel's answer.
	Err error
}

func (e *WitnessError) Error() string {
	var s *seccomp.SupportError
	switch {
	case errors.Is(e.Err, errForeignProc):
		return "refusals can't be traced: " + e.Err.Error()
	case errors.Is(e.Err, syscall.EBUSY):
		return "refusals can't be traced: the system calls of this process are watched already, as by a container engine or by another trace around this one"
	case errors.As(e.Err, &s) && (s.Errno == syscall.EINVAL || s.Errno == syscall.ENOSYS):
		return "refusals can't be traced: this kernel doesn't show system calls to others: it is older than Linux 5.7, or an emulation"
	case errors.As(e.Err, &s):
		return "refusals can't be traced: " + s.Reason()
	}
	return fmt.Sprintf("refusals can't be traced: %v", e.Err)
}

// Unwrap returns the cause.
func (e *WitnessError) Unwrap() error { return e.Err }

// errForeignProc says that who makes a call can't be looked at.
var errForeignProc = errors.New("/proc isn't there, or shows the processes of another PID namespace, as below unshare --pid without --mount-proc")

// witnessHint says what to do without a trace.
const witnessHint = "run without --trace-denials; what failed commands print is looked at anyway by the runner, and --why answers about one path"

// addWitness adds to a plan what shows the command's calls, if it is traced.
func (s *Sandbox) addWitness(v *variant, p *spawn.Plan) error {
	if !s.options.TraceDenials {
		return nil
	}
	if !linux.OwnProc() { // the same number would be another process
		return &SetupError{Stage: StageProbe, Err: &WitnessError{errForeignProc}}
	}
	// Mounts refuse what Landlock doesn't.
	mounts := v.boxed() || v.layered()
	w := seccomp.Witness{Metadata: mounts, Connect: len(v.resolved.Mask) > 0 || v.feature(policy.PromisePathSockets, policy.Enforced).State == policy.Enforced}
	var err error
	if p.Witness, err = w.Compile(); err != nil {
		return &SetupError{Stage: StageConfine, Err: err}
	}
	return nil
}

// trace watches a command's calls, and keeps what is refused.
type trace struct {
	s       *Sandbox
	v       *variant
	calls   *seccomp.Listener
	judging *policy.Judging
	files   []fileID // that may be opened by name, whatever their path

	mu      sync.Mutex
	refused []Refusal
	more    int
	unseen  []Unseen
	known   map[attempted]int // into refused; -1 if it isn't refused after all
}

// attempted is what is counted together.
type attempted struct {
	program, call, real string
	op                  policy.Op
}

// traceCalls watches what a listener shows of a command that got these files,
// until the last of its processes has ended. It is nil without a listener.
func (s *Sandbox) traceCalls(v *variant, listener int, files []int) *trace {
	if listener < 0 {
		return nil
	}
	t := &trace{
		s: s, v: v, calls: seccomp.NewListener(listener), known: map[attempted]int{},
		judging: v.resolved.Judging(s.options.Environ),
	}
	for _, fd := range regularFiles(files) {
		var st unix.Stat_t
		if unix.Fstat(fd, &st) == nil {
			t.files = append(t.files, fileID{st.Dev, st.Ino})
		}
	}
	go func() {
		defer func() { _ = t.calls.Close() }() // nobody waits any more
		for {
			c, err := t.calls.Next()
			if err != nil {
				return
			}
			t.see(c)
			t.calls.Continue(c)
		}
	}()
	return t
}

// see notes what will be refused of a call. Whatever it finds, the call goes on,
// and the kernel decides.
func (t *trace) see(c *seccomp.Call) {
	act, err := witness.Look(c)
	unseen := func(why string) {
		_, program := act.Process()
		t.addUnseen(program, why)
	}
	var blind *witness.BlindError
	switch {
	case err != nil && !t.calls.Waits(c):
		return // it has ended
	case errors.As(err, &blind) && errors.Is(blind.Err, fs.ErrPermission):
		unseen("it may not be looked at: it is another user's, or keeps others from tracing it")
		return
	case err != nil:
		unseen(whyNot(err))
		return
	case act.Ring:
		unseen(whyRing)
	}
	for i := range act.Accesses {
		x := &act.Accesses[i]
		verdict := t.judging.At(x.Real, x.Exists, x.Op)
		if verdict.Allows() || x.Metadata && !x.ReadOnly || t.given(x) || !act.Permits(x) {
			continue
		}
		pid, program := act.Process()
		// All has been read: was it this process's, and no other's by now?
		if !t.calls.Waits(c) {
			return
		}
		t.add(x, verdict, Refusal{Pid: pid, Program: program, Call: act.Call(), Count: 1})
	}
}

// given reports whether it is one of the files that the command got.
func (t *trace) given(x *witness.Access) bool {
	return x.Exists && slices.Contains(t.files, fileID{x.File.Dev, x.File.Ino})
}

func (t *trace) add(x *witness.Access, verdict policy.Verdict, r Refusal) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := attempted{r.Program, r.Call, x.Real, x.Op}
	i, known := t.known[key]
	if !known {
		if len(t.known) == traceLimit {
			t.more++
			return
		}
		i = -1
		r.Answer = t.s.answerTo(t.v, x.Path, verdict, x.Op)
		r.Permitted = true
		if !r.Allowed {
			i = len(t.refused)
			r.Count = 0
			t.refused = append(t.refused, r)
		}
		t.known[key] = i
	}
	if i >= 0 {
		t.refused[i].Count++
	}
}

// whyNot says why a process couldn't be looked at, without what differs from one
// to the next, as its number in a path.
func whyNot(err error) string {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return "it couldn't be looked at: " + errno.Error()
	}
	return err.Error()
}

// addUnseen counts what wasn't seen: for a program and a reason, or, when there
// are too many, for all others together.
func (t *trace) addUnseen(program, why string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := t.findUnseen(program, why)
	if i < 0 && len(t.unseen) >= traceLimit {
		program, why = "", whyMore
		i = t.findUnseen(program, why)
	}
	if i < 0 {
		t.unseen = append(t.unseen, Unseen{program, why, 1})
		return
	}
	t.unseen[i].Count++
}

func (t *trace) findUnseen(program, why string) int {
	return slices.IndexFunc(t.unseen, func(u Unseen) bool { return u.Program == program && u.Why == why })
}

// result is what was seen until now; nil if nobody looks.
func (t *trace) result() *Trace {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return &Trace{Refused: slices.Clone(t.refused), Unseen: slices.Clone(t.unseen), More: t.more}
}

// Trace returns what was seen of the command until now; nil if it isn't traced.
// When the command has ended, all that it did is in it. What it has left is
// traced on, for as long as this process lives.
func (s *Started) Trace() *Trace { return s.trace.result() }
