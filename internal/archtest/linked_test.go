package archtest

import (
	"fmt"
	"go/build"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// linker finds what a package links by walking the imports of the files that a
// build for Linux takes, down into the module cache and the standard library.
type linker struct {
	module   module
	ctx      build.Context
	requires map[string]string // module path -> folder in the module cache
	never    []string

	from map[string]string // import path -> what imported it first
	bad  []string
}

// forbidden returns a line for each forbidden package that the package of this
// module called name links, with the chain of imports that brings it.
func (l *linker) forbidden(name string) ([]string, error) {
	l.from, l.bad = map[string]string{}, nil
	start := l.module.path + "/" + name
	l.from[start] = ""
	for queue := []string{start}; len(queue) > 0; queue = queue[1:] {
		imp := queue[0]
		dir, err := l.dir(imp)
		if err != nil {
			return nil, err
		}
		got, err := l.ctx.ImportDir(dir, 0)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", imp, err)
		}
		for _, next := range got.Imports {
			if isStd(imp) && !isStd(next) {
				next = "vendor/" + next // the standard library's own copy
			}
			if _, seen := l.from[next]; seen || next == "unsafe" || next == "C" {
				continue
			}
			l.from[next] = imp
			if under(next, l.never) {
				l.bad = append(l.bad, l.chain(next))
				continue
			}
			queue = append(queue, next)
		}
	}
	return l.bad, nil
}

func (l *linker) chain(imp string) string {
	var c []string
	for ; imp != ""; imp = l.from[imp] {
		name, _ := l.module.ours(imp)
		c = append(c, name)
	}
	slices.Reverse(c)
	return strings.Join(c, " -> ")
}

// dir returns the folder of an import's source.
func (l *linker) dir(imp string) (string, error) {
	if name, mine := l.module.ours(imp); mine {
		return filepath.Join(l.module.root, name), nil
	}
	if isStd(imp) {
		return filepath.Join(l.ctx.GOROOT, "src", imp), nil
	}
	best := ""
	for mod := range l.requires {
		if under(imp, []string{mod}) && len(mod) > len(best) {
			best = mod
		}
	}
	if best == "" {
		return "", fmt.Errorf("no module of go.mod provides %s", imp)
	}
	return filepath.Join(l.requires[best], strings.TrimPrefix(imp, best)), nil
}

// requires reads the versions that go.mod names, which since Go 1.17 are all
// that a build needs, as folders of a module cache.
func (m module) requires(cache string) (map[string]string, error) {
	b, err := os.ReadFile(filepath.Join(m.root, "go.mod"))
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for line := range strings.Lines(string(b)) {
		line, _, _ = strings.Cut(line, "//")
		f := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require "))
		if len(f) == 2 && strings.HasPrefix(f[1], "v") && strings.Contains(f[0], ".") {
			found[f[0]] = filepath.Join(cache, escape(f[0])+"@"+escape(f[1]))
		}
	}
	return found, nil
}

// escape writes a path as the module cache does: "!" and lower case for an upper
// case letter.
func escape(s string) string {
	var b strings.Builder
	for _, r := range s {
		if unicode.IsUpper(r) {
			b.WriteByte('!')
			r = unicode.ToLower(r)
		}
		b.WriteRune(r)
	}
	return b.String()
}

// newLinker returns a linker for builds of m, as the launcher is built.
func newLinker(t *testing.T, m module, arch string) *linker {
	t.Helper()
	// Only places are asked for here, so the cache of test results stays right.
	out, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	places := strings.Split(strings.TrimSpace(string(out)), "\n")
	l := &linker{module: m, ctx: build.Default, never: launcherNever}
	l.ctx.GOOS, l.ctx.GOARCH, l.ctx.CgoEnabled, l.ctx.GOROOT = "linux", arch, false, places[0]
	if l.requires, err = m.requires(places[1]); err != nil {
		t.Fatal(err)
	}
	return l
}

func TestLauncherLinks(t *testing.T) {
	m := thisModule(t)
	for _, arch := range []string{"amd64", "arm64"} {
		l := newLinker(t, m, arch)
		bad, err := l.forbidden(launcherMain)
		if err != nil {
			t.Fatal(err)
		}
		for _, chain := range bad {
			t.Errorf("the launcher for %s may not link what the last of these is: %s", arch, chain)
		}
	}
}

// TestBadLauncherLinks checks that the check can fail, and that it takes the
// files that a build takes.
func TestBadLauncherLinks(t *testing.T) {
	m := module{root: "testdata/bad", path: "example.com/bad"}
	for arch, want := range map[string][]string{
		"amd64": {"cmd/shofer-sandbox -> internal/launcher -> net/http"},
		"arm64": {"cmd/shofer-sandbox -> internal/launcher -> encoding/gob", "cmd/shofer-sandbox -> internal/launcher -> net/http"},
	} {
		got, err := newLinker(t, m, arch).forbidden(launcherMain)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: forbidden(testdata/bad) = %q; want %q", arch, got, want)
		}
	}
}

func TestRequires(t *testing.T) {
	m := module{root: t.TempDir()}
	mod := `module example.com/m
require github.com/BurntSushi/toml v1.0.0
require (
	example.com/a v0.1.0 // indirect
)
`
	if err := os.WriteFile(filepath.Join(m.root, "go.mod"), []byte(mod), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := m.requires("/c")
	want := map[string]string{"github.com/BurntSushi/toml": "/c/github.com/!burnt!sushi/toml@v1.0.0", "example.com/a": "/c/example.com/a@v0.1.0"}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("requires() = %v, %v; want %v", got, err, want)
	}
}
