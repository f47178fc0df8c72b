package policy

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// listed is what git ls-files says: modes by path. Conflicts have several.
func listed(t testing.TB, dir string, args ...string) map[string][]uint32 {
	t.Helper()
	out := git(t, dir, append(args, "ls-files", "-s", "-z", "--sparse")...)
	files := map[string][]uint32{}
	for entry := range strings.SplitSeq(strings.TrimSuffix(out, "\x00"), "\x00") {
		head, name, ok := strings.Cut(entry, "\t")
		if !ok {
			continue
		}
		mode, err := strconv.ParseUint(head[:6], 8, 32)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = append(files[name], uint32(mode))
	}
	return files
}

// indexed is what the reader says.
func indexed(t testing.TB, ix GitIndex) map[string][]uint32 {
	t.Helper()
	files := map[string][]uint32{}
	if err := ix.each(func(mode uint32, name []byte) bool {
		files[string(name)] = append(files[string(name)], mode)
		return true
	}); err != nil {
		t.Fatalf("each: %v", err)
	}
	return files
}

func checkIndex(t *testing.T, dir string) {
	t.Helper()
	repo, err := FindRepo(dir)
	if err != nil || repo == nil {
		t.Fatalf("FindRepo = %v, %v", repo, err)
	}
	want, got := listed(t, dir), indexed(t, repo.Index())
	for _, modes := range got {
		slices.Sort(modes)
	}
	for _, modes := range want {
		slices.Sort(modes)
	}
	if !maps.EqualFunc(got, want, slices.Equal) {
		t.Errorf("index: %v\nwant: %v", got, want)
	}
	var links []string
	for name, modes := range want {
		if modes[0] == modeGitlink {
			links = append(links, name)
		}
	}
	found, err := repo.Index().Gitlinks()
	slices.Sort(found)
	slices.Sort(links)
	if err != nil || !slices.Equal(found, links) {
		t.Errorf("Gitlinks() = %q, %v; want %q", found, err, links)
	}
}

// fillRepo makes a repository with many kinds of entries.
func fillRepo(t testing.TB, dir string, initArgs ...string) {
	t.Helper()
	mkdir(t, dir)
	git(t, dir, append([]string{"init", "-q"}, initArgs...)...)
	for i := range 40 {
		folder := fmt.Sprintf("%s/dir%d/deep", dir, i%7)
		mkdir(t, folder)
		write(t, fmt.Sprintf("%s/file-%d", folder, i), strconv.Itoa(i))
	}
	write(t, dir+"/odd name\n\xff", "x")
	symlink(t, "nowhere", dir+"/link")
	write(t, dir+"/exec", "#!/bin/sh\n")
	if err := os.Chmod(dir+"/exec", 0o755); err != nil {
		t.Fatal(err)
	}
	// Names of 4095 bytes and more don't have their length in the flags.
	oid := strings.TrimSpace(git(t, dir, "hash-object", "-w", "exec"))
	git(t, dir, "add", ".")
	long := strings.Repeat("0123456789/", 400)
	for _, n := range []int{4094, 4095, 4096, 4100} {
		git(t, dir, "update-index", "--add", "--cacheinfo", "100644,"+oid+","+long[:n-1]+"x")
	}
	git(t, dir, "update-index", "--add", "--cacheinfo", "160000,"+oid+",sub/link")
	git(t, dir, "commit", "-q", "-m", "all")
}

func TestIndex(t *testing.T) {
	for _, format := range []string{"sha1", "sha256"} {
		for _, version := range []string{"2", "3", "4"} {
			t.Run(format+"/v"+version, func(t *testing.T) {
				dir := testDir(t) + "/repo"
				fillRepo(t, dir, "--object-format="+format)
				if version == "3" {
					write(t, dir+"/later", "")
					git(t, dir, "add", "--intent-to-add", "later") // needs the longer flags
				} else {
					git(t, dir, "update-index", "--index-version", version)
				}
				if got := read(t, dir+"/.git/index")[4:8]; got != "\x00\x00\x00"+string(version[0]-'0') {
					t.Fatalf("version %q; want %s", got, version)
				}
				checkIndex(t, dir)

				// A conflict has three entries of one name.
				git(t, dir, "update-index", "--skip-worktree", "exec")
				checkIndex(t, dir)

				// What is split off: replaced, added and deleted entries.
				git(t, dir, "update-index", "--split-index")
				checkIndex(t, dir)
				write(t, dir+"/dir0/deep/file-0", "changed")
				write(t, dir+"/added", "")
				write(t, dir+"/dir1/added", "")
				git(t, dir, "-c", "splitIndex.maxPercentChange=100", "add", "--sparse", "dir0", "dir1", "added")
				git(t, dir, "-c", "splitIndex.maxPercentChange=100", "rm", "-q", "--cached", "dir2/deep/file-2", "dir3/deep/file-3")
				git(t, dir, "-c", "splitIndex.maxPercentChange=100", "update-index", "--chmod=+x", "dir4/deep/file-4")
				shared, err := filepath.Glob(dir + "/.git/sharedindex.*")
				if err != nil || len(shared) == 0 {
					t.Fatalf("no shared index: %v", err)
				}
				checkIndex(t, dir)
				git(t, dir, "update-index", "--no-split-index")
				checkIndex(t, dir)
			})
		}
	}
}

func TestIndexConflict(t *testing.T) {
	dir := newRepo(t, testDir(t)+"/repo")
	git(t, dir, "branch", "other")
	write(t, dir+"/file", "two\n")
	git(t, dir, "commit", "-q", "-a", "-m", "two")
	git(t, dir, "switch", "-q", "other")
	write(t, dir+"/file", "three\n")
	git(t, dir, "commit", "-q", "-a", "-m", "three")
	git(t, dir, "merge-tree", "other", "main", "other")
	git(t, dir, "read-tree", "-m", "HEAD~1", "other", "main")
	checkIndex(t, dir)
}

