package launch_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/launch"
	"github.com/shofer-dev/shofer-sandbox/policy"
)

func TestRecord(t *testing.T) {
	for _, tt := range []struct {
		name  string
		write func(*launch.Record)
		want  string
	}{
		{"started", func(r *launch.Record) { r.Started(7) }, `{"event":"started","pid":7}`},
		{"exit 3", func(r *launch.Record) {
			r.Exited(launch.Ended{Status: 3 << 8, Rusage: syscall.Rusage{Utime: syscall.Timeval{Sec: 1, Usec: 5}, Maxrss: 2}})
		}, `{"event":"exited","code":3,"signal":null,"core":false,"usage":{"user_us":1000005,"system_us":0,"max_rss_bytes":2048,"io_read_bytes":0,"io_write_bytes":0}}`},
		{"signal", func(r *launch.Record) { r.Exited(launch.Ended{Status: syscall.WaitStatus(syscall.SIGSEGV) | 0x80}) }, `{"event":"exited","code":null,"signal":"SIGSEGV","core":true,"usage":{"user_us":0,"system_us":0,"max_rss_bytes":0,"io_read_bytes":0,"io_write_bytes":0}}`},
		{"setup", func(r *launch.Record) {
			r.Failed(&launch.SetupError{Stage: launch.StagePolicy, Err: &policy.Error{
				Field: "write[0]", Value: "/x", Why: "does not exist", Hint: "make it", Err: syscall.ENOENT,
			}})
		}, `{"event":"setup-failed","stage":"policy","error":"write[0] \"/x\": does not exist","hint":"make it","errno":"ENOENT","path":"/x","exit_code":125}`},
		{"no path", func(r *launch.Record) {
			r.Failed(&launch.SetupError{Stage: launch.StageLimits, Err: &policy.Error{Field: "limits.memory", Value: "1", Why: "is too little", Err: syscall.ENOMEM}})
		}, `{"event":"setup-failed","stage":"limits","error":"limits.memory \"1\": is too little","errno":"ENOMEM","exit_code":125}`},
		{"exec", func(r *launch.Record) {
			r.Failed(&launch.ExecError{Name: "x", Path: "/bin/x", Why: "broken", Err: &fs.PathError{Op: "exec", Path: "/bin/x", Err: syscall.ENOEXEC}})
		}, `{"event":"exec-failed","stage":"exec","error":"cannot execute x (/bin/x): broken","errno":"ENOEXEC","path":"/bin/x","exit_code":126,"command":"x"}`},
		{"applied", func(r *launch.Record) {
			r.Applied(launch.Applied{Mode: policy.ReadOnly, Backend: launch.BackendLandlock, Enforcement: launch.Partial, Worktree: "/a\xff"})
		}, `{"event":"applied","mode":"read-only","backend":"landlock","enforcement":"partial","kernel":{"release":"","landlock_abi":0},"worktree":{"base64":"L2H/","display":"\"/a\\xff\""},"features":[],"rules":[]}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var b strings.Builder
			tt.write(launch.NewRecord(&b))
			if got := b.String(); got != tt.want+"\n" {
				t.Errorf("got  %swant %s", got, tt.want)
			}
			if !json.Valid([]byte(b.String())) {
				t.Error("not JSON")
			}
		})
	}
}

type gone struct{ calls int }

func (g *gone) Write([]byte) (int, error) { g.calls++; return 0, os.ErrClosed }

// A record without a reader, and no record at all, do no harm.
func TestRecordReaderGone(t *testing.T) {
	w := &gone{}
	launch.NewRecord(w).Started(1)
	if w.calls != 1 {
		t.Errorf("%d writes; want 1", w.calls)
	}
	var none *launch.Record
	none.Started(1)
	none.Failed(errors.New("x"))
	none.Applied(launch.Applied{})
	none.Exited(launch.Ended{})
}
