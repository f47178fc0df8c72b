package environ

import (
	"regexp"
	"strings"
	"sync"
)

// Scrub says which of the ambient variables are dropped as credentials. The
// zero value drops what its name or the shape of its value gives away, except
// for names that are known to be something else.
//
// Patterns are names in which a * at either end stands for anything. Letter
// case makes no difference.
type Scrub struct {
	// Off drops nothing but what Deny names.
	Off bool
	// Allow are patterns of names to keep.
	Allow []string
	// Deny are patterns of names to drop, whatever else is said about them.
	Deny []string
	// Strict keeps only what a program needs to find its way (the home folder,
	// the search path, the locale, proxies) and what Allow names.
	Strict bool
}

// drops reports whether a variable is dropped, and why, or why it is kept
// although it looks like a credential; else the reason is empty.
func (s *Scrub) drops(name, value string) (reason string, drop bool) {
	upper := strings.ToUpper(name)
	if matchAny(s.Deny, upper) {
		return "denied by name", true
	}
	if s.Off {
		return "", false
	}
	looks := nameShape(upper)
	if looks == "" {
		looks = valueShape(value)
	}
	switch {
	case matchAny(s.Allow, upper):
		if looks != "" || s.Strict {
			return "allowed by name", false
		}
	case s.Strict && !matchAny(basics, upper):
		return "not among the names that are kept", true
	case looks != "" && matchAny(harmless, upper):
		return "known to be no credential to hide", false
	case looks != "":
		return looks, true
	}
	return "", false
}

