package capture

import (
	"errors"
	"testing"
	"time"
)

func TestHumanSize(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 bytes", 1023: "1023 bytes", 1024: "1.0KB", 53248: "52.0KB", 1572864: "1.5MB", 1<<20 - 1: "1.0MB", 1 << 30: "1.0GB", 5 << 40: "5.0TB", 1<<20 - 60: "1023.9KB",
	} {
		if got := HumanSize(n); got != want {
			t.Errorf("HumanSize(%d) = %q; want %q", n, got, want)
		}
	}
}

func TestReport(t *testing.T) {
	cut := Snapshot{Head: []byte("head\n"), Tail: []byte("tail\n"), Omitted: 1572000, Bytes: 1572864, Artifact: "cmd-1780977431651.txt"}
	failed := cut
	failed.Artifact, failed.SpillErr = "", errors.New("no space left on device")
	memory := cut
	memory.Artifact, memory.Head = "", []byte("he")
	for _, tc := range []struct {
		name string
		r    Report
		want string
	}{
		{"inline", Report{Dir: "/path/to/cwd", ExitCode: 0, Output: Snapshot{Head: []byte("all of it\n"), Bytes: 10}, View: View{}}, "Command executed in terminal within working directory '/path/to/cwd'.\nExit code: 0\nOutput:\nall of it\n"},
		{"empty", Report{Dir: "/w", ExitCode: 1, Output: Snapshot{}, View: View{}}, "Command executed in terminal within working directory '/w'.\nExit code: 1\nOutput:\n(no output)"},
		{"nothing left", Report{Dir: "/w", ExitCode: -1, Output: Snapshot{Head: []byte("x\r\x1b[K"), Bytes: 5}, View: View{Render: true}}, "Command executed in terminal within working directory '/w'.\nExit code: unknown\nOutput:\n(no output)"},
		{"truncated", Report{Dir: "/path/to/cwd", ExitCode: 0, Output: cut, View: View{}}, "Command executed in '/path/to/cwd'. Exit code: 0\n\nOutput (1.5MB) persisted. Artifact ID: cmd-1780977431651.txt\n\nPreview:\nhead\n[...1572000 bytes omitted...]\ntail\n\nUse read_command_output tool to view full output if needed."},
		{"not on disk", Report{Dir: "/w", ExitCode: 0, Output: failed, View: View{}}, "Command executed in '/w'. Exit code: 0\n\nOutput (1.5MB) not persisted: no space left on device.\n\nPreview:\nhead\n[...1572000 bytes omitted...]\ntail\n\nWhat was omitted is lost."},
		{"no disk", Report{Dir: "/w", ExitCode: 0, Output: memory, View: View{}}, "Command executed in '/w'. Exit code: 0\n\nOutput (1.5MB) not persisted.\n\nPreview:\nhe\n[...1572000 bytes omitted...]\ntail\n\nWhat was omitted is lost."},
		{"timed out", Report{Dir: "/w", ExitCode: -1, TimedOut: 90 * time.Second, Output: Snapshot{Head: []byte("so far\n"), Bytes: 7}}, "The command was terminated after exceeding a user-configured 90s timeout. Do not try to re-run the command.\nCommand executed in terminal within working directory '/w'.\nExit code: unknown\nOutput:\nso far\n"},
		{"aborted", Report{Dir: "/w", ExitCode: -1, Aborted: true}, "Command execution was aborted by the user.\nCommand executed in terminal within working directory '/w'.\nExit code: unknown\nOutput:\n(no output)"},
		{"redacted", Report{Dir: "/w", ExitCode: 0, Output: Snapshot{Head: []byte("hunter2")}, View: View{Redact: NewRedactor([]string{"hunter2"}, false)}}, "Command executed in terminal within working directory '/w'.\nExit code: 0\nOutput:\n[redacted]\n[1 secret redacted]\n"},
	} {
		if got := tc.r.Text(); got != tc.want {
			t.Errorf("%s:\n%s\nwant\n%s", tc.name, got, tc.want)
		}
	}
}
