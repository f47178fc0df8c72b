package rpc

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/shofer-dev/shofer-sandbox/runner"
)

const (
	// maxSubscriptions is how many there may be at once.
	maxSubscriptions = 64
	// maxEvents is how many events of a command wait for a slow host, besides
	// those that say how much it has printed, of which the last is enough.
	maxEvents = 256
	// pieceSize is how much output a message has at most, in bytes.
	pieceSize = 32 << 10
	// gatherFor is how long output is gathered before there is a message of it.
	gatherFor = 20 * time.Millisecond
)

// subscriptions are who is told of events.
type subscriptions struct {
	feeding sync.WaitGroup

	mu    sync.Mutex
	count int
	all   map[string]*subscription
}

// subscription is a host's wish to be told.
type subscription struct {
	id      string
	command string // "" for all
	events  []runner.EventKind
	output  bool
	ctx     context.Context
	cancel  context.CancelFunc
	feeds   map[string]*feed // under subscriptions.mu, by command
}

// dropped says that a host that is slow wasn't told everything.
type dropped struct {
	// ID is the command's.
	ID string `json:"id"`
	// Events is how many of its events were dropped here.
	Events int `json:"events"`
}

// feed tells a subscriber of a command, as fast as the host reads and without
// keeping the command waiting.
type feed struct {
	s       *server
	sub     *subscription
	e       *runner.Execution
	begins  bool           // with "queued": nothing is told of it before
	pumping sync.WaitGroup // its output, which has an end before it has

	mu      sync.Mutex
	waiting []runner.Event
	dropped int
	wake    chan struct{}
}

// end waits for the feeds to tell the ends of all commands, which have ended, or
// for ctx: then they stop.
func (ss *subscriptions) end(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() {
		ss.mu.Lock()
		defer ss.mu.Unlock()
		for _, sub := range ss.all {
			sub.cancel()
		}
	})
	defer stop()
	ss.feeding.Wait()
}

// observe is [runner.Config.Observe].
func (s *server) observe(ev runner.Event) {
	if also := s.config.Runner.Observe; also != nil {
		also(ev)
	}
	s.subs.mu.Lock()
	defer s.subs.mu.Unlock()
	for _, sub := range s.subs.all {
		f := sub.feeds[ev.ID]
		if f == nil && ev.Kind == runner.EventQueued && sub.command == "" {
			if e, err := s.runner.Get(ev.ID); err == nil {
				f = s.feed(sub, e, true)
			}
		}
		if f == nil {
			continue
		}
		f.put(ev)
		if final(ev.Kind) {
			delete(sub.feeds, ev.ID)
		}
	}
}

// final reports whether an event is a command's last one.
func final(k runner.EventKind) bool { return k == runner.EventSettled || k == runner.EventFailed }

// subscribe begins to tell the host of events: of a command from now on, and of
// its output from the beginning on. Of one that has ended, it tells the end.
func (s *server) subscribe(_ context.Context, p *struct {
	of
	Events []runner.EventKind `json:"events"`
	Output bool               `json:"output"`
},
) (any, error) {
	for _, k := range p.Events {
		if !slices.Contains(kinds, k) {
			return nil, invalid("there is no event %s", quoted(string(k)))
		}
	}
	var one *runner.Execution
	if p.Command != "" {
		var err error
		if one, err = s.runner.Get(p.Command); err != nil {
			return nil, err
		}
	}
	s.subs.mu.Lock()
	defer s.subs.mu.Unlock()
	if len(s.subs.all) >= maxSubscriptions {
		return nil, &Error{Code: CodeTooManyRequests, Message: "too many subscriptions"}
	}
	s.subs.count++
	sub := &subscription{
		id: "s" + strconv.Itoa(s.subs.count), command: p.Command, events: p.Events, output: p.Output,
		feeds: map[string]*feed{},
	}
	sub.ctx, sub.cancel = context.WithCancel(context.WithoutCancel(s.ctx))
	if s.subs.all == nil {
		s.subs.all = map[string]*subscription{}
	}
	s.subs.all[sub.id] = sub
	if one != nil {
		s.begin(sub, one)
	} else {
		for _, e := range s.runner.List() {
			if !e.State().Final() {
				s.begin(sub, e)
			}
		}
	}
	return struct {
		Subscription string `json:"subscription"`
	}{sub.id}, nil
}

// begin tells of a command that was there before the subscription. subs.mu is
// held.
func (s *server) begin(sub *subscription, e *runner.Execution) {
	f := s.feed(sub, e, false)
	if !e.State().Final() {
		return
	}
	// Its last event may be on its way: then it comes too late.
	delete(sub.feeds, e.ID())
	last := runner.Event{ID: e.ID(), Time: time.Now(), Kind: runner.EventSettled, Pid: e.Pid(), Result: e.Result()}
	if last.Result.State == runner.StateFailed {
		last.Kind, last.Text = runner.EventFailed, last.Result.Err.Error()
	}
	f.put(last)
}

