package policy

import (
	"errors"
	"fmt"
	"syscall"
)

// configLimit bounds a configuration file that is read for one value.
const configLimit = 1 << 20

var errConfig = errors.New("bad git configuration")

// coreWorktree returns core.worktree as the repository's own configuration
// sets it, "" if it doesn't. Includes are not followed: what they say is not
// the repository's own word.
func coreWorktree(gitDir string) (string, error) {
	path := gitDir + "/config"
	text, err := readSmall(path, configLimit)
	if err != nil {
		if errors.Is(err, syscall.ENOENT) {
			return "", nil
		}
		return "", err
	}
	found, err := scanConfig(text)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	if !found.worktreeConfig {
		return found.worktree, nil
	}
	// git sparse-checkout moves the value there.
	path = gitDir + "/config.worktree"
	text, err = readSmall(path, configLimit)
	if err != nil {
		if errors.Is(err, syscall.ENOENT) {
			return found.worktree, nil
		}
		return "", err
	}
	own, err := scanConfig(text)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	if own.worktreeSet {
		return own.worktree, nil
	}
	return found.worktree, nil
}

// configValues are the values that scanConfig looks for.
type configValues struct {
	worktree       string
	worktreeSet    bool
	worktreeConfig bool
}

// scanConfig reads a file in git's configuration syntax for core.worktree and
// extensions.worktreeConfig; the last of each counts.
func scanConfig(text []byte) (configValues, error) {
	var found configValues
	s := configScanner{text: text}
	if len(text) >= 3 && string(text[:3]) == "\ufeff" {
		s.pos = 3
	}
	for {
		key, value, bare, err := s.next()
		if err != nil || key == "" {
			return found, err
		}
		switch key {
		case "core.worktree":
			if bare {
				return found, fmt.Errorf("%w: core.worktree has no value", errConfig)
			}
			found.worktree, found.worktreeSet = value, true
		case "extensions.worktreeconfig":
			found.worktreeConfig = bare || isTrue(value)
		}
	}
}

// isTrue reads a boolean as git does.
func isTrue(value string) bool {
	switch lower(value) {
	case "", "false", "no", "off":
		return false
	case "true", "yes", "on":
		return true
	}
	for _, c := range value {
		if c >= '1' && c <= '9' {
			return true
		}
	}
	return false
}

// lower folds ASCII, as git does with keys.
func lower(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// configScanner reads entries one by one.
type configScanner struct {
	text    []byte
	pos     int
	section string
}

// char returns the next byte, a line end at the end of the text; a carriage
// return before a line end is dropped.
func (s *configScanner) char() byte {
	if s.pos >= len(s.text) {
		s.pos = len(s.text) + 1
		return '\n'
	}
	c := s.text[s.pos]
	s.pos++
	if c == '\r' && s.pos < len(s.text) && s.text[s.pos] == '\n' {
		s.pos++
		return '\n'
	}
	return c
}

// line skips the rest of the line.
func (s *configScanner) line() {
	for c := s.char(); c != '\n'; {
		c = s.char()
	}
}

func (s *configScanner) atEnd() bool { return s.pos >= len(s.text) }

// next returns the next entry as "section.name" in lower case and its value;
// bare says that there is no "=". The key is "" at the end. The name of a
// section with a subsection contains a quote, so that it equals no plain one.
func (s *configScanner) next() (key, value string, bare bool, err error) {
	for !s.atEnd() {
		switch c := s.char(); {
		case c == '#' || c == ';':
			s.line()
		case c == '[':
			if err := s.header(); err != nil {
				return "", "", false, err
			}
		case isSpace(c):
		case isAlpha(c):
			s.pos--
			return s.entry()
		default:
			return "", "", false, s.bad("unexpected character")
		}
	}
	return "", "", false, nil
}

// header reads a section header; its bracket has been read.
func (s *configScanner) header() error {
	start := s.pos
	for {
		c := s.char()
		switch {
		case c == ']' && s.pos-1 > start:
			s.section = lower(string(s.text[start : s.pos-1]))
			return nil
		case c == ' ' || c == '\t':
			return s.subsection(start)
		case !isAlpha(c) && (c < '0' || c > '9') && c != '-' && c != '.':
			return s.bad("section name")
		}
	}
}

// subsection reads the quoted part of a header.
func (s *configScanner) subsection(start int) error {
	name := lower(string(s.text[start : s.pos-1]))
	c := s.char()
	for c == ' ' || c == '\t' {
		c = s.char()
	}
	if c != '"' {
		return s.bad("section name")
	}
	for {
		switch c = s.char(); c {
		case '\n':
			return s.bad("section name")
		case '\\':
			if s.char() == '\n' {
				return s.bad("section name")
			}
		case '"':
			if s.char() != ']' {
				return s.bad("section name")
			}
			s.section = name + `"`
			return nil
		}
	}
}

// entry reads one name with its value.
func (s *configScanner) entry() (key, value string, bare bool, err error) {
	start := s.pos
	c := s.char()
	for isAlpha(c) || c >= '0' && c <= '9' || c == '-' {
		c = s.char()
	}
	end := min(s.pos-1, len(s.text))
	if c == '\n' && end > 0 && s.pos <= len(s.text) && s.text[end-1] == '\r' {
		end--
	}
	key = s.section + "." + lower(string(s.text[start:end]))
	for c == ' ' || c == '\t' {
		c = s.char()
	}
	switch c {
	case '\n':
		return key, "", true, nil
	case '=':
		value, err = s.value()
		return key, value, false, err
	}
	return "", "", false, s.bad("name")
}

// value reads the text after "=".
func (s *configScanner) value() (string, error) {
	var out []byte
	quoted, comment := false, false
	trim := 0 // what trailing space would leave
	for {
		c := s.char()
		switch {
		case c == '\n':
			if quoted {
				return "", s.bad("unclosed quote")
			}
			return string(out[:trim]), nil
		case comment:
		case isSpace(c) && !quoted:
			if len(out) > 0 {
				out = append(out, c)
			}
		case !quoted && (c == '#' || c == ';'):
			comment = true
		case c == '"':
			quoted = !quoted
			trim = len(out)
		case c == '\\':
			switch c = s.char(); c {
			case '\n':
				trim = len(out)
				continue
			case 't':
				c = '\t'
			case 'b':
				c = '\b'
			case 'n':
				c = '\n'
			case '\\', '"':
			default:
				return "", s.bad("escape")
			}
			out = append(out, c)
			trim = len(out)
		default:
			out = append(out, c)
			trim = len(out)
		}
	}
}

// bad names the line that was being read.
func (s *configScanner) bad(what string) error {
	line := 1
	for _, c := range s.text[:max(min(s.pos-1, len(s.text)), 0)] {
		if c == '\n' {
			line++
		}
	}
	return fmt.Errorf("%w: %s near line %d", errConfig, what, line)
}

func isAlpha(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }
