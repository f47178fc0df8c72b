package denial

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/shofer-dev/shofer-sandbox/policy"
)

// kind is the error that a line tells of.
type kind uint8

const (
	unknown  kind = iota // the form has no words for it
	denied               // EACCES: nothing grants the path
	readOnly             // EROFS: a mount is read-only
	busy                 // EBUSY: something is mounted there
)

// mention is a path in a line that tells of an error.
type mention struct {
	path string
	op   policy.Op
	kind kind
	// execute says that the same words are printed when it can't be executed.
	execute bool
}

// Words for the errors that a refusal has, strerror's and the names.
const words = `(?:[Pp]ermission denied|[Rr]ead-only file system|Device or resource busy|device or resource busy)`

var anyWords = lazily(words + `|\bE(?:ACCES|ROFS|BUSY)\b|AccessDeniedException|PermissionDenied`)

func kindOf(line string) kind {
	switch line = strings.ToLower(line); {
	case strings.Contains(line, "read-only file system"), strings.Contains(line, "erofs"):
		return readOnly
	case strings.Contains(line, "resource busy"), strings.Contains(line, "ebusy"):
		return busy
	}
	return denied
}

// form is a way to tell of an error. Its groups are op, path and path2.
type form struct {
	re func() *regexp.Regexp
	op policy.Op // if there is no group op
}

// runtimes are the forms of languages' runtimes.
var runtimes = []form{
	// Node: EACCES: permission denied, rename '/a' -> '/b'
	{lazily(`\bE(?:ACCES|ROFS|BUSY): [a-z -]+, (?P<op>\w+) '(?P<path>[^']+)'(?: -> '(?P<path2>[^']+)')?`), ""},
	// Python: [Errno 13] Permission denied: '/a' -> '/b'
	{lazily(`(?:Error: |^)\[Errno (?:13|30|16)\] [A-Za-z -]+: b?(?:'(?P<path>[^']+)'|"(?P<path>[^"]+)")(?: -> b?'(?P<path2>[^']+)')?`), policy.OpWrite},
	// Go: rename /a /b: permission denied
	{lazily(`\b(?P<op>open|openat|creat|mkdir|mkdirat|remove|unlink|unlinkat|rename|link|symlink|truncate|createtemp|mkdirtemp) (?P<path>/[^:]*?)(?: (?P<path2>/[^:]*))?: (?:permission denied|read-only file system|device or resource busy)$`), ""},
	// Java
	{lazily(`FileNotFoundException: (?P<path>/.*) \(` + words + `\)$`), policy.OpWrite},
	{lazily(`FileSystemException: (?P<path>/.*?)(?: -> (?P<path2>/.*))?: ` + words + `$`), policy.OpWrite},
	{lazily(`AccessDeniedException: (?P<path>/.*?)(?: -> (?P<path2>/.*))?$`), policy.OpWrite},
}

// others are forms that begin or end otherwise than [usual].
var others = []form{
	// Ruby: Permission denied @ rb_sysopen - /a (Errno::EACCES)
	{lazily(words + ` @ \w+ - (?P<path>/.*?)(?: \(Errno::E\w+\))?$`), policy.OpWrite},
	// zsh:1: permission denied: /a
	{lazily(`^\S*zsh:(?:\d+:)? ` + words + `: (?P<path>.+)$`), policy.OpWrite},
	// PHP: fopen(/a): Failed to open stream: Permission denied
	{lazily(`\b\w+\((?P<path>/[^)]+)\): [Ff]ailed to open stream: ` + words), policy.OpWrite},
	{lazily(`\bmkdir\((?P<path>/[^)]+)\): ` + words), policy.OpMkdir},
	// rustc: Permission denied (os error 13) at path "/a"
	{lazily(words + ` \(os error \d+\) at path "(?P<path>[^"]+)"`), policy.OpCreate},
	// tar, shred: tar: /a: Cannot open: Permission denied
	{lazily(`: (?P<path>[^:]+): (?:Cannot open|Cannot create|failed to open for writing|Cannot unlink|Cannot write|open failed): ` + words + `$`), policy.OpWrite},
	{lazily(`: (?P<path>[^:]+): Cannot mkdir: ` + words + `$`), policy.OpMkdir},
	// ksh: ksh: /a: cannot create [Permission denied]
	{lazily(`: (?P<path>[^:]+): cannot create \[` + words + `\]$`), policy.OpWrite},
}

