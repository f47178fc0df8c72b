package launch

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// LookPath finds a command as execvp(3) does, in the PATH of an environment that
// isn't the process's own; see [os/exec.LookPath] for that. A name with a slash is
// a path, relative to dir, and is returned as it is. A zero dir is the current
// folder. The error is an [*ExecError].
func LookPath(name, dir string, env []string) (string, error) { return lookPath(name, dir, env) }

// lookPath finds a command as execvp(3) does: a name with a slash is a path,
// relative to dir; another one is searched for in the PATH of env, where an
// empty entry is dir. A zero dir is the current folder.
//
// The error is an [*ExecError].
func lookPath(name, dir string, env []string) (string, error) {
	if name == "" {
		return "", &ExecError{Name: `""`, Why: "the command is empty", Err: fs.ErrNotExist}
	}
	if strings.IndexByte(name, 0) >= 0 {
		return "", &ExecError{Name: name, Why: "the command has a NUL byte", Err: syscall.EINVAL}
	}
	if strings.Contains(name, "/") {
		return name, nil // the exec says what is wrong with it
	}
	path, ok := lookEnv(env, "PATH")
	if !ok {
		path = "/usr/local/bin:/usr/bin:/bin" // execvp's default, less the current folder
	}
	var denied string
	for _, d := range filepath.SplitList(path) {
		if d == "" {
			d = "."
		}
		file := filepath.Join(d, name)
		if !strings.Contains(file, "/") {
			file = "./" + file
		}
		at := file
		if dir != "" && !filepath.IsAbs(file) {
			at = filepath.Join(dir, file)
		}
		var st unix.Stat_t
		if unix.Stat(at, &st) != nil || st.Mode&unix.S_IFMT == unix.S_IFDIR {
			continue
		}
		if unix.Faccessat(unix.AT_FDCWD, at, unix.X_OK, unix.AT_EACCESS) == nil {
			return file, nil
		}
		if denied == "" {
			denied = file
		}
	}
	if denied != "" {
		return "", diagnose(name, denied, syscall.EACCES)
	}
	return "", &ExecError{
		Name: name, Why: "command not found in PATH",
		Mend: "check the spelling, or the PATH that the command gets", Err: syscall.ENOENT,
	}
}

func lookEnv(env []string, name string) (value string, ok bool) {
	for _, e := range env {
		if k, v, found := strings.Cut(e, "="); found && k == name {
			value, ok = v, true
		}
	}
	return value, ok
}

// diagnose says why the kernel refused to execute a file. It looks at the file
// for that: errno alone says "no such file" of a script whose interpreter is
// missing.
func diagnose(name, path string, errno syscall.Errno) *ExecError {
	e := &ExecError{Name: name, Path: path, Err: &fs.PathError{Op: "exec", Path: path, Err: errno}}
	if name == "" {
		e.Name = path
	}
	switch errno {
	case syscall.ENOENT, syscall.ENOTDIR:
		if _, err := os.Lstat(path); err != nil {
			e.Why, e.Err = "no such file", &fs.PathError{Op: "exec", Path: path, Err: syscall.ENOENT}
			return e
		}
		// It is there, so what it needs is missing: found, not executable.
		e.Err = &InterpreterError{Path: path}
		e.Why, e.Mend = missingInterpreter(path)
	case syscall.ENOEXEC:
		e.Why, e.Mend = unknownFormat(path)
	case syscall.EACCES, syscall.EPERM:
		e.Why, e.Mend = notExecutable(path)
	case syscall.E2BIG:
		e.Why = "the arguments and the environment are too large for the kernel (a single one may have 131071 bytes)"
		e.Mend = "pass large data in a file or on standard input"
	case syscall.ETXTBSY:
		e.Why, e.Mend = "the file is open for writing", "close it first"
	}
	return e
}

// InterpreterError says that a file is there but the interpreter or loader
// that it names is not.
type InterpreterError struct{ Path string }

func (e *InterpreterError) Error() string {
	return e.Path + ": its interpreter is missing"
}

func missingInterpreter(path string) (why, mend string) {
	head := readHead(path)
	if line, ok := bytes.CutPrefix(head, []byte("#!")); ok {
		line, _, _ = bytes.Cut(line, []byte("\n"))
		fields := strings.Fields(string(line))
		if len(fields) > 0 {
			interp := strings.TrimSuffix(fields[0], "\r")
			why = "its interpreter " + interp + " does not exist"
			if bytes.HasSuffix(line, []byte("\r")) {
				return why + " (the line ends with a carriage return)", "convert the file's line ends to Unix's"
			}
			return why, "install it, or change the first line of the file"
		}
	}
	return "the loader that it names does not exist", "install the C library that it was built for, or use a static build"
}

func notExecutable(path string) (why, mend string) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return "it can't be reached: " + err.Error(), "check the permissions of its folders"
	}
	switch {
	case st.Mode&unix.S_IFMT == unix.S_IFDIR:
		return "it is a directory", "name a file in it"
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return "it is not a regular file", ""
	case st.Mode&0o111 == 0:
		return "it has no permission to execute", "chmod +x " + path
	}
	var fsys unix.Statfs_t
	if unix.Statfs(path, &fsys) == nil && fsys.Flags&unix.ST_NOEXEC != 0 {
		return "it lies on a file system that is mounted noexec", "move it elsewhere"
	}
	return "permission denied", "check its permissions, and the policy's read list"
}

func unknownFormat(path string) (why, mend string) {
	head := readHead(path)
	switch {
	case len(head) == 0:
		return "the file is empty", ""
	case bytes.HasPrefix(head, []byte("\x7fELF")):
		if len(head) >= 20 {
			if machine, known := machines[uint16(head[18])|uint16(head[19])<<8]; known && machine != runtime.GOARCH {
				return "it is a program for " + machine + ", and this machine is " + runtime.GOARCH, "build or install it for " + runtime.GOARCH
			}
		}
		return "it is a damaged program, or one for another kind of machine", ""
	case bytes.IndexByte(head, 0) < 0:
		return "it is a script without a #! line", "add one such as #!/bin/sh, or run it as: sh " + path
	}
	return "the kernel does not know the format of the file", ""
}

// machines are the ELF header's e_machine of little-endian machines, by Go's
// names. Source: elf.h.
var machines = map[uint16]string{3: "386", 40: "arm", 62: "amd64", 183: "arm64", 243: "riscv64", 258: "loong64"}

// readHead returns the start of a regular file, nothing if it can't be read.
func readHead(path string) []byte {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	b := make([]byte, 256)
	n, err := io.ReadFull(f, b)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return b[:n]
}
