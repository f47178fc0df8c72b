package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// module is a module's source.
type module struct {
	root string // folder of go.mod
	path string // import path
}

// pkg is one folder with Go files.
type pkg struct {
	name  string // path below the module
	files []file
}

type file struct {
	name string // path below the module
	ast  *ast.File
	fset *token.FileSet
}

func (f file) isTest() bool { return strings.HasSuffix(f.name, "_test.go") }

// at says where a node is, as a compiler does.
func (f file) at(n ast.Node) string {
	return f.name + ":" + strconv.Itoa(f.fset.Position(n.Pos()).Line)
}

// imports yields each import with its path.
func (f file) imports(yield func(*ast.ImportSpec, string) bool) {
	for _, spec := range f.ast.Imports {
		if p, err := strconv.Unquote(spec.Path.Value); err != nil || !yield(spec, p) {
			return
		}
	}
}

// load parses every Go file of the module, those for other systems too, and
// leaves out folders that the go command leaves out and modules inside.
func (m module) load() ([]pkg, error) {
	var pkgs []pkg
	err := filepath.WalkDir(m.root, func(p string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return err
		}
		if p != m.root {
			if n := e.Name(); n == "testdata" || n == "vendor" || n[0] == '.' || n[0] == '_' {
				return filepath.SkipDir
			}
			if _, err := os.Stat(filepath.Join(p, "go.mod")); err == nil {
				return filepath.SkipDir
			}
		}
		rel, err := filepath.Rel(m.root, p)
		if err != nil {
			return err
		}
		got, err := m.parseDir(rel)
		if err == nil && len(got.files) > 0 {
			pkgs = append(pkgs, got)
		}
		return err
	})
	return pkgs, err
}

func (m module) parseDir(rel string) (pkg, error) {
	got := pkg{name: filepath.ToSlash(rel)}
	entries, err := os.ReadDir(filepath.Join(m.root, rel))
	if err != nil {
		return got, err
	}
	for _, e := range entries {
		if e.IsDir() || !strings.HasSuffix(e.Name(), ".go") {
			continue
		}
		f := file{name: path.Join(got.name, e.Name()), fset: token.NewFileSet()}
		f.ast, err = parser.ParseFile(f.fset, filepath.Join(m.root, rel, e.Name()), nil, parser.ImportsOnly|parser.ParseComments)
		if err != nil {
			return got, err
		}
		got.files = append(got.files, f)
	}
	return got, nil
}

// ours returns the path of an import below the module, if it is of the module.
func (m module) ours(imp string) (string, bool) {
	if imp == m.path {
		return ".", true
	}
	return strings.CutPrefix(imp, m.path+"/")
}

// isStd reports whether an import is of the standard library: the first element
// of all other paths has a dot.
func isStd(imp string) bool {
	first, _, _ := strings.Cut(imp, "/")
	return !strings.Contains(first, ".")
}

// under reports whether p is one of the prefixes or lies below one. The prefix
// "" holds for all.
func under(p string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(pre string) bool {
		return pre == "" || p == pre || strings.HasPrefix(p, pre+"/")
	})
}

// ruleFor returns the rule that holds for a package.
func ruleFor(name string) (rule, bool) {
	if r, ok := table[name]; ok {
		return r, true
	}
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if r, ok := table[dir+"/..."]; ok {
			return r, true
		}
	}
	return rule{}, false
}

func (r rule) allows(name string) bool {
	if slices.Contains(r.ours, name) || slices.Contains(openToAll, name) {
		return true
	}
	return slices.Contains(r.ours, anything) && !under(name, r.except)
}

func (r rule) String() string {
	list := slices.Concat(r.ours, openToAll, r.libs, openLibs)
	for i := range list {
		if list[i] == "" {
			list[i] = "any library"
		}
	}
	s := strings.Join(list, ", ")
	if len(r.except) > 0 {
		s += "; not " + strings.Join(r.except, ", ")
	}
	return s
}

// directions returns the imports that the table doesn't allow.
func (m module) directions(pkgs []pkg) (bad []string) {
	for _, p := range pkgs {
		r, ok := ruleFor(p.name)
		if !ok {
			bad = append(bad, p.name+": package has no row in the table of directions")
			continue
		}
		for _, f := range p.files {
			if f.isTest() {
				continue
			}
			for spec, imp := range f.imports {
				name, mine := m.ours(imp)
				allowed := false
				switch {
				case mine:
					allowed = r.allows(name)
				case isStd(imp):
					name, allowed = imp, true
				default:
					name, allowed = imp, under(imp, r.libs) || under(imp, openLibs)
				}
				if under(name, testOnly) && !under(p.name, testOnly) && !under(p.name, testers) {
					allowed = false
				}
				if !allowed {
					bad = append(bad, fmt.Sprintf("%s: %s may not import %s; allowed: the standard library, %v", f.at(spec), p.name, name, r))
				}
				if under(p.name, light) && slices.Contains(heavy, imp) {
					bad = append(bad, fmt.Sprintf("%s: %s may not import %s: it is on the way of each start", f.at(spec), p.name, imp))
				}
			}
		}
	}
	return bad
}

