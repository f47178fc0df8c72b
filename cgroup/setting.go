package cgroup

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
	"github.com/shofer-dev/shofer-sandbox/policy"
	"golang.org/x/sys/unix"
)

// cpuPeriod is the time that a processor limit is counted over, in
// microseconds.
const cpuPeriod = 100_000

// weightFile is where the weight of version 2 is written. The specification
// knows that of version 1, which is coarser.
const weightFile = "cpu.weight"

// Resources returns l as the OCI runtime specification has it, which is what
// containerd's managers take. Rates without a device are for the device that
// holds the folder worktree; without one they are an error.
//
// Swap there is the sum of memory and swap. The weight is set for both
// versions.
func Resources(l policy.Limits, worktree string) (*specs.LinuxResources, error) {
	r := &specs.LinuxResources{}
	if l.Memory != 0 || l.Swap != nil {
		r.Memory = &specs.LinuxMemory{}
		swap := int64(0)
		if l.Swap != nil {
			swap = *l.Swap
		}
		if l.Memory != 0 {
			r.Memory.Limit = &l.Memory
		}
		if swap != policy.Unlimited {
			if swap > math.MaxInt64-l.Memory {
				swap = math.MaxInt64 - l.Memory
			}
			swap += l.Memory
		}
		r.Memory.Swap = &swap
	}
	if l.Pids != 0 {
		r.Pids = &specs.LinuxPids{Limit: &l.Pids}
	}
	if l.CPUs != 0 || l.CPUWeight != 0 {
		r.CPU = &specs.LinuxCPU{}
	}
	if l.CPUs != 0 {
		quota, period := int64(math.Round(l.CPUs*cpuPeriod)), uint64(cpuPeriod)
		r.CPU.Quota, r.CPU.Period = &quota, &period
	}
	if l.CPUWeight != 0 {
		shares := max(2, uint64(l.CPUWeight)*1024/100)
		r.CPU.Shares = &shares
		r.Unified = map[string]string{weightFile: strconv.FormatInt(l.CPUWeight, 10)}
	}
	if len(l.IORead)+len(l.IOWrite) == 0 {
		return r, nil
	}
	r.BlockIO = &specs.LinuxBlockIO{}
	var err error
	if r.BlockIO.ThrottleReadBpsDevice, err = throttles(l.IORead, worktree); err != nil {
		return nil, err
	}
	r.BlockIO.ThrottleWriteBpsDevice, err = throttles(l.IOWrite, worktree)
	return r, err
}

// setting is a limit as a control file takes it.
type setting struct {
	// controller is that of version 2.
	controller string
	file       string
	value      string
	// took reports whether what the file says afterwards is what was written;
	// nil compares.
	took func(got string) bool
	// swap says that a kernel without the file is fine on a machine without
	// swap space.
	swap bool
}

// set writes the setting to the group that dir is the open folder of.
func (s setting) set(dir int, group string) error {
	fail := &LimitError{File: group + "/" + s.file, Value: s.value}
	got, err := exchangeAt(dir, s.file, s.value)
	if err != nil {
		if s.swap && errors.Is(err, fs.ErrNotExist) {
			if !hasSwap() {
				return nil
			}
			fail.Why = "this kernel doesn't count swap space"
			fail.Mend = "boot with swapaccount=1, or leave swap space unlimited: --swap max"
		}
		fail.Err = err
		return fail
	}
	if got != s.value && (s.took == nil || !s.took(got)) {
		fail.Got = got
		return fail
	}
	return nil
}

// hasSwap reports whether the machine has swap space.
func hasSwap() bool {
	text, err := read("/proc/swaps")
	return err != nil || strings.Contains(text, "\n") // the first line is a heading
}

// pages returns whether the kernel, which counts in pages, took n bytes.
func pages(n int64) func(string) bool {
	size := int64(os.Getpagesize())
	return func(got string) bool {
		if got == "max" {
			return n/size >= math.MaxInt64/size
		}
		have, ok := number(got)
		return ok && have == n/size*size
	}
}

// line returns whether a file with a line for each device has this one.
func line(want string) func(string) bool {
	return func(got string) bool {
		for l := range strings.Lines(got) {
			if l = strings.TrimSpace(l); l == want || strings.HasPrefix(l, want+" ") || strings.HasSuffix(l, " "+want) {
				return true
			}
		}
		return false
	}
}

// settingsV2 are the limits for version 2.
func settingsV2(r *specs.LinuxResources) (list []setting) {
	if m := r.Memory; m != nil {
		limit := int64(0)
		if m.Limit != nil {
			limit = *m.Limit
			list = append(list, setting{controller: "memory", file: "memory.max", value: decimal(limit), took: pages(limit)})
		}
		if m.Swap != nil && *m.Swap != policy.Unlimited {
			swap := *m.Swap - limit
			list = append(list, setting{controller: "memory", file: "memory.swap.max", value: decimal(swap), took: pages(swap), swap: true})
		}
		list = append(list, setting{controller: "memory", file: "memory.oom.group", value: "1"})
	}
	if r.Pids != nil && r.Pids.Limit != nil {
		list = append(list, setting{controller: "pids", file: "pids.max", value: decimal(*r.Pids.Limit)})
	}
	if c := r.CPU; c != nil && c.Quota != nil && c.Period != nil {
		list = append(list, setting{controller: "cpu", file: "cpu.max", value: decimal(*c.Quota) + " " + decimal(int64(*c.Period))})
	}
	if w := r.Unified[weightFile]; w != "" {
		list = append(list, setting{controller: "cpu", file: weightFile, value: w})
	}
	if b := r.BlockIO; b != nil {
		add := func(key string, devices []specs.LinuxThrottleDevice) {
			for _, d := range devices {
				want := key + "=" + strconv.FormatUint(d.Rate, 10)
				dev := decimal(d.Major) + ":" + decimal(d.Minor)
				list = append(list, setting{controller: "io", file: "io.max", value: dev + " " + want, took: func(got string) bool {
					for l := range strings.Lines(got) {
						if f := strings.Fields(l); len(f) > 0 && f[0] == dev && strings.Contains(l+" ", " "+want+" ") {
							return true
						}
					}
					return false
				}})
			}
		}
		add("rbps", b.ThrottleReadBpsDevice)
		add("wbps", b.ThrottleWriteBpsDevice)
	}
	return list
}

