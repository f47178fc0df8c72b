// Package policy holds the value that says what a confined command may do, and
// turns it into the concrete grants and environment of one run.
//
// A [Policy] is what a caller asks for. It is a plain struct: it can be
// compared, printed, stored as JSON and audited. Its zero value lets a command
// read everything and write nothing. [Policy.Validate] checks it once;
// [Resolve] looks at the machine (git metadata, devices, caches) and answers
// every question the policy leaves open, so that the mechanisms behind it only
// have to carry out a list.
//
// The package never runs a program and never changes what the current process
// may do. It never reads a policy from inside a worktree by itself: a confined
// command can write there.
//
// # Git
//
// [FindRepo] follows the rules by which git finds a repository. What the files
// in a worktree say counts only where the repository that they name says the
// same; a pointer that nothing confirms grants nothing and becomes a [Note].
// Without a mount layer a linked worktree gets its own git folder, and of the
// common one the folders with data (objects, refs, logs, and reftable, lfs,
// rr-cache where they are there), but not its root, which would open the hooks
// and the configuration. Therefore a commit in a submodule, in a repository
// made with --separate-git-dir, or from a folder below the top of a main
// checkout, needs the mount layer.
//
// # Caches
//
// In WorkspaceWrite the caches of tools are pointed into one folder for each
// repository, $XDG_CACHE_HOME/shofer-sandbox/NAME, which only the user can
// read. What the user has downloaded stays usable without network, for Go,
// npm, pnpm, Yarn, cargo, Maven, Gradle, Poetry, pre-commit and Corepack: by
// the go command's proxy list, or by links and copies that are made once, when
// the worktree's top has the tool's file, and again after the user's folder
// has changed. Nothing of the user's is ever a hard link, nor writable.
//
// # Limitations
//
// The caches of pip, uv, ccache and others start empty where no overlay file
// system can be mounted ([Options.Overlays]). A tool that keeps state elsewhere
// in the home directory finds it read-only.
//
// Between Resolve and the start of the command the file system can change. A
// mechanism that honours [Grant.NoSymlinks] is safe against that; the result
// should not be kept for later starts.
//
// The home directory is taken from HOME, and from the system's user list only
// if that is unset.
package policy

// Policy says what a command may do. The zero value reads everything and
// writes nothing.
//
// All paths are absolute. They may contain any byte but NUL; see [Path] for
// their JSON form.
type Policy struct {
	// Mode governs file effects. Zero is [ReadOnly].
	Mode Mode `json:"mode,omitempty"`

	// Worktree is the folder that the command works in: the git worktree, or
	// any other folder. In [WorkspaceWrite] it is writable with everything
	// beneath it. Zero means that there is none.
	Worktree Path `json:"worktree,omitempty"`

	// Write lists files and folders that are writable, folders with everything
	// beneath. A path that doesn't exist is an error. Zero adds nothing.
	// Not allowed in ReadOnly.
	Write []Path `json:"write,omitempty"`

	// WriteCreate is like Write, but a folder that doesn't exist is made
	// (mode 0777 less the umask, parents included). The folder stays.
	WriteCreate []Path `json:"write_create,omitempty"`

	// Read lists what may be read and executed. Nil means everything. A
	// non-nil list, even an empty one, means these paths, and what is
	// writable, and nothing else. The preset [ReadSystem] stands for the
	// system's folders.
	Read []Path `json:"read,omitzero"`

	// AllowBroad lets Worktree, Write and WriteCreate name "/", the home
	// directory or an ancestor of it, and lets $TMPDIR be one of these. Zero
	// refuses them.
	AllowBroad bool `json:"allow_broad,omitempty"`

	// NoProtect turns off the protection of git's hooks, configuration and
	// pointers. Zero wants it.
	NoProtect bool `json:"no_protect,omitempty"`

	// Protect lists files and folders that stay as they are, with everything
	// beneath, although they lie in something writable. A path that doesn't
	// exist is an error. Zero adds nothing to what git needs.
	Protect []Path `json:"protect,omitempty"`

	// Hide lists files and folders that look empty. A path that doesn't exist
	// is left alone. Zero hides nothing.
	Hide []Path `json:"hide,omitempty"`

	// PrivateTmp gives the command its own /tmp, /dev/shm and terminals under
	// /dev/pts, which vanish with it. What is granted beneath them stays
	// visible. Zero shares them.
	PrivateTmp bool `json:"private_tmp,omitempty"`

	// StrictMetadata keeps mode, owner, times and attributes of what isn't
	// writable as they are. Zero leaves them to the file's owner.
	StrictMetadata bool `json:"strict_metadata,omitempty"`

	// Network limits the network. Zero is unlimited.
	Network Network `json:"network,omitzero"`

	// IPC limits signals and abstract sockets to processes outside. Zero
	// limits both.
	IPC IPC `json:"ipc,omitzero"`

	// Unix lists sockets on the file system that the command may connect to
	// where the machine can refuse that, or covers them ([Resolved.MaskSockets]):
	// absolute paths of a socket or of a folder, or the presets [UnixSSHAgent]
	// and [UnixGPGAgent].
	Unix []Path `json:"unix,omitempty"`

	// Limits bounds what the command uses. Zero limits nothing.
	Limits Limits `json:"limits,omitzero"`

	// Env changes the environment. Zero passes the caller's on, less the
	// repository-local GIT_* variables.
	Env Env `json:"env,omitzero"`

	// NoCache turns off the redirection of tool caches. Zero redirects them
	// in WorkspaceWrite.
	NoCache bool `json:"no_cache,omitempty"`

	// Caps names the capabilities that the command keeps when it starts with
	// them (as root), without "CAP_" and in lower case, or the single word
	// "all" or "none". Nil is [DefaultCaps].
	Caps []string `json:"caps,omitzero"`

	// Require lists promises without which nothing runs, besides those that
	// are required already (see [Policy.Required]).
	Require []Promise `json:"require,omitempty"`

	// BestEffort makes every promise wanted that isn't in Require: what the
	// machine can't hold is reported instead of refused.
	BestEffort bool `json:"best_effort,omitempty"`
}

