package landlock

import (
	"errors"
	"os"
	"strings"
	"syscall"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"

	"github.com/shofer-dev/shofer-sandbox/policy"
)

// Domain is a ruleset in the kernel, ready to be enforced. It can be enforced
// any number of times, by any number of children.
type Domain struct {
	// FD is the ruleset's descriptor, close-on-exec, and −1 when there is
	// nothing to enforce. The owner of the Domain closes it by
	// [Domain.Close].
	FD int
	// Applied are the rules in force, with the rights that they have got.
	Applied []PathRule
	// Skipped are the grants that were left out, and why.
	Skipped []policy.Skip

	handled FSRights
}

// RuleError says which grant has no rule, and why. It wraps the errno.
type RuleError struct {
	Grant policy.Grant
	Err   error
}

// Error names the path.
func (e *RuleError) Error() string {
	return "landlock: no rule for " + e.Grant.Path + ": " + e.why()
}

// why explains the errno where its own text would mislead.
func (e *RuleError) why() string {
	switch {
	case errors.Is(e.Err, syscall.ELOOP) && e.Grant.NoSymlinks:
		return "there is a symbolic link in it"
	case errors.Is(e.Err, syscall.EBADFD):
		return "it is not on a file system that rules can be given for"
	}
	return e.Err.Error()
}

// Unwrap gives the errno.
func (e *RuleError) Unwrap() error { return e.Err }

// Create makes the ruleset in the kernel and opens every path for its rule. The
// caller closes the Domain. Nothing is enforced yet.
//
// An optional grant whose path doesn't exist, can't be reached or, under
// NoSymlinks, has a symbolic link in it is skipped. Any other grant that has no
// rule is a [*RuleError], and no Domain is made. An empty ruleset gives a
// Domain whose FD is −1. A ruleset that the kernel doesn't know, or whose rules
// give what it doesn't handle, is EINVAL.
//
// A grant that is beneath one already applied, and has no right that the other
// lacks, changes nothing. It counts as applied and is not opened, if its path
// has no symbolic link for certain: with NoSymlinks.
func (rs Ruleset) Create() (*Domain, error) {
	if rs.Empty() {
		return &Domain{FD: -1}, nil
	}
	fd, err := ll.LandlockCreateRuleset(&ll.RulesetAttr{
		HandledAccessFS:  uint64(rs.HandledFS),
		HandledAccessNet: uint64(rs.HandledNet),
		Scoped:           uint64(rs.Scoped),
	}, 0)
	if err != nil {
		return nil, os.NewSyscallError("landlock_create_ruleset", err)
	}
	d := &Domain{FD: fd, handled: rs.HandledFS}
	err = d.addPaths(rs.Paths)
	if err == nil {
		err = d.addPorts(rs.Ports)
	}
	if err != nil {
		_ = d.Close() // the first error counts
		return nil, err
	}
	return d, nil
}

// Close closes the ruleset's descriptor. Domains that are enforced stay. It is
// safe to call more than once.
func (d *Domain) Close() error {
	if d.FD < 0 {
		return nil
	}
	err := unix.Close(d.FD)
	d.FD = -1
	return os.NewSyscallError("close", err)
}

func (d *Domain) addPaths(rules []PathRule) error {
	d.Applied = make([]PathRule, 0, len(rules))
	var (
		o      opener
		covers covers
		attr   ll.PathBeneathAttr
	)
	for i := range rules {
		r := &rules[i]
		if r.Grant.NoSymlinks && covers.cover(r) {
			d.Applied = append(d.Applied, *r)
			continue
		}
		rights, e := d.addPath(&o, &attr, r)
		if e != 0 {
			err := &RuleError{Grant: r.Grant, Err: e}
			if !r.Grant.Optional || !skippable(e) {
				return err
			}
			d.Skipped = append(d.Skipped, policy.Skip{Grant: r.Grant, Why: err.why()})
			continue
		}
		d.Applied = append(d.Applied, PathRule{Grant: r.Grant, Rights: rights})
		if rights == r.Rights {
			covers.add(r)
		}
	}
	return nil
}

