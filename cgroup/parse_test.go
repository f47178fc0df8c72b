package cgroup

import (
	"errors"
	"os"
	"reflect"
	"slices"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/policy"
)

func TestParseMounts(t *testing.T) {
	const text = `24 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 24 0:26 / /sys/fs/cgroup ro,nosuid shared:9 - tmpfs tmpfs ro,mode=755
31 30 0:27 / /sys/fs/cgroup/unified rw,nosuid shared:10 - cgroup2 cgroup2 rw,nsdelegate
32 30 0:28 / /sys/fs/cgroup/systemd rw,nosuid shared:11 - cgroup cgroup rw,xattr,name=systemd
33 30 0:29 /docker/x /sys/fs/cgroup/cpu,cpuacct ro,nosuid master:12 - cgroup cgroup rw,cpu,cpuacct
34 30 0:30 /a\040b /mnt/with\040space rw - cgroup cgroup rw,release_agent=/x,clone_children,memory
not a line
35 30 - cgroup
`
	want := []hierarchy{
		{unified: true, root: "/", mount: "/sys/fs/cgroup/unified"},
		{controllers: []string{"name=systemd"}, root: "/", mount: "/sys/fs/cgroup/systemd"},
		{controllers: []string{"cpu", "cpuacct"}, root: "/docker/x", mount: "/sys/fs/cgroup/cpu,cpuacct", readOnly: true},
		{controllers: []string{"memory"}, root: "/a b", mount: "/mnt/with space"},
	}
	if got := parseMounts(text); !reflect.DeepEqual(got, want) {
		t.Errorf("parseMounts = %+v; want %+v", got, want)
	}
}

func TestFolder(t *testing.T) {
	for _, tt := range []struct{ root, group, want string }{
		{"/", "/", "/m"},
		{"/", "/a/b", "/m/a/b"},
		{"/docker/x", "/docker/x", "/m"},
		{"/docker/x", "/docker/x/y", "/m/y"},
		{"/docker/x", "/docker/xy", ""},
		{"/docker/x", "/", ""},
		{"/", "/../other", ""},
		{"/..", "/x", ""},
	} {
		h := hierarchy{root: tt.root, mount: "/m"}
		if got := h.folder(tt.group); got != tt.want {
			t.Errorf("folder of %q, mounted from %q = %q; want %q", tt.group, tt.root, got, tt.want)
		}
	}
}

func TestFindMount(t *testing.T) {
	m := &machine{hierarchies: []hierarchy{
		{controllers: []string{"cpu", "cpuacct"}, mount: "/m/cpu", readOnly: true, own: "/m/cpu"},
		{unified: true, mount: "/m/u"},
		{unified: true, mount: "/n/u", own: "/n/u/x"},
		{controllers: []string{"cpu", "cpuacct"}, mount: "/n/cpu", own: "/n/cpu"},
	}}
	if h := m.v2(); h == nil || h.mount != "/n/u" {
		t.Errorf("v2 = %+v", h)
	}
	if h := m.v1("cpuacct"); h == nil || h.mount != "/n/cpu" {
		t.Errorf("v1(cpuacct) = %+v", h)
	}
	if h := m.v1("memory"); h != nil {
		t.Errorf("v1(memory) = %+v", h)
	}
	for dir, want := range map[string]string{"/n/u": "/n/u", "/n/u/x/y": "/n/u", "/n/ux": "", "/": ""} {
		got := ""
		if h := m.at(dir); h != nil {
			got = h.mount
		}
		if got != want {
			t.Errorf("at(%q) = %q; want %q", dir, got, want)
		}
	}
}

func values(list []setting) map[string]string {
	out := map[string]string{}
	for _, s := range list {
		out[s.file] += s.value + ";"
	}
	return out
}

func TestSettings(t *testing.T) {
	n := func(i int64) *int64 { return &i }
	for _, tt := range []struct {
		l      policy.Limits
		v1, v2 map[string]string // v1 is nil for an error
	}{
		{policy.Limits{}, map[string]string{}, map[string]string{}},
		{
			policy.Limits{Memory: 1 << 20},
			map[string]string{"memory.limit_in_bytes": "1048576;", "memory.memsw.limit_in_bytes": "1048576;"},
			map[string]string{"memory.max": "1048576;", "memory.swap.max": "0;", "memory.oom.group": "1;"},
		},
		{
			policy.Limits{Memory: 1 << 20, Swap: n(4096)},
			map[string]string{"memory.limit_in_bytes": "1048576;", "memory.memsw.limit_in_bytes": "1052672;"},
			map[string]string{"memory.max": "1048576;", "memory.swap.max": "4096;", "memory.oom.group": "1;"},
		},
		{
			policy.Limits{Memory: 1 << 20, Swap: n(policy.Unlimited)},
			map[string]string{"memory.limit_in_bytes": "1048576;"},
			map[string]string{"memory.max": "1048576;", "memory.oom.group": "1;"},
		},
		{policy.Limits{Swap: n(0)}, nil, map[string]string{"memory.swap.max": "0;", "memory.oom.group": "1;"}},
		{policy.Limits{Pids: 7}, map[string]string{"pids.max": "7;"}, map[string]string{"pids.max": "7;"}},
		{
			policy.Limits{CPUs: 1.5},
			map[string]string{"cpu.cfs_quota_us": "150000;", "cpu.cfs_period_us": "100000;"},
			map[string]string{"cpu.max": "150000 100000;"},
		},
		{
			policy.Limits{CPUs: 0.01, CPUWeight: 1},
			map[string]string{"cpu.cfs_quota_us": "1000;", "cpu.cfs_period_us": "100000;", "cpu.shares": "10;"},
			map[string]string{"cpu.max": "1000 100000;", "cpu.weight": "1;"},
		},
		{policy.Limits{CPUWeight: 10000}, map[string]string{"cpu.shares": "102400;"}, map[string]string{"cpu.weight": "10000;"}},
	} {
		r, err := Resources(tt.l, "")
		if err != nil {
			t.Errorf("Resources(%+v): %v", tt.l, err)
			continue
		}
		v1, err := settingsV1(r)
		if got := values(v1); (err != nil) != (tt.v1 == nil) || err == nil && !reflect.DeepEqual(got, tt.v1) {
			t.Errorf("settingsV1(%+v) = %v, %v; want %v", tt.l, got, err, tt.v1)
		}
		if got := values(settingsV2(r)); !reflect.DeepEqual(got, tt.v2) {
			t.Errorf("settingsV2(%+v) = %v; want %v", tt.l, got, tt.v2)
		}
	}
}