// comments returns the packages that don't have exactly one package comment.
func comments(pkgs []pkg) (bad []string) {
	for _, p := range pkgs {
		var at []string
		var tests bool
		for _, f := range p.files {
			if f.isTest() {
				tests = true
				continue
			}
			if f.ast.Doc == nil {
				continue
			}
			at = append(at, f.at(f.ast.Doc))
			want := "Package " + f.ast.Name.Name + " "
			if f.ast.Name.Name == "main" {
				want = ""
			}
			if !strings.HasPrefix(f.ast.Doc.Text(), want) {
				bad = append(bad, fmt.Sprintf("%s: the package comment should begin with %q", f.at(f.ast.Doc), want))
			}
		}
		switch {
		case len(at) == 0 && tests && onlyTests(p):
		case len(at) == 0:
			bad = append(bad, p.name+": package has no comment")
		case len(at) > 1:
			bad = append(bad, fmt.Sprintf("%s: package has more than one comment: %s", p.name, strings.Join(at, ", ")))
		}
	}
	return bad
}

func onlyTests(p pkg) bool {
	return !slices.ContainsFunc(p.files, func(f file) bool { return !f.isTest() })
}

// unsafes returns the imports of unsafe in files whose name doesn't say so, and
// all of cgo's C.
func unsafes(pkgs []pkg) (bad []string) {
	for _, p := range pkgs {
		for _, f := range p.files {
			for spec, imp := range f.imports {
				base := strings.TrimSuffix(strings.TrimSuffix(f.name, ".go"), "_test")
				if imp == "unsafe" && !strings.HasSuffix(base, "_unsafe") {
					bad = append(bad, f.at(spec)+": unsafe is only for files called *_unsafe.go or *_unsafe_test.go")
				}
				if imp == "C" {
					bad = append(bad, f.at(spec)+": no cgo here")
				}
			}
		}
	}
	return bad
}

// thisModule is the module that the test lies in.
func thisModule(t *testing.T) module {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return module{root: root, path: "github.com/shofer-dev/shofer-sandbox"}
}

func TestModule(t *testing.T) {
	m := thisModule(t)
	pkgs, err := m.load()
	if err != nil {
		t.Fatal(err)
	}
	if len(pkgs) < 3 {
		t.Fatalf("found %d packages below %s; the walk is broken", len(pkgs), m.root)
	}
	for _, bad := range slices.Concat(m.directions(pkgs), comments(pkgs), unsafes(pkgs)) {
		t.Error(bad)
	}
}

// TestBadModule checks that each check can fail.
func TestBadModule(t *testing.T) {
	m := module{root: "testdata/bad", path: "example.com/bad"}
	pkgs, err := m.load()
	if err != nil {
		t.Fatal(err)
	}
	const std = "allowed: the standard library, "
	const open = "internal/linux, internal/fdpass, internal/nearest, internal/nofile, "
	for _, tt := range []struct {
		check string
		got   []string
		want  []string
	}{
		{"directions", m.directions(pkgs), []string{
			"landlock/landlock.go:5: landlock may not import mountns; " + std + "policy, " + open + "github.com/landlock-lsm/go-landlock, golang.org/x/sys/unix",
			"landlock/landlock.go:9: landlock may not import os/exec: it is on the way of each start",
			"launch/launch.go:4: launch may not import testing; " + std + "policy, spawn, internal/tamper, internal/witness, landlock, mountns, bwrap, cgroup, seccomp, " + open + "golang.org/x/sys/unix",
			"policy/policy.go:5: policy may not import landlock; " + std + open + "golang.org/x/sys/unix",
			"policy/policy.go:6: policy may not import github.com/spf13/pflag; " + std + open + "golang.org/x/sys/unix",
			"util: package has no row in the table of directions",
		}},
		{"comments", comments(pkgs), []string{
			"mountns: package has no comment",
			`util/util.go:1: the package comment should begin with "Package util "`,
			"util: package has more than one comment: util/more.go:1, util/util.go:1",
		}},
		{"unsafes", unsafes(pkgs), []string{
			"mountns/mountns.go:4: no cgo here",
			"mountns/mountns.go:5: unsafe is only for files called *_unsafe.go or *_unsafe_test.go",
		}},
	} {
		if !slices.Equal(tt.got, tt.want) {
			t.Errorf("%s(testdata/bad) =\n%s\nwant\n%s", tt.check, strings.Join(tt.got, "\n"), strings.Join(tt.want, "\n"))
		}
	}
}