// addPath opens one path and adds its rule. It returns the rights of the rule.
func (d *Domain) addPath(o *opener, attr *ll.PathBeneathAttr, r *PathRule) (FSRights, syscall.Errno) {
	if r.Rights&^d.handled != 0 {
		return 0, syscall.EINVAL // as the kernel would say; add couldn't tell it from a file
	}
	fd, e := o.open(r.Grant.Path, r.Grant.NoSymlinks)
	if e != 0 {
		return 0, e
	}
	rights, e := d.add(attr, fd, r.Rights)
	_ = unix.Close(fd)
	return rights, e
}

// add adds a rule for an open file. Whether it is a folder is asked by trying:
// the kernel refuses a folder's rights on anything else with EINVAL before it
// does any work, so that folders, which are most, cost no fstat.
func (d *Domain) add(attr *ll.PathBeneathAttr, fd int, rights FSRights) (FSRights, syscall.Errno) {
	*attr = ll.PathBeneathAttr{AllowedAccess: uint64(rights), ParentFd: fd}
	err := ll.LandlockAddPathBeneathRule(d.FD, attr, 0)
	if err == syscall.EINVAL && rights&^fileRights != 0 { //nolint:errorlint // a bare errno by contract, on the hot path
		if rights &= fileRights; rights == 0 {
			return 0, syscall.EINVAL
		}
		attr.AllowedAccess = uint64(rights)
		err = ll.LandlockAddPathBeneathRule(d.FD, attr, 0)
	}
	e, _ := err.(syscall.Errno) //nolint:errorlint // as above
	return rights, e
}

func (d *Domain) addPorts(rules []PortRule) error {
	var attr ll.NetPortAttr
	for _, r := range rules {
		attr = ll.NetPortAttr{AllowedAccess: uint64(r.Rights), Port: uint64(r.Port)}
		err := ll.LandlockAddNetPortRule(d.FD, &attr, 0)
		// A kernel without TCP has nothing that could connect.
		if err != nil && !errors.Is(err, syscall.EAFNOSUPPORT) {
			return os.NewSyscallError("landlock_add_rule", err)
		}
	}
	return nil
}

// skippable reports whether e is about the path, so that an optional grant is
// left out: a missing rule never opens anything. Anything else (no descriptors,
// no memory) would hit other rules by chance.
func skippable(e syscall.Errno) bool {
	switch e {
	case syscall.ENOENT, syscall.ENOTDIR, syscall.EACCES, syscall.ELOOP,
		syscall.ENOTCONN, syscall.ESTALE, syscall.EBADFD:
		return true
	}
	return false
}

// covers are folders that have a rule, the first few: a policy's broad grants
// come first, and a look at each must stay cheaper than a system call.
type covers struct {
	n    int
	rule [8]*PathRule
}

func (c *covers) add(r *PathRule) {
	if c.n < len(c.rule) {
		c.rule[c.n] = r
		c.n++
	}
}

// cover reports whether a rule above r, or on r, gives all of r's rights.
//
// The comparison is of names, so it is right only if no part of r's path is a
// symbolic link: then none of the other's is, which is a prefix of it. If there
// is one after all, r would have been refused, and it gets nothing here either.
// A mount between the two does no harm, as the kernel looks for rules across
// mount points upwards.
func (c *covers) cover(r *PathRule) bool {
	for _, above := range c.rule[:c.n] {
		if r.Rights&^above.Rights == 0 && beneath(r.Grant.Path, above.Grant.Path) {
			return true
		}
	}
	return false
}

// beneath reports whether path is dir or beneath it. A path with ".." in it is
// never beneath.
func beneath(path, dir string) bool {
	rest, ok := strings.CutPrefix(path, dir)
	if !ok || strings.Contains(rest, "..") {
		return false
	}
	return rest == "" || rest[0] == '/' || strings.HasSuffix(dir, "/")
}