func TestSettingsIO(t *testing.T) {
	d := specs.LinuxThrottleDevice{Rate: 1000}
	d.Major, d.Minor = 8, 16
	r := &specs.LinuxResources{BlockIO: &specs.LinuxBlockIO{
		ThrottleReadBpsDevice: []specs.LinuxThrottleDevice{d}, ThrottleWriteBpsDevice: []specs.LinuxThrottleDevice{d},
	}}
	v2 := settingsV2(r)
	if got := values(v2)["io.max"]; got != "8:16 rbps=1000;8:16 wbps=1000;" {
		t.Errorf("io.max gets %q", got)
	}
	v1, err := settingsV1(r)
	if got := values(v1); err != nil || got["blkio.throttle.read_bps_device"] != "8:16 1000;" || got["blkio.throttle.write_bps_device"] != "8:16 1000;" {
		t.Errorf("version 1 gets %v, %v", got, err)
	}
	for _, tt := range []struct {
		s    setting
		got  string
		took bool
	}{
		{v2[0], "8:16 rbps=1000 wbps=max riops=max wiops=max", true},
		{v2[0], "8:0 rbps=1000 wbps=max\n8:16 rbps=10000 wbps=1000", false},
		{v2[1], "8:0 rbps=max wbps=1\n8:16 rbps=max wbps=1000", true},
		{v2[1], "", false},
		{v1[0], "8:0 5\n8:16 1000", true},
		{v1[0], "18:16 1000", false},
		{v1[0], "8:16 10000", false},
		{setting{took: pages(4096*5 + 1)}, "20480", true},
		{setting{took: pages(4096*5 + 1)}, "max", false},
		{setting{took: pages(4096 * 5)}, "24576", false},
		{setting{took: pages(1<<63 - 1)}, "max", true},
		{setting{took: pages(1<<63 - 1)}, "9223372036854771712", true},
	} {
		if took := tt.s.took(tt.got); took != tt.took {
			t.Errorf("%q, read back as %q: took %t; want %t", tt.s.value, tt.got, took, tt.took)
		}
	}
}

func TestDevice(t *testing.T) {
	for _, at := range []string{"", "/proc", "/nothing", "/dev/null"} {
		var support *SupportError
		if major, minor, err := device(at); !errors.As(err, &support) || support.Mend == "" {
			t.Errorf("device(%q) = %d:%d, %v; want a *SupportError with a mend", at, major, minor, err)
		}
	}
}

func TestScopeEnv(t *testing.T) {
	run := "XDG_RUNTIME_DIR=/run/user/" + decimal(int64(os.Geteuid()))
	for _, tt := range []struct{ env, want []string }{
		{nil, []string{run, "SYSTEMD_BUS_TIMEOUT=120"}},
		{[]string{"A=b", "XDG_RUNTIME_DIR=/x"}, []string{"A=b", "XDG_RUNTIME_DIR=/x", "SYSTEMD_BUS_TIMEOUT=120"}},
		{[]string{"SYSTEMD_BUS_TIMEOUT=5", run}, []string{"SYSTEMD_BUS_TIMEOUT=5", run}},
	} {
		room := append(slices.Clone(tt.env), "untouched")
		if got := ScopeEnv(room[:len(tt.env)]); !slices.Equal(got, tt.want) || room[len(tt.env)] != "untouched" {
			t.Errorf("ScopeEnv(%q) = %q; want %q", tt.env, got, tt.want)
		}
	}
}

// Two names of one device don't raise its rate.
func TestSameDevice(t *testing.T) {
	dir := testenv.Self().Dir(t)
	if _, _, err := device(dir); err != nil {
		t.Skip(err) // a machine may have no block device
	}
	for _, rates := range [][]policy.IORate{
		{{Rate: 5}, {Device: policy.Path(dir + "/.."), Rate: 9}},
		{{Device: policy.Path(dir), Rate: 9}, {Rate: 5}},
	} {
		list, err := throttles(rates, dir)
		if err != nil || len(list) != 1 || list[0].Rate != 5 {
			t.Errorf("throttles(%v) = %v, %v; want one, of 5", rates, list, err)
		}
	}
}

func TestSums(t *testing.T) {
	if got := *sumIO("8:0 rbytes=1 wbytes=2 rios=3\n8:16 rbytes=10 wbytes=20 rios=30\n", "rbytes="); got != 11 {
		t.Errorf("sumIO = %d; want 11", got)
	}
	if got := *sumBlkio("8:0 Read 1\n8:0 Write 2\n8:0 Total 3\n8:16 Write 4\nTotal 7\n", "Write"); got != 6 {
		t.Errorf("sumBlkio = %d; want 6", got)
	}
	if n, ok := field("oom 1\noom_kill 2\noom_group_kill 3\n", "oom_kill"); !ok || n != 2 {
		t.Errorf("field = %d, %t; want 2", n, ok)
	}
}
