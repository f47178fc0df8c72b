package cgroup

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/policy"
	"github.com/shofer-dev/shofer-sandbox/spawn"
)

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, testenv.Helpers{
		"fill":  fill,
		"own":   own,
		"storm": storm,
	}))
}

// fill takes memory until it has as many MiB as its argument says, and waits.
func fill(args []string) int {
	n, _ := strconv.Atoi(args[0])
	b := make([]byte, n<<20)
	for i := 0; i < len(b); i += 4096 {
		b[i] = 1
	}
	fmt.Println("full")
	time.Sleep(time.Hour)
	return int(b[0])
}

// own makes a group, starts a sleeper in it, says both, and waits to be killed.
func own([]string) int {
	p, err := Find(policy.Limits{Pids: 50}, Options{})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	g, err := p.Create()
	if err != nil {
		fmt.Println(err)
		return 1
	}
	proc, err := spawn.Start(g.plan("sleep", "1000"))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println(g.name, proc.Pid)
	time.Sleep(time.Hour)
	return 0
}

// storm forks copies of itself, which do the same in sessions of their own.
func storm([]string) int {
	for {
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), "SHOFER_TEST_HELPER=storm", "GOMAXPROCS=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if cmd.Start() != nil {
			time.Sleep(time.Millisecond)
		}
	}
}

// plan starts a program in the group.
func (g *Group) plan(name string, args ...string) *spawn.Plan {
	path, err := exec.LookPath(name)
	if err != nil {
		path = name
	}
	return &spawn.Plan{
		Path: path, Argv: append([]string{name}, args...), Env: os.Environ(), Files: []int{-1, -1, -1},
		CgroupFD: max(0, g.FD()), JoinFDs: g.Join(),
	}
}
