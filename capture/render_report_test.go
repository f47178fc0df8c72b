package capture

import (
	"errors"
	"testing"
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
		{"inline", Report{"/path/to/cwd", 0, Snapshot{Head: []byte("all of it\n"), Bytes: 10}, View{}}, "Command executed in terminal within working directory '/path/to/cwd'.\nExit code: 0\nOutput:\nall of it\n"},
		{"empty", Report{"/w", 1, Snapshot{}, View{}}, "Command executed in terminal within working directory '/w'.\nExit code: 1\nOutput:\n(no output)"},
		{"nothing left", Report{"/w", -1, Snapshot{Head: []byte("x\r\x1b[K"), Bytes: 5}, View{Render: true}}, "Command executed in terminal within working directory '/w'.\nExit code: unknown\nOutput:\n(no output)"},
		{"truncated", Report{"/path/to/cwd", 0, cut, View{}}, "Command executed in '/path/to/cwd'. Exit code: 0\n\nOutput (1.5MB) persisted. Artifact ID: cmd-1780977431651.txt\n\nPreview:\nhead\n[...1572000 bytes omitted...]\ntail\n\nUse read_command_output tool to view full output if needed."},
		{"not on disk", Report{"/w", 0, failed, View{}}, "Command executed in '/w'. Exit code: 0\n\nOutput (1.5MB) not persisted: no space left on device.\n\nPreview:\nhead\n[...1572000 bytes omitted...]\ntail\n\nWhat was omitted is lost."},
		{"no disk", Report{"/w", 0, memory, View{}}, "Command executed in '/w'. Exit code: 0\n\nOutput (1.5MB) not persisted.\n\nPreview:\nhe\n[...1572000 bytes omitted...]\ntail\n\nWhat was omitted is lost."},
		{"redacted", Report{"/w", 0, Snapshot{Head: []byte("hunter2")}, View{Redact: NewRedactor([]string{"hunter2"}, false)}}, "Command executed in terminal within working directory '/w'.\nExit code: 0\nOutput:\n[redacted]\n[1 secret redacted]\n"},
	} {
		if got := tc.r.Text(); got != tc.want {
			t.Errorf("%s:\n%s\nwant\n%s", tc.name, got, tc.want)
		}
	}
}
