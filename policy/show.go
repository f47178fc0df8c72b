package policy

import (
	"strconv"
	"strings"
)

// String returns in words exactly what is asked, one line for each thing, with
// the meaning of what is left out. It shows the values of variables, too.
func (p Policy) String() string {
	var s shown
	mode := p.Mode
	if mode == "" {
		mode = ReadOnly
	}
	s.line("mode", string(mode))
	s.line("worktree", orElse(p.Worktree.show(), "none"))
	s.paths("write", p.Write)
	s.paths("write, made if missing", p.WriteCreate)
	if p.Read == nil {
		s.line("read", "everything")
	} else {
		s.line("read", "what is writable")
		s.paths("read", p.Read)
	}
	s.choice("broad grants", p.AllowBroad, "allowed", "refused")
	s.choice("git's hooks, configuration and pointers", p.NoProtect, "not protected", "protected")
	s.paths("protect", p.Protect)
	s.paths("hide", p.Hide)
	s.choice("/tmp, /dev/shm and /dev/pts", p.PrivateTmp, "its own", "shared")
	s.choice("metadata outside", p.StrictMetadata, "kept", "left to the owner of the file")
	s.network(p.Network)
	s.choice("signals to processes outside", p.IPC.AllowSignals, "allowed", "refused")
	s.choice("abstract sockets outside", p.IPC.AllowAbstract, "allowed", "refused")
	s.paths("unix socket", p.Unix)
	s.limits(p.Limits)
	s.env(p.Env)
	s.choice("tool caches", p.NoCache, "the user's", "redirected")
	caps := p.Caps
	if caps == nil {
		caps = DefaultCaps
	}
	s.line("capabilities", orElse(strings.Join(caps, ", "), CapsNone))
	required := make([]string, 0, 4)
	for _, promise := range p.Required() {
		required = append(required, string(promise))
	}
	s.line("required", orElse(strings.Join(required, ", "), "nothing"))
	return s.String()
}

// show returns p for one line, empty if it is.
func (p Path) show() string {
	if p == "" {
		return ""
	}
	return display(string(p))
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// shown collects lines.
type shown struct {
	strings.Builder
}

func (s *shown) line(name, value string) {
	s.WriteString(name + ": " + value + "\n")
}

func (s *shown) choice(name string, set bool, yes, no string) {
	if set {
		s.line(name, yes)
	} else {
		s.line(name, no)
	}
}

func (s *shown) paths(name string, paths []Path) {
	for _, path := range paths {
		s.line(name, display(string(path)))
	}
}

func (s *shown) network(n Network) {
	mode := n.Mode
	if mode == "" {
		mode = NetworkAll
	}
	s.line("network", string(mode))
	for _, list := range [...]struct {
		name  string
		ports []uint16
	}{
		{"connect by TCP", n.ConnectTCP},
		{"bind TCP", n.BindTCP},
		{"connect by UDP", n.ConnectUDP},
		{"bind UDP", n.BindUDP},
	} {
		if list.ports == nil {
			continue
		}
		var ports []string
		for _, port := range list.ports {
			ports = append(ports, strconv.Itoa(int(port)))
		}
		s.line(list.name, orElse(strings.Join(ports, ", "), "no port"))
	}
}

func (s *shown) limits(l Limits) {
	if !l.Any() && l.CgroupParent == "" && !l.BestEffort {
		s.line("limits", "none")
		return
	}
	number := func(name string, n int64) {
		if n != 0 {
			s.line(name, strconv.FormatInt(n, 10))
		}
	}
	bytes := func(name string, n *int64) {
		if n != nil {
			s.line(name, size(*n))
		}
	}
	swap, memory, fsize := l.Swap, &l.Memory, &l.FileSize
	if l.Memory == 0 {
		memory = nil
	} else if swap == nil {
		swap = new(int64)
	}
	if l.FileSize == 0 {
		fsize = nil
	}
	bytes("memory", memory)
	bytes("swap", swap)
	number("processes and threads", l.Pids)
	if l.CPUs != 0 {
		s.line("processors", strconv.FormatFloat(l.CPUs, 'g', -1, 64))
	}
	number("processor weight", l.CPUWeight)
	for _, list := range [...]struct {
		name  string
		rates []IORate
	}{{"read rate", l.IORead}, {"write rate", l.IOWrite}} {
		for _, r := range list.rates {
			s.line(list.name, size(r.Rate)+" a second, "+orElse(r.Device.show(), "the worktree's device"))
		}
	}
	if l.OOMScoreAdj != nil {
		s.line("oom_score_adj", strconv.FormatInt(*l.OOMScoreAdj, 10))
	}
	number("open files of a process", l.OpenFiles)
	bytes("size of a file", fsize)
	bytes("size of a core dump", l.Core)
	number("niceness added", l.Nice)
	s.paths("control group", l.Cgroup)
	if l.CgroupParent != "" {
		s.line("control groups are made in", l.CgroupParent.show())
	}
	s.choice("limits that can't be held", l.BestEffort, "reported", "refused")
}

func (s *shown) env(e Env) {
	s.choice("environment", e.Clear, "empty", "the caller's")
	for _, name := range e.Unset {
		s.line("unset", display(name))
	}
	s.choice("repository-local GIT_ variables", e.KeepGit, "kept", "dropped")
	for _, entry := range e.Set {
		s.line("set", display(entry))
	}
}
