package pty

import (
	"fmt"
	"strings"
)

// keys are what the keys of a terminal send that have no character.
var keys = map[string]string{
	"Enter": "\r", "Tab": "\t", "Escape": "\x1b", "Space": " ", "Backspace": "\x7f", "BackTab": "\x1b[Z",
	"Up": "\x1b[A", "Down": "\x1b[B", "Right": "\x1b[C", "Left": "\x1b[D",
	"Home": "\x1b[H", "End": "\x1b[F", "Insert": "\x1b[2~", "Delete": "\x1b[3~", "PageUp": "\x1b[5~", "PageDown": "\x1b[6~",
	"F1": "\x1bOP", "F2": "\x1bOQ", "F3": "\x1bOR", "F4": "\x1bOS", "F5": "\x1b[15~", "F6": "\x1b[17~",
	"F7": "\x1b[18~", "F8": "\x1b[19~", "F9": "\x1b[20~", "F10": "\x1b[21~", "F11": "\x1b[23~", "F12": "\x1b[24~",
}

// KeyError says that no key has the name.
type KeyError struct{ Name string }

func (e *KeyError) Error() string { return fmt.Sprintf("no key is called %q", e.Name) }

// Key returns what a key sends: "C-c" or "Ctrl-C" with the control key, "M-x" or
// "Alt-x" with the other one, "Enter", "Tab", "Escape", "Space", "Backspace", "BackTab", "Up",
// "Down", "Left", "Right", "Home", "End", "Insert", "Delete", "PageUp",
// "PageDown", "F1" to "F12", or a single character. The cursor keys are those
// of a terminal in its normal mode. The error is a [*KeyError].
func Key(name string) ([]byte, error) {
	for long, short := range map[string]string{"Ctrl-": "C-", "Alt-": "M-"} {
		if rest, ok := strings.CutPrefix(name, long); ok {
			b, err := Key(short + rest)
			if err != nil {
				return nil, &KeyError{name}
			}
			return b, nil
		}
	}
	if s, ok := keys[name]; ok {
		return []byte(s), nil
	}
	if r := []rune(name); len(r) == 1 {
		return []byte(name), nil
	}
	if len(name) > 2 && name[1] == '-' {
		switch rest := name[2:]; name[0] {
		case 'M':
			b, err := Key(rest)
			if err != nil {
				return nil, &KeyError{name}
			}
			return append([]byte{0x1b}, b...), nil
		case 'C':
			if len(rest) == 1 {
				if c, ok := control(rest[0]); ok {
					return []byte{c}, nil
				}
			}
		}
	}
	return nil, &KeyError{name}
}

// control returns the character that a key sends with the control key.
func control(c byte) (byte, bool) {
	switch {
	case 'a' <= c && c <= 'z', '@' <= c && c <= '_':
		return c & 0x1f, true
	case c == ' ':
		return 0, true
	case c == '?':
		return 0x7f, true
	}
	return 0, false
}
