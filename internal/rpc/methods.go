package rpc

import (
	"context"
	"encoding/json"

	"github.com/shofer-dev/shofer-sandbox/runner"
)

// method is something that a host can ask for.
type method struct {
	// quick says that it waits for nothing. It is done before the next line is
	// read.
	quick bool
	// lane names what it has to be in order with; nil is nothing.
	laneOf func(q request) string
	do     func(s *server, ctx context.Context, q request) (any, error)
}

func (m method) lane(q request) string {
	if m.laneOf == nil {
		return ""
	}
	return m.laneOf(q)
}

// methods has all of them. It is filled by init since it holds what uses it.
var methods map[string]method

func init() {
	methods = map[string]method{
		"info":        quick((*server).info),
		"resolve":     slow((*server).resolve),
		"run":         slow((*server).run),
		"start":       slow((*server).start),
		"wait":        slow((*server).wait),
		"background":  quick((*server).background),
		"get":         quick((*server).get),
		"list":        quick((*server).list),
		"read":        slow((*server).read),
		"search":      slow((*server).search),
		"write":       ordered((*server).write),
		"close_stdin": ordered((*server).closeStdin),
		"resize":      quick((*server).resize),
		"kill":        slow((*server).kill),
		"feedback":    quick((*server).feedback),
		"abort":       {quick: true, do: (*server).abort},
		"approve":     quick((*server).approve),
		"subscribe":   quick((*server).subscribe),
		"unsubscribe": quick((*server).unsubscribe),
	}
}

// slow makes a method of a function of its parameters.
func slow[P any](f func(*server, context.Context, *P) (any, error)) method {
	return method{do: func(s *server, ctx context.Context, q request) (any, error) {
		var p P
		if err := decode(q.Params, &p); err != nil {
			return nil, err
		}
		return f(s, ctx, &p)
	}}
}

func quick[P any](f func(*server, context.Context, *P) (any, error)) method {
	m := slow(f)
	m.quick = true
	return m
}

// ordered makes a method of which those for one command are done in order.
func ordered[P any](f func(*server, context.Context, *P) (any, error)) method {
	m := slow(f)
	m.laneOf = func(q request) string {
		var of struct{ Command string }
		if json.Unmarshal(q.Params, &of) != nil {
			return ""
		}
		return of.Command
	}
	return m
}

// none are the parameters of a method without.
type none struct{}

// of are the parameters of a method that is about a command.
type of struct {
	Command string `json:"command"`
}

func (s *server) info(_ context.Context, _ *none) (any, error) {
	return struct {
		Protocol  int              `json:"protocol"`
		Version   string           `json:"version"`
		Approve   bool             `json:"approve"`
		Store     bool             `json:"store"`
		Authority runner.Authority `json:"authority"`
	}{Protocol, s.config.Version, s.config.Approve, s.config.Runner.Store != nil, s.runner.Authority()}, nil
}

// spec returns what would run.
func (s *server) spec(c *command) (*runner.Spec, error) {
	q, err := c.request()
	if err != nil {
		return nil, err
	}
	return s.runner.Resolve(q)
}

func (s *server) resolve(_ context.Context, c *command) (any, error) {
	spec, err := s.spec(c)
	if err != nil {
		return nil, err // not a typed nil
	}
	return spec, nil
}

func (s *server) run(ctx context.Context, c *command) (any, error) {
	spec, err := s.spec(c)
	if err != nil {
		return nil, err
	}
	res, err := s.runner.Run(ctx, spec)
	return settled(res, err)
}

// settled is the answer about a command: an error of one that has run is among
// its facts.
func settled(res *runner.Result, err error) (any, error) {
	if err == nil || res != nil && res.HandedOff {
		return res, nil
	}
	e := *asError(err)
	e.Result = res
	return nil, &e
}

func (s *server) start(ctx context.Context, c *command) (any, error) {
	spec, err := s.spec(c)
	if err != nil {
		return nil, err
	}
	life, end := context.WithCancelCause(s.ctx) // it goes on when the request is answered
	stop := context.AfterFunc(ctx, func() { end(context.Cause(ctx)) })
	e, err := s.runner.Start(life, spec)
	stop()
	if err != nil {
		end(nil)
		if e == nil {
			return nil, err
		}
		return settled(e.Result(), err)
	}
	s.requests.Go(func() {
		<-e.Done()
		end(nil)
	})
	return e.Result(), nil
}

