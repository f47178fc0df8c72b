package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var optionName = regexp.MustCompile(`(?:^|[^-\w])(--[a-z][a-z-]*)`)

// options returns the long options that a text names.
func options(text string) map[string]bool {
	found := map[string]bool{}
	for _, m := range optionName.FindAllStringSubmatch(text, -1) {
		found[m[1]] = true
	}
	return found
}

// usageText returns the help of the launcher, from its source.
func usageText(t *testing.T, m module) string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(m.root, "internal/launcher/usage.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var longest string
	ast.Inspect(f, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if s, err := strconv.Unquote(lit.Value); err == nil && len(s) > len(longest) {
				longest = s
			}
		}
		return true
	})
	return longest
}

// TestReadmeOptions holds the table of options in README.md against the help.
func TestReadmeOptions(t *testing.T) {
	m := thisModule(t)
	help := usageText(t, m)
	if !strings.HasPrefix(help, "Usage: ") {
		t.Fatalf("the help begins with %.20q", help)
	}
	readme, err := os.ReadFile(filepath.Join(m.root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(readme), "\n## Options\n")
	table, _, ok := strings.Cut(rest, "\n## ")
	if !ok {
		t.Fatal("README.md has no section Options")
	}
	want, got := options(help), options(table)
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if !got[name] {
			t.Errorf("README.md lacks %s, which --help has", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if !want[name] {
			t.Errorf("README.md has %s, which --help lacks", name)
		}
	}
}

// TestReadmeLinks checks that the files that README.md links to are there.
func TestReadmeLinks(t *testing.T) {
	m := thisModule(t)
	for _, name := range []string{"README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"} {
		text, err := os.ReadFile(filepath.Join(m.root, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, link := range regexp.MustCompile(`\]\(([^)#:]+)\)`).FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join(m.root, link[1])); err != nil {
				t.Errorf("%s links to %s: %v", name, link[1], err)
			}
		}
	}
}
