package main

// suite are tests of one package.
type suite struct {
	pkg string
	// core tests run in every cell, the others in those called whole.
	core bool
	// public tests run in the cells called that, too, and so do groups. Those that
	// are apart aren't in whole cells.
	public, groups, apart bool
	// run and skip are as go test's -run and -skip.
	run, skip string
	// why says why some are left out.
	why string
	// programs are packages that the tests build by go: a guest has a stand-in
	// for it, which hands out what was built before.
	programs []string
}

// suites are what runs in the cells. A guest has git, a shell and python3; it
// has neither go nor compilers, and under emulation it takes 10 to 30 times as
// long as this machine.
var suites = []suite{
	{pkg: "test/record", core: true, skip: "^TestMutants$", why: "builds a launcher"},
	{pkg: "test/conformance", public: true, skip: "^Test(Mutants|Bubblewrap)$", why: "builds launchers; bubblewrap does the same everywhere", programs: []string{"test/conformance"}},
	{pkg: "landlock", skip: "^TestCreateAtOnce$", why: "many starts"},
	{pkg: "launch", skip: "^TestConcurrentStarts$", why: "many starts"},
	{pkg: "spawn", skip: "^(TestStartConcurrently|TestArm64)$", why: "many starts; emulation within emulation"},
	{pkg: "policy", run: "^Test(ProtectLinked|ProtectMain|Resolve(Modes|Write|Tmp)|CacheDir)$", why: "the others are about git and files alone"},
	{pkg: "seccomp", skip: "^Test(Programs|Go)WithoutNetwork$", why: "their programs aren't in a guest"},
	{pkg: "mountns"},
	{pkg: "bwrap", skip: "^Test(Git|ProbeOthers)$", why: "test/record commits; a false bwrap is the same everywhere"},
	{pkg: "cgroup", groups: true},
	{pkg: "cgroup/manager", groups: true},
	{pkg: "test/integration", groups: true, apart: true, run: "^Test(Pressure|ManyGroups|KilledOwner|LimitsBestEffort|Scope)$", why: "the others want toolchains", programs: []string{"cmd/runner"}},
	{pkg: "internal/nofile"},
	{pkg: "internal/linux"},
}

// leftOut are packages whose tests run on this machine only, and why.
var leftOut = map[string]string{
	"bench":               "measures",
	"capture":             "is about bytes and files",
	"internal/proctree":   "is tested through the runner",
	"internal/stdio":      "is about descriptors alone",
	"launch/denial":       "is about words and files",
	"runner":              "runs on what launch holds",
	"runner/environ":      "is about variables",
	"runner/intercept":    "is about words",
	"runner/local":        "runs on what launch holds",
	"runner/pty":          "is about terminals",
	"runner/session":      "is about shells",
	"test/cli":            "is about the command line",
	"internal/archtest":   "is about the source",
	"internal/cli":        "is about the command line",
	"internal/witness":    "is tested through launch",
	"internal/background": "runs on what launch holds",
	"internal/launcher":   "is about the command line",
	"internal/nearest":    "is about words",
	"internal/tamper":     "is about git's files",
	"internal/testenv":    "is about the tests",
	"internal/mcpserver":  "is about a protocol",
	"internal/rpc":        "is about a protocol",
	"test/escape":         "makes the attempts that test/conformance makes",
	"test/contain":        "plays on this machine",
	"test/llsim":          "plays on a newer kernel",
	"test/nouserns":       "plays on a machine with namespaces",
	"test/vm/matrix":      "is this program",
	"test/vm/probe":       "is run by each cell",
	"test/vm/vmrun":       "makes the guests",
}
