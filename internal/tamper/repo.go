package tamper

import (
	"bytes"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// danger is something in a repository that makes git execute a program.
type danger struct {
	// path is a file of configuration with a setting, or a hook.
	path string
	setting
}

func (d danger) text() string {
	if d.key == "" {
		return "the hook " + quote(base(d.path))
	}
	return d.String()
}

// dangers returns what git executes in a repository. What it executes in a
// working tree because of the user's own configuration is not in it.
func dangers(gitDir string) (list []danger) {
	common := commonDir(gitDir)
	for _, file := range configs(gitDir, common) {
		for _, t := range settings(readFile(file)) {
			list = append(list, danger{file, t})
		}
	}
	for _, hook := range hooks(common + "/hooks") {
		list = append(list, danger{path: hook})
	}
	return list
}

// commonDir returns the folder with the configuration of a repository.
func commonDir(gitDir string) string {
	if text := pointer(readFile(gitDir + "/commondir")); text != "" {
		return filepath.Clean(join(gitDir, text))
	}
	return gitDir
}

// configs returns the files of configuration of a repository.
func configs(gitDir, common string) []string {
	files := []string{common + "/config"}
	if gitDir != common {
		files = append(files, common+"/config.worktree")
	}
	return append(files, gitDir+"/config.worktree")
}

// hooks returns the hooks in a folder that git may run.
func hooks(folder string) (list []string) {
	for _, name := range names(folder + "/.") { // the folder may be a link
		path := folder + "/" + name
		var st unix.Stat_t
		if strings.Contains(name, ".") || unix.Stat(path, &st) != nil {
			continue // no hook's name has a dot
		}
		if st.Mode&unix.S_IFMT == unix.S_IFREG && st.Mode&0o111 != 0 {
			list = append(list, path)
		}
	}
	return list
}

// pointer returns the path in a file of git's that holds one.
func pointer(text []byte) string { return string(bytes.TrimRight(text, "\r\n")) }

// gitDirAt returns the repository that the .git in a folder is or leads to, ""
// if there is none.
func gitDirAt(folder string) string {
	path := join(folder, ".git")
	if isFolder(path) {
		return path
	}
	rest, ok := bytes.CutPrefix(readFile(path), []byte("gitdir: "))
	if !ok || pointer(rest) == "" {
		return ""
	}
	return filepath.Clean(join(folder, pointer(rest)))
}

// same reports whether two paths lead to one file.
func same(a, b string) bool {
	var x, y unix.Stat_t
	return unix.Stat(a, &x) == nil && unix.Stat(b, &y) == nil && x.Dev == y.Dev && x.Ino == y.Ino
}

// isGitDir reports whether a folder is a repository.
func isGitDir(folder string) bool {
	id, _ := lstat(folder + "/HEAD")
	return id != (ident{}) && isFolder(folder+"/objects") && isFolder(folder+"/refs")
}
