package testenv

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Edit is a change in a source file of this module: From, which must be there
// once, becomes To.
type Edit struct{ File, From, To string }

// Mutant builds a launcher with changes in its source, which stays as it is. The
// binary is removed when t ends. It needs the go command.
func Mutant(t testing.TB, edits ...Edit) string {
	t.Helper()
	root, dir := ModuleRoot(t), Dir(t)
	texts := map[string]string{}
	for _, e := range edits {
		text, ok := texts[e.File]
		if !ok {
			b, err := os.ReadFile(filepath.Join(root, e.File))
			if err != nil {
				t.Fatal(err)
			}
			text = string(b)
		}
		if n := strings.Count(text, e.From); n != 1 {
			t.Fatalf("%s has %q %d times; want it once: say anew where this mutant is broken", e.File, e.From, n)
		}
		texts[e.File] = strings.Replace(text, e.From, e.To, 1)
	}
	overlay := map[string]string{}
	for file, text := range texts {
		changed := filepath.Join(dir, strings.ReplaceAll(file, "/", "-"))
		if err := os.WriteFile(changed, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		overlay[filepath.Join(root, file)] = changed
	}
	b, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		t.Fatal(err)
	}
	list, exe := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "shofer-sandbox")
	if err := os.WriteFile(list, b, 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), buildTime)
	defer cancel()
	cmd := CommandContext(ctx, t, "go", "build", "-overlay", list, "-buildvcs=false", "-o", exe, "./cmd/shofer-sandbox")
	cmd.Dir = root
	cmd.Env = append(cmd.Env, "CGO_ENABLED=0")
	Output(t, cmd)
	return exe
}
