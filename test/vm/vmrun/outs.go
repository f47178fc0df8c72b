package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

// outs are the folders that are copied out of the guest, in the order of -out.
type outs []*out

type out struct {
	dir  string
	w    *io.PipeWriter
	done chan error
}

// openOuts starts to unpack what write will get.
func openOuts(flags []string) outs {
	var all outs
	for _, v := range flags {
		_, dir, _ := strings.Cut(v, ":")
		r, w := io.Pipe()
		o := &out{dir, w, make(chan error, 1)}
		all = append(all, o)
		go func() {
			err := untar(r, o.dir)
			if err == nil {
				_, err = io.Copy(io.Discard, r) // what pads the tar
			}
			_ = r.CloseWithError(err) // never fails
			o.done <- err
		}()
	}
	return all
}

// write takes a frame: the number of a folder and a piece of its tar.
func (all outs) write(data []byte) {
	if len(data) > 1 && int(data[0]) < len(all) {
		_, _ = all[data[0]].w.Write(data[1:]) // close tells why unpacking ended
	}
}

// close waits until all is unpacked. A folder that never came is none of its
// errors.
func (all outs) close() error {
	var errs []error
	for _, o := range all {
		_ = o.w.Close() // never fails
		if err := <-o.done; err != nil {
			errs = append(errs, fmt.Errorf("copying to %s: %w", o.dir, err))
		}
	}
	return errors.Join(errs...)
}
