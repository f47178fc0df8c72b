package launcher

import (
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/shofer-dev/shofer-sandbox/policy"
)

// InOptions has an error of a policy that options alone made speak of them: of
// --rw in place of write[0]. It returns the error.
func InOptions(err error) error {
	var e *policy.Error
	if !errors.As(err, &e) {
		return err
	}
	if name := optionOf(e.Field); name != "" {
		e.Field = "--" + name
	}
	if strings.Contains(e.Value, "/~") && errors.Is(e.Err, fs.ErrNotExist) {
		e.Hint = "no shell has expanded the ~: write the home directory out"
	}
	return err
}

// optionOf returns the name of the option for a field of a policy, "" if there
// is none.
func optionOf(field string) string {
	field, _, _ = strings.Cut(field, "[")
	switch field {
	case "write":
		return "rw"
	case "write_create":
		return "rw-create"
	case "network.mode":
		return "net"
	case "env.set":
		return "env"
	case "env.unset":
		return "unsetenv"
	case "limits.best_effort":
		return "limits"
	}
	name := strings.ReplaceAll(field[strings.LastIndexByte(field, '.')+1:], "_", "-")
	for _, g := range Options() {
		if slices.ContainsFunc(g.Options, func(o Option) bool { return o.Name == name }) {
			return name
		}
	}
	return ""
}

// inOptions is [InOptions] unless a policy file has a part in the policy.
// Whoever forgot the worktree directory is told of it.
func (o *options) inOptions(err error) error {
	var e *policy.Error
	if errors.As(err, &e) && e.Field == "worktree" && e.Hint == "" && len(o.command) > 0 && !o.dashes {
		e.Hint = "the directory comes before the command: " + form
	}
	if o.policyFile != nil {
		return err
	}
	return InOptions(err)
}
