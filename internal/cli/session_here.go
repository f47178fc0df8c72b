package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/shofer-dev/shofer-sandbox/capture"
	"github.com/shofer-dev/shofer-sandbox/internal/background"
	"github.com/shofer-dev/shofer-sandbox/runner/intercept"
	"github.com/shofer-dev/shofer-sandbox/runner/session"
)

// here is a session of this program's own.
type here struct {
	p       *program
	shell   *shell
	ask     taskAsk
	typed   bool // by somebody at a terminal
	dir     string
	store   *capture.Store // nil without --json
	signals chan os.Signal
	lines   chan string // closed at the end of the input
	stopped bool        // by a signal
}

// sessionHere runs the commands of standard input.
func (p *program) sessionHere(a *sessionAsk) error {
	a.noSave = !a.json // all of it is shown
	x := &shells{timeout: a.commandTimeout(), bashrc: a.bashrc}
	eng, err := p.engine(&a.ask, x.instead)
	if err != nil {
		return err
	}
	defer func() { _ = eng.close() }()
	q, err := a.shellRequest(eng.Authority())
	if err != nil {
		return err
	}
	spec, err := eng.Resolve(q)
	if err != nil {
		return err
	}
	sh, err := x.open(context.Background(), spec, x)
	if err != nil {
		return err
	}
	defer func() { _ = sh.Close() }()
	h := &here{
		p: p, shell: sh, ask: taskAsk{json: a.json, maxBytes: a.maxBytes}, dir: spec.Dir, store: eng.store,
		typed:   isTerminal(os.Stdin) && isTerminal(os.Stderr),
		signals: make(chan os.Signal, 4), lines: make(chan string),
	}
	signal.Notify(h.signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	go h.read()
	return h.loop()
}

// read reads the lines of standard input.
func (h *here) read() {
	defer close(h.lines)
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadString('\n')
		if line != "" {
			h.lines <- line
		}
		if err != nil {
			return
		}
	}
}

// loop runs commands until there are no more.
func (h *here) loop() error {
	text := ""
	for {
		h.prompt(text)
		select {
		case s := <-h.signals:
			if s == syscall.SIGINT && h.typed {
				text = ""
				_, _ = os.Stderr.WriteString("\n")
				continue
			}
			h.p.code = exitSignal + int(s.(syscall.Signal))
			return nil
		case line, more := <-h.lines:
			select {
			case s := <-h.signals: // both: it was for what had been typed before
				if s != syscall.SIGINT || !h.typed {
					h.p.code = exitSignal + int(s.(syscall.Signal))
					return nil
				}
				text = ""
			default:
			}
			if !more {
				if h.typed {
					_, _ = os.Stderr.WriteString("\n")
				}
				if strings.TrimSpace(text) == "" {
					return nil
				}
				return h.run(text) // bash says what is missing
			}
			if text += line; !intercept.Complete(text) {
				continue
			}
		}
		if strings.TrimSpace(text) != "" {
			err := h.run(text)
			var wrong *session.SyntaxError
			var lost *session.DirError
			switch {
			case err == nil:
			case h.typed && (errors.As(err, &wrong) || errors.As(err, &lost)):
				h.p.code = h.p.fail(err)
			default:
				return err
			}
			if h.stopped {
				return nil
			}
		}
		text = ""
	}
}

// prompt asks for a command, or for more of it.
func (h *here) prompt(text string) {
	if !h.typed {
		return
	}
	sign := printable(h.dir) + " $ "
	if text != "" {
		sign = "> "
	}
	_, _ = os.Stderr.WriteString(sign)
}

// run runs a command until it ends, or a signal comes.
func (h *here) run(text string) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var got os.Signal
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case got = <-h.signals:
			cancel()
		case <-ctx.Done():
		}
	}()
	r, err := h.ask.watch(h.store, background.Task{Text: text}, func(t background.Task) (*ran, error) { return h.shell.run(ctx, t) }, printLine)
	cancel()
	<-watched
	interrupted := h.typed && got == syscall.SIGINT
	if err != nil {
		if !interrupted || !errors.Is(err, context.Canceled) {
			return err
		}
		r = &ran{} // it had not begun
	}
	if r.DirAfter != "" {
		h.dir = r.DirAfter
	}
	h.p.code = r.Exit
	if s, ok := got.(syscall.Signal); ok {
		h.p.code = exitSignal + int(s)
		h.stopped = !interrupted
	}
	h.p.tellRan(r)
	if h.typed && h.p.code != 0 && !h.p.quiet {
		say("exit code " + strconv.Itoa(h.p.code))
	}
	return nil
}

// printLine writes a value to standard output, in one line.
func printLine(v any) error {
	enc := json.NewEncoder(os.Stdout)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
