package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed go-stand-in.sh
var standIn []byte

// builds are what goes into the cells: a folder for all, and one more for those
// called whole. Each looks like this module with binaries in place of sources,
// so that tests find testdata and go.mod where they do here.
type builds struct {
	dir         string // holds the others, for everybody to read
	core, whole string
	vmrun       string
	llsim       string
	nouserns    string
	contain     string
	// suites are those of the table that the module has.
	suites []suite
	// unlisted are packages with tests that no table knows.
	unlisted []string
}

// testBinary is where a suite's binary is, below the folder.
func (s suite) testBinary() string {
	return "bin/" + strings.ReplaceAll(s.pkg, "/", "-") + ".test"
}

// build builds everything, without cgo, into a new folder.
func build(ctx context.Context) (*builds, error) {
	if _, err := os.Stat("go.mod"); err != nil {
		return nil, fmt.Errorf("not in the module's folder: %w", err)
	}
	// Outside /tmp, which a confined command may write to.
	dir, err := os.MkdirTemp("/var/tmp", "shofer-vm-")
	if err != nil {
		return nil, err
	}
	b := &builds{
		dir: dir, core: filepath.Join(dir, "core"), whole: filepath.Join(dir, "whole"),
		vmrun: filepath.Join(dir, "vmrun"), llsim: filepath.Join(dir, "llsim"), nouserns: filepath.Join(dir, "nouserns"),
		contain: filepath.Join(dir, "contain"),
	}
	if err := b.fill(ctx); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return b, nil
}

func (b *builds) fill(ctx context.Context) error {
	if err := os.Chmod(b.dir, 0o755); err != nil {
		return err
	}
	if err := b.find(ctx); err != nil {
		return err
	}
	for _, p := range [][2]string{
		{"./test/vm/vmrun", b.vmrun},
		{"./test/llsim", b.llsim},
		{"./test/nouserns", b.nouserns},
		{"./test/contain", b.contain},
		{"./cmd/shofer-sandbox", filepath.Join(b.core, "bin/shofer-sandbox")},
		{"./test/vm/probe", filepath.Join(b.core, "bin/probe")},
	} {
		if err := goBuild(ctx, "build", p[1], p[0]); err != nil {
			return err
		}
	}
	if err := copyFile("go.mod", filepath.Join(b.core, "go.mod")); err != nil {
		return err
	}
	for _, s := range b.suites {
		if err := b.add(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// add builds a suite.
func (b *builds) add(ctx context.Context, s suite) error {
	dir := b.whole
	if s.core || s.public {
		dir = b.core
	}
	if err := os.MkdirAll(filepath.Join(dir, s.pkg), 0o755); err != nil {
		return err
	}
	if testdata := filepath.Join(s.pkg, "testdata"); exists(testdata) {
		if err := os.CopyFS(filepath.Join(dir, testdata), os.DirFS(testdata)); err != nil {
			return err
		}
	}
	for _, p := range s.programs {
		if err := goBuild(ctx, "build", filepath.Join(dir, "stand-in/programs", filepath.Base(p)), "./"+p); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, "stand-in/go"), standIn, 0o755); err != nil {
			return err
		}
	}
	return goBuild(ctx, "test", filepath.Join(dir, s.testBinary()), "./"+s.pkg)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// goBuild runs go build, or go test -c.
func goBuild(ctx context.Context, verb, to, pkg string) error {
	args := []string{verb, "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", to, pkg}
	if verb == "test" {
		args = slices.Insert(args, 1, "-c")
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH=amd64", "GOOS=linux")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

func copyFile(from, to string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o644)
}

// find asks which packages of the module have tests.
func (b *builds) find(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, "go", "list", "-f",
		"{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}} {{.Module.Path}}{{end}}", "./...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("go list: %w\n%s", err, stderr.Bytes())
	}
	b.match(string(out))
	return nil
}

// match compares the tables with lines of an import path and its module.
func (b *builds) match(list string) {
	var found []string
	for line := range strings.Lines(list) {
		pkg, module, _ := strings.Cut(strings.TrimSpace(line), " ")
		found = append(found, strings.TrimPrefix(pkg, module+"/"))
	}
	for _, s := range suites {
		if slices.Contains(found, s.pkg) {
			b.suites = append(b.suites, s)
		}
	}
	for _, pkg := range found {
		listed := slices.ContainsFunc(suites, func(s suite) bool { return s.pkg == pkg })
		if _, left := leftOut[pkg]; !listed && !left {
			b.unlisted = append(b.unlisted, pkg)
		}
	}
}
