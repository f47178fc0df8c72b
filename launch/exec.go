package launch

import (
	"time"

	"github.com/shofer-dev/shofer-sandbox/internal/tamper"
	"github.com/shofer-dev/shofer-sandbox/mountns"
	"github.com/shofer-dev/shofer-sandbox/policy"
	"github.com/shofer-dev/shofer-sandbox/spawn"
	"golang.org/x/sys/unix"
)

// Command is what the launcher starts: by [Sandbox.Exec] in place of the
// process, or by [Sandbox.Start] in a child. Programs that embed the package
// want [Cmd].
type Command struct {
	// Args are the command and its arguments. The command is looked up in the
	// PATH of Env.
	Args []string
	// Env is the environment; nil is the sandbox's.
	Env []string
	// Dir is the working directory; zero is the process's own.
	Dir string
	// Inherit are descriptors above 2 that the command gets. All others are
	// shut.
	Inherit []int
	// NewSession starts it in a new session.
	NewSession bool
	// Guard puts a guard between [Sandbox.Start] and the command, as [Cmd.Guard]
	// does, where [CanGuard] says that it can.
	Guard bool
	// Linger is how long what the command has left gets to end by itself when
	// it has ended, where its end is theirs: under bubblewrap, and with a guard.
	// Zero is not at all. Under bubblewrap what has ended is reported at once.
	Linger time.Duration
	// Group, if not zero, is the process group that it joins.
	Group int
	// Record gets the lines "applied", and "started" where there is a parent
	// to write it. Nil writes none.
	Record *Record
}

// plan makes the command's plan under v and writes "applied". The caller calls
// release when the plan isn't needed any more.
func (s *Sandbox) plan(v *variant, c *Command, overlays *slots, g *group) (p *spawn.Plan, release func(), err error) {
	env := c.Env
	if env == nil {
		env = v.resolved.Env
	}
	path, err := lookPath(c.Args[0], c.Dir, env)
	if err != nil {
		return nil, func() {}, err
	}
	p = &spawn.Plan{
		Path: path, Argv: c.Args, Env: env, Dir: c.Dir,
		Files: []int{0, 1, 2}, Inherit: c.Inherit,
		NewSession: c.NewSession, Group: c.Group, KeepIgnored: keptSignals,
	}
	s.limits.addTo(p, g)
	d, release, err := s.confine(v, p, overlays)
	if err != nil {
		return nil, release, err
	}
	if c.Record != nil {
		a := v.applied
		if d != nil {
			a.addDomain(d)
		}
		a.addGroup(g)
		c.Record.Applied(a)
	}
	return p, release, nil
}

// Exec confines the calling thread and replaces the process by the command.
// It returns only on failure, with a [*SetupError] or an [*ExecError]; the
// process is then half confined and must exit. [Sandbox.NeedsParent] says
// whether it can be used.
//
// The caller must hold [runtime.LockOSThread] since before [Prepare].
func (s *Sandbox) Exec(c *Command) error {
	end, err := s.begin()
	if err != nil {
		return err
	}
	defer end()
	p, release, err := s.plan(s.variant(), c, &slots{}, &group{})
	defer release()
	if err != nil {
		return err
	}
	return startError(spawn.Exec(p), c.Args[0])
}

// Start starts the command in a child and returns when its exec has succeeded.
// The caller waits for the process.
//
// Where the machine turns out to have no mount layer, the record gets a second
// line "applied": the last one counts.
func (s *Sandbox) Start(c *Command) (*Started, error) {
	started, err := s.attempt(nil, func(v *variant, overlays *slots, g *group) (*Started, error) {
		p, release, err := s.plan(v, c, overlays, g)
		defer release()
		if err != nil {
			return nil, err
		}
		if v.boxed() {
			b, err := v.startBox(p, c.Linger)
			if err != nil {
				return nil, err
			}
			return &Started{Box: b, trace: s.traceCalls(v, b.listener, p.Files)}, nil
		}
		if c.Guard {
			started, err := s.startGuarded(v, p, overlays, &spawn.Guard{Linger: c.Linger, InSession: !c.NewSession, Stops: true})
			if err != nil {
				return nil, err
			}
			started.Guarded = newGuarded(started)
			return started, nil
		}
		return s.startPlan(v, p, c.Args[0])
	})
	if err != nil {
		return nil, err
	}
	if started.Box != nil {
		c.Record.Started(started.Box.Pid)
	} else {
		c.Record.Started(started.Pid)
	}
	return started, nil
}

// Started is a command that runs.
type Started struct {
	// Pid is that of the command, a child of this process, and Box and Guarded are
	// nil; or it is a child of a guard, and Guarded is the command; or it is 0 and
	// Box is the command, under [BackendBwrap].
	Pid     int
	Box     *Box
	Guarded *Guarded
	pidfd   int           // of Pid, until somebody watches; -1 is none
	state   *tamper.State // nil if nothing is compared
	slots   *slots        // of the caches
	group   *group
	unwatch func() // nil if nothing is watched
	trace   *trace // nil if nobody looks

	// Where there is a guard Pid is its child, and guard its own id.
	guarded *spawn.Guarded
	guard   int
}

// watch has what is replaced outside covered again.
func (s *Started) watch(w *mountns.Watch) {
	pid, pidfd := s.Pid, s.pidfd // without pidfd: a child isn't reaped, so the number is its own
	switch {
	case s.Box != nil:
		if pid, pidfd = s.Box.takeStage(); pidfd < 0 {
			return
		}
	case s.guarded != nil && pidfd < 0:
		return // it has ended
	}
	switch {
	case w != nil:
		s.unwatch, _ = w.Add(pid, pidfd) // what isn't watched is compared
	case pidfd >= 0:
		_ = unix.Close(pidfd)
	}
}

// Tampered says which protected paths are not as they were before the start.
// It is to be called when the command has ended, with all that it left: what
// somebody outside replaces isn't covered again from then on, and what the
// command has written to its caches is given to others.
func (s *Started) Tampered() []Change {
	s.slots.release()
	if s.unwatch != nil {
		s.unwatch()
	}
	if s.state == nil {
		return nil
	}
	var changes []Change
	for _, c := range s.state.Compare() {
		changes = append(changes, Change{Path: c.Path, What: string(c.What), Why: c.Why})
	}
	return changes
}

// Restore puts back what Tampered finds, as far as it was kept, and says what
// it did and what it could not, a line each. What was created is moved aside,
// never deleted.
func (s *Started) Restore() (done []string) {
	if s.state == nil {
		return nil
	}
	for _, r := range s.state.Restore(s.state.Compare()) {
		done = append(done, r.String())
	}
	return done
}

// Change is a protected path that is not as it was.
type Change struct {
	Path policy.Path `json:"path"`
	// What is created, changed, removed or replaced.
	What string `json:"what"`
	// Why says what the path is and what it can do.
	Why string `json:"why"`
}

// startPlan starts a plan. Package os isn't asked for a process, since it first
// tries what the kernel can do, by a child of its own.
func (s *Sandbox) startPlan(v *variant, p *spawn.Plan, name string) (*Started, error) {
	sp, err := spawn.Start(p)
	if err != nil {
		return nil, startError(err, name)
	}
	started := &Started{Pid: sp.Pid, pidfd: sp.PidFD, trace: s.traceCalls(v, sp.Listener, p.Files)}
	if g := sp.Guarded; g != nil {
		started.Pid, started.guard, started.guarded = g.Pid, sp.Pid, g
	}
	return started, nil
}
