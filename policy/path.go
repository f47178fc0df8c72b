package policy

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Path is a path on this machine: any bytes but NUL.
//
// In JSON a path that is valid UTF-8 is a string. Another one is an object
// {"base64": "…", "display": "…"}, of which only base64 counts.
type Path string

// errNUL is the cause when a path or a variable contains a NUL byte, which no
// system call can carry.
var errNUL = errors.New("contains a NUL byte")

// pathObject is the JSON form of a path that is not valid UTF-8.
type pathObject struct {
	Base64  []byte  `json:"base64"`
	Display *string `json:"display,omitempty"`
}

// MarshalJSON returns a JSON string, or an object if p is not valid UTF-8. A
// path with a NUL byte is an error.
func (p Path) MarshalJSON() ([]byte, error) {
	if strings.IndexByte(string(p), 0) >= 0 {
		return nil, errNUL
	}
	if utf8.ValidString(string(p)) {
		return json.Marshal(string(p))
	}
	display := display(string(p))
	return json.Marshal(pathObject{Base64: []byte(p), Display: &display})
}

// UnmarshalJSON reads either form. A path with a NUL byte is an error, and so
// is an object that has other keys or no base64.
func (p *Path) UnmarshalJSON(data []byte) error {
	var path string
	if string(data) == "null" {
		return nil // by convention; Decode refuses it
	}
	if len(data) > 0 && data[0] == '{' {
		var o pathObject
		if err := decodeStrict(data, &o); err != nil {
			return err
		}
		if o.Base64 == nil {
			return errors.New("a path object needs the key \"base64\"")
		}
		path = string(o.Base64)
	} else if err := json.Unmarshal(data, &path); err != nil {
		return err
	}
	if strings.IndexByte(path, 0) >= 0 {
		return errNUL
	}
	*p = Path(path)
	return nil
}

// String returns p for people to read: as it is if it can be printed on one
// line without doubt about where it ends, and otherwise quoted as a Go string.
// A program that needs the path itself converts it: string(p).
func (p Path) String() string {
	return display(string(p))
}

// display returns s as it is if it can be shown on one line without doubt
// about where it ends, else quoted.

func display(s string) string {
	plain := s != "" && s[0] != ' ' && s[len(s)-1] != ' ' && utf8.ValidString(s)
	for _, r := range s {
		if !plain {
			break
		}
		plain = strconv.IsPrint(r) && r != '"'
	}
	if plain {
		return s
	}
	return strconv.Quote(s)
}

// oneLine returns s with everything that can't be printed escaped: names
// come from files that a command may have written, and end up on terminals.
func oneLine(s string) string {
	clean := func() bool {
		for _, r := range s {
			if r == utf8.RuneError || !strconv.IsPrint(r) {
				return false
			}
		}
		return true
	}
	if clean() {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		part := s[i : i+size]
		if r == utf8.RuneError && size == 1 || !strconv.IsPrint(r) {
			part = strconv.Quote(part)
			part = part[1 : len(part)-1]
		}
		b.WriteString(part)
		i += size
	}
	return b.String()
}
