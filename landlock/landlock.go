// Package landlock turns a resolved policy into a Landlock ruleset.
//
// [Probe] asks the kernel what it holds. [Compile] is pure: it says which
// rights a ruleset takes away and which paths and ports give them back.
// [Ruleset.Create] opens the paths and hands the rules to the kernel.
// [Features] says which promises the result holds, and why the others are not.
// Nothing is enforced before [Restrict], or the same two system calls in a
// child, is applied to the ruleset's descriptor.
//
// By default only rights that change something are handled, so that reading is
// never refused. It isn't quite free: from ABI 3 on the kernel walks the path of
// each file that is opened, to remember whether it may be truncated. Read rights
// are handled when the policy has a read list, network rights when it has a list
// for that operation.
//
// The package uses the system calls of go-landlock and none of its
// configurations: those confine the process that calls them, while here a
// ruleset is made in one process for a child; and a best-effort configuration
// succeeds without enforcing anything on ABI 1, and doesn't say what it
// enforced.
//
// # Limitations
//
// Landlock has no right for chmod, chown, utime, extended attributes and inode
// flags: metadata outside the grants can be changed by whoever owns it.
//
// Descriptors that are open already are not affected. Whoever starts a command
// has to shut them; see [Domain.AddFD] for standard output.
//
// A rule belongs to an inode, not to a name. A folder that is replaced by
// another one of the same name has no rule. A file that has a second hard link
// outside the grants is changed there too when it is written to inside.
//
// A mount that is made over a granted path after [Ruleset.Create] hides the
// grant, so mounts come first. Inside a domain nothing can be mounted.
//
// Below ABI 3 truncate(2) is not held back, so that writes are not confined.
// On ABI 1 a file can't be renamed or linked into another folder, not even
// inside a grant: the kernel answers EXDEV.
//
// Landlock sees what a process does by its own calls on files, sockets and
// signals. What the kernel does on its behalf, the ioctls of a file system and
// some of the ways to make a TCP connection pass by it: see [Gap]. Nor does it
// hold a child in its control group: clone3(2) can start one in any group that
// the user may write to.
//
// A write grant never allows making device nodes: who may make one (as root
// with CAP_MKNOD) could write to any disk through it.
package landlock

// Name is what the By of a feature says where this package holds the promise.
const Name = "landlock"
