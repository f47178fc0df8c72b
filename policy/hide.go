package policy

import (
	"errors"
	"strconv"
	"syscall"
)

// whyChosen is what a path is that the policy lists as protected.
const whyChosen = "protected by the policy"

// hide finds what there is to hide.
func (r *resolver) hide() error {
	for i, path := range r.p.Hide {
		field := "hide[" + strconv.Itoa(i) + "]"
		var st syscall.Stat_t
		err := syscall.Stat(string(path), &st)
		if errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ENOTDIR) {
			continue
		}
		if err != nil {
			return pathError(field, string(path), err)
		}
		real, err := realAny(string(path), st.Mode)
		if err != nil {
			return pathError(field, string(path), err)
		}
		if real == "/" || r.out.Worktree != "" && beneath(r.out.Worktree, real) {
			return &Error{
				Field: field, Value: string(path), Why: "holds the worktree or everything",
				Hint: "hide something smaller",
			}
		}
		r.out.Hide = append(r.out.Hide, Hidden{Path: real, Folder: st.Mode&syscall.S_IFMT == syscall.S_IFDIR})
	}
	return nil
}

// checkProtect refuses paths to protect that don't exist.
func (r *resolver) checkProtect() error {
	for i, path := range r.p.Protect {
		var st syscall.Stat_t
		if err := syscall.Stat(string(path), &st); err != nil {
			return pathError("protect["+strconv.Itoa(i)+"]", string(path), err)
		}
	}
	return nil
}

// chosenPath freezes a path that the policy lists, if it is writable at all.
func (p *protector) chosenPath(path string) {
	real := realName(path)
	if p.writable(real) {
		p.freeze(real, whyChosen)
	}
}
