package cgroup

import (
	"bufio"
	"context"
	"os"
	"sync"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/policy"
	"golang.org/x/sys/unix"
)

// The whole group goes when its memory is used up, and nobody else.
func TestOutOfMemory(t *testing.T) {
	g := create(t, policy.Limits{Memory: 48 << 20})
	other := create(t, policy.Limits{Memory: 48 << 20})
	sibling := start(t, g.plan("sleep", "1000"))
	outside := start(t, other.plan("sleep", "1000"))
	bomb := start(t, g.helper(t, "fill", "200"))
	if ws := wait(t, bomb); ws.Signal() != unix.SIGKILL {
		t.Errorf("the bomb ended with %v", ws)
	}
	if ws := wait(t, sibling); ws.Signal() != unix.SIGKILL { // not by us
		t.Errorf("its sibling ended with %v", ws)
	}
	s, err := g.Stats()
	if err != nil || valueOf(s.OOMKilled) < 1 || !s.OOMGroup {
		t.Errorf("OOMKilled %d, OOMGroup %t, %v", valueOf(s.OOMKilled), s.OOMGroup, err)
	}
	if peak := valueOf(s.MemoryPeak); s.MemoryPeak != nil && (peak < 40<<20 || peak > 49<<20) {
		t.Errorf("the peak was %d", peak)
	}
	if s, err := other.Stats(); err != nil || valueOf(s.OOMKilled) != 0 || s.OOMGroup {
		t.Errorf("Stats of the other group = %+v, %v", s, err)
	}
	if err := unix.Kill(outside, 0); err != nil {
		t.Error(err)
	}
}

// Several groups at once, while others come and go.
func TestOutOfMemoryAtOnce(t *testing.T) {
	p := place(t, policy.Limits{Memory: 24 << 20})
	var wg sync.WaitGroup
	for range 4 {
		g := create(t, policy.Limits{Memory: 24 << 20})
		sibling := start(t, g.plan("sleep", "1000"))
		bomb := start(t, g.helper(t, "fill", "100"))
		wg.Go(func() {
			for _, pid := range []int{bomb, sibling} {
				if ws := wait(t, pid); ws.Signal() != unix.SIGKILL {
					t.Errorf("%d ended with %v", pid, ws)
				}
			}
		})
		for range 10 {
			other, err := p.Create()
			if err != nil {
				t.Error(err)
				break
			}
			if s, err := other.End(t.Context()); err != nil || s.OOMGroup || valueOf(s.OOMKilled) != 0 {
				t.Errorf("End of another group = %+v, %v", s, err)
			}
		}
	}
	wg.Wait()
}

// Who stays below the limit lives.
func TestBelowMemory(t *testing.T) {
	g := create(t, policy.Limits{Memory: 100 << 20})
	p := g.helper(t, "fill", "20")
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	out := os.NewFile(uintptr(pipe[0]), "pipe")
	defer func() { _ = out.Close() }()
	p.Files = []int{-1, pipe[1], -1}
	pid := start(t, p)
	_ = unix.Close(pipe[1])
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "full\n" {
		t.Errorf("it said %q, %v", line, err)
	}
	defer wait(t, pid)
	defer func() { _ = g.Kill(context.WithoutCancel(t.Context())) }()
	if s, err := g.Stats(); err != nil || valueOf(s.OOMKilled) != 0 || s.OOMGroup {
		t.Errorf("Stats = %+v, %v", s, err)
	}
}