// wordless are forms without words for the error, of which nothing else is said
// in that way where it isn't one.
var wordless = []form{
	{lazily(`^WARNING: The directory '(?P<path>/[^']+)' or its parent directory is not owned or is not writable by the current user`), policy.OpMkdir},
	{lazily(`^"(?P<path>/[^"]+)" E212: Can't open file for writing`), policy.OpWrite},
	{lazily(`^(?:\S*/)?m?awk: cannot open "(?P<path>/[^"]+)"`), policy.OpWrite},
	{lazily(`(?:^|: )error: error while writing [\w.$]+: (?P<path>/.+)$`), policy.OpWrite},
	{lazily(`^(?:Error: in prepare, |Error: )?unable to open database (?:file )?"(?P<path>/[^"]+)"`), policy.OpWrite},
}

// broken are forms that have the words in the line before or after.
var broken = []form{
	{lazily(`^(?:checkdir error|error):  cannot create (?P<path>/.+)$`), policy.OpCreate},
	{lazily(`Warning: Failed to open the file (?P<path>/.+):$`), policy.OpWrite},
}

// usual is the form of strerror: what was done, and to what, then the words.
var usual = lazily(`^(?P<head>.*?)(?: ?: |, | \()(?:reason: |')?` + words + `[')]?` +
	`(?: \(os error \d+\)| \(\d+\)| at \S+ line \d+)?\.?$`)

// quoted is text in quotation marks, as tools put around a path. The mark in a
// word such as can't is none.
var quoted = lazily("(?:^|[^\\w])(?:'([^']+)'|\"([^\"]+)\"|`([^`']+)['`]|‘([^’]+)’|“([^”]+)”)")

// alone is a line that has nothing but words, as the last of a chain of causes.
var alone = lazily(`^\s*(?:\d+: )?` + words + ` \(os error \d+\)$`)

// failedTo is a line of such a chain.
var failedTo = lazily("(?:[Ff]ailed to|[Cc]ould not|[Uu]nable to|[Cc]ouldn't) [^`]*(?:`(?P<path>/[^`]+)`|: (?P<path>/.+)$)")

// chain is how many lines of a chain of causes are looked at.
const chain = 6

// doubt are words of whoever compares what is with what ought to be.
var doubt = lazily(`(?i)\b(?:want(?:s|ed)?|expect(?:s|ed)?|assert\w*|should|mock\w*|simulat\w*|got|fake|stub\w*)\b`)

// mentions returns the paths that the line i tells of, the likeliest first. With
// all it may have any form, else only a runtime's.
func mentions(lines []string, i int, all bool) []mention {
	line := lines[i]
	if !anyWords().MatchString(line) {
		if !all {
			return nil
		}
		for _, j := range []int{i - 1, i + 1} {
			if j >= 0 && j < len(lines) && anyWords().MatchString(lines[j]) {
				if m := match(broken, line, kindOf(lines[j])); m != nil {
					return m
				}
			}
		}
		return match(wordless, line, unknown)
	}
	k := kindOf(line)
	if m := match(runtimes, line, k); m != nil || !all {
		for j := range m {
			m[j].execute = strings.Contains(line, "[Errno 13]") && executing(lines[max(0, i-trace):i])
		}
		return m
	}
	if m := match(others, line, k); m != nil {
		for j := range m {
			m[j].execute = strings.Contains(line, "zsh:")
		}
		return m
	}
	if alone().MatchString(line) {
		for j := i - 1; j >= max(0, i-chain); j-- {
			if m := match([]form{{failedTo, opOf(lines[j])}}, lines[j], k); m != nil {
				return m
			}
		}
		return nil
	}
	at := usual().FindStringSubmatch(line)
	if at == nil {
		return nil
	}
	return inHead(at[1], k)
}

// trace is how many lines before a Python error are looked at.
const trace = 6

// executing reports whether a traceback is about starting a program.
func executing(lines []string) bool {
	return slices.ContainsFunc(lines, func(l string) bool {
		return strings.Contains(l, "exec") || strings.Contains(l, "spawn") || strings.Contains(l, "Popen")
	})
}

