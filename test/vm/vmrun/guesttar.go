package main

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path/filepath"
)

// unpackPayload unpacks the tar on a disk below root. With own, what is in it
// belongs to the guest's user.
func unpackPayload(disk, root string, own bool) error {
	f, err := os.Open(disk)
	if err != nil {
		return err
	}
	defer f.Close()
	for tr := tar.NewReader(f); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		path := filepath.Join(root, filepath.Clean("/"+h.Name))
		if err := unpackEntry(tr, h, path); err != nil {
			return err
		}
		if own {
			if err := os.Lchown(path, guestUID, guestGID); err != nil {
				return err
			}
		}
	}
}

// unpackEntry makes one file, folder or symbolic link. Permissions are what the
// tar says, whatever the umask.
func unpackEntry(r io.Reader, h *tar.Header, path string) error {
	if err := publicDir(filepath.Dir(path)); err != nil {
		return err
	}
	mode := h.FileInfo().Mode().Perm()
	switch h.Typeflag {
	case tar.TypeDir:
		if err := os.MkdirAll(path, mode); err != nil {
			return err
		}
	case tar.TypeReg:
		f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, mode)
		if err != nil {
			return err
		}
		_, err = io.Copy(f, r)
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
	case tar.TypeSymlink:
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return os.Symlink(h.Linkname, path)
	default:
		return nil
	}
	return os.Chmod(path, mode)
}