// A sparse index folds folders.
func TestIndexSparse(t *testing.T) {
	dir := testDir(t) + "/repo"
	fillRepo(t, dir)
	git(t, dir, "sparse-checkout", "set", "--cone", "--sparse-index", "dir1")
	checkIndex(t, dir)
	repo, err := FindRepo(dir)
	if err != nil {
		t.Fatal(err)
	}
	folded := false
	for name, modes := range indexed(t, repo.Index()) {
		folded = folded || modes[0] == modeFolder && strings.HasSuffix(name, "/")
	}
	if !folded {
		t.Fatal("nothing is folded")
	}
	checkTracked(t, repo.Index(), map[string]bool{"dir2": true, "dir2/deep/any": true, "dir1/deep": true, "dir1/no": false, "dir22": false})
}

func checkTracked(t *testing.T, ix GitIndex, want map[string]bool) {
	t.Helper()
	for path, tracked := range want {
		if got, err := ix.Tracked(path); got != tracked || err != nil {
			t.Errorf("Tracked(%q) = %v, %v; want %v", path, got, err, tracked)
		}
	}
}

func TestTracked(t *testing.T) {
	dir := testDir(t) + "/repo"
	fillRepo(t, dir)
	want := map[string]bool{
		"exec": true, "exe": false, "exec/x": false, "dir0": true, "dir0/deep": true, "dir0/deep/file-0": true,
		"dir": false, "dir0/dee": false, "zzz": false, "sub/link": true, "link": true, "!": false,
	}
	for _, version := range []string{"2", "4"} {
		git(t, dir, "update-index", "--index-version", version)
		checkTracked(t, GitIndex{GitDir: dir + "/.git"}, want)
	}
	git(t, dir, "update-index", "--split-index")
	write(t, dir+"/aa", "")
	git(t, dir, "add", "aa")
	want["aa"] = true
	checkTracked(t, GitIndex{GitDir: dir + "/.git"}, want)
}

// No index is an empty one; what isn't one is an error.
func TestIndexErrors(t *testing.T) {
	dir := testDir(t)
	if links, err := (GitIndex{GitDir: dir}).Gitlinks(); links != nil || err != nil {
		t.Errorf("no index: %q, %v; want nothing", links, err)
	}
	top := newRepo(t, dir+"/repo")
	whole := read(t, top+"/.git/index")
	for name, text := range map[string]string{
		"empty": "", "short": "DIRC", "other": "PACK" + whole[4:], "version 5": "DIRC\x00\x00\x00\x05" + whole[8:],
		"cut": whole[:50], "more entries": whole[:11] + "\xff" + whole[12:], "a large extension": whole[:len(whole)-20] + "ABCD\x7f\xff\xff\xff" + whole[len(whole)-20:],
	} {
		write(t, dir+"/index", text)
		if _, err := (GitIndex{GitDir: dir}).Gitlinks(); !errors.Is(err, errIndex) {
			t.Errorf("%s: %v; want %v", name, err, errIndex)
		}
	}
	remove(t, dir+"/index")
	mkdir(t, dir+"/index")
	if _, err := (GitIndex{GitDir: dir}).Gitlinks(); !errors.Is(err, errNotRegular) {
		t.Errorf("a folder: %v; want %v", err, errNotRegular)
	}
}

// Whatever the file holds, reading ends and doesn't panic.
func FuzzIndex(f *testing.F) {
	dir := newRepo(f, testDir(f)+"/repo")
	write(f, dir+"/file2", "")
	git(f, dir, "add", "file2")
	for _, version := range []string{"2", "4"} {
		git(f, dir, "update-index", "--index-version", version)
		f.Add([]byte(read(f, dir+"/.git/index")), []byte(nil))
	}
	git(f, dir, "update-index", "--split-index")
	write(f, dir+"/file", "other\n")
	git(f, dir, "add", "file")
	shared, err := filepath.Glob(dir + "/.git/sharedindex.*")
	if err != nil || len(shared) != 1 {
		f.Fatalf("shared index: %q, %v", shared, err)
	}
	base := strings.TrimPrefix(shared[0], dir+"/.git/")
	f.Add([]byte(read(f, dir+"/.git/index")), []byte(read(f, shared[0])))
	gitDir := testDir(f)
	f.Fuzz(func(t *testing.T, index, other []byte) {
		for name, text := range map[string][]byte{"index": index, base: other} {
			if err := os.WriteFile(gitDir+"/"+name, text, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		for _, size := range []int{20, 32} {
			n := 0
			_ = (GitIndex{GitDir: gitDir, HashSize: size}).each(func(uint32, []byte) bool {
				n++
				return true
			})
			if n > len(index)+len(other) {
				t.Errorf("%d entries of %d bytes", n, len(index)+len(other))
			}
		}
	})
}

func BenchmarkGitlinks(b *testing.B) {
	dir := testDir(b)
	git(b, dir, "init", "-q")
	oid := git(b, dir, "hash-object", "-w", "-t", "blob", "/dev/null")
	var list strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&list, "100644 %s\tsome/folder/of/length/%d/file-%d\n", oid, i%100, i)
	}
	write(b, dir+"/list", list.String())
	git(b, dir, "-c", "alias.fill=!git update-index --index-info <list", "fill")
	for b.Loop() {
		if _, err := (GitIndex{GitDir: dir + "/.git"}).Gitlinks(); err != nil {
			b.Fatal(err)
		}
	}
}
