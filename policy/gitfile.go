package policy

import (
	"bytes"
	"errors"
)

var (
	errGitFile   = errors.New("not a pointer to a repository: it has to start with \"gitdir: \"")
	errEmptyFile = errors.New("names no repository")
)

// parseGitFile returns what a .git file names, as git reads it: "gitdir: ",
// then the path, bytes as they are, less the line ends that follow.
func parseGitFile(text []byte) (string, error) {
	rest, ok := bytes.CutPrefix(text, []byte("gitdir: "))
	if !ok {
		return "", errGitFile
	}
	path := trimPointer(rest)
	switch {
	case path == "":
		return "", errEmptyFile
	case bytes.IndexByte(rest, 0) >= 0:
		return "", errNUL
	}
	return path, nil
}

// trimPointer returns the one path in a file of git's, less the line ends.
func trimPointer(text []byte) string {
	return string(bytes.TrimRight(text, "\r\n"))
}
