package launcher

import (
	"strings"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/tamper"
	"github.com/shofer-dev/shofer-sandbox/launch"
	"github.com/shofer-dev/shofer-sandbox/policy"
)

func TestHeldRow(t *testing.T) {
	for _, tt := range []struct {
		held launch.Held
		want string
	}{
		{launch.Held{Feature: policy.Feature{Promise: "write", State: policy.Enforced, By: "landlock"}}, "write|enforced|by landlock"},
		{launch.Held{Feature: policy.Feature{Promise: "metadata", State: policy.Enforced, By: "mountns"}, With: "--x"}, "metadata|enforced|by mountns, with --x"},
		{
			launch.Held{Feature: policy.Feature{Promise: "protect", State: policy.Enforced, By: "mountns"}, Rest: "by comparison afterwards: new names"},
			"protect|enforced|by mountns; the rest by comparison afterwards: new names",
		},
		{
			launch.Held{Feature: policy.Feature{Promise: "protect", State: policy.VerifiedAfter, By: "comparison", Why: "no mounts"}},
			"protect|verified-after|by comparison: no mounts",
		},
		{launch.Held{Feature: policy.Feature{Promise: "limits", State: policy.Absent, Why: "a\nb\x1b"}}, "limits|absent|a?b?"},
	} {
		if got := strings.Join(heldRow(tt.held), "|"); got != tt.want {
			t.Errorf("heldRow(%+v) = %q; want %q", tt.held, got, tt.want)
		}
	}
}

// TestReportText: sockets are called a way out only where nothing holds them,
// and the last line says what the exit code does.
func TestReportText(t *testing.T) {
	sockets := []launch.Socket{{Path: "/run/docker.sock", What: "Docker"}}
	for _, tt := range []struct {
		state      policy.State
		want, last string
	}{
		{policy.Enforced, "commands can't connect", "This machine holds every promise of every run.\n"},
		{policy.Absent, "commands can escape", "This machine doesn't hold every promise of every run.\n"},
	} {
		r := &launch.Report{Sockets: sockets, Promises: []launch.Held{
			{Default: true, Feature: policy.Feature{Promise: policy.PromisePathSockets, State: tt.state, By: "x", Why: "y"}},
		}}
		got := reportText(r)
		if !strings.Contains(got, tt.want) || !strings.Contains(got, "/run/docker.sock") || !strings.HasSuffix(got, tt.last) {
			t.Errorf("reportText with path-sockets %s = %s; want %q, the socket and %q", tt.state, got, tt.want, tt.last)
		}
	}
}

// TestVerificationText: a name that somebody planted doesn't make lines of its
// own.
func TestVerificationText(t *testing.T) {
	v := verification{Worktree: "/w", Suspicious: true, Look: "git -C /w", Findings: []tamper.Finding{
		{Severity: tamper.Danger, Path: "/w/a\nnothing suspicious in /w", Text: "b\x1b[2J", Look: "cat -v x"},
	}}
	got := v.text()
	if strings.Contains(got, "\x1b") || strings.Contains(got, "\nnothing") || !strings.Contains(got, "look: cat -v x") || !strings.Contains(got, "git -C /w status") {
		t.Errorf("text(%+v) = %q", v, got)
	}
}