// v1Name is the name in version 1 of a controller of version 2.
func v1Name(controller string) string {
	if controller == "io" {
		return "blkio"
	}
	return controller
}

// settingsV1 are the limits for version 1. Memory comes before its sum with
// swap, which can't be lower.
func settingsV1(r *specs.LinuxResources) (list []setting, err error) {
	if m := r.Memory; m != nil {
		if m.Limit != nil {
			list = append(list, setting{controller: "memory", file: "memory.limit_in_bytes", value: decimal(*m.Limit), took: pages(*m.Limit)})
		}
		if m.Swap != nil && *m.Swap != policy.Unlimited {
			if m.Limit == nil {
				return nil, &SupportError{
					Why:  "version 1 of control groups limits swap space only together with memory",
					Mend: "limit the memory too (--memory)",
				}
			}
			list = append(list, setting{controller: "memory", file: "memory.memsw.limit_in_bytes", value: decimal(*m.Swap), took: pages(*m.Swap), swap: true})
		}
	}
	if r.Pids != nil && r.Pids.Limit != nil {
		list = append(list, setting{controller: "pids", file: "pids.max", value: decimal(*r.Pids.Limit)})
	}
	if c := r.CPU; c != nil {
		if c.Quota != nil && c.Period != nil {
			list = append(
				list,
				setting{controller: "cpu", file: "cpu.cfs_period_us", value: strconv.FormatUint(*c.Period, 10)},
				setting{controller: "cpu", file: "cpu.cfs_quota_us", value: decimal(*c.Quota)},
			)
		}
		if c.Shares != nil {
			list = append(list, setting{controller: "cpu", file: "cpu.shares", value: strconv.FormatUint(*c.Shares, 10)})
		}
	}
	if b := r.BlockIO; b != nil {
		add := func(file string, devices []specs.LinuxThrottleDevice) {
			for _, d := range devices {
				value := decimal(d.Major) + ":" + decimal(d.Minor) + " " + strconv.FormatUint(d.Rate, 10)
				list = append(list, setting{controller: "io", file: file, value: value, took: line(value)})
			}
		}
		add("blkio.throttle.read_bps_device", b.ThrottleReadBpsDevice)
		add("blkio.throttle.write_bps_device", b.ThrottleWriteBpsDevice)
	}
	return list, nil
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// throttles looks up the devices of rates. Of several for one device, whose paths
// may differ, the lowest counts.
func throttles(rates []policy.IORate, worktree string) (list []specs.LinuxThrottleDevice, err error) {
	for _, r := range rates {
		at := string(r.Device)
		if at == "" {
			at = worktree
		}
		major, minor, err := device(at)
		if err != nil {
			return nil, err
		}
		d := specs.LinuxThrottleDevice{Rate: uint64(r.Rate)}
		d.Major, d.Minor = int64(major), int64(minor)
		same := slices.IndexFunc(list, func(o specs.LinuxThrottleDevice) bool { return o.Major == d.Major && o.Minor == d.Minor })
		if same < 0 {
			list = append(list, d)
		} else {
			list[same].Rate = min(list[same].Rate, d.Rate)
		}
	}
	return list, nil
}

// device returns the whole block device that path is, or lies on. The kernel
// takes no limit for a part of a disk.
func device(at string) (major, minor uint32, err error) {
	bad := &SupportError{
		Why:  at + " is not on a block device, so that its transfers can't be limited",
		Mend: "name the device, as in --io-read /dev/sda:10M",
	}
	if at == "" {
		bad.Why = "there is no worktree whose device could be meant"
		return 0, 0, bad
	}
	var st unix.Stat_t
	if err := unix.Stat(at, &st); err != nil {
		return 0, 0, &SupportError{Why: at + ": " + err.Error(), Mend: bad.Mend, Err: &os.PathError{Op: "stat", Path: at, Err: err}}
	}
	dev := st.Dev
	if st.Mode&unix.S_IFMT == unix.S_IFBLK {
		dev = st.Rdev
	}
	major, minor = unix.Major(dev), unix.Minor(dev)
	sys := "/sys/dev/block/" + decimal(int64(major)) + ":" + decimal(int64(minor))
	if _, err := read(sys + "/partition"); err == nil {
		whole, err := read(sys + "/../dev")
		if err != nil {
			return 0, 0, &SupportError{Why: bad.Why, Mend: bad.Mend, Err: err}
		}
		a, b, _ := strings.Cut(whole, ":")
		x, okX := number(a)
		y, okY := number(b)
		if !okX || !okY {
			return 0, 0, bad
		}
		return uint32(x), uint32(y), nil
	}
	if _, err := read(sys + "/dev"); err != nil { // one that only a file system stands for
		bad.Err = err
		return 0, 0, bad
	}
	return major, minor, nil
}
