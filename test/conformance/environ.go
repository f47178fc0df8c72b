package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
)

// passed are variables that a command needs; local are those that lead git to
// another repository; sockets name a socket whose owner does what it is told, and
// may be there where nobody can connect to that.
var (
	passed  = []string{"PATH", "HOME", "LC_ALL", "CONFORMANCE_ODD"}
	local   = []string{"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR"}
	sockets = []string{"DOCKER_HOST", "DBUS_SESSION_BUS_ADDRESS"}
)

func environmentChecks() (checks []check) {
	for _, name := range passed {
		checks = append(checks, check{"control", "variable-" + name, true})
	}
	for _, name := range slices.Concat(local, sockets) {
		checks = append(checks, check{"environment", name, false})
	}
	return checks
}

// inEnvironment is what a command finds.
type inEnvironment struct {
	Env [][]byte
	// Refused is why the socket of DOCKER_HOST can't be connected to.
	Refused string
}

// environMain prints it. The argument is the socket.
func environMain(args []string) int {
	var e inEnvironment
	for _, kv := range os.Environ() {
		e.Env = append(e.Env, []byte(kv))
	}
	if err := dial("unix", args[0]); err != nil {
		e.Refused = err.Error()
	}
	if err := json.NewEncoder(os.Stdout).Encode(e); err != nil {
		return exitFailed
	}
	return 0
}

// environmentSession looks which variables reach a command.
func environmentSession(ctx context.Context, a *arena, l launcher, want func(check) bool) []outcome {
	var checks []check
	for _, c := range environmentChecks() {
		if want(c) {
			checks = append(checks, c)
		}
	}
	if checks == nil {
		return nil
	}
	cmd := l.command(ctx, a, a.Self, "conformance-environ", a.Other.Path)
	cmd.Env = append(cmd.Env, "CONFORMANCE_ODD=a b\n\xff",
		"DOCKER_HOST=unix://"+a.Other.Path, "DBUS_SESSION_BUS_ADDRESS=unix:path="+a.Other.Path)
	for _, name := range local {
		cmd.Env = append(cmd.Env, name+"="+a.Out)
	}
	var got inEnvironment
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &got)
	}
	if err != nil {
		return lose(checks, fmt.Sprintf("%v: %s", err, lastLine(string(out))))
	}
	var all []outcome
	for _, c := range checks {
		name := strings.TrimPrefix(c.name, "variable-")
		o := outcome{Check: c.String()}
		there := slices.ContainsFunc(got.Env, func(kv []byte) bool { return bytes.Equal(kv, []byte(name+"="+lastValue(cmd.Env, name))) })
		switch {
		case !there:
			o.Err = "it is not there, or another"
		case slices.Contains(sockets, name):
			o.Err = got.Refused
		}
		all = append(all, o)
	}
	return all
}

// lastValue is what counts of a variable.
func lastValue(env []string, name string) (value string) {
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			value = v
		}
	}
	return value
}
