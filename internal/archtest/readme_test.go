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

// TestOptionsPage holds the table in docs/options.md against the help.
func TestOptionsPage(t *testing.T) {
	m := thisModule(t)
	help := usageText(t, m)
	if !strings.HasPrefix(help, "Usage: ") {
		t.Fatalf("the help begins with %.20q", help)
	}
	page, err := os.ReadFile(filepath.Join(m.root, "docs/options.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "\n## Options\n")
	table, _, ok := strings.Cut(rest, "\n## ")
	if !ok {
		t.Fatal("docs/options.md has no section Options")
	}
	want, got := options(help), options(table)
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if !got[name] {
			t.Errorf("docs/options.md lacks %s, which --help has", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if !want[name] {
			t.Errorf("docs/options.md has %s, which --help lacks", name)
		}
	}
}

// TestReadmeLinks checks that the files that README.md and others link to are
// there.
func TestReadmeLinks(t *testing.T) {
	m := thisModule(t)
	pages, err := filepath.Glob(filepath.Join(m.root, "docs/*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"} {
		pages = append(pages, filepath.Join(m.root, name))
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, link := range regexp.MustCompile(`\]\(([^)#:]+)[^):]*\)`).FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), link[1])); err != nil {
				t.Errorf("%s links to %s: %v", page, link[1], err)
			}
		}
	}
}

// TestDocsIndex checks that docs/README.md links to every page beside it.
func TestDocsIndex(t *testing.T) {
	dir := filepath.Join(thisModule(t).root, "docs")
	index, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	pages, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		if name := page.Name(); name != "README.md" && !strings.Contains(string(index), "]("+name+")") {
			t.Errorf("docs/README.md doesn't link to %s", name)
		}
	}
}

var (
	exampleBody = regexp.MustCompile(`(?s)\nfunc Example\w*\(\) {\n(.*?)\n}\n`)
	goBlock     = regexp.MustCompile("(?s)\n```go\n(.*?)```\n")
)

// TestEmbeddingExamples holds the Go code in docs/embedding.md against the
// examples of packages, which are compiled.
func TestEmbeddingExamples(t *testing.T) {
	m := thisModule(t)
	page, err := os.ReadFile(filepath.Join(m.root, "docs/embedding.md"))
	if err != nil {
		t.Fatal(err)
	}
	compiled := map[string]bool{}
	for _, dir := range []string{"launch", "runner", "runner/*"} {
		files, err := filepath.Glob(filepath.Join(m.root, dir, "*example_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			source, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, body := range exampleBody.FindAllSubmatch(source, -1) {
				text := "\n" + string(body[1]) + "\n"
				compiled[strings.ReplaceAll(text, "\n\t", "\n")] = true
			}
		}
	}
	blocks := goBlock.FindAllSubmatch(page, -1)
	if len(blocks) == 0 {
		t.Error("docs/embedding.md has no Go code")
	}
	for _, block := range blocks {
		if !compiled["\n"+string(block[1])] {
			t.Errorf("no package has this example of docs/embedding.md:\n%s", block[1])
		}
	}
}

// TestReadmeExample holds the Go code in README.md against package launch's
// example, which is compiled.
func TestReadmeExample(t *testing.T) {
	m := thisModule(t)
	readme, err := os.ReadFile(filepath.Join(m.root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(readme), "\n```go\n")
	got, _, ok := strings.Cut(rest, "```\n")
	if !ok {
		t.Fatal("README.md has no Go code")
	}
	source, err := os.ReadFile(filepath.Join(m.root, "launch/example_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ = strings.Cut(string(source), "\nfunc Example() {\n")
	body, _, ok := strings.Cut(rest, "\n}\n")
	if !ok {
		t.Fatal("package launch has no example")
	}
	var want strings.Builder
	for line := range strings.Lines(body + "\n") {
		want.WriteString(strings.TrimPrefix(line, "\t"))
	}
	if got != want.String() {
		t.Errorf("README.md has\n%s\nwant the example of package launch:\n%s", got, want.String())
	}
}
