package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/shofer-dev/shofer-sandbox/capture"
	"golang.org/x/sys/unix"
)

// passArg makes this program the least that can be between a command and its
// reader.
const passArg = "pass-on"

// pass moves what comes on stdin to stdout, both of them pipes, without a copy and
// without a look at it.
func pass() error {
	capture.Enlarge(os.Stdin)
	capture.Enlarge(os.Stdout)
	for {
		n, err := unix.Splice(0, nil, 1, nil, 1<<20, 0)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return fmt.Errorf("splice: %w", err)
		case n == 0:
			return nil
		}
	}
}
