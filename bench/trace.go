package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// traces compares loads that are traced with the same loads that aren't. Each
// makes its results anew in every round.
func (b *bench) traces() (section, error) {
	s := section{Title: "loads with --trace-denials / with --supervise", As: b.as, Rounds: b.heavy}
	dir := filepath.Join(b.tree, "traced")
	if err := b.prepareTraced(dir); err != nil {
		return s, err
	}
	var cs []contender
	for _, load := range []struct{ name, script, needs string }{
		{"npm install", `rm -rf node_modules package-lock.json && npm install --offline --no-audit --no-fund --silent ./dep`, "npm"},
		{"go test", `go test -count=1 . >/dev/null`, "go"},
		{"go build", `touch m.go && go build -o m .`, "go"},
		{"python -m pytest", `python3 -m pytest -q t_test.py >/dev/null`, "python3"},
		{"python -m unittest", `python3 -m unittest -q u_test 2>/dev/null`, "python3"},
		{"git commit", `date +%N >f && git add f && git -c gc.auto=0 -c maintenance.auto=0 commit -qm x`, "git"},
		{"tar x, 500 files", `rm -rf out && mkdir out && tar xf files.tar -C out`, "tar"},
	} {
		argv := []string{"/bin/sh", "-c", "cd " + dir + " && " + load.script}
		_, err := exec.LookPath(load.needs)
		if err == nil {
			err = b.quiet().command(append([]string{b.launcher, "--supervise", b.tree, "--"}, argv...)...)()
		}
		if err != nil {
			s.Notes = append(s.Notes, fmt.Sprintf("without %s: it doesn't work here (%v)", load.name, err))
			continue
		}
		cs = append(
			cs,
			contender{load.name, b.command(append([]string{b.launcher, "--supervise", b.tree, "--"}, argv...)...)},
			contender{load.name + ", traced", b.command(append([]string{b.launcher, "--trace-denials", "--quiet", b.tree, "--"}, argv...)...)},
		)
	}
	got, err := interleave(b.heavy, cs)
	for i := 0; i+1 < len(got); i += 2 { // each to its own
		one := section{Against: []string{got[i].name}}
		one.rows(got[i : i+2])
		s.Rows = append(s.Rows, one.Rows...)
	}
	if s.Against = []string{"not traced"}; err != nil {
		return s, err
	}
	return s, nil
}

// prepareTraced makes what the loads work on.
func (b *bench) prepareTraced(dir string) error {
	files := map[string]string{
		"go.mod": "module m\n\ngo 1.22\n", "m.go": "package main\n\nfunc main() { println(1) }\n",
		"m_test.go":    "package main\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestM(t *testing.T) {\n\tfor range 100 {\n\t\tif err := os.WriteFile(t.TempDir()+\"/x\", nil, 0o600); err != nil {\n\t\t\tt.Fatal(err)\n\t\t}\n\t}\n}\n",
		"package.json": `{"name":"p","version":"1.0.0"}`,
		"t_test.py":    "import pytest\n\n@pytest.mark.parametrize('n', range(100))\ndef test_n(n, tmp_path):\n    (tmp_path / 'x').write_text(str(n))\n",
		"u_test.py":    "import tempfile, unittest\n\nclass T(unittest.TestCase):\n    def test_n(self):\n        for n in range(100):\n            with tempfile.NamedTemporaryFile() as f:\n                f.write(b'x')\n",
	}
	for i := range 200 {
		files[fmt.Sprintf("dep/lib/f%03d.js", i)] = "module.exports = 1\n"
	}
	files["dep/package.json"] = `{"name":"dep","version":"1.0.0"}`
	for i := range 500 {
		files[fmt.Sprintf("many/d%02d/f%03d", i/50, i)] = "a small file\n"
	}
	var errs []error
	for name, text := range files {
		path := filepath.Join(dir, name)
		errs = append(errs, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	in := b.surroundings
	in.dir = dir
	sh := func(script string) error { return in.command("/bin/sh", "-c", script)() }
	return sh(`tar cf files.tar many && rm -rf many`)
}
