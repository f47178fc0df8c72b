package manager

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"time"

	systemd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"
	"github.com/shofer-dev/shofer-sandbox/cgroup"
)

// scopeLimit bounds what systemd is asked for.
const scopeLimit = 30 * time.Second

// EnterScope has the user's systemd, or as root the machine's, make a transient
// scope with delegation, and moves this process there for good, with all of its
// threads; children that run already stay where they are. [cgroup.Find] with
// Options.Own then finds a place in it. It is for programs, at their start, when
// an error of Find says that only a scope helps; a library must not do that to
// its host.
//
// The error is a [*cgroup.SupportError].
func EnterScope(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, scopeLimit)
	defer cancel()
	conn, err := connect(ctx)
	if err != nil {
		return scopeError("there is no connection to systemd", err)
	}
	defer conn.Close()
	name := cgroup.ScopeName()
	done := make(chan string, 1)
	_, err = conn.StartTransientUnitContext(ctx, name, "fail", []systemd.Property{
		systemd.PropDescription("shofer-sandbox"),
		{Name: "PIDs", Value: dbus.MakeVariant([]uint32{uint32(os.Getpid())})},
		{Name: "Delegate", Value: dbus.MakeVariant(true)},
		{Name: "CollectMode", Value: dbus.MakeVariant("inactive-or-failed")},
	}, done)
	if err != nil {
		return scopeError("systemd makes no scope", err)
	}
	select {
	case result := <-done:
		if result != "done" {
			return scopeError("systemd makes no scope", errors.New(result))
		}
	case <-ctx.Done():
		return scopeError("systemd makes no scope", context.Cause(ctx))
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil || !strings.Contains(string(own), "/"+name) {
		return scopeError("systemd says that it has made a scope, and this process isn't in it", err)
	}
	return nil
}

func scopeError(why string, err error) error {
	if err != nil {
		why += ": " + err.Error()
	}
	return &cgroup.SupportError{Why: why, Mend: "see what it says: systemd-run --user --scope -p Delegate=yes true", Err: err}
}

// connect connects to who manages this user's units. Without a bus the library
// would start one.
func connect(ctx context.Context) (*systemd.Conn, error) {
	if os.Geteuid() == 0 {
		return systemd.NewWithContext(ctx)
	}
	if os.Getenv("DBUS_SESSION_BUS_ADDRESS") == "" {
		if _, err := os.Stat("/run/user/" + strconv.Itoa(os.Geteuid()) + "/bus"); err != nil {
			return nil, err
		}
	}
	return systemd.NewUserConnectionContext(ctx)
}