// credentialWords are parts of names of credentials.
var credentialWords = []string{"KEY", "SECRET", "TOKEN", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL"}

// credentialNames are patterns of other names of credentials.
var credentialNames = []string{"*_PASS", "*_PWD", "*_PAT", "*_AUTH", "DOCKER_AUTH_CONFIG"}

// harmless are patterns of names that look like a credential's and are none, or
// without which what is meant to work doesn't.
var harmless = []string{
	// git's settings. The values may well be credentials, which continuous
	// integration gives to git that way.
	"GIT_CONFIG_KEY_*", "GIT_CONFIG_VALUE_*", "GIT_CONFIG_PARAMETERS",
	// Proxies, whose addresses may hold a password.
	"*_PROXY", "GOPROXY",
	// Keys of a keyboard, and other homonyms.
	"*KEYBOARD*", "*KEYMAP*", "*KEYCODE*", "*HOTKEY*", "KEYTIMEOUT", "*_KEY_BINDINGS", "*MONKEY*",
	"TOKENIZERS_PARALLELISM", "*_MAX_TOKENS", "MAX_*_TOKENS",
	// Where a key ring is, not what is in it.
	"GNOME_KEYRING_CONTROL", "SSH_ASKPASS", "SUDO_ASKPASS", "GIT_ASKPASS",
}

// basics are patterns of names without which few programs work.
var basics = []string{
	"HOME", "PATH", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR",
	"XDG_*", "*_PROXY", "GOPROXY", "GIT_CONFIG_*", "SSL_CERT_FILE", "SSL_CERT_DIR",
}

// nameShape says why a name, in capitals, looks like a credential's.
func nameShape(upper string) string {
	for _, word := range credentialWords {
		if strings.Contains(upper, word) {
			return "the name contains " + word
		}
	}
	if matchAny(credentialNames, upper) {
		return "the name is like a credential's"
	}
	return ""
}

// shapes are what values of credentials look like. Most values have none of the
// needles, which are quick to look for.
var shapes = []struct {
	what    string
	needles []needle
	shape   func() *regexp.Regexp
}{
	{"a private key", needles("PRIVATE KEY"), pattern(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY`)},
	{"an age key", needles("AGE-SECRET-KEY-1"), pattern(`AGE-SECRET-KEY-1`)},
	{
		"an address with a password",
		needles("://"),
		pattern(`[A-Za-z][A-Za-z0-9+.-]*://[^/\s:@?#]*:[^/\s@?#]+@`),
	},
	{
		"a GitHub token",
		needles("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
		pattern(`\bgh[pousr]_[A-Za-z0-9]{30,}|\bgithub_pat_[A-Za-z0-9_]{20,}`),
	},
	{"a GitLab token", needles("gl"), pattern(`\bgl(pat|ptt|dt|rt|cbt|ft|soat|agent)-[A-Za-z0-9_.-]{16,}`)},
	{"an AWS access key", needles("AKIA", "ASIA"), pattern(`\b(AKIA|ASIA)[A-Z0-9]{16}\b`)},
	{"a Google API key", needles("AIza"), pattern(`\bAIza[A-Za-z0-9_-]{35}`)},
	{"a JSON web token", needles("eyJ"), pattern(`\beyJ[A-Za-z0-9_-]{5,}\.eyJ[A-Za-z0-9_-]{5,}\.`)},
	{
		"a Slack token",
		needles("xox", "xapp-"),
		pattern(`\bxox[abeoprs]-[A-Za-z0-9-]{10,}|\bxapp-[0-9]-[A-Za-z0-9-]{10,}`),
	},
	{"a Stripe key", needles("k_live_", "k_test_"), pattern(`\b[srp]k_(live|test)_[A-Za-z0-9]{10,}`)},
	{"an API key", needles("sk-"), pattern(`\bsk-[A-Za-z0-9_-]{20,}`)},
	{"an npm token", needles("npm_"), pattern(`\bnpm_[A-Za-z0-9]{36}\b`)},
	{"a PyPI token", needles("pypi-"), pattern(`\bpypi-[A-Za-z0-9_-]{16,}`)},
	{"a Hugging Face token", needles("hf_"), pattern(`\bhf_[A-Za-z0-9]{30,}`)},
	{
		"a header with a credential",
		needles("uthorization:", "UTHORIZATION:"),
		pattern(`(?i)\bauthorization:\s*(basic|bearer|token)\s+\S`),
	},
}

// pattern compiles an expression when it is first needed, which few processes do.
func pattern(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

// needle is a text with the set of its bytes.
type needle struct {
	text  string
	bytes byteSet
}

func needles(texts ...string) []needle {
	list := make([]needle, len(texts))
	for i, text := range texts {
		list[i] = needle{text, bytesOf(text)}
	}
	return list
}

// byteSet has a bit for each byte that there is.
type byteSet [4]uint64

func bytesOf(text string) (s byteSet) {
	for i := range len(text) {
		s[text[i]>>6] |= 1 << (text[i] & 63)
	}
	return s
}

// in reports whether a value contains the needle. Most lack one of its bytes.
func (n *needle) in(value string, bytes *byteSet) bool {
	for i := range bytes {
		if n.bytes[i]&^bytes[i] != 0 {
			return false
		}
	}
	return strings.Contains(value, n.text)
}

// valueShape says why a value looks like a credential.
func valueShape(value string) string {
	bytes := bytesOf(value)
	for i := range shapes {
		s := &shapes[i]
		for j := range s.needles {
			if s.needles[j].in(value, &bytes) {
				if s.shape().MatchString(value) {
					return "the value looks like " + s.what
				}
				break
			}
		}
	}
	return ""
}

func matchAny(patterns []string, upper string) bool {
	for _, p := range patterns {
		if match(strings.ToUpper(p), upper) {
			return true
		}
	}
	return false
}

// match reports whether a name matches a pattern, both in capitals.
func match(pattern, upper string) bool {
	front, open := strings.CutPrefix(pattern, "*")
	body, openEnd := strings.CutSuffix(front, "*")
	switch {
	case open && openEnd:
		return strings.Contains(upper, body)
	case open:
		return strings.HasSuffix(upper, body)
	case openEnd:
		return strings.HasPrefix(upper, body)
	}
	return upper == body
}
