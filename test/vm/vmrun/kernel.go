package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// kernel says which package of Debian's a kernel comes from.
type kernel struct {
	name   string
	suites []string // any may have the newest
	// packages matches the names of packages: the newest one is taken.
	packages *regexp.Regexp
	note     string
}

// kernels are those with a name of their own. The cloud flavour is small, and
// has all that a guest in QEMU needs.
var kernels = []kernel{
	{"5.10", []string{"bullseye", "bullseye-security"}, regexp.MustCompile(`^linux-image-5\.10\.0-[0-9]+-cloud-amd64$`), "no Landlock"},
	{"6.1", []string{"bookworm", "bookworm-security"}, regexp.MustCompile(`^linux-image-6\.1\.0-[0-9]+-cloud-amd64$`), "Landlock ABI 2"},
	{"6.12", []string{"bookworm", "bookworm-security"}, regexp.MustCompile(`^linux-image-6\.12[0-9.]*\+deb12-cloud-amd64$`), "Landlock ABI 6"},
	{"6.18", []string{"trixie-backports"}, regexp.MustCompile(`^linux-image-6\.18[0-9.]*\+deb13-cloud-amd64$`), "Landlock ABI 7"},
	{"new", []string{"trixie-backports"}, regexp.MustCompile(`^linux-image-[0-9.]+\+deb13-cloud-amd64$`), "newest backport"},
}

var versionName = regexp.MustCompile(`^[0-9]+\.[0-9]+$`)

// findKernel returns the kernel of a name: one of kernels, or any X.Y that may
// still be among the backports.
func findKernel(name string) (kernel, error) {
	if i := slices.IndexFunc(kernels, func(k kernel) bool { return k.name == name }); i >= 0 {
		return kernels[i], nil
	}
	if versionName.MatchString(name) {
		return kernel{
			name: name, suites: []string{"trixie-backports"},
			packages: regexp.MustCompile(`^linux-image-` + regexp.QuoteMeta(name) + `[0-9.]*\+deb13-cloud-amd64$`),
		}, nil
	}
	return kernel{}, hinted("vmrun kernels lists the names; others are a version such as 6.16", "no such name")
}

// readyFile, in a kernel's folder, says that it is complete, and which package
// it is.
const readyFile = "ready"

// candidates is how many packages are tried: the newest may lack a part of it
// in the archive for a while.
const candidates = 3

// fetch brings a kernel into the cache, unless it is there.
func (c cache) fetch(k kernel) error {
	if c.hasKernel(k.name) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	start := time.Now()
	a, err := c.newApt(ctx, k.suites)
	if err != nil {
		return err
	}
	names, err := k.find(ctx, a)
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(c.dir, "kernel-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	var errs []error
	for _, name := range names[:min(len(names), candidates)] {
		tree := filepath.Join(tmp, name)
		if err := a.unpack(ctx, name, tree); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
			continue
		}
		if err := c.install(tree, c.kernelDir(k.name), name); err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "vmrun: kernel %s is %s (%.1fs)\n", k.name, name, time.Since(start).Seconds())
		return nil
	}
	return errors.Join(errs...)
}

// find lists the packages of a kernel, the newest first. There is at least one.
func (k kernel) find(ctx context.Context, a apt) ([]string, error) {
	out, err := a.run(ctx, "", "apt-cache", "search", "--names-only", k.packages.String())
	if err != nil {
		return nil, err
	}
	var names []string
	for line := range strings.Lines(string(out)) {
		if name, _, _ := strings.Cut(line, " "); k.packages.MatchString(name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil, hinted("the archive has dropped it; another kernel may serve",
			"no package called %s in %s", k.packages, strings.Join(k.suites, ", "))
	}
	slices.SortFunc(names, func(x, y string) int { return compareVersions(ctx, y, x) })
	return names, nil
}

// compareVersions orders package names by the versions in them, as Debian does.
func compareVersions(ctx context.Context, x, y string) int {
	x, y = strings.TrimPrefix(x, "linux-image-"), strings.TrimPrefix(y, "linux-image-")
	for _, c := range []struct {
		op  string
		cmp int
	}{{"lt", -1}, {"gt", 1}} {
		if _, err := output(ctx, "", "dpkg", "--compare-versions", x, c.op, y); err == nil {
			return c.cmp
		}
	}
	return 0
}

// install makes an unpacked kernel the cache's.
func (c cache) install(tree, dir, name string) error {
	if err := os.WriteFile(filepath.Join(tree, readyFile), []byte(name+"\n"), 0o600); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return os.Rename(tree, dir)
}

// parts matches the packages that newer kernels are split into.
var parts = regexp.MustCompile(`Depends: <?(linux-(?:binary|modules)-[^\s>]+)`)

// unpack downloads a kernel's packages, unpacks them in tree, and leaves there
// only what a guest needs.
func (a apt) unpack(ctx context.Context, name, tree string) error {
	if err := os.MkdirAll(tree, 0o700); err != nil {
		return err
	}
	packages := []string{name}
	out, err := a.run(ctx, "", "apt-cache", "depends", "--no-recommends", "--no-suggests", name)
	if err != nil {
		return err
	}
	for _, m := range parts.FindAllStringSubmatch(string(out), -1) {
		packages = append(packages, m[1])
	}
	if _, err := a.run(ctx, tree, "apt-get", append([]string{"download", "-q"}, packages...)...); err != nil {
		return err
	}
	debs, err := filepath.Glob(filepath.Join(tree, "*.deb"))
	if err != nil {
		return err
	}
	for _, deb := range debs {
		if _, err := output(ctx, "", "dpkg", "-x", deb, tree); err != nil {
			return err
		}
		if err := os.Remove(deb); err != nil {
			return err
		}
	}
	return reduceKernel(ctx, tree)
}
