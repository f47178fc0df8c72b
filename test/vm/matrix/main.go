// Command matrix runs this module's tests on other kernels and setups: in guests
// of vmrun, and on this machine under the simulator of older Landlocks.
//
//	go run ./test/vm/matrix [-all] [-run REGEXP] [-list] [-j N] [-within TIME] [-logs DIR] [-host=false] [-vm=false]
//
// A cell is a kernel with a user, boot arguments, a control group layout, a login
// session and so on. Each one first checks, by trying, that it is what it is
// called; then prebuilt test binaries run in it. The result is a table, with the
// kernel that really ran. What the tests skipped is listed with its reason, and
// so are cells that could not be had because Debian has dropped a package or this
// machine lacks a tool. One that is required fails the run then, if
// SHOFER_TEST_REQUIRE is set. So does a cell with a test that fails, and fails
// again when the cell is run a second time: emulation is slow, and not perfect.
//
// With -within no cell begins after that time, and one that could not begin or
// be had by then is listed and fails nothing: where the whole is bounded, what
// ran counts.
//
// Without -all, and without -run, the cells that the table calls "more" are left
// out: what they hold together, others hold one by one.
//
// It runs in the module's folder, with what test/vm/vmrun needs, and builds
// without cgo, since guests have no libraries.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"time"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code, err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "matrix:", err)
	}
	os.Exit(code)
}

// options are the command line.
type options struct {
	only     *regexp.Regexp // nil for no choice by name
	all      bool
	list     bool
	host, vm bool
	parallel int
	within   time.Duration // 0 for no bound
	logs     string
}

func parse(args []string) (options, error) {
	o := options{}
	set := flag.NewFlagSet("matrix", flag.ContinueOnError)
	only := set.String("run", "", "cells whose name matches `REGEXP`")
	set.BoolVar(&o.all, "all", false, "all cells")
	set.BoolVar(&o.list, "list", false, "print the cells and run nothing")
	set.BoolVar(&o.host, "host", true, "the cells on this machine")
	set.BoolVar(&o.vm, "vm", true, "the cells in guests")
	set.IntVar(&o.parallel, "j", 2, "`N` cells at a time")
	set.DurationVar(&o.within, "within", 0, "no cell begins after `TIME`")
	set.StringVar(&o.logs, "logs", "build/vm", "the cells' output goes to `DIR`")
	if err := set.Parse(args); err != nil {
		return o, err
	}
	if set.NArg() > 0 {
		return o, fmt.Errorf("%q: no arguments are taken; -run REGEXP chooses cells", set.Args())
	}
	if o.within < 0 {
		return o, errors.New("-within must not be negative")
	}
	if o.parallel < 1 {
		return o, errors.New("-j must be 1 or more")
	}
	if *only == "" {
		return o, nil
	}
	var err error
	o.only, err = regexp.Compile(*only)
	return o, err
}

func run(ctx context.Context, args []string) (int, error) {
	o, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return 0, nil
	}
	if err != nil {
		return 2, err
	}
	cells := o.choose(table())
	if len(cells) == 0 {
		return 2, errors.New("no cell matches")
	}
	if o.list {
		for _, c := range cells {
			fmt.Println(c)
		}
		return 0, nil
	}
	begun := time.Now()
	m, err := newMatrix(ctx, o)
	if err != nil {
		return 1, err
	}
	defer m.close()
	results := m.run(ctx, cells)
	if err := ctx.Err(); err != nil {
		return 1, err
	}
	if !report(os.Stdout, results, m.builds, time.Since(begun), testenv.Required() && o.within == 0) {
		return 1, fmt.Errorf("failed; the output of each cell is in %s", o.logs)
	}
	return 0, nil
}

// choose returns the cells that the command line asks for.
func (o options) choose(all []cell) (chosen []cell) {
	for _, c := range all {
		named := o.only != nil && o.only.MatchString(c.name)
		if (c.host() && o.host || !c.host() && o.vm) && (named || o.only == nil && (o.all || !c.more)) {
			chosen = append(chosen, c)
		}
	}
	return chosen
}
