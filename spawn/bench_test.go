package spawn_test

import (
	"os"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/spawn"
)

// BenchmarkStart compares Start with os.StartProcess.
func BenchmarkStart(b *testing.B) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	fd := int(null.Fd())
	b.Run("spawn", func(b *testing.B) {
		p := &spawn.Plan{Path: "/bin/true", Argv: []string{"true"}, Files: []int{fd, fd, fd}}
		for b.Loop() {
			proc, err := spawn.Start(p)
			if err != nil {
				b.Fatal(err)
			}
			wait(b, proc)
		}
	})
	b.Run("os", func(b *testing.B) {
		attr := &os.ProcAttr{Env: []string{}, Files: []*os.File{null, null, null}}
		for b.Loop() {
			proc, err := os.StartProcess("/bin/true", []string{"true"}, attr)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := proc.Wait(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
