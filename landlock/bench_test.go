package landlock

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/policy"
)

// BenchmarkCreate measures what each start pays for its rules: folders, each
// with its own rule, and folders beneath another grant.
func BenchmarkCreate(b *testing.B) {
	needABI(b, 1)
	dir := testenv.Dir(b)
	for _, n := range []int{1, 30, 10_000} {
		grants := make([]policy.Grant, n)
		for i := range grants {
			path := filepath.Join(dir, strconv.Itoa(i))
			if err := os.MkdirAll(path, 0o755); err != nil {
				b.Fatal(err)
			}
			grants[i] = policy.Grant{Path: path, Access: policy.Write, NoSymlinks: true}
		}
		b.Run("apart/"+strconv.Itoa(n), func(b *testing.B) { benchmarkCreate(b, grants) })
		beneath := append([]policy.Grant{{Path: dir, Access: policy.Write}}, grants...)
		b.Run("beneath/"+strconv.Itoa(n), func(b *testing.B) { benchmarkCreate(b, beneath) })
	}
}

func benchmarkCreate(b *testing.B, grants []policy.Grant) {
	s := Probe()
	r := &policy.Resolved{Policy: policy.Policy{Mode: policy.WorkspaceWrite}, Grants: grants}
	b.ReportAllocs()
	for b.Loop() {
		rs, err := Compile(s, r)
		if err != nil {
			b.Fatal(err)
		}
		d, err := rs.Create()
		if err != nil {
			b.Fatal(err)
		}
		if err := d.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
