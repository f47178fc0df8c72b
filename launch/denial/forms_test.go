package denial

import (
	"slices"
	"strings"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/policy"
)

// Forms of tools that need not be installed where the tests run.
func TestMentions(t *testing.T) {
	for _, tt := range []struct {
		lines string // the last is the one in question
		want  string // paths, separated by spaces
		op    policy.Op
	}{
		{"touch: cannot touch '/a': Permission denied", "/a", policy.OpCreate},
		{"mkdir: cannot create directory ‘/a’: Read-only file system", "/a", policy.OpMkdir},
		{"mv: cannot move 'a' to '/b': Permission denied", "a /b", policy.OpRename},
		{"bash: line 1: /a: Permission denied", "/a", policy.OpWrite},
		{"sh: 1: cannot create /a: Permission denied", "/a", policy.OpCreate},
		{"sh: 1: /a: Permission denied", "/a", policy.OpExecute},
		{"zsh:1: permission denied: /a", "/a", policy.OpWrite},
		{"ksh: /a: cannot create [Permission denied]", "/a", policy.OpWrite},
		{"tar: /a: Cannot open: Permission denied", "/a", policy.OpWrite},
		{"zstd: /a : Permission denied", "/a", policy.OpWrite},
		{"bzip2: Can't create output file /a: Permission denied.", "/a", policy.OpCreate},
		{`rsync: [receiver] mkstemp "/a" failed: Permission denied (13)`, "/a", policy.OpCreate},
		{"error: could not lock config file /a: Permission denied", "/a", policy.OpWrite},
		{"fatal: Unable to create '/a.lock': Permission denied", "/a.lock", policy.OpCreate},
		{"/usr/bin/ld: cannot open output file /a: Permission denied", "/a", policy.OpWrite},
		{"Fatal error: can't create /a.o: Permission denied", "/a.o", policy.OpCreate},
		{"x: mkdir /a/b: permission denied", "/a/b", policy.OpMkdir},
		{"x: rename /a /b: permission denied", "/a /b", policy.OpRename},
		{"PermissionError: [Errno 13] Permission denied: '/a' -> '/b'", "/a /b", policy.OpRename},
		{"E   OSError: [Errno 30] Read-only file system: '/a b'", "/a b", policy.OpWrite},
		{"Error: EACCES: permission denied, mkdir '/a'", "/a", policy.OpMkdir},
		{"npm error Error: EROFS: read-only file system, open '/a'", "/a", policy.OpWrite},
		{"\tjava.nio.file.AccessDeniedException: /a", "/a", policy.OpWrite},
		{"Caused by: java.io.FileNotFoundException: /a (Permission denied)", "/a", policy.OpWrite},
		{"-e:1:in `initialize': Permission denied @ rb_sysopen - /a (Errno::EACCES)", "/a", policy.OpWrite},
		{"PHP Warning:  fopen(/a): Failed to open stream: Permission denied in x on line 1", "/a", policy.OpWrite},
		{"error: failed to create directory `/a`\n\nCaused by:\n  Permission denied (os error 13)", "/a", policy.OpMkdir},
		{"error: couldn't create a temp dir: Permission denied (os error 13) at path \"/a\"", "/a", policy.OpCreate},
		{"Can't open '/a' for writing: 'Permission denied' at -e line 1", "/a", policy.OpWrite},

		{"Permission denied", "", ""},
		{"error: Permission denied (os error 13)", "error", policy.OpWrite},
		{"permission denied: it is /a", "", ""},
		{"want open /a: permission denied", "", ""},
		{"/a: No such file or directory", "", ""},
	} {
		lines := strings.Split(tt.lines, "\n")
		var paths []string
		for _, m := range mentions(lines, len(lines)-1, true) {
			paths = append(paths, m.path)
			if m.op != tt.op {
				t.Errorf("mentions(%q): %s %s; want %s", tt.lines, m.op, m.path, tt.op)
			}
		}
		if got := strings.Join(paths, " "); got != tt.want {
			t.Errorf("mentions(%q) = %q; want %q", tt.lines, got, tt.want)
		}
	}
}

// Whatever a command prints, paths are parts of it, and Find returns.
func FuzzFind(f *testing.F) {
	f.Add("touch: cannot touch '/a': Permission denied\nx: open /b: permission denied")
	f.Add("\x1b[31merror: failed to write `/a`\x1b[0m\n  Permission denied (os error 13)")
	f.Add("Warning: Failed to open the file /a:\nWarning: Permission denied")
	f.Fuzz(func(t *testing.T, output string) {
		lines := strings.Split(output, "\n")
		for i := range lines {
			for _, m := range mentions(lines, i, true) {
				inside := func(l string) bool { return strings.Contains(l, strings.TrimSuffix(m.path, ".")) }
				if m.path == "" || !strings.Contains(lines[i], "leading directories of ") && !slices.ContainsFunc(lines, inside) {
					t.Errorf("mentions(%q) has %q", output, m.path)
				}
			}
		}
	})
}

// The worst output that is looked at: as many lines as are, each of a refusal
// without a path that counts.
func BenchmarkFind(b *testing.B) {
	c := Command{Dir: "/", Code: 1, Stderr: []byte(strings.Repeat("x: cannot do this with that one: /no/such/folder/file: Permission denied\n", lines))}
	for b.Loop() {
		if d := Find(&c, nil); d != nil {
			b.Fatalf("Find() = %v", d)
		}
	}
}
