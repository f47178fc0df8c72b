package cgroup

import (
	"errors"
	"io/fs"
	"strings"

	"golang.org/x/sys/unix"
)

// Stats say what a group used and ran into. A number that the kernel doesn't
// keep, or not for this group, is nil. For a group that the caller made,
// counts are from the opening of the [Group] on, and there are no peaks, which
// would be of what ran there before.
type Stats struct {
	// MemoryPeak is the most memory in bytes, page cache and kernel memory
	// included (version 2: Linux 5.19), and SwapPeak the most swap space (Linux
	// 6.5, version 2).
	MemoryPeak *int64 `json:"memory_peak_bytes,omitempty"`
	SwapPeak   *int64 `json:"swap_peak_bytes,omitempty"`
	// User and System are the processor time in microseconds.
	User   *int64 `json:"user_us,omitempty"`
	System *int64 `json:"system_us,omitempty"`
	// Throttled is for how long the processor limit stopped it, in
	// microseconds, summed over processors.
	Throttled *int64 `json:"throttled_us,omitempty"`
	// IORead and IOWrite are the bytes transferred from and to block devices.
	IORead  *int64 `json:"io_read_bytes,omitempty"`
	IOWrite *int64 `json:"io_write_bytes,omitempty"`
	// PidsPeak is the most processes and threads at a time (Linux 6.1).
	PidsPeak *int64 `json:"pids_peak,omitempty"`
	// OOMKilled is how many processes were killed since the memory was used up.
	OOMKilled *int64 `json:"oom_killed,omitempty"`
	// OOMGroup says that the group was then killed as a whole.
	OOMGroup bool `json:"oom_group,omitempty"`
	// PidsLimited is how often a process or thread could not be made.
	PidsLimited *int64 `json:"pids_limited,omitempty"`
	// CPUPressure, MemoryPressure and IOPressure are for how long something in
	// the group waited for these, in microseconds (Linux 5.2, if switched on).
	CPUPressure    *int64 `json:"cpu_pressure_us,omitempty"`
	MemoryPressure *int64 `json:"memory_pressure_us,omitempty"`
	IOPressure     *int64 `json:"io_pressure_us,omitempty"`
}

// Stats says what the group has used until now.
func (g *Group) Stats() (Stats, error) {
	s, err := g.stats()
	if g.made {
		s.OOMGroup = s.OOMGroup || g.oom != nil && valueOf(s.OOMKilled) > 0
		return s, err
	}
	s.MemoryPeak, s.SwapPeak, s.PidsPeak = nil, nil, nil
	for _, c := range s.counts(&g.start) {
		if *c.now != nil && *c.start != nil {
			n := **c.now - **c.start
			*c.now = &n
		}
	}
	s.OOMGroup = s.OOMGroup && !g.start.OOMGroup
	return s, err
}

type count struct{ now, start **int64 }

// counts are the numbers that only grow, beside those of an earlier time.
func (s *Stats) counts(start *Stats) []count {
	return []count{
		{&s.User, &start.User},
		{&s.System, &start.System},
		{&s.Throttled, &start.Throttled},
		{&s.IORead, &start.IORead},
		{&s.IOWrite, &start.IOWrite},
		{&s.OOMKilled, &start.OOMKilled},
		{&s.PidsLimited, &start.PidsLimited},
		{&s.CPUPressure, &start.CPUPressure},
		{&s.MemoryPressure, &start.MemoryPressure},
		{&s.IOPressure, &start.IOPressure},
	}
}

func (g *Group) stats() (s Stats, err error) {
	for i := range g.parts {
		r := reader{part: &g.parts[i]}
		if r.unified {
			r.v2(&s)
		} else {
			r.v1(&s)
		}
		err = errors.Join(err, r.err)
	}
	return s, err
}

// reader reads what a kernel may not have.
type reader struct {
	*part
	err error
}

// text returns what a file says, "" if there is none.
func (r *reader) text(file string) string {
	text, _ := r.optional(file)
	return text
}

