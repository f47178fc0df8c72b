package cli

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
)

// TestNewcomer does what README.md shows to whoever sees this for the first
// time, but for the build, at a port that is free.
func TestNewcomer(t *testing.T) {
	testenv.NeedTool(t, "python3", "curl")
	readme, err := os.ReadFile(filepath.Join(testenv.ModuleRoot(t), "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(readme), "    make build && export PATH=$PWD/bin:$PATH\n")
	block, _, ok := strings.Cut(rest, "\n\n")
	if !ok || strings.Count(block, "\n") != 3 {
		t.Fatalf("README.md has no five commands, but %q", block)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	each(t, func(t *testing.T, p *place) {
		p.Write("README.md", "# shofer-sandbox\n")
		sh := p.Command("sh", "-c", strings.ReplaceAll(block, "8765", port))
		sh.Env = append(sh.Env, "PATH="+filepath.Dir(p.exe)+":"+os.Getenv("PATH"))
		r := testenv.Run(t, sh)
		want := regexp.MustCompile(`(?s)exit code 124\n[0-9A-Z]{26}\n# shofer-sandbox\n.*GET /README.md HTTP/1.1" 200 .*  web   killed by SIGTERM  .*python3 -m http.server`)
		if r.Code != 0 || !want.MatchString(r.Stdout) {
			t.Errorf("%v; want it to match %v", r, want)
		}
	})
}

var (
	optionName  = regexp.MustCompile("(?:^|[ `(])(--[a-z][a-z-]*)")
	commandName = regexp.MustCompile("^\\| `runner ([a-z]+)`(?:, `runner ([a-z]+)`)?")
)

// TestCommandsPage holds docs/commands.md against the help: its table has each
// command, and there is no option that it names.
func TestCommandsPage(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(testenv.ModuleRoot(t), "docs/commands.md"))
	if err != nil {
		t.Fatal(err)
	}
	exe := testenv.BuildRunner(t)
	help := testenv.Output(t, testenv.Command(t, exe, "--help"))
	listed := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if m := commandName.FindStringSubmatch(line); m != nil {
			listed[m[1]], listed[m[2]] = true, true
		}
	}
	all := help
	_, commands, _ := strings.Cut(help, "Commands:\n")
	commands, _, _ = strings.Cut(commands, "\n\n")
	for line := range strings.Lines(commands) {
		name := strings.Fields(line)[0]
		if !listed[name] {
			t.Errorf("docs/commands.md has no command %s", name)
		}
		all += testenv.Output(t, testenv.Command(t, exe, name, "--help"))
	}
	for _, m := range optionName.FindAllStringSubmatch(string(text), -1) {
		if !strings.Contains(all, m[1]) {
			t.Errorf("docs/commands.md names %s, which no help has", m[1])
		}
	}
}
