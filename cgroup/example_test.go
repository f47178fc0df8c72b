package cgroup_test

import (
	"context"
	"fmt"
	"os/exec"
	"syscall"

	"github.com/shofer-dev/shofer-sandbox/cgroup"
	"github.com/shofer-dev/shofer-sandbox/policy"
)

// A command that may use 512 MiB and 100 processes, on a machine with version 2
// of control groups alone.
func Example() {
	place, err := cgroup.Find(policy.Limits{Memory: 512 << 20, Pids: 100}, cgroup.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	group, err := place.Create()
	if err != nil {
		fmt.Println(err)
		return
	}
	cmd := exec.Command("make", "-j8")
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: group.FD()}
	err = cmd.Run()
	used, endErr := group.End(context.Background())
	fmt.Println(err, endErr)
	if used.OOMGroup {
		fmt.Println("it used up its memory")
	}
}
