package tamper

import (
	"strings"

	"github.com/shofer-dev/shofer-sandbox/policy"
)

// setting is one that makes git execute or follow something.
type setting struct {
	key, value string
}

func (t setting) String() string { return t.key + " = " + quote(t.value) }

// settings returns those in a file of git's configuration that make git execute
// or follow something.
func settings(text []byte) (list []setting) {
	// What git can't read it doesn't follow.
	_ = policy.EachGitSetting(text, func(key, value string) {
		if executes(key, value) && len(list) < 1000 {
			list = append(list, setting{strings.Replace(key, `"`, ".*", 1), value})
		}
	})
	return list
}

// executes reports whether git may execute, or read more configuration from,
// what a setting names. A key has a quote in place of a subsection.
func executes(key, value string) bool {
	switch key {
	case "core.fsmonitor":
		return !isBool(value)
	case "core.hookspath", "core.sshcommand", "core.editor", "core.pager", "core.gitproxy", "core.askpass",
		"core.alternaterefscommand", "sequence.editor", "interactive.difffilter", "diff.external",
		`diff".command`, `diff".textconv`, `merge".driver`, `filter".clean`, `filter".smudge`, `filter".process`,
		`difftool".cmd`, `difftool".path`, `mergetool".cmd`, `mergetool".path`, `guitool".cmd`,
		"gpg.program", `gpg".program`, `gpg".defaultkeycommand`, "credential.helper", `credential".helper`,
		"include.path", `includeif".path`, `remote".uploadpack`, `remote".receivepack`, `remote".vcs`,
		`browser".cmd`, `browser".path`, `man".cmd`, `man".path`, "instaweb.httpd", "imap.tunnel",
		"sendemail.smtpserver", "sendemail.tocmd", "sendemail.cccmd", "sendemail.headercmd", `sendemail".smtpserver`,
		"uploadpack.packobjectshook", `trailer".command`, `trailer".cmd`, `tar".command`, `hook".command`,
		"gc.recentobjectshook", `lfs".path`:
		return value != ""
	case `submodule".update`:
		return strings.HasPrefix(value, "!")
	case `remote".url`, `remote".pushurl`, `submodule".url`, `url".insteadof`:
		return oddURL(value)
	}
	section, _, _ := strings.Cut(key, ".")
	switch section {
	case "pager":
		return !isBool(value)
	case "alias", `alias"`:
		return strings.HasPrefix(strings.TrimSpace(value), "!")
	}
	return false
}

// oddURL reports whether fetching from a URL executes what is in it.
func oddURL(url string) bool {
	return strings.HasPrefix(url, "ext::") || strings.HasPrefix(url, "-") || strings.HasPrefix(url, "!") || strings.Contains(url, "://-")
}

func isBool(value string) bool {
	switch strings.ToLower(value) {
	case "", "true", "false", "yes", "no", "on", "off", "0", "1":
		return true
	}
	return false
}

// newSettings says what a file of configuration sets now that makes git execute
// something, and didn't set before.
func newSettings(path string, was, now []byte) string {
	if name := base(path); name != "config" && name != "config.worktree" {
		return ""
	}
	before := map[setting]bool{}
	for _, t := range settings(was) {
		before[t] = true
	}
	var b strings.Builder
	for n, t := range settings(now) {
		if before[t] {
			continue
		}
		if n > 10 {
			b.WriteString(", …")
			break
		}
		if b.Len() == 0 {
			b.WriteString(" now sets ")
		} else {
			b.WriteString(", ")
		}
		b.WriteString(t.String())
	}
	return b.String()
}
