package policy

import (
	"strconv"
	"strings"
)

// localGitEnv names the variables that tie a process to one repository: what
// git rev-parse --local-env-vars prints, over git's versions, without the
// GIT_CONFIG_* family, which carries the credentials of CI systems.
//
// git sets them for its hooks and aliases, and they beat the working
// directory: a command that inherits them works in another repository than the
// one it stands in.
var localGitEnv = [...]string{
	"GIT_ALTERNATE_OBJECT_DIRECTORIES",
	"GIT_COMMON_DIR",
	"GIT_CONFIG",
	"GIT_DIR",
	"GIT_GRAFT_FILE",
	"GIT_IMPLICIT_WORK_TREE",
	"GIT_INDEX_FILE",
	"GIT_INTERNAL_SUPER_PREFIX",
	"GIT_NO_REPLACE_OBJECTS",
	"GIT_OBJECT_DIRECTORY",
	"GIT_PREFIX",
	"GIT_REFERENCE_BACKEND",
	"GIT_REPLACE_REF_BASE",
	"GIT_SHALLOW_FILE",
	"GIT_WORK_TREE",
}

// callerEnv is the caller's environment as it came.
type callerEnv []string

// get returns the value of name, "" if it isn't set. The last entry counts.
func (env callerEnv) get(name string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if entry := env[i]; len(entry) > len(name) && entry[len(name)] == '=' && entry[:len(name)] == name {
			return entry[len(name)+1:]
		}
	}
	return ""
}

// environ is an environment under change: a list in the caller's order, and
// where each name is in it.
type environ struct {
	list []string
	at   map[string]int
}

// newEnviron copies env. The last entry of a name counts; entries that are no
// NAME=VALUE stay as they are.
func newEnviron(env []string) *environ {
	e := &environ{list: make([]string, 0, len(env)+32), at: make(map[string]int, len(env)+32)}
	for _, entry := range env {
		if i := strings.IndexByte(entry, '='); i > 0 {
			e.put(entry[:i], entry)
		} else if entry != "" {
			e.list = append(e.list, entry)
		}
	}
	return e
}

// get returns the value of name, "" if it isn't set.
func (e *environ) get(name string) string {
	if i, ok := e.at[name]; ok {
		return e.list[i][len(name)+1:]
	}
	return ""
}

// has reports whether name is set, to whatever value.
func (e *environ) has(name string) bool {
	_, ok := e.at[name]
	return ok
}

func (e *environ) set(name, value string) {
	e.put(name, name+"="+value)
}

func (e *environ) put(name, entry string) {
	if i, ok := e.at[name]; ok {
		e.list[i] = entry
		return
	}
	e.at[name] = len(e.list)
	e.list = append(e.list, entry)
}

func (e *environ) unset(name string) {
	if i, ok := e.at[name]; ok {
		e.list[i] = ""
		delete(e.at, name)
	}
}

// entries returns what is left, in order.
func (e *environ) entries() []string {
	out := e.list[:0]
	for _, entry := range e.list {
		if entry != "" {
			out = append(out, entry)
		}
	}
	return out
}

// commandEnv starts the environment of the command: what the policy keeps of
// the caller's.
func (p *Policy) commandEnv(caller []string) *environ {
	if p.Env.Clear {
		return newEnviron(nil)
	}
	e := newEnviron(caller)
	for _, name := range p.Env.Unset {
		e.unset(name)
	}
	if !p.Env.KeepGit {
		for _, name := range localGitEnv {
			e.unset(name)
		}
	}
	return e
}

// setUser applies what the policy sets: the last word.
func (p *Policy) setUser(e *environ) {
	for _, entry := range p.Env.Set {
		if i := strings.IndexByte(entry, '='); i > 0 {
			e.put(entry[:i], entry)
		}
	}
}

// addGitConfig appends settings to those that git reads from GIT_CONFIG_COUNT,
// so that CI credentials given the same way stay. It reports false, and leaves
// all alone, if the count that is there makes no sense.
func addGitConfig(e *environ, settings [][2]string) bool {
	count := 0
	if text := e.get("GIT_CONFIG_COUNT"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > 1<<20 {
			return false
		}
		count = n
	}
	for i, setting := range settings {
		n := strconv.Itoa(count + i)
		e.set("GIT_CONFIG_KEY_"+n, setting[0])
		e.set("GIT_CONFIG_VALUE_"+n, setting[1])
	}
	e.set("GIT_CONFIG_COUNT", strconv.Itoa(count+len(settings)))
	return true
}
