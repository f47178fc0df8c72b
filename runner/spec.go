package runner

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/shofer-dev/shofer-sandbox/runner/environ"
	"github.com/shofer-dev/shofer-sandbox/runner/intercept"
)

// Spec is a request with every question answered: nothing that runs it chooses
// again. [Runner.Resolve] makes it, and it isn't changed afterwards.
type Spec struct {
	// Command is the shell command, empty if Argv was given without a shell.
	Command string
	// Argv is what is executed. Where Script isn't nil, it ends in a path that
	// the executor puts in its place; see Script.
	Argv []string
	// Script, if not nil, is the command as a file: the program gets it open
	// for reading as descriptor 3, which the last of Argv names.
	Script []byte
	// PipeStatus says that the program also gets an empty file open for writing,
	// as descriptor 4 if there is a Script and as 3 if not. What is in it at the
	// end, numbers with spaces between, is [Exit.PipeStatus]. An executor need
	// not do it.
	PipeStatus bool
	Label      string
	Owner      string
	// Dir is absolute.
	Dir string

	// Env is the whole environment.
	Env []string
	// EnvDecisions says what became of each variable. It has no values.
	EnvDecisions []environ.Decision

	Stdin     []byte
	OpenStdin bool
	// Terminal is nil if the command has none.
	Terminal *Size

	// Timeouts of 0 are none.
	Timeout     time.Duration
	SoftTimeout time.Duration
	IdleTimeout time.Duration
	Stop        []StopStep
	// StopBound is how long killing may take after the steps, until what is
	// left is reported.
	StopBound time.Duration
	Leftover  Leftover
	// DrainIdle and DrainMax bound the wait for output after the command has
	// ended: until none came for DrainIdle, and for no longer than DrainMax.
	DrainIdle, DrainMax time.Duration

	Merge bool
	// Stdout and Stderr are as in [Request].
	Stdout, Stderr io.Writer
	Keep           Keep
	Budget         int
	// Lines are limits on the lines of standard output that were lifted out of
	// the command.
	Lines intercept.Limits

	// Authority is what the executor may do.
	Authority Authority
	// Origins says where each value came from.
	Origins []Origin
	// Notes are what the caller should know, such as a timeout that was cut.
	Notes []string
}

// Origin is where a value of a [Spec] came from.
type Origin struct {
	Field string `json:"field"`
	Value string `json:"value"`
	// From is request, default (of the runner), or capped; Why may say more.
	From From   `json:"from"`
	Why  string `json:"why,omitempty"`
}

// From is a kind of origin.
type From string

// The origins.
const (
	FromRequest From = "request"
	FromDefault From = "default"
	FromCap     From = "cap"
)

// origin notes where a value came from.
func (s *Spec) origin(field string, value any, from From, why string) {
	s.Origins = append(s.Origins, Origin{field, fmt.Sprint(value), from, why})
}

// title is what people see of the command.
func (s *Spec) title() string {
	if s.Label != "" {
		return s.Label
	}
	t := s.Command
	if t == "" {
		t = strings.Join(s.Argv, " ")
	}
	t, _, _ = strings.Cut(t, "\n")
	const limit = 80
	if len(t) > limit {
		t = strings.ToValidUTF8(t[:limit], "") + "…"
	}
	return t
}

// clone returns a spec that shares nothing that is changed.
func (s *Spec) clone() *Spec {
	c := *s
	c.Argv, c.Env, c.Stop = slices.Clone(s.Argv), slices.Clone(s.Env), slices.Clone(s.Stop)
	return &c
}

// MarshalJSON writes the spec for people and programs that look at it. Of the
// environment it has the decisions, not the values, and of standard input the
// length.
func (s *Spec) MarshalJSON() ([]byte, error) {
	type step struct {
		Signal string `json:"signal"`
		Wait   int64  `json:"wait_ms"`
	}
	steps := make([]step, 0, len(s.Stop))
	for _, st := range s.Stop {
		steps = append(steps, step{signalName(st.Signal), st.Wait.Milliseconds()})
	}
	return json.Marshal(struct {
		Command     string             `json:"command,omitempty"`
		Argv        []string           `json:"argv"`
		ScriptBytes int                `json:"script_bytes,omitempty"`
		PipeStatus  bool               `json:"pipe_status,omitempty"`
		Label       string             `json:"label,omitempty"`
		Owner       string             `json:"owner,omitempty"`
		Dir         string             `json:"dir"`
		StdinBytes  int                `json:"stdin_bytes"`
		OpenStdin   bool               `json:"open_stdin"`
		Terminal    *Size              `json:"terminal"`
		Timeout     int64              `json:"timeout_ms"`
		SoftTimeout int64              `json:"soft_timeout_ms"`
		IdleTimeout int64              `json:"idle_timeout_ms"`
		Stop        []step             `json:"stop"`
		StopBound   int64              `json:"stop_bound_ms"`
		Leftover    Leftover           `json:"leftover"`
		DrainIdle   int64              `json:"drain_idle_ms"`
		DrainMax    int64              `json:"drain_max_ms"`
		Merge       bool               `json:"merge"`
		Keep        Keep               `json:"keep"`
		Budget      int                `json:"budget"`
		Lines       intercept.Limits   `json:"lines"`
		Authority   Authority          `json:"authority"`
		Env         []environ.Decision `json:"env"`
		Origins     []Origin           `json:"origins"`
		Notes       []string           `json:"notes,omitempty"`
	}{
		s.Command, s.Argv, len(s.Script), s.PipeStatus, s.Label, s.Owner, s.Dir, len(s.Stdin), s.OpenStdin, s.Terminal,
		s.Timeout.Milliseconds(), s.SoftTimeout.Milliseconds(), s.IdleTimeout.Milliseconds(),
		steps, s.StopBound.Milliseconds(), s.Leftover, s.DrainIdle.Milliseconds(), s.DrainMax.Milliseconds(),
		s.Merge, s.Keep, s.Budget, s.Lines, s.Authority, s.EnvDecisions, s.Origins, s.Notes,
	})
}

// String returns the spec for people, a line for each value and its origin.
func (s *Spec) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "argv: %q\n", s.Argv)
	for _, o := range s.Origins {
		fmt.Fprintf(&b, "%s: %s (%s", o.Field, o.Value, o.From)
		if o.Why != "" {
			b.WriteString(": " + o.Why)
		}
		b.WriteString(")\n")
	}
	for _, d := range s.EnvDecisions {
		if d.Action != environ.Kept {
			b.WriteString("env " + d.String() + "\n")
		}
	}
	for _, n := range s.Notes {
		b.WriteString("note: " + n + "\n")
	}
	return b.String()
}