// Mode is how a policy treats files.
type Mode string

const (
	// ReadOnly makes nothing writable but the built-in devices (and the shared
	// memory in /dev/shm): not even /tmp.
	ReadOnly Mode = "read-only"
	// WorkspaceWrite makes the worktree writable, the git metadata that a
	// commit in it needs, the temporary folders, and the cache.
	WorkspaceWrite Mode = "workspace-write"
	// Unconfined confines nothing. It is always reported.
	Unconfined Mode = "unconfined"
)

// Presets that Read and Unix accept in place of a path.
const (
	ReadSystem   Path = "system"
	UnixSSHAgent Path = "ssh-agent"
	UnixGPGAgent Path = "gpg-agent"
)

// Words that Caps accepts alone, in place of names.
const (
	CapsAll  = "all"
	CapsNone = "none"
)

// Network limits the network. The zero value limits nothing.
type Network struct {
	// Mode is all (zero too) or none. None stops every address family but
	// Unix's: what a socket on the file system leads to is another promise.
	Mode NetworkMode `json:"mode,omitempty"`
	// Each list limits one operation to the given ports. Nil leaves the
	// operation alone; an empty list allows no port.
	ConnectTCP []uint16 `json:"connect_tcp,omitzero"`
	BindTCP    []uint16 `json:"bind_tcp,omitzero"`
	ConnectUDP []uint16 `json:"connect_udp,omitzero"`
	BindUDP    []uint16 `json:"bind_udp,omitzero"`
}

// NetworkMode is the part of the network that is open.
type NetworkMode string

const (
	// NetworkAll leaves the network open, except for the port lists.
	NetworkAll NetworkMode = "all"
	// NetworkNone shuts it.
	NetworkNone NetworkMode = "none"
)

// IPC opens ways to reach processes outside that are shut by default.
type IPC struct {
	// AllowSignals lets the command signal processes outside.
	AllowSignals bool `json:"allow_signals,omitempty"`
	// AllowAbstract lets it connect to abstract Unix sockets outside.
	AllowAbstract bool `json:"allow_abstract,omitempty"`
}

// Env changes the environment that the command gets. The order is Clear,
// Unset, the purge of the repository-local GIT_* variables, what the product
// sets (caches), Set.
type Env struct {
	// Clear starts from an empty environment instead of the caller's.
	Clear bool `json:"clear,omitempty"`
	// Unset removes variables by name.
	Unset []string `json:"unset,omitempty"`
	// Set lists NAME=VALUE. The last one of a name counts.
	Set []string `json:"set,omitempty"`
	// KeepGit keeps the repository-local GIT_* variables (GIT_DIR,
	// GIT_INDEX_FILE, …) that git sets for its hooks and aliases.
	KeepGit bool `json:"keep_git,omitempty"`
}

// DefaultCaps are the capabilities that a command keeps when Caps is nil and
// it starts with them: what builds need (tar, cp -a, install, worktrees of
// another uid), and none that undoes the confinement.
var DefaultCaps = []string{"chown", "dac_override", "fowner", "fsetid", "kill", "setgid", "setuid"}
