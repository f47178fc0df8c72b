package tamper

import (
	"path/filepath"
	"strings"

	"github.com/shofer-dev/shofer-sandbox/policy"
)

// Severity is how much a finding says.
type Severity string

const (
	// Danger: git here would execute or follow something that people don't put
	// there.
	Danger Severity = "danger"
	// Warning: git here would execute something that people do put there, and
	// that is worth a look.
	Warning Severity = "warning"
	// Note: something that is as it often is.
	Note Severity = "note"
)

// rank orders severities.
func (s Severity) rank() int {
	switch s {
	case Danger:
		return 0
	case Warning:
		return 1
	}
	return 2
}

// Finding is something that git in a worktree executes or follows.
type Finding struct {
	Severity Severity `json:"severity"`
	// Path is where it is.
	Path policy.Path `json:"path"`
	// Key is the setting, if it is one.
	Key string `json:"key,omitempty"`
	// Text says what it does, on one line.
	Text string `json:"text"`
	// Look is a shell command that shows it and executes nothing of it.
	Look string `json:"look"`
}

func (f Finding) String() string {
	return string(f.Severity) + ": " + f.Path.String() + ": " + f.Text
}

// VerifyCommand returns a shell command that looks at a folder and executes
// nothing that is there.
func VerifyCommand(folder string) string { return "shofer-sandbox --verify " + shellQuote(folder) }

// SafeGit returns the beginning of a shell command that runs git in a folder
// without the programs that git would start by itself: monitors, hooks, pagers,
// and what is in repositories that are linked in. What no setting turns off,
// such as filters for content where git has to read changed files, is confined:
// it can't write, nor send anything. git diff needs --no-ext-diff and
// --no-textconv besides to be without the programs of these.
func SafeGit(folder string) string {
	return "shofer-sandbox --mode read-only --net none " + shellQuote(folder) +
		" -- git --no-pager -C " + shellQuote(folder) + " -c core.fsmonitor=false -c core.hooksPath=/dev/null" +
		" -c diff.ignoreSubmodules=all -c submodule.recurse=false"
}

// show returns a shell command that shows a file on any terminal.
func show(path string) string { return "cat -v -- " + shellQuote(path) }

// shellQuote quotes a word for a shell. One that can't be printed needs bash.
func shellQuote(word string) string {
	plain := word != ""
	for _, c := range []byte(word) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("/._-+:@%,=", c) >= 0:
		default:
			plain = false
		}
	}
	switch {
	case plain:
		return word
	case oneLine(word) == word:
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	const digits = "0123456789abcdef"
	var b strings.Builder
	b.WriteString("$'")
	for _, c := range []byte(word) {
		if c < ' ' || c >= 0x7f || c == '\'' || c == '\\' {
			b.WriteString(`\x` + string(digits[c>>4]) + string(digits[c&15]))
		} else {
			b.WriteByte(c)
		}
	}
	return b.String() + "'"
}

// severity says how much a setting means in the configuration of a repository
// whose working tree is top.
func (t setting) severity(top string) Severity {
	switch t.key {
	case "core.fsmonitor", "core.gitproxy", "core.askpass", "core.alternaterefscommand", "uploadpack.packobjectshook",
		"gc.recentobjectshook", "remote.*.uploadpack", "remote.*.receivepack", "remote.*.vcs", "remote.*.url",
		"remote.*.pushurl", "submodule.*.url", "submodule.*.update", "url.*.insteadof":
		return Danger
	case "core.hookspath":
		return Warning
	case "filter.*.clean", "filter.*.smudge", "filter.*.process":
		if word, _, _ := strings.Cut(t.value, " "); word == "git-lfs" {
			return Note
		}
	case "include.path", "includeif.*.path":
		return Warning // where it leads is looked at
	}
	if leadsInto(t.value, top) {
		return Danger
	}
	return Warning
}

// leadsInto reports whether a command line names something that a confined
// command can write to: its program by a relative path, or anything beneath top
// or a temporary folder.
func leadsInto(value, top string) bool {
	for i, word := range strings.Fields(strings.TrimPrefix(value, "!")) {
		word = strings.Trim(word, `"'();`)
		if strings.HasPrefix(word, "/") {
			if inReach(filepath.Clean(word), top) {
				return true
			}
		} else if i == 0 && strings.Contains(word, "/") && !strings.HasPrefix(word, "~") {
			return true
		}
	}
	return false
}

// inReach reports whether a path is usually writable for a command whose
// worktree is top.
func inReach(path, top string) bool {
	for _, folder := range []string{top, "/tmp", "/dev/shm"} {
		if folder != "" && beneath(path, folder) {
			return true
		}
	}
	return false
}
