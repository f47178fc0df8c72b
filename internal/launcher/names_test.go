package launcher

import (
	"testing"
)

// TestOptionOf: errors of a policy speak of options that there are.
func TestOptionOf(t *testing.T) {
	for field, want := range map[string]string{
		"write[1]": "rw", "write_create[0]": "rw-create", "read[0]": "read", "mode": "mode", "backend": "backend",
		"network.mode": "net", "network.connect_tcp[2]": "connect-tcp", "env.set[0]": "env", "env.unset[0]": "unsetenv",
		"limits.cpu_weight": "cpu-weight", "limits.io_read[0].rate": "io-read", "limits.best_effort": "limits",
		"private_tmp": "private-tmp", "worktree": "", "network": "", "environment": "", "": "",
	} {
		if got := optionOf(field); got != want {
			t.Errorf("optionOf(%q) = %q; want %q", field, got, want)
		}
	}
}
