package archtest

// rule says what the non-test files of a package may import, besides the
// standard library and what is open to all.
type rule struct {
	// ours are packages of this module; "..." stands for all that the package
	// may not be denied by except.
	ours []string
	// except are packages of this module that "..." doesn't stand for.
	except []string
	// libs are prefixes of import paths of other modules.
	libs []string
}

const anything = "..."

// compilers turn a policy into parts of a plan. They never import one another.
var compilers = []string{"landlock", "mountns", "bwrap", "cgroup", "seccomp"}

// sides are the runner's packages that know nothing of the runner.
var sides = []string{"runner/environ", "runner/intercept", "runner/pty", "runner/session"}

// table is the direction of the packages. A key that ends in "/..." covers all
// packages below; the longest key that matches holds. A package without a key
// may not exist.
var table = map[string]rule{
	"policy":   {},
	"spawn":    {},
	"landlock": {ours: []string{"policy"}, libs: []string{"github.com/landlock-lsm/go-landlock"}},
	"mountns":  {ours: []string{"policy", "spawn"}},
	"bwrap":    {ours: []string{"policy"}},
	"cgroup":   {ours: []string{"policy"}, libs: []string{"github.com/containerd/cgroups/v3", "github.com/opencontainers/runtime-spec/specs-go"}},
	"cgroup/manager": {ours: []string{"policy", "cgroup"}, libs: []string{
		"github.com/containerd/cgroups/v3", "github.com/opencontainers/runtime-spec/specs-go",
		"github.com/coreos/go-systemd/v22/dbus", "github.com/godbus/dbus/v5",
	}},
	"seccomp":       {ours: []string{"policy"}, libs: []string{"golang.org/x/net/bpf"}},
	"launch":        {ours: append([]string{"policy", "spawn", "internal/tamper", "internal/witness"}, compilers...)},
	"launch/denial": {ours: []string{"policy", "launch"}},
	"capture":       {libs: []string{"github.com/charmbracelet/x/ansi/parser", "golang.org/x/text/width", "github.com/oklog/ulid/v2"}},
	"runner":        {ours: append([]string{"policy", "launch", "capture", "cgroup", "cgroup/manager"}, sides...), libs: []string{"github.com/oklog/ulid/v2"}},
	"runner/...":    {ours: append([]string{"policy", "launch", "capture", "cgroup", "cgroup/manager", "runner", "internal/proctree"}, sides...)},

	// A host is its own supervisor, by the launcher's code.
	"runner/local": {ours: append([]string{"policy", "launch", "launch/denial", "capture", "cgroup", "cgroup/manager", "runner", "internal/launcher", "internal/proctree"}, sides...)},

	"runner/executortest": {ours: []string{"runner", "capture"}},

	"runner/environ":   {},
	"runner/intercept": {libs: []string{"mvdan.cc/sh/v3/syntax"}},
	"runner/pty":       {libs: []string{"github.com/creack/pty"}},
	"runner/session":   {},

	"internal/launcher": {
		ours:   []string{anything},
		except: []string{"runner", "capture", "cgroup/manager"},
	},
	"internal/background": {ours: []string{"policy", "capture", "runner"}},
	"internal/cli": {
		ours: []string{anything},
		libs: []string{"github.com/spf13/cobra", "github.com/spf13/pflag"},
	},
	"internal/linux":     {},
	"internal/nearest":   {},
	"internal/fdpass":    {},
	"internal/nofile":    {},
	"internal/proctree":  {},
	"internal/stdio":     {},
	"internal/mcpserver": {ours: []string{"runner", "capture", "internal/stdio"}, libs: []string{"github.com/modelcontextprotocol/go-sdk"}},
	"internal/rpc":       {ours: []string{"policy", "runner", "capture", "internal/stdio"}},
	"internal/tamper":    {ours: []string{"policy"}},
	"internal/witness":   {ours: []string{"policy", "seccomp"}},
	"internal/testenv":   {},
	"internal/testgroup": {ours: []string{"policy", "cgroup", "internal/testenv"}},
	"internal/archtest":  {},

	"cmd/...":   {ours: []string{anything}, libs: []string{""}},
	"test/...":  {ours: []string{anything}, libs: []string{""}},
	"bench":     {ours: []string{anything}},
	"bench/...": {ours: []string{anything}},
}

// openToAll are the leaves of this module that every package may import.
var openToAll = []string{"internal/linux", "internal/fdpass", "internal/nearest", "internal/nofile"}

// openLibs are the libraries that every package may import: the system calls
// that the standard library lacks.
var openLibs = []string{"golang.org/x/sys/unix"}

// testOnly are packages that no file but a test may import.
var testOnly = []string{"testing", "internal/testenv", "internal/testgroup"}

// testers are packages that tests are written with, and may import these.
var testers = []string{"test", "runner/executortest", "internal/testgroup"}

// light are packages on the way of each start of a command: they may not import
// heavy.
var (
	light = []string{"policy", "spawn", "landlock", "mountns", "seccomp", "internal/linux", "internal/nearest", "internal/nofile"}
	heavy = []string{"net", "net/http", "os/exec", "os/user", "regexp", "text/template"}
)

// launcherMain is the package whose dependencies launcherNever is about.
const launcherMain = "cmd/shofer-sandbox"

// launcherNever are prefixes of packages that the launcher may not link, however
// far down: each costs at every start, or brings something that listens.
var launcherNever = []string{
	"crypto/tls",
	"encoding/gob",
	"github.com/cilium/ebpf",
	"github.com/containerd/cgroups/v3/cgroup1",
	"github.com/containerd/cgroups/v3/cgroup2",
	"github.com/containerd/log",
	"github.com/containerd/ttrpc",
	"github.com/coreos/go-systemd",
	"github.com/godbus/dbus",
	"github.com/gogo/protobuf",
	"github.com/sirupsen/logrus",
	"go/types",
	"google.golang.org/protobuf",
	"html/template",
	"net",
	"plugin",
	"regexp",
	"testing",
	"text/template",
}
