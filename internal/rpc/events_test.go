package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shofer-dev/shofer-sandbox/internal/stdio"
	"github.com/shofer-dev/shofer-sandbox/runner"
)

// subscribe subscribes and returns the subscription's id.
func (c *client) subscribe(p params) string {
	c.t.Helper()
	var r struct{ Subscription string }
	c.ok("subscribe", p, &r)
	return r.Subscription
}

// story collects what is told of a command until its end.
type story struct {
	kinds  []string
	output map[string]string
	last   *result
	lost   int64
	prints int // events "output"
}

func (c *client) story(sub, id string) story {
	c.t.Helper()
	s := story{output: map[string]string{}}
	next := map[string]int64{}
	for s.last == nil {
		m := c.next()
		switch {
		case m.Subscription != sub:
		case m.Event != nil && m.Event.ID == id:
			if m.Event.Kind == "output" { // they come when they come
				s.prints++
			} else {
				s.kinds = append(s.kinds, m.Event.Kind)
			}
			s.last = m.Event.Result
		case m.Output != nil && m.Output.ID == id:
			o := m.Output
			if o.From != next[o.Stream]+o.Lost || o.Next < o.From {
				c.t.Errorf("%s: bytes %d to %d after %d, %d lost", o.Stream, o.From, o.Next, next[o.Stream], o.Lost)
			}
			next[o.Stream] = o.Next
			s.output[o.Stream] += o.Text
			s.lost += o.Lost
		}
	}
	return s
}

func TestEvents(t *testing.T) {
	c := newSession(t, Config{})
	sub := c.subscribe(params{"output": true})
	_, answer := c.send("run", params{"command": "echo out; echo err >&2; sleep 0.3; echo more", "label": "l"})
	var first got
	if first = c.next(); first.Event == nil {
		t.Fatalf("the first message is %+v; want an event", first)
	}
	if first.Event.Kind != "queued" || first.Subscription != sub {
		t.Errorf("the first event is %+v", first.Event)
	}
	s := c.story(sub, first.Event.ID)
	want := []string{"handed_off", "exited", "drained", "settled"}
	if !slices.Equal(s.kinds, want) || s.output["stdout"] != "out\nmore\n" || s.output["stderr"] != "err\n" || *s.last.ExitCode != 0 || s.prints == 0 {
		t.Errorf("told: %+v; want %q", s, want)
	}
	c.await(answer)

	c.ok("unsubscribe", params{"subscription": sub}, nil)
	c.run(params{"command": "true"})
	c.ok("info", nil, nil)
	if len(c.rest) > 0 {
		t.Errorf("told after unsubscribe: %+v", <-c.rest)
	}

	// Only some, and only of one.
	r := c.start(params{"command": "read -r x; echo $x", "open_stdin": true, "merge": true})
	sub = c.subscribe(params{"command": r.ID, "events": []string{"settled", "stopping"}, "output": true})
	c.run(params{"command": "true"})
	c.ok("write", params{"command": r.ID, "text": "hello\n"}, nil)
	s = c.story(sub, r.ID)
	if !slices.Equal(s.kinds, []string{"settled"}) || s.output["output"] != "hello\n" {
		t.Errorf("told of one: %+v", s)
	}

	// Of one that has ended, and of one that has never run.
	sub = c.subscribe(params{"command": r.ID, "output": true})
	if s = c.story(sub, r.ID); !slices.Equal(s.kinds, []string{"settled"}) || s.output["output"] != "hello\n" {
		t.Errorf("told of one that has ended: %+v", s)
	}
	m := c.call("start", params{"argv": []string{"/nonesuch"}})
	if err := json.Unmarshal(m.Error.Result, &r); err != nil {
		t.Fatal(err)
	}
	sub = c.subscribe(params{"command": r.ID})
	if s = c.story(sub, r.ID); !slices.Equal(s.kinds, []string{"failed"}) {
		t.Errorf("told of one that never ran: %+v", s)
	}

	// From the beginning on, of those that run already.
	r = c.start(params{"command": "echo early; sleep 60"})
	for r.Stdout.Bytes == 0 {
		c.ok("get", params{"command": r.ID}, &r)
	}
	sub = c.subscribe(params{"output": true})
	c.ok("kill", params{"command": r.ID}, nil)
	s = c.story(sub, r.ID)
	if want := []string{"stopping", "signalled", "exited", "drained", "settled"}; !slices.Equal(s.kinds, want) || s.output["stdout"] != "early\n" {
		t.Errorf("told of one that is killed: %+v; want %q", s, want)
	}
}