func (s *server) wait(ctx context.Context, p *struct {
	of
	Timeout *millis `json:"timeout_ms"`
},
) (any, error) {
	e, err := s.runner.Get(p.Command)
	if err != nil {
		return nil, err
	}
	within, cancel := ctx, context.CancelFunc(func() {})
	if p.Timeout != nil {
		if within, cancel, err = p.Timeout.bound(ctx); err != nil {
			return nil, err
		}
	}
	defer cancel()
	_ = e.Wait(within) // the state says whether it has ended
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return e.Result(), nil
}

func (s *server) background(_ context.Context, p *of) (any, error) {
	e, err := s.runner.Get(p.Command)
	if err != nil {
		return nil, err
	}
	return struct {
		Backgrounded bool `json:"backgrounded"`
	}{e.Background()}, nil
}

func (s *server) get(_ context.Context, p *of) (any, error) {
	e, err := s.runner.Get(p.Command)
	if err != nil {
		return nil, err
	}
	return e.Result(), nil
}

func (s *server) list(_ context.Context, p *struct {
	Owner *string `json:"owner"`
	Live  bool    `json:"live"`
},
) (any, error) {
	all := []*runner.Result{}
	for _, e := range s.runner.List() {
		if p.Owner != nil && e.Spec().Owner != *p.Owner || p.Live && e.State().Final() {
			continue
		}
		all = append(all, e.Result().Brief())
	}
	return struct {
		Commands []*runner.Result `json:"commands"`
	}{all}, nil
}

func (s *server) kill(ctx context.Context, p *struct {
	of
	Stop []stopStep `json:"stop"`
},
) (any, error) {
	e, err := s.runner.Get(p.Command)
	if err != nil {
		return nil, err
	}
	how, err := steps(p.Stop)
	if err != nil {
		return nil, err
	}
	killed, err := e.Kill(ctx, how)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	return struct {
		Killed bool           `json:"killed"`
		Result *runner.Result `json:"result"`
	}{killed, e.Result()}, nil
}

func (s *server) feedback(_ context.Context, p *struct {
	of
	Text string `json:"text"`
},
) (any, error) {
	e, err := s.runner.Get(p.Command)
	switch {
	case err != nil:
		return nil, err
	case e.State().Final():
		return nil, &Error{Code: CodeEnded, Message: "the command has ended"}
	}
	e.Feedback(p.Text)
	return none{}, nil
}

// abort ends requests: those that wait for a command end it.
func (s *server) abort(_ context.Context, q request) (any, error) {
	var p struct {
		Request json.RawMessage `json:"request"`
	}
	if err := decode(q.Params, &p); err != nil {
		return nil, err
	}
	all := p.Request == nil || string(p.Request) == "null"
	var cancels []context.CancelCauseFunc
	s.mu.Lock()
	for key, cancel := range s.pending {
		if key != string(q.ID) && (all || key == string(p.Request)) {
			cancels = append(cancels, cancel)
		}
	}
	s.mu.Unlock()
	for _, cancel := range cancels {
		cancel(errAborted)
	}
	return struct {
		Aborted int `json:"aborted"`
	}{len(cancels)}, nil
}

func (s *server) write(ctx context.Context, p *struct {
	of
	Text   *string `json:"text"`
	Base64 []byte  `json:"base64"`
	Close  bool    `json:"close"`
},
) (any, error) {
	data := p.Base64
	if p.Text != nil {
		if data != nil {
			return nil, invalid("both text and base64 are given")
		}
		data = []byte(*p.Text)
	}
	e, err := s.runner.Get(p.Command)
	if err != nil {
		return nil, err
	}
	n, err := await(ctx, func() (int, error) { return e.Write(data) })
	if err == nil && p.Close {
		_, err = await(ctx, func() (none, error) { return none{}, e.CloseStdin() })
	}
	if err != nil {
		return nil, err
	}
	return struct {
		Written int `json:"written"`
	}{n}, nil
}

// await waits for what can't be interrupted. When ctx ends before, it goes on:
// until the command reads, or ends.
func await[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type outcome struct {
		value T
		err   error
	}
	done := make(chan outcome, 1)
	go func() {
		v, err := f()
		done <- outcome{v, err}
	}()
	select {
	case o := <-done:
		return o.value, o.err
	case <-ctx.Done():
		var zero T
		return zero, context.Cause(ctx)
	}
}

func (s *server) closeStdin(ctx context.Context, p *of) (any, error) {
	e, err := s.runner.Get(p.Command)
	if err != nil {
		return nil, err
	}
	return await(ctx, func() (any, error) { return none{}, e.CloseStdin() })
}

func (s *server) resize(_ context.Context, p *struct {
	of
	runner.Size
},
) (any, error) {
	e, err := s.runner.Get(p.Command)
	if err != nil {
		return nil, err
	}
	return none{}, e.Resize(p.Size)
}
