package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/shofer-dev/shofer-sandbox/internal/background"
	"github.com/spf13/pflag"
)

// ready says when a command in the background can be used.
type ready struct {
	regex  string
	port   uint16
	within span
}

func (r *ready) flags(f *pflag.FlagSet) {
	group(f, "When it is ready:", func(f *pflag.FlagSet) {
		f.StringVar(&r.regex, "ready-regex", "", "wait until it has printed a line that matches `REGEX`")
		f.Uint16Var(&r.port, "ready-port", 0, "wait until it accepts connections at TCP `PORT` of this machine")
		f.Var(&r.within, "ready-timeout", "wait no longer than `TIME` (30s); it goes on all the same")
	})
}

func (r *ready) asked() bool { return r.regex != "" || r.port != 0 }

// before checks what is asked for before the command starts. At a port that is
// in use already, somebody else would be taken for the command.
func (r *ready) before() error {
	if r.regex != "" {
		if _, err := regexp.Compile(r.regex); err != nil {
			return &usageError{err.Error(), "the syntax is RE2's"}
		}
	}
	if r.port != 0 && answers(context.Background(), r.port) {
		return &hinted{fmt.Errorf("port %d is in use already", r.port), "end what uses it, or choose another port"}
	}
	return nil
}

// answers reports whether something accepts connections at a port.
func answers(ctx context.Context, port uint16) bool {
	for _, host := range []string{"127.0.0.1", "::1"} {
		d := net.Dialer{Timeout: time.Second}
		c, err := d.DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(int(port))))
		if err == nil {
			_ = c.Close()
			return true
		}
	}
	return false
}

// defaultReady is how long a command has to become ready.
const defaultReady = 30 * time.Second

// errNotReady is for a command that took too long.
var errNotReady = errors.New("it isn't ready in time; it goes on")

// awaitReady waits until a command is ready.
func (p *program) awaitReady(r *ready, c *background.Command) error {
	if !r.asked() {
		return nil
	}
	within := time.Duration(r.within)
	if within == 0 {
		within = defaultReady
	}
	ctx := context.Background()
	if within > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, within, errNotReady)
		defer cancel()
	}
	err := p.isReady(ctx, r, c)
	if errors.Is(err, errNotReady) {
		p.code = exitTimeout
		say("it wasn't ready within " + within.String() + ", and goes on")
		say("hint: runner logs " + c.ID)
		return nil
	}
	return err
}

func (p *program) isReady(ctx context.Context, r *ready, c *background.Command) error {
	if r.regex != "" {
		if err := p.printed(ctx, regexp.MustCompile(r.regex), c); err != nil {
			return err
		}
	}
	for r.port != 0 {
		if answers(ctx, r.port) {
			return nil
		}
		if err := c.Refresh(); err != nil {
			return err
		}
		if c.Final() {
			return endedEarly(c)
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func endedEarly(c *background.Command) error {
	return &hinted{fmt.Errorf("it ended before it was ready: %s", c.Outcome), "runner logs " + c.ID}
}

// printed waits until a line of a command's output matches.
func (p *program) printed(ctx context.Context, re *regexp.Regexp, c *background.Command) error {
	found := errors.New("found")
	var all []*lineMatcher // of the streams
	for range c.Streams {
		all = append(all, &lineMatcher{re: re, found: found})
	}
	err := p.follow(ctx, c, func(stream string) io.Writer { return all[slices.Index(c.Streams, stream)] })
	switch {
	case errors.Is(err, found):
		return nil
	case err != nil:
		return err
	}
	if slices.ContainsFunc(all, func(m *lineMatcher) bool { return re.Match(m.rest) }) {
		return nil
	}
	if err := c.Wait(ctx); err != nil { // its output ends before it is known how it did
		return err
	}
	return endedEarly(c)
}

// lineMatcher looks for a line that matches, also in one that isn't complete
// yet.
type lineMatcher struct {
	re    *regexp.Regexp
	found error
	rest  []byte
}

// longestLine is how much of a line is looked at.
const longestLine = 64 << 10

func (m *lineMatcher) Write(b []byte) (int, error) {
	for _, c := range b {
		if c != '\n' {
			if len(m.rest) < longestLine {
				m.rest = append(m.rest, c)
			}
			continue
		}
		if m.re.Match(m.rest) {
			return 0, m.found
		}
		m.rest = m.rest[:0]
	}
	if m.re.Match(m.rest) {
		return 0, m.found
	}
	return len(b), nil
}

var _ io.Writer = (*lineMatcher)(nil)
