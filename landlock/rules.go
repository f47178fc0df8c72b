package landlock

import (
	"errors"
	"strconv"
	"strings"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"

	"github.com/shofer-dev/shofer-sandbox/policy"
)

// Ruleset says what is taken away, and which paths and ports give what back. It
// is plain data: nothing was opened for it. The zero value takes nothing away.
type Ruleset struct {
	// HandledFS, HandledNet and Scoped are taken away.
	HandledFS  FSRights
	HandledNet NetRights
	Scoped     Scopes
	// Paths give rights back, in the order of the policy's grants.
	Paths []PathRule
	// Ports give rights back, each port of a list by a rule.
	Ports []PortRule
}

// PathRule gives rights on a path, and, when it is a folder, on everything
// beneath it.
type PathRule struct {
	Grant policy.Grant
	// Rights are those of a folder. On anything else [Ruleset.Create] leaves
	// out what only folders can have.
	Rights FSRights
}

// PortRule gives rights on a port. Port 0 in a bind list stands for a port that
// the kernel chooses.
type PortRule struct {
	Port   uint16
	Rights NetRights
}

// Compile says what s can enforce of r. It opens nothing.
//
// A mode of unconfined gives the zero Ruleset. Without Landlock any other mode
// gives a [*SupportError]. What the ABI can't hold is left out without an
// error: [Features] reports it, and the caller judges.
//
// A write grant gives back every handled right that changes something, REFER
// among them from ABI 2, and reading where that is handled, but never the right
// to make a device node. A grant that gives back nothing on this ABI has no
// rule.
func Compile(s Support, r *policy.Resolved) (Ruleset, error) {
	if r == nil {
		return Ruleset{}, errors.New("landlock: no policy to compile")
	}
	if r.Policy.Mode == policy.Unconfined {
		return Ruleset{}, nil
	}
	if s.ABI < 1 {
		return Ruleset{}, &SupportError{Support: s}
	}
	abi := s.abi()
	fs := changeRights | ll.AccessFSIoctlDev | ll.AccessFSResolveUnix
	if r.Policy.Read != nil {
		fs |= readRights
	}
	rs := Ruleset{HandledFS: fs & abi.FS}
	if !r.Policy.IPC.AllowSignals {
		rs.Scoped |= ll.ScopeSignal
	}
	if !r.Policy.IPC.AllowAbstract {
		rs.Scoped |= ll.ScopeAbstractUnixSocket
	}
	rs.Scoped &= abi.Scopes
	rs.addPorts(abi.Net, r.Policy.Network)

	rs.Paths = make([]PathRule, 0, len(r.Grants))
	for i := range r.Grants {
		if rights := grantRights(r.Grants[i].Access) & rs.HandledFS; rights != 0 {
			rs.Paths = append(rs.Paths, PathRule{Grant: r.Grants[i], Rights: rights})
		}
	}
	return rs, nil
}

// grantRights are the rights of an access on the newest ABI.
func grantRights(a policy.Access) (r FSRights) {
	if a&policy.Write != 0 {
		r |= (changeRights | readRights) &^ makeNode
	}
	if a&policy.Read != 0 {
		r |= readRights
	}
	if a&policy.Ioctl != 0 {
		r |= ll.AccessFSIoctlDev
	}
	if a&policy.Connect != 0 {
		r |= ll.AccessFSResolveUnix
	}
	return r
}

// addPorts handles one right for each list that is not nil.
func (rs *Ruleset) addPorts(known NetRights, n policy.Network) {
	for _, l := range [...]struct {
		right NetRights
		ports []uint16
	}{
		{ll.AccessNetBindTCP, n.BindTCP},
		{ll.AccessNetConnectTCP, n.ConnectTCP},
		{ll.AccessNetBindUDP, n.BindUDP},
		{ll.AccessNetConnectSendUDP, n.ConnectUDP},
	} {
		if l.ports == nil || l.right&known == 0 {
			continue
		}
		rs.HandledNet |= l.right
		for _, p := range l.ports {
			rs.Ports = append(rs.Ports, PortRule{Port: p, Rights: l.right})
		}
	}
}

// Empty reports whether the ruleset takes nothing away.
func (rs *Ruleset) Empty() bool {
	return rs.HandledFS == 0 && rs.HandledNet == 0 && rs.Scoped == 0
}

// String shows what is enforced: a line for what is taken away, and one for
// each rule. Paths are quoted as in Go.
func (rs Ruleset) String() string {
	if rs.Empty() {
		return "nothing\n"
	}
	var b strings.Builder
	for _, l := range [...][2]string{
		{"fs", rs.HandledFS.String()}, {"net", rs.HandledNet.String()}, {"scope", rs.Scoped.String()},
	} {
		if l[1] != "none" {
			b.WriteString("deny " + l[0] + " " + l[1] + "\n")
		}
	}
	for i := range rs.Paths {
		p := &rs.Paths[i]
		b.WriteString("allow path " + strconv.Quote(p.Grant.Path) + " " + p.Rights.String())
		if p.Grant.Optional {
			b.WriteString(" if-present")
		}
		if p.Grant.NoSymlinks {
			b.WriteString(" no-symlinks")
		}
		b.WriteByte('\n')
	}
	for _, p := range rs.Ports {
		b.WriteString("allow port " + strconv.Itoa(int(p.Port)) + " " + p.Rights.String() + "\n")
	}
	return b.String()
}