// TestEventsAreBinary: a rune is never split, and what isn't one is in base64.
func TestEventsAreBinary(t *testing.T) {
	c := newSession(t, Config{})
	sub := c.subscribe(params{"output": true, "events": []string{"settled"}})
	r := c.start(params{"command": `printf '\342\202'; read -r x; printf '\254'; read -r x; printf '\377'`, "open_stdin": true})
	// Each part is told of, or was read at least, before there is another one.
	goOn := func() { c.ok("write", params{"command": r.ID, "text": "\n"}, nil) }
	for r.Stdout.Bytes < 2 {
		c.ok("get", params{"command": r.ID}, &r)
	}
	goOn()
	var texts []string
	for {
		m := c.next()
		if m.Event != nil {
			break
		}
		if m.Subscription == sub && m.Output.ID == r.ID {
			texts = append(texts, m.Output.Encoding+" "+m.Output.Text)
			if len(texts) == 1 {
				goOn()
			}
		}
	}
	if want := []string{"utf-8 €", "base64 /w=="}; !slices.Equal(texts, want) {
		t.Errorf("told: %q; want %q", texts, want)
	}
}

// TestSlowHost: a host that doesn't read keeps no command waiting, and when it
// reads, it gets everything.
func TestSlowHost(t *testing.T) {
	rc := runnerConfig(t)
	inR, inW := pipe(t)
	outR, outW := pipe(t)
	served := make(chan error, 1)
	go func() {
		err := Serve(context.WithoutCancel(t.Context()), Config{Runner: rc}, inR, outW)
		inR.Close()
		outW.Close()
		served <- err
	}()
	const bytes = 2_870_895 // more than the pipe and the queue hold
	for _, line := range []string{
		`{"id": 1, "method": "subscribe", "params": {"output": true}}`,
		`{"id": 2, "method": "start", "params": {"command": "trap '' TERM; seq 426000; echo $$ > done; sleep 60"}}`,
	} {
		if _, err := io.WriteString(inW, line+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	done := filepath.Join(rc.Executor.Authority().Dir, "done")
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(done); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the command waits for the host")
		}
	}
	host := newClient(t, inW, outR)
	next, text := int64(0), strings.Builder{}
	for next < bytes {
		if m := host.next(); m.Output != nil {
			if m.Output.From != next || m.Output.Lost > 0 {
				t.Fatalf("%d bytes, and then %+v", next, m.Output)
			}
			next = m.Output.Next
			text.WriteString(m.Output.Text)
		}
	}
	if !strings.HasSuffix(text.String(), "\n425999\n426000\n") || text.Len() != bytes {
		t.Errorf("the host got %d bytes", text.Len())
	}
	inW.Close()
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
	<-host.gone
	outR.Close()
}

// TestUnreadHost: a host that never reads is given up.
func TestUnreadHost(t *testing.T) {
	inR, inW := pipe(t)
	outR, outW := pipe(t)
	served := make(chan error, 1)
	rc := runnerConfig(t)
	go func() { served <- Serve(context.WithoutCancel(t.Context()), Config{Runner: rc}, inR, outW) }()
	go func() {
		for { // an answer has some kilobytes
			if _, err := io.WriteString(inW, `{"id": 1, "method": "info"}`+"\n"); err != nil {
				return
			}
		}
	}()
	if err := <-served; !errors.Is(err, stdio.ErrUnread) {
		t.Errorf("Serve: %v; want ErrUnread", err)
	}
	for _, f := range []*os.File{inR, inW, outR, outW} {
		f.Close()
	}
}

// TestSlowFeed: what a slow host isn't told of is counted, and the end is told
// all the same.
func TestSlowFeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		s := &server{out: stdio.NewQueue(w, nil)}
		f := &feed{s: s, e: &runner.Execution{}, sub: &subscription{id: "s1", ctx: t.Context()}, wake: make(chan struct{}, 1)}
		const more = 10
		for i := range uint64(maxEvents/2 + more) {
			f.put(runner.Event{Seq: i + 1, Kind: runner.EventSignalled})
			f.put(runner.Event{Seq: i + 1, Kind: runner.EventOutput})
			f.put(runner.Event{Seq: i + 2, Kind: runner.EventOutput}) // instead of the one before
		}
		f.put(runner.Event{Seq: 1000, Kind: runner.EventSettled})
		go f.run()
		var told []got
		for in := json.NewDecoder(r); len(told) < maxEvents+2; {
			var m got
			if err := in.Decode(&m); err != nil {
				t.Fatal(err)
			}
			told = append(told, m)
		}
		if m := told[maxEvents]; m.Dropped == nil || m.Dropped.Events != more {
			t.Errorf("before the end: %+v; want %d dropped", m.Dropped, more)
		}
		if m := told[maxEvents-1].Event; m == nil || m.Kind != "output" || m.Seq != maxEvents/2+more+1 {
			t.Errorf("the last one that was kept: %+v", m)
		}
		if m := told[maxEvents+1].Event; m == nil || m.Kind != "settled" {
			t.Errorf("at the end: %+v", m)
		}
		if err := s.out.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