// match returns what the first form that fits tells of.
func match(forms []form, line string, k kind) (found []mention) {
	for _, f := range forms {
		at := f.re().FindStringSubmatchIndex(line)
		if at == nil {
			continue
		}
		op := f.op
		for i, name := range f.re().SubexpNames() {
			if at[2*i] < 0 {
				continue
			}
			text := line[at[2*i]:at[2*i+1]]
			switch name {
			case "op":
				op = opOf(text)
			case "path", "path2":
				if doubt().MatchString(line[:at[2*i]]) {
					return nil
				}
				found = append(found, mention{path: text, kind: k})
			}
		}
		if len(found) == 2 {
			op = policy.OpRename
		}
		for i := range found {
			found[i].op = op
		}
		return found
	}
	return nil
}

var (
	// ambiguous is what bash prints, or a program that prints the path alone.
	ambiguous = lazily(`^\S+: line \d+: [^:]+$|^/[^:]*$`)
	// executed is what dash prints of what it can't execute.
	executed = lazily(`^\S+: \d+: (?:exec: )?/?[^: ]+$`)
	purpose  = lazily(` (?:for (?:writing|output|reading|appending|update)|failed|via template)$`)
)

// inHead returns the paths in what stands before the words.
func inHead(head string, k kind) (found []mention) {
	op := opOf(head)
	if executed().MatchString(head) {
		op = policy.OpExecute
	}
	add := func(path string) {
		if strings.Contains(head, "leading directories of ") { // git's
			path = filepath.Dir(path)
		}
		found = append(found, mention{path: path, op: op, kind: k, execute: ambiguous().MatchString(head)})
	}
	if doubt().MatchString(quoted().ReplaceAllString(head, "")) {
		return nil
	}
	for _, m := range quoted().FindAllStringSubmatch(head, -1) {
		for _, p := range m[1:] {
			if p != "" {
				add(p)
			}
		}
	}
	if found != nil {
		return found
	}
	part := strings.TrimSuffix(head, ":")
	if i := strings.LastIndex(part, ": "); i >= 0 {
		part = part[i+2:]
	}
	part = strings.TrimSpace(purpose().ReplaceAllString(part, ""))
	switch i := strings.Index(part, " /"); {
	case strings.HasPrefix(part, "/"):
		add(part)
		if i > 0 { // "rename /a /b", or a path with a space
			add(part[i+1:])
		}
	case i >= 0: // "can't create /a"
		add(part[i+1:])
	case part != "":
		add(part[strings.LastIndexByte(part, ' ')+1:])
	}
	return found
}

// opWords say what was done. The first that a text has counts.
var opWords = []struct {
	re func() *regexp.Regexp
	op policy.Op
}{
	{lazily(`^(?:\S*/)?(?:env|xargs|nice|nohup|timeout|stdbuf|setsid|time|sudo|chroot|exec): |\bexec: |run command|\bexecut|\bspawn`), policy.OpExecute},
	{lazily(`\bfor reading\b|cannot (?:access|stat|read)|^scandir|^l?stat`), policy.OpRead},
	{lazily(`\bremov|\bunlink|\brmdir\b|\bdelet|\brm\b`), policy.OpRemove},
	{lazily(`\bmove\b|\brenam|\b(?:sym)?link\b|\bmv\b`), policy.OpRename},
	{lazily(`^(?:\S*/)?(?:cat|tac|head|tail|[ef]?grep|rg|less|more|ls|find|wc|diff|cmp|\w+sum|file|stat|od|xxd|hexdump|cut|nl|du|tree|source): `), policy.OpRead},
	{lazily(`\bdirector(?:y|ies)\b|\bmkd|\bdirs?\b|work tree`), policy.OpMkdir},
	{lazily(`\bcreat|\btouch\b|mktemp|mkstemp|temporary file`), policy.OpCreate},
}

// aPath is a path without quotation marks.
var aPath = lazily(`(?:^|[\s(])/\S*`)

// opOf returns the operation that words are about: writing, unless they say
// otherwise.
func opOf(text string) policy.Op {
	text = aPath().ReplaceAllString(quoted().ReplaceAllString(text, " "), " ")
	for _, w := range opWords {
		if w.re().MatchString(text) {
			return w.op
		}
	}
	return policy.OpWrite
}
