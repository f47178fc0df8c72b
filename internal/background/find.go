package background

import (
	"cmp"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// Command is a command in the background, for those who want something of it.
type Command struct {
	Status
	dir string
}

// List returns all commands, the oldest first. What can't be read is left out.
func (d *Dir) List() ([]*Command, error) {
	ids, err := d.ids()
	if err != nil {
		return nil, err
	}
	var all []*Command
	for _, id := range ids {
		if c, err := d.get(id); err == nil {
			all = append(all, c)
		}
	}
	slices.SortStableFunc(all, func(a, b *Command) int { return cmp.Compare(a.ID, b.ID) })
	return all, nil
}

func (d *Dir) get(id string) (*Command, error) {
	dir := filepath.Join(d.path, id)
	s, err := readStatus(dir)
	if err != nil {
		return nil, err
	}
	return &Command{*s, dir}, nil
}

// Refresh reads the status again.
func (c *Command) Refresh() error {
	s, err := readStatus(c.dir)
	if err != nil {
		return err
	}
	c.Status = *s
	return nil
}

// shortest is how much of an id says which is meant.
const shortest = 4

// Find returns the command that is meant: by its id, by the name of one that
// runs, by the name of the last one that ran, or by the end or the beginning of
// an id. The error is a [*FindError] if there is none, or several.
func (d *Dir) Find(what string) (*Command, error) {
	if isID(what) {
		c, err := d.get(what)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, &FindError{What: what}
		}
		return c, err
	}
	all, err := d.List()
	if err != nil {
		return nil, err
	}
	var named *Command
	for _, c := range all {
		if c.Name == what && what != "" && (named == nil || named.Final() || !c.Final()) {
			named = c
		}
	}
	if named != nil {
		return named, nil
	}
	part := strings.ToUpper(what)
	if len(part) < shortest {
		return nil, &FindError{What: what}
	}
	for _, fits := range []func(s, part string) bool{strings.HasSuffix, strings.HasPrefix} {
		var found []*Command
		for _, c := range all {
			if fits(c.ID, part) {
				found = append(found, c)
			}
		}
		if len(found) == 1 {
			return found[0], nil
		}
		if len(found) > 1 {
			e := &FindError{What: what}
			for _, c := range found {
				e.IDs = append(e.IDs, c.ID)
			}
			return nil, e
		}
	}
	return nil, &FindError{What: what}
}
