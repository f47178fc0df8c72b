package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// options are the flags of run.
type options struct {
	cache   cache
	kernel  string
	suite   string
	append  string
	init    string
	as      string
	cgroup  string
	cwd     string
	in, out list
	env     list
	pre     list
	argv    []string

	delegate, hostFile bool

	mem, smp         int
	accel, cpu       string
	compressed       bool
	timeout, bootFor time.Duration
	retries          int
	verbose          bool
	console          string
}

// list is a flag that can be given more than once.
type list []string

// String is for package flag.
func (l *list) String() string { return strings.Join(*l, " ") }

// Set is for package flag.
func (l *list) Set(s string) error {
	*l = append(*l, s)
	return nil
}

// parseRun reads the command line of run.
func parseRun(args []string) (*options, error) {
	var o options
	set, dir := flagSet("run")
	set.StringVar(&o.kernel, "kernel", "6.12", "")
	set.StringVar(&o.suite, "suite", defaultSuite, "")
	set.StringVar(&o.append, "append", "", "")
	set.StringVar(&o.init, "init", initDirect, "")
	set.StringVar(&o.as, "as", asRoot, "")
	set.StringVar(&o.cgroup, "cgroup", "v2", "")
	set.BoolVar(&o.delegate, "delegate", false, "")
	set.StringVar(&o.cwd, "cwd", "", "")
	set.Var(&o.in, "in", "")
	set.Var(&o.out, "out", "")
	set.Var(&o.env, "env", "")
	set.Var(&o.pre, "pre", "")
	set.BoolVar(&o.hostFile, "x", false, "")
	set.IntVar(&o.mem, "mem", 1024, "")
	set.IntVar(&o.smp, "smp", 1, "")
	set.StringVar(&o.accel, "accel", "auto", "")
	set.StringVar(&o.cpu, "cpu", "", "")
	set.BoolVar(&o.compressed, "bz", false, "")
	set.DurationVar(&o.timeout, "timeout", 0, "")
	set.DurationVar(&o.bootFor, "boot-timeout", 0, "")
	set.IntVar(&o.retries, "retries", 2, "")
	set.BoolVar(&o.verbose, "v", false, "")
	set.StringVar(&o.console, "console", "", "")
	if err := parseFlags(set, args); err != nil {
		return nil, err
	}
	o.argv = set.Args()
	var err error
	if o.cache, err = openCache(*dir); err != nil {
		return nil, err
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	o.fill()
	return &o, nil
}

// check refuses what makes no sense.
func (o *options) check() error {
	if len(o.argv) == 0 {
		return usagef("the command is missing")
	}
	for _, c := range []struct {
		flag, value string
		of          []string
	}{
		{"init", o.init, []string{initDirect, initSystemd}},
		{"as", o.as, []string{asRoot, asUser, asSession, asUserUnit}},
		{"cgroup", o.cgroup, []string{"v2", "v1", "hybrid", "none"}},
		{"accel", o.accel, []string{"auto", "tcg", "kvm"}},
	} {
		if !slices.Contains(c.of, c.value) {
			return usagef("-%s %s is none of %s", c.flag, c.value, strings.Join(c.of, ", "))
		}
	}
	systemd := o.init == initSystemd
	switch {
	case !systemd && (o.as == asSession || o.as == asUserUnit):
		return usagef("-as %s needs -init systemd", o.as)
	case systemd && o.delegate:
		return usagef("-delegate needs -init direct; under systemd a scope of the user manager can be delegated")
	case systemd && o.cgroup != "v2":
		return usagef("-cgroup needs -init direct; systemd decides by itself: -append systemd.unified_cgroup_hierarchy=0")
	case o.delegate && o.cgroup != "v2":
		return usagef("-delegate needs -cgroup v2")
	case strings.Contains(o.suite, "/"):
		return usagef("-suite %s is not the name of a release", o.suite)
	}
	for _, v := range o.out {
		if !strings.Contains(v, ":") {
			return usagef("-out %s is not of the form GUEST:DIR", v)
		}
	}
	for _, v := range o.env {
		if !strings.Contains(v, "=") {
			return usagef("-env %s is not of the form NAME=VALUE", v)
		}
	}
	for _, v := range o.in {
		dir, _, _ := strings.Cut(v, ":")
		if fi, err := os.Stat(dir); err != nil {
			return usagef("-in %s: %v", v, err)
		} else if !fi.IsDir() {
			return usagef("-in %s: not a folder", v)
		}
	}
	return nil
}

// fill sets what depends on other flags.
func (o *options) fill() {
	if o.timeout == 0 {
		o.timeout = 2 * time.Minute
		if o.hostFile {
			o.timeout = 10 * time.Minute // as go test has it
		}
	}
	if o.bootFor == 0 {
		o.bootFor = 30 * time.Second
		if o.init == initSystemd {
			o.bootFor = time.Minute
		}
	}
	if o.accel == "auto" {
		o.accel = "tcg"
		if kvmUsable() {
			o.accel = "kvm"
		}
	}
	if o.cpu == "" {
		o.cpu = "max"
		if o.accel == "kvm" {
			o.cpu = "host"
		}
	}
}

// kernelDir returns the prepared kernel, and prepares it and the image where
// they aren't there.
func (o *options) kernelDir() (string, error) {
	names, dir := []string{o.kernel}, o.cache.kernelDir(o.kernel)
	if strings.Contains(o.kernel, "/") {
		names, dir = nil, o.kernel
		if _, err := os.Stat(filepath.Join(dir, "mod.order")); err != nil {
			return "", fmt.Errorf("-kernel %s: not a prepared kernel: %w", dir, err)
		}
	}
	if names != nil && !o.cache.hasKernel(o.kernel) || !o.cache.hasImage(o.suite) {
		return dir, o.cache.prepare(o.suite, names)
	}
	return dir, needTools(qemu)
}
