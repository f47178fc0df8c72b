package main

import (
	"archive/tar"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// addTree adds a folder and all beneath it to a tar, as the folder name. Sockets,
// pipes and devices are left out.
func addTree(w *tar.Writer, dir, name string) error {
	dir = filepath.Clean(dir)
	return filepath.WalkDir(dir, func(p string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return addFile(w, p, filepath.Join(name, strings.TrimPrefix(p, dir)))
	})
}

// addFile adds one file, folder or symbolic link to a tar. All belong to root
// there.
func addFile(w *tar.Writer, path, name string) error {
	fi, err := os.Lstat(path)
	if err != nil {
		return err
	}
	link := ""
	switch {
	case fi.Mode()&fs.ModeSymlink != 0:
		if link, err = os.Readlink(path); err != nil {
			return err
		}
	case !fi.IsDir() && !fi.Mode().IsRegular():
		return nil
	}
	h, err := tar.FileInfoHeader(fi, link)
	if err != nil {
		return err
	}
	h.Name, h.Format = strings.TrimPrefix(name, "/"), tar.FormatPAX
	h.Uid, h.Gid, h.Uname, h.Gname = 0, 0, "", ""
	if h.Name == "" {
		h.Name = "."
	}
	if fi.IsDir() {
		h.Name += "/"
	}
	if err := w.WriteHeader(h); err != nil || !fi.Mode().IsRegular() {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.CopyN(w, f, h.Size) // a file that grows is cut, one that shrinks is an error
	return err
}

// untar unpacks the files and folders of a tar in dir, and nothing outside: the
// tar comes from the guest. Links are left out.
func untar(r io.Reader, dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name := filepath.Clean(h.Name)
		switch h.Typeflag {
		case tar.TypeDir:
			if err := root.MkdirAll(name, 0o755); err != nil {
				return err
			}
		case tar.TypeReg:
			f, err := root.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, h.FileInfo().Mode().Perm()|0o200)
			if err != nil {
				return err
			}
			_, err = io.Copy(f, tr)
			if err := errors.Join(err, f.Close()); err != nil {
				return err
			}
		}
	}
}
