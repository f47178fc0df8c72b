package policy

import "slices"

// Capabilities lists the names of Linux's capabilities in lower case and
// without "cap_"; the index is the number.
func Capabilities() []string {
	return []string{
		"chown", "dac_override", "dac_read_search", "fowner", "fsetid", "kill",
		"setgid", "setuid", "setpcap", "linux_immutable", "net_bind_service",
		"net_broadcast", "net_admin", "net_raw", "ipc_lock", "ipc_owner",
		"sys_module", "sys_rawio", "sys_chroot", "sys_ptrace", "sys_pacct",
		"sys_admin", "sys_boot", "sys_nice", "sys_resource", "sys_time",
		"sys_tty_config", "mknod", "lease", "audit_write", "audit_control",
		"setfcap", "mac_override", "mac_admin", "syslog", "wake_alarm",
		"block_suspend", "audit_read", "perfmon", "bpf", "checkpoint_restore",
	}
}

// undoing are the capabilities with which a command could undo mounts, or change
// files around them.
var undoing = [...]string{"sys_admin", "sys_ptrace", "dac_read_search", "mknod", "sys_rawio", "sys_module"}

// UndoingCap returns the name of a capability that root keeps under p and could
// get around mounts with, "" if there is none.
func (p *Policy) UndoingCap() string {
	for _, name := range undoing {
		if slices.Contains(p.Caps, name) || slices.Equal(p.Caps, []string{CapsAll}) {
			return name
		}
	}
	return ""
}
