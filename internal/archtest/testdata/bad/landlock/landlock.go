// Package landlock imports another mechanism.
package landlock

import (
	_ "example.com/bad/mountns"
	_ "example.com/bad/policy"
	_ "github.com/landlock-lsm/go-landlock/landlock/syscall"
	_ "golang.org/x/sys/unix"
	_ "os/exec"
)