// optional is text that also says whether there is such a file.
func (r *reader) optional(file string) (text string, ok bool) {
	text, err := valueAt(r.dir, file)
	// Pressure that isn't switched on is ENOTSUP.
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.EOPNOTSUPP) {
		r.err = errors.Join(r.err, err)
	}
	return text, err == nil
}

// one stores the number that is all of a file.
func (r *reader) one(to **int64, file string) {
	if n, ok := number(r.text(file)); ok {
		*to = &n
	}
}

// set stores the number after a word, in divided form.
func set(to **int64, text, word string, divisor int64) {
	if n, ok := field(text, word); ok {
		n /= divisor
		*to = &n
	}
}

func (r *reader) v2(s *Stats) {
	cpu := r.text("cpu.stat")
	set(&s.User, cpu, "user_usec", 1)
	set(&s.System, cpu, "system_usec", 1)
	set(&s.Throttled, cpu, "throttled_usec", 1)
	// On hybrid machines version 1 has the controllers, and looking for files
	// that can't be there would take longer than all else here.
	if r.may("memory") {
		r.one(&s.MemoryPeak, "memory.peak")
		r.one(&s.SwapPeak, "memory.swap.peak")
		r.memoryEvents(s)
	}
	if r.may("pids") {
		r.one(&s.PidsPeak, "pids.peak")
		set(&s.PidsLimited, r.text("pids.events"), "max", 1)
	}
	if r.may("io") {
		if io, ok := r.optional("io.stat"); ok {
			s.IORead, s.IOWrite = sumIO(io, "rbytes="), sumIO(io, "wbytes=")
		}
	}
	for _, p := range []struct {
		to   **int64
		file string
	}{{&s.CPUPressure, "cpu.pressure"}, {&s.MemoryPressure, "memory.pressure"}, {&s.IOPressure, "io.pressure"}} {
		if some, ok := strings.CutPrefix(r.text(p.file), "some "); ok {
			some, _, _ = strings.Cut(some, "\n")
			_, total, _ := strings.Cut(some, "total=")
			if n, ok := number(total); ok {
				*p.to = &n
			}
		}
	}
}

func (r *reader) memoryEvents(s *Stats) {
	events := r.text("memory.events")
	set(&s.OOMKilled, events, "oom_kill", 1)
	if n, ok := field(events, "oom_group_kill"); ok {
		s.OOMGroup = n > 0
	} else if valueOf(s.OOMKilled) > 0 { // before Linux 5.17
		group, _ := number(r.text("memory.oom.group"))
		s.OOMGroup = group == 1
	}
}

// sumIO adds up what io.stat says of each device.
func sumIO(text, key string) *int64 {
	sum := int64(0)
	for f := range strings.FieldsSeq(text) {
		if v, ok := strings.CutPrefix(f, key); ok {
			n, _ := number(v)
			sum += n
		}
	}
	return &sum
}

func (r *reader) v1(s *Stats) {
	for _, c := range r.controllers {
		switch c {
		case "memory":
			r.one(&s.MemoryPeak, "memory.max_usage_in_bytes")
			set(&s.OOMKilled, r.text("memory.oom_control"), "oom_kill", 1)
		case "pids":
			r.one(&s.PidsPeak, "pids.peak")
			set(&s.PidsLimited, r.text("pids.events"), "max", 1)
		case "cpu":
			set(&s.Throttled, r.text("cpu.stat"), "throttled_time", 1000)
		case "cpuacct":
			for _, f := range []struct {
				to   **int64
				file string
			}{{&s.User, "cpuacct.usage_user"}, {&s.System, "cpuacct.usage_sys"}} {
				if *f.to != nil { // version 2 has said it
					continue
				}
				if n, ok := number(r.text(f.file)); ok {
					n /= 1000
					*f.to = &n
				}
			}
		case "blkio":
			text := r.text("blkio.throttle.io_service_bytes_recursive")
			s.IORead, s.IOWrite = sumBlkio(text, "Read"), sumBlkio(text, "Write")
		}
	}
}

// sumBlkio adds up the lines of a direction, which are "8:0 Read 4096".
func sumBlkio(text, direction string) *int64 {
	sum := int64(0)
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) == 3 && f[1] == direction {
			n, _ := number(f[2])
			sum += n
		}
	}
	return &sum
}
