package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// defaultIn is where a folder goes that is copied in without saying where.
const defaultIn = "/vm/in"

// sourceDir is where the files of a package under test go.
const sourceDir = "/vm/src"

// job makes the guest's job of the flags.
func (o *options) job() *job {
	j := &job{
		Argv: o.argv, Env: append([]string{"VMRUN=" + filepath.Base(o.kernel)}, o.env...), Cwd: o.cwd,
		As: o.as, Init: o.init, Cgroup: o.cgroup, Delegate: o.delegate,
		Pre: o.pre, Payload: o.hostFile || len(o.in) > 0,
	}
	for _, v := range o.out {
		guest, _, _ := strings.Cut(v, ":")
		j.Out = append(j.Out, guest)
	}
	if j.Cwd == "" && len(o.in) > 0 && !o.hostFile {
		_, j.Cwd = inAndWhere(o.in[0])
	}
	if j.Cwd == "" {
		j.Cwd = "/"
	}
	return j
}

// inAndWhere splits a value of -in.
func inAndWhere(v string) (dir, guest string) {
	dir, guest, ok := strings.Cut(v, ":")
	if !ok {
		guest = defaultIn
	}
	return dir, guest
}

// writePayload writes the tar of all that goes into the guest, and with -x makes
// the job's command the guest's copy of it.
func (o *options) writePayload(path string, j *job) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := tar.NewWriter(f)
	err = func() error {
		if o.hostFile {
			if err := o.addTest(w, j); err != nil {
				return err
			}
		}
		for _, v := range o.in {
			dir, guest := inAndWhere(v)
			if err := addTree(w, dir, guest); err != nil {
				return fmt.Errorf("-in %s: %w", v, err)
			}
		}
		return w.Close()
	}()
	return errors.Join(err, f.Close())
}

// addTest adds the command, and of the package in the current folder what a
// test may look for: testdata, and go.mod as far above as it is here.
func (o *options) addTest(w *tar.Writer, j *job) error {
	exe, err := filepath.Abs(o.argv[0])
	if err != nil {
		return err
	}
	guest := "/vm/bin/" + filepath.Base(exe)
	if err := addFile(w, exe, guest); err != nil {
		return fmt.Errorf("-x: %w", err)
	}
	j.Argv = append([]string{guest}, o.argv[1:]...)
	cwd, err := os.Getwd()
	if err != nil {
		return err
	}
	dir := sourceDir
	if root := moduleRoot(cwd); root != "" {
		if err := addFile(w, filepath.Join(root, "go.mod"), filepath.Join(sourceDir, "go.mod")); err != nil {
			return err
		}
		dir = filepath.Join(sourceDir, strings.TrimPrefix(cwd, root))
	}
	if err := w.WriteHeader(&tar.Header{Name: dir[1:] + "/", Typeflag: tar.TypeDir, Mode: 0o755}); err != nil {
		return err
	}
	if fi, err := os.Stat("testdata"); err == nil && fi.IsDir() {
		if err := addTree(w, "testdata", filepath.Join(dir, "testdata")); err != nil {
			return err
		}
	}
	if o.cwd == "" {
		j.Cwd = dir
	}
	return nil
}

// moduleRoot returns the folder of the go.mod that a folder belongs to, or "".
func moduleRoot(dir string) string {
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			return ""
		}
		dir = up
	}
}
