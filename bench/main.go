// Bench compares the launcher with other ways to start a command, and a load
// inside with the same load outside. It prints medians and ratios of one
// interleaved run and judges nothing.
//
// As root it measures as root and, in a second process, as uid 1000.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
)

// ordinary is the user without privileges to measure as.
const ordinary = 1000

type options struct {
	launcher string
	runner   string // "" if there is none
	noop     string
	rounds   int
	heavy    int
	only     string
	json     bool
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == passArg {
		if err := pass(); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	var o options
	flag.StringVar(&o.launcher, "launcher", "bin/shofer-sandbox", "the launcher's binary")
	flag.StringVar(&o.runner, "runner", "bin/runner", "the runner's binary, or nothing")
	flag.StringVar(&o.noop, "noop", "", "the binary of bench/noop (built when empty)")
	flag.IntVar(&o.rounds, "rounds", 500, "rounds of things that take milliseconds")
	flag.IntVar(&o.heavy, "heavy", 30, "rounds of things that take longer")
	flag.StringVar(&o.only, "only", "", "measure this section only")
	flag.BoolVar(&o.json, "json", false, "print JSON in place of tables")
	flag.Parse()
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(o options) (err error) {
	// A collection in the middle of a start would be noise.
	debug.SetGCPercent(-1)
	shared, err := os.MkdirTemp("", "shofer-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(shared)) }()
	if err := os.Chmod(shared, 0o755); err != nil {
		return err
	}
	if o.launcher, err = install(shared, o.launcher); err != nil {
		return err
	}
	if o.runner != "" {
		if o.runner, err = install(shared, o.runner); err != nil {
			return err
		}
	}
	if o.noop == "" {
		o.noop = filepath.Join(shared, "noop")
		cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", o.noop, "./bench/noop")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		cmd.Stderr = os.Stderr
		if err := cmd.Run(); err != nil {
			return err
		}
	}
	r := report{Machine: describe()}
	if r.Sections, err = measure(o); err != nil {
		return err
	}
	if os.Getuid() == 0 {
		more, err := measureAs(ordinary, o, shared)
		if err != nil {
			return err
		}
		r.Sections = append(r.Sections, more...)
	}
	if o.json {
		enc := json.NewEncoder(os.Stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(r)
	}
	r.print(os.Stdout)
	return nil
}

// measureAs runs this program again as another user and returns its sections.
func measureAs(uid int, o options, shared string) ([]section, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if self, err = install(shared, self); err != nil {
		return nil, err
	}
	cmd := exec.Command(self, "-json", "-launcher", o.launcher, "-runner", o.runner, "-noop", o.noop, "-only", o.only,
		"-rounds", strconv.Itoa(o.rounds), "-heavy", strconv.Itoa(o.heavy))
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("as uid %d: %w", uid, err)
	}
	var r report
	err = json.Unmarshal(out, &r)
	return r.Sections, err
}

// install copies a program into dir, where every user may execute it.
func install(dir, program string) (string, error) {
	in, err := os.Open(program)
	if err != nil {
		return "", err
	}
	defer in.Close()
	to := filepath.Join(dir, filepath.Base(program))
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(out, in)
	return to, errors.Join(err, out.Close())
}

// machine is what the figures were measured on.
type machine struct {
	CPU    string `json:"cpu"`
	CPUs   int    `json:"cpus"`
	Kernel string `json:"kernel"`
	Go     string `json:"go"`
	Git    string `json:"git"`
	Bwrap  string `json:"bwrap"`
}

func describe() machine {
	m := machine{CPUs: runtime.NumCPU(), Go: runtime.Version(), Git: version("git"), Bwrap: version("bwrap")}
	if b, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = strings.TrimSpace(string(b))
	}
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range bytes.Lines(b) {
			if k, v, ok := strings.Cut(string(line), ":"); ok && strings.TrimSpace(k) == "model name" {
				m.CPU = strings.TrimSpace(v)
				break
			}
		}
	}
	return m
}

func version(program string) string {
	out, err := exec.Command(program, "--version").Output()
	if err != nil {
		return "none"
	}
	return strings.TrimSpace(string(out))
}
