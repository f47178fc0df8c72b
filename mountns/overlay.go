package mountns

import (
	"strings"

	"github.com/shofer-dev/shofer-sandbox/spawn"
	"golang.org/x/sys/unix"
)

// MaxOverlay bounds the length of all paths of an overlay together, in bytes:
// the options of a mount have to fit into a page.
const MaxOverlay = 3 << 10

// Overlay is a mount at path that shows what is in lower, the first folder
// foremost, and writes to upper. Work is an empty folder beside that. Paths
// have no comma, colon or backslash in them. Linux 5.11, for a user namespace
// and for all, since what one has written another is to understand.
func Overlay(path, upper, work string, lower []string) spawn.Mount {
	data := "userxattr,lowerdir=" + strings.Join(lower, ":") + ",upperdir=" + upper + ",workdir=" + work
	return spawn.Mount{Op: spawn.MountNew, Source: "overlay", Target: path, Type: "overlay", Flags: unix.MS_NOSUID | unix.MS_NODEV, Data: data}
}
