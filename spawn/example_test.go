package spawn_test

import (
	"log"
	"os"

	"github.com/shofer-dev/shofer-sandbox/spawn"
	"golang.org/x/sys/unix"
)

func Example() {
	// A child that can gain no privileges, with its own hooks folder read-only.
	p, err := spawn.Start(&spawn.Plan{
		Path:       "/bin/sh",
		Argv:       []string{"sh", "-c", "echo x > /srv/repo/.git/hooks/post-commit"},
		Env:        os.Environ(),
		Files:      []int{0, 1, 2},
		NoNewPrivs: true,
		Namespaces: unix.CLONE_NEWNS, // and CLONE_NEWUSER without CAP_SYS_ADMIN
		Mounts: []spawn.Mount{
			{Op: spawn.MountNew, Source: "/srv/repo/.git/hooks", Target: "/srv/repo/.git/hooks", Flags: unix.MS_BIND},
			{Op: spawn.MountAttr, Target: "/srv/repo/.git/hooks", Set: unix.MOUNT_ATTR_RDONLY},
		},
	})
	if err != nil {
		log.Fatal(err) // nothing runs, and nothing is left to wait for
	}
	defer func() { _ = unix.Close(p.PidFD) }()
	var ws unix.WaitStatus
	if _, err := unix.Wait4(p.Pid, &ws, 0, nil); err != nil {
		log.Fatal(err)
	}
	log.Print("exit code ", ws.ExitStatus())
}
