package bwrap

import (
	"strconv"
	"strings"
)

// Version is bubblewrap's own. The zero value is unknown.
type Version struct{ Major, Minor, Patch int }

var (
	// oldest has every option that is always used: --args, --json-status-fd,
	// --die-with-parent, --as-pid-1, and those that end in -try.
	oldest = Version{0, 4, 0}
	// covers can mount over files that aren't regular ones, and has --perms.
	covers = Version{0, 5, 0}
)

// ParseVersion reads what bwrap --version prints.
func ParseVersion(text string) (v Version, ok bool) {
	text, ok = strings.CutPrefix(text, "bubblewrap ")
	if !ok {
		return v, false
	}
	text = strings.TrimSuffix(text, "\n")
	for i, n := range []*int{&v.Major, &v.Minor, &v.Patch} {
		digits := text
		if end := strings.IndexFunc(text, func(r rune) bool { return r < '0' || r > '9' }); end >= 0 {
			digits = text[:end]
		}
		var err error
		if *n, err = strconv.Atoi(digits); err != nil || len(digits) > 9 {
			return Version{}, false
		}
		text = text[len(digits):]
		if text == "" || text[0] != '.' || i == 2 {
			// What may follow is the name of a build.
			return v, i > 0
		}
		text = text[1:]
	}
	return v, true
}

// String is empty for an unknown version.
func (v Version) String() string {
	if v == (Version{}) {
		return ""
	}
	return strconv.Itoa(v.Major) + "." + strconv.Itoa(v.Minor) + "." + strconv.Itoa(v.Patch)
}

func (v Version) less(w Version) bool {
	switch {
	case v.Major != w.Major:
		return v.Major < w.Major
	case v.Minor != w.Minor:
		return v.Minor < w.Minor
	}
	return v.Patch < w.Patch
}

// coversAnything takes an unknown version for a new one.
func (v Version) coversAnything() bool { return v == (Version{}) || !v.less(covers) }