var kinds = []runner.EventKind{
	runner.EventQueued, runner.EventHandedOff, runner.EventOutput, runner.EventFeedback, runner.EventBackgrounded,
	runner.EventStopping, runner.EventSignalled, runner.EventExited, runner.EventDrained, runner.EventSettled,
	runner.EventFailed,
}

func (s *server) unsubscribe(_ context.Context, p *struct {
	Subscription string `json:"subscription"`
},
) (any, error) {
	s.subs.mu.Lock()
	sub := s.subs.all[p.Subscription]
	delete(s.subs.all, p.Subscription)
	s.subs.mu.Unlock()
	if sub == nil {
		return nil, &Error{Code: CodeUnknownSubscription, Message: "there is no subscription " + quoted(p.Subscription)}
	}
	sub.cancel()
	return none{}, nil
}

// feed begins to tell a subscriber of a command, whose first event may be still to
// come. subs.mu is held.
func (s *server) feed(sub *subscription, e *runner.Execution, begins bool) *feed {
	f := &feed{s: s, sub: sub, e: e, begins: begins, wake: make(chan struct{}, 1)}
	if !begins {
		f.output()
	}
	sub.feeds[e.ID()] = f
	s.subs.feeding.Go(f.run)
	return f
}

// put adds an event. It doesn't wait.
func (f *feed) put(ev runner.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := len(f.waiting)
	switch {
	case n > 0 && ev.Kind == runner.EventOutput && f.waiting[n-1].Kind == runner.EventOutput:
		f.waiting[n-1] = ev
	case n >= maxEvents && !final(ev.Kind):
		f.dropped++
	default:
		f.waiting = append(f.waiting, ev)
	}
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// take returns the next event, and how many were dropped after those before.
func (f *feed) take() (ev runner.Event, lost int, err error) {
	for {
		f.mu.Lock()
		if len(f.waiting) > 0 {
			ev, f.waiting = f.waiting[0], f.waiting[1:]
			if len(f.waiting) == 0 || final(f.waiting[0].Kind) {
				lost, f.dropped = f.dropped, 0
			}
			f.mu.Unlock()
			return ev, lost, nil
		}
		f.mu.Unlock()
		select {
		case <-f.wake:
		case <-f.sub.ctx.Done():
			return ev, 0, f.sub.ctx.Err()
		}
	}
}

// output begins to tell what the command prints, if that is wanted.
func (f *feed) output() {
	if !f.sub.output {
		return
	}
	for _, r := range streams(f.e) {
		f.pumping.Go(func() { f.pump(r) })
	}
}

// run tells until the command has ended, or nobody wants to hear it.
func (f *feed) run() {
	for {
		ev, lost, err := f.take()
		if err != nil || f.tell(ev, lost) != nil || final(ev.Kind) {
			return
		}
		if f.begins {
			f.begins = false
			f.output()
		}
	}
}

func (f *feed) tell(ev runner.Event, lost int) error {
	if final(ev.Kind) {
		f.pumping.Wait()
	}
	if len(f.sub.events) == 0 || slices.Contains(f.sub.events, ev.Kind) {
		if err := f.send(message{Event: &ev}); err != nil {
			return err
		}
	}
	if lost > 0 {
		return f.send(message{Dropped: &dropped{f.e.ID(), lost}})
	}
	return nil
}

// pump tells what a stream has, until it ends or nobody wants to hear it.
func (f *feed) pump(r *reader) {
	gather := time.NewTimer(gatherFor)
	defer gather.Stop()
	for seen := int64(0); ; {
		if r.Source.Wait(f.sub.ctx, seen) != nil {
			return
		}
		seen = r.Source.Size() // half a rune is not looked at again until there is more
		d, err := next(&r.Cursor, pieceSize)
		if d.Next > d.From || d.Lost > 0 {
			seen = d.Next
			d.ID, d.Stream = f.e.ID(), r.name
			if f.send(message{Output: &d}) != nil {
				return
			}
		}
		if err != nil {
			return // the end
		}
		if d.Next-d.From >= pieceSize/2 {
			continue
		}
		gather.Reset(gatherFor)
		select {
		case <-gather.C:
		case <-f.sub.ctx.Done():
			return
		}
	}
}

// send sends a message when the host has read most of those before.
func (f *feed) send(m message) error {
	if err := f.s.out.Room(f.sub.ctx); err != nil {
		return err
	}
	m.Subscription = f.sub.id
	f.s.send(m)
	return f.sub.ctx.Err()
}
