package seccomp

import (
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func init() { operations["traced-socket"] = tracedSocket }

// tracedSocket starts a program, stops it on its way into its first system
// call and makes another call of it: socket(2) of the family that is asked for.
func tracedSocket(args []string) error {
	p, err := os.StartProcess("/proc/self/exe", []string{"traced"}, &os.ProcAttr{Sys: &syscall.SysProcAttr{Ptrace: true}})
	if err != nil {
		return err
	}
	defer func() {
		_ = p.Kill() // it has done what it is for
		_, _ = p.Wait()
	}()
	var ws unix.WaitStatus
	if _, err := unix.Wait4(p.Pid, &ws, 0, nil); err != nil { // the stop at its exec
		return err
	}
	next := func() (regs unix.PtraceRegs, err error) {
		if err = unix.PtraceSyscall(p.Pid, 0); err != nil {
			return regs, err
		}
		if _, err = unix.Wait4(p.Pid, &ws, 0, nil); err != nil {
			return regs, err
		}
		return regs, unix.PtraceGetRegs(p.Pid, &regs)
	}
	regs, err := next()
	if err != nil {
		return err
	}
	regs.Orig_rax, regs.Rdi, regs.Rsi, regs.Rdx = unix.SYS_SOCKET, number(args[0]), unix.SOCK_STREAM, 0
	if err := unix.PtraceSetRegs(p.Pid, &regs); err != nil {
		return err
	}
	if regs, err = next(); err != nil {
		return err
	}
	if r := int64(regs.Rax); r < 0 {
		return syscall.Errno(-r)
	}
	return nil
}

// TestTracer: a debugger inside can't make a call after the filter has looked.
func TestTracer(t *testing.T) {
	expect(t, setup{Filter: Filter{NoNetwork: true}}, []expectation{
		{do("traced-socket", unix.AF_INET), ok, syscall.EAFNOSUPPORT},
		{do("traced-socket", unix.AF_UNIX), ok, 0},
	})
}
