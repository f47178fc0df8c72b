package policy

import (
	"os"
	"strconv"
	"testing"
)

// BenchmarkResolve is the usual start: a linked worktree of a Go module and npm
// package whose cache folder is there.
func BenchmarkResolve(b *testing.B) {
	root := testDir(b)
	git(b, newRepo(b, root+"/repo"), "worktree", "add", "-q", root+"/wt")
	write(b, root+"/wt/go.mod", "module x\n")
	write(b, root+"/wt/package.json", "{}\n")
	mkdir(b, root+"/home/go/pkg/mod/cache/download")
	mkdir(b, root+"/home/.npm/_cacache/tmp")
	env := append(os.Environ(), "HOME="+root+"/home", "XDG_CACHE_HOME=", "GOPROXY=", "GOMODCACHE=", "GOPATH=")
	p := Policy{Mode: WorkspaceWrite, Worktree: Path(root + "/wt")}
	resolve := func() {
		r, err := Resolve(p, Options{Environ: env})
		if err != nil || r.CacheDir == "" || r.Repo.Kind != RepoLinked {
			b.Fatalf("Resolve = %+v, %v", r, err)
		}
	}
	resolve()
	b.ReportAllocs()
	for b.Loop() {
		resolve()
	}
}

// BenchmarkResolveWrites has a long list of paths.
func BenchmarkResolveWrites(b *testing.B) {
	root := testDir(b)
	p := Policy{Mode: WorkspaceWrite}
	for i := range 10_000 {
		dir := root + "/" + strconv.Itoa(i)
		if err := os.Mkdir(dir, 0o777); err != nil {
			b.Fatal(err)
		}
		p.Write = append(p.Write, Path(dir))
	}
	for b.Loop() {
		if _, err := Resolve(p, Options{Environ: []string{"HOME=/nonexistent"}}); err != nil {
			b.Fatal(err)
		}
	}
}
