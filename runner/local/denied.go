package local

import (
	"bytes"
	"errors"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/shofer-dev/shofer-sandbox/policy"
	"github.com/shofer-dev/shofer-sandbox/runner"
	"golang.org/x/sys/unix"
)

const (
	// deniedLines bounds how many lines of output are looked at, the last ones.
	deniedLines = 200
	// deniedMost bounds how many denials are named.
	deniedMost = 8
	// deniedLine bounds what is kept of a line, in bytes.
	deniedLine = 512
)

// refusals are the words for the errors that a refusal has, in what tools
// print: strerror's and the names of the errors.
var refusals = regexp.MustCompile(`(?i)permission denied|read-only file system|operation not permitted|device or resource busy|\bEACCES\b|\bEROFS\b|\bEPERM\b|\bEBUSY\b`)

// readOnly are those that no file's own mode has, and mounted those that a file
// has which something is mounted on.
var (
	readOnly = regexp.MustCompile(`(?i)read-only file system|\bEROFS\b`)
	mounted  = regexp.MustCompile(`(?i)device or resource busy|\bEBUSY\b`)
)

// quoted is text in quotation marks, as tools put around a path.
var quoted = regexp.MustCompile("'([^']+)'|\"([^\"]+)\"|`([^`']+)['`]|‘([^’]+)’")

// Denials looks for refusals of the sandbox in what a failed command printed: a
// line with words for a refusal that names a path which isn't granted, or is
// read-only inside, and which this process, that isn't confined, could write to.
// So what fails by a file's own permissions, or by none, is left out.
func (e *Executor) Denials(s *runner.Spec, exit runner.Exit, output []byte) (denials []runner.Denial) {
	if exit.Sandbox == nil || exit.Sandbox.Mode == policy.Unconfined {
		return nil
	}
	lines := bytes.Split(bytes.TrimRight(output, "\n"), []byte("\n"))
	seen := map[string]bool{}
	for _, line := range lines[max(0, len(lines)-deniedLines):] {
		if len(denials) == deniedMost || !refusals.Match(line) {
			continue
		}
		for _, path := range pathsIn(string(line)) {
			if !filepath.IsAbs(path) {
				path = filepath.Join(s.Dir, path)
			}
			path = filepath.Clean(path)
			if seen[path] || !couldWrite(path) || !e.refuses(path, line) {
				continue
			}
			seen[path] = true
			text := strings.ToValidUTF8(string(line[:min(len(line), deniedLine)]), "")
			denials = append(denials, runner.Denial{Path: policy.Path(path), Line: text, Hint: e.hint(path)})
			break
		}
	}
	return denials
}

// refuses reports whether the sandbox is why a line says what it does of a
// path.
func (e *Executor) refuses(path string, line []byte) bool {
	switch {
	case mounted.Match(line):
		return e.ofGit(path)
	case readOnly.Match(line):
		return true
	}
	return !e.granted(path)
}

// pathsIn lists what may be the path in a line about a refusal, the likeliest
// first: what stands in quotation marks, then what stands before the words.
func pathsIn(line string) (paths []string) {
	for _, m := range quoted.FindAllStringSubmatch(line, -1) {
		for _, p := range m[1:] {
			if p != "" {
				paths = append(paths, p)
			}
		}
	}
	at := refusals.FindStringIndex(line)
	part := strings.TrimSuffix(strings.TrimSpace(line[:at[0]]), ":")
	if i := strings.LastIndex(part, ": "); i >= 0 {
		part = part[i+2:]
	}
	if part == "" || ambiguous(part) {
		return paths
	}
	paths = append(paths, part)
	// As in "open /path", or "could not lock config file .git/config".
	if i := strings.LastIndexByte(part, ' '); i >= 0 && i < len(part)-1 {
		paths = append(paths, part[i+1:])
	}
	return paths
}

// ambiguous reports whether a shell may have complained that a file can't be
// executed.
func ambiguous(path string) bool {
	var st unix.Stat_t
	return unix.Stat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG &&
		unix.Faccessat(unix.AT_FDCWD, path, unix.X_OK, unix.AT_EACCESS) != nil
}

// couldWrite reports whether this process could write to a path or make it. A
// name whose folder doesn't exist either isn't a path that was meant.
func couldWrite(path string) bool {
	err := unix.Faccessat(unix.AT_FDCWD, path, unix.W_OK, unix.AT_EACCESS)
	if errors.Is(err, syscall.ENOENT) {
		err = unix.Faccessat(unix.AT_FDCWD, filepath.Dir(path), unix.W_OK|unix.X_OK, unix.AT_EACCESS)
	}
	return err == nil
}

// granted reports whether the policy lets commands write to a path.
func (e *Executor) granted(path string) bool {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	} else if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		path = filepath.Join(dir, filepath.Base(path))
	}
	for _, w := range e.authority.Writable {
		if path == w || strings.HasPrefix(path, strings.TrimSuffix(w, "/")+"/") {
			return true
		}
	}
	return false
}

// ofGit reports whether a path is in the worktree's repository.
func (e *Executor) ofGit(path string) bool {
	tree := string(e.config.Policy.Worktree)
	if tree == "" {
		return false
	}
	repo, err := policy.FindRepo(tree)
	if err != nil || repo == nil {
		return false
	}
	return slices.ContainsFunc([]string{repo.GitDir, repo.CommonDir, filepath.Join(tree, ".git")}, func(dir string) bool {
		return path == dir || strings.HasPrefix(path, dir+"/")
	})
}

// hint says what would let a path be written to.
func (e *Executor) hint(path string) string {
	if e.ofGit(path) {
		return "what git executes or follows stays as it is: run this command outside the sandbox"
	}
	if e.config.Policy.Mode == policy.ReadOnly {
		return "the mode is read-only: nothing can be written"
	}
	if e.granted(path) {
		return "the path is protected: run this command outside the sandbox, or leave it out of the protected paths"
	}
	return "grant it with --rw " + filepath.Dir(path)
}
