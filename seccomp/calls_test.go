package seccomp

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
)

// TestNumbers holds the tables against those of golang.org/x/sys, which are
// made from the kernel's headers.
func TestNumbers(t *testing.T) {
	testenv.NeedTool(t, "go")
	dir := strings.TrimSpace(testenv.Output(t, testenv.Command(t, "go", "list", "-m", "-f", "{{.Dir}}", "golang.org/x/sys")))
	if _, err := os.Stat(dir); err != nil || dir == "" {
		testenv.Skip(t, "needs the source of golang.org/x/sys: %q, %v", dir, err)
	}
	for _, tt := range []struct {
		goarch string
		got    numbers
	}{
		{"amd64", amd64Numbers},
		{"386", i386Numbers},
		{"arm64", arm64Numbers},
		{"arm", armNumbers},
	} {
		want := sysNumbers(t, filepath.Join(dir, "unix", "zsysnum_linux_"+tt.goarch+".go"))
		for c := range numCalls {
			n, ok := want[strings.ToUpper(callNames[c])]
			if !ok {
				n = none
			}
			if tt.got[c] != n {
				t.Errorf("%s: %s = %d; want %d", tt.goarch, callNames[c], tt.got[c], n)
			}
		}
	}
}

// sysNumbers returns the constants SYS_… of a file.
func sysNumbers(t *testing.T, file string) map[string]uint32 {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]uint32{}
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Names) != 1 || len(spec.Values) != 1 {
			return true
		}
		lit, ok := spec.Values[0].(*ast.BasicLit)
		if !ok {
			return true
		}
		nr, err := strconv.ParseUint(lit.Value, 0, 32)
		if err != nil {
			t.Fatal(err)
		}
		found[strings.TrimPrefix(spec.Names[0].Name, "SYS_")] = uint32(nr)
		return true
	})
	if len(found) < 300 {
		t.Fatalf("%s has %d numbers", file, len(found))
	}
	return found
}
