package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// errSoft ends the waiting for a command.
var errSoft = errors.New("the soft timeout is over")

// runSoft runs a command that outlives this program when its soft timeout is
// over: it is in the background from the beginning, and followed until then.
func (p *program) runSoft(cmd *cobra.Command, a *ask, args []string) error {
	if a.noSave {
		return &usageError{"--no-save excludes --soft-timeout", "what goes on in the background is kept on disk"}
	}
	d, err := p.background()
	if err != nil {
		return err
	}
	if err := a.check(cmd, args); err != nil {
		return err
	}
	id, err := p.spawn(cmd, &startAsk{ask: *a})
	if err != nil || id == "" {
		return err
	}
	c, err := d.Find(id)
	if err != nil {
		return err
	}
	ctx, stop := untilSignal()
	defer stop()
	soft, cancel := context.WithTimeoutCause(ctx, time.Duration(a.soft), errSoft)
	defer cancel()
	if !a.json {
		_ = p.follow(soft, c, func(stream string) io.Writer { // what is missing can be read later
			if stream == "stderr" {
				return os.Stderr
			}
			return os.Stdout
		})
	}
	err = c.Wait(soft)
	switch {
	case ctx.Err() != nil:
		_, err = c.Kill(context.WithoutCancel(ctx), nil)
		p.code = exitSignal + int(syscall.SIGINT)
	case errors.Is(err, errSoft) || errors.Is(err, context.DeadlineExceeded):
		err, p.code = nil, exitTimeout
		say("it goes on in the background as " + id)
		say("hint: runner read " + id + "; runner kill " + id)
	case err == nil:
		p.code = p.tellEnd(c)
	}
	if a.json {
		return errors.Join(err, printJSON(c.Status))
	}
	return err
}
