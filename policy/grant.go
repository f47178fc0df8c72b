package policy

// Access is what a [Grant] allows.
type Access uint8

const (
	// Read allows reading files, listing folders and executing. It matters
	// only where the policy has a read list.
	Read Access = 1 << iota
	// Write allows every change of content: creating, writing, truncating,
	// renaming, linking and deleting.
	Write
	// Ioctl allows device-specific ioctls.
	Ioctl
	// Connect allows connecting to Unix sockets.
	Connect
)

// Origin says why a grant is there.
type Origin string

const (
	FromWorktree Origin = "worktree"
	FromGit      Origin = "git"
	FromTmp      Origin = "tmp"
	FromDevice   Origin = "device"
	FromCache    Origin = "cache"
	FromSystem   Origin = "system"
	FromUser     Origin = "user"
	FromStdio    Origin = "stdio"
)

// Grant is one path that is opened, a folder with everything beneath it.
type Grant struct {
	// Path is absolute. Unless NoSymlinks is set, symbolic links in it are
	// followed when the grant is opened.
	Path   string
	Access Access
	Origin Origin
	// Optional skips the grant when the path doesn't exist.
	Optional bool
	// NoSymlinks refuses the grant when any part of Path is a symbolic link:
	// for paths that were derived from files the command may have written.
	NoSymlinks bool
}

// Protected is a path inside a grant that is to stay as it is.
type Protected struct {
	// Path is absolute and has no symbolic links.
	Path string
	Kind ProtectKind
	// Why says what it is, such as "git's hooks".
	Why string
}

// Hidden is a path that is to look empty.
type Hidden struct {
	Path string
	// Folder says that it is one; otherwise it is a file of any kind.
	Folder bool
}

// ProtectKind says how a path is to stay as it is.
type ProtectKind uint8

const (
	// Frozen: a file or folder that exists stays, with everything beneath.
	Frozen ProtectKind = iota + 1
	// Pinned: a folder stays where it is, while what is beneath it may change.
	Pinned
	// Reopened: a folder beneath a frozen one may change all the same.
	Reopened
	// Unborn: a name that doesn't exist should not come into being. Nothing
	// can be mounted over it: it is compared afterwards.
	Unborn
	// Compared: something that must be allowed to change is compared
	// afterwards, and what can do harm in it is reported.
	Compared
)

// Skip is a grant that was left out.
type Skip struct {
	Grant Grant
	Why   string
}

// Note is something that the caller should know about a resolved policy.
type Note struct {
	// Code is a stable word:
	//   - git-tampered: a pointer to a repository that nothing confirms;
	//   - git-unverified: a repository outside that says nothing about this
	//     working tree;
	//   - git-broken: a .git that leads nowhere;
	//   - git-partial: the repository is granted in part, so that git can't
	//     commit;
	//   - git-logs: a folder was made in the repository;
	//   - git-config: git's automatic maintenance could not be turned off;
	//   - tmp-broad: TMPDIR is not granted, or the home directory lies in /tmp;
	//   - cache-off, cache-partial: the caches are not redirected, or what the
	//     user has is not at hand;
	//   - unix-agent: there is no agent to connect to.
	Code string `json:"code"`
	// Text says it in one line.
	Text string `json:"text"`
	// Hint says what to do about it; may be empty.
	Hint string `json:"hint,omitempty"`
}

// Options are the facts about the run that [Resolve] needs besides the policy.
type Options struct {
	// Environ is the caller's environment, as [os.Environ] returns it.
	Environ []string
	// MountLayer says that protected paths are covered by mounts, so that
	// git's common directory can be granted as a whole.
	MountLayer bool
	// Overlays says that overlay file systems can be mounted over caches, if
	// there is a mount layer for something else.
	Overlays bool
	// DryRun makes nothing on the file system: for a caller that only shows
	// what would be granted. Folders that would be made are listed as if they
	// had been.
	DryRun bool
}

// Resolved is a policy after every question is answered. It is a list to carry
// out: mechanisms need nothing else.
type Resolved struct {
	// Policy is what was asked.
	Policy Policy
	// Worktree is the real path of Policy.Worktree, empty if there is none.
	Worktree string
	// Repo is the repository that the worktree belongs to, nil if none.
	Repo *Repo
	// Grants are what is opened, in order: user grants last.
	Grants []Grant
	// Protect lists what is to stay as it is, folders before what is in them,
	// and by each name that a second mount gives it. Only a mount layer can hold
	// that.
	Protect []Protected
	// Hide lists what is to look empty: real paths of what exists.
	Hide []Hidden
	// Overlays are mounted before everything else. They are granted too: by
	// rules that are made when they are there.
	Overlays []Overlay
	// Mask lists sockets of programs outside that a mount layer covers. Only
	// [Resolved.MaskSockets] fills it.
	Mask []Masked
	// Env is the environment of the command.
	Env []string
	// CacheDir is the product's cache folder, empty when there is none.
	CacheDir string
	// Notes are what the caller should know.
	Notes []Note
}
