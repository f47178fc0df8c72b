package policy

import (
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// EachGitSetting calls f for each setting in the text of a file of git's
// configuration, in order. The key is in lower case, with the quoted part of a
// section left out: both include.path and include"if.path" … are told apart by
// the quote that stays, as in includeif".path. A setting without "=" has the
// value "true". The error says that git itself would refuse the file; settings
// before that place have been seen.
func EachGitSetting(text []byte, f func(key, value string)) error {
	s := configScanner{text: text}
	if len(text) >= 3 && string(text[:3]) == "\ufeff" {
		s.pos = 3
	}
	for {
		key, value, bare, err := s.next()
		if err != nil || key == "" {
			return err
		}
		if bare {
			value = "true"
		}
		f(key, value)
	}
}

// includeLimit bounds the files of configuration that are read because another
// one includes them.
const includeLimit = 32

// configured lists what git's configuration names: folders of hooks, and files
// that are included.
func (p *protector) configured() {
	repo := p.r.Repo
	if p.caller.get("GIT_CONFIG_NOSYSTEM") == "" {
		system := p.caller.get("GIT_CONFIG_SYSTEM")
		if system == "" {
			system = "/etc/gitconfig"
		}
		p.settings(system, repo.WorkTree)
	}
	if global, ok := p.caller.lookup("GIT_CONFIG_GLOBAL"); ok {
		p.settings(global, repo.WorkTree)
	} else {
		dir := p.caller.get("XDG_CONFIG_HOME")
		if dir == "" && p.home != "" {
			dir = p.home + "/.config"
		}
		if dir != "" {
			p.settings(dir+"/git/config", repo.WorkTree)
		}
		if p.home != "" {
			p.settings(p.home+"/.gitconfig", repo.WorkTree)
		}
	}
	p.settings(repo.CommonDir+"/config", repo.WorkTree)
	if p.ownConfig {
		p.settings(repo.GitDir+"/config.worktree", repo.WorkTree)
	}
	p.environment()
}

// lookup returns the value of name and whether it is set.
func (env callerEnv) lookup(name string) (string, bool) {
	for i := len(env) - 1; i >= 0; i-- {
		if value, ok := strings.CutPrefix(env[i], name); ok && value != "" && value[0] == '=' {
			return value[1:], true
		}
	}
	return "", false
}

// environment looks at the settings in the environment, as CI systems make
// them.
func (p *protector) environment() {
	n, err := strconv.Atoi(p.caller.get("GIT_CONFIG_COUNT"))
	if err != nil {
		return
	}
	for i := range min(n, 1<<10) {
		at := strconv.Itoa(i)
		if lower(p.caller.get("GIT_CONFIG_KEY_"+at)) == keyHooksPath {
			p.hooksPath(p.caller.get("GIT_CONFIG_VALUE_"+at), p.r.Repo.WorkTree)
		}
	}
}

// Settings that name files.
const (
	keyHooksPath = "core.hookspath"
	keyInclude   = "include.path"
	keyIncludeIf = `includeif".path`
)

// settings looks at one file of configuration, which may not be there. Paths of
// hooks are relative to top. Conditions of includes are taken to hold: some
// depend on what the command can change.
func (p *protector) settings(file, top string) {
	text, err := readFollow(file, configLimit)
	if err != nil || !hasFold(text, "hookspath") && !hasFold(text, "[include") {
		return
	}
	// What git can't read it doesn't follow.
	_ = EachGitSetting(text, func(key, value string) {
		switch key {
		case keyHooksPath:
			p.hooksPath(value, top)
		case keyInclude, keyIncludeIf:
			path := p.expand(value)
			if path == "" || p.included == includeLimit {
				return
			}
			p.included++
			if path[0] != '/' {
				path = join(parentDir(file), path)
			}
			p.named(path, "a file that git's configuration includes")
			p.settings(path, top)
		}
	})
}

// hooksPath protects a folder that is configured for hooks.
func (p *protector) hooksPath(value, top string) {
	path := p.expand(value)
	if path == "" || top == "" && path[0] != '/' {
		return
	}
	if path[0] != '/' {
		path = join(top, path)
	}
	if real := p.named(path, whyHooks); baseName(real) == "_" && p.isTracked(parentDir(real)) {
		// husky: what git runs there runs the file of the same name above.
		p.compare(parentDir(real), whyHooks)
	}
}

// expand returns a path in a setting as git reads it, "" if it is none.
func (p *protector) expand(value string) string {
	value = strings.TrimPrefix(value, ":(optional)")
	if value == "" || value[0] != '~' {
		return value
	}
	name, rest, _ := strings.Cut(value[1:], "/")
	home := p.home
	if name != "" {
		home = homeOf(name)
	}
	if home == "" {
		return ""
	}
	return home + "/" + rest
}

// homeOf returns the home directory of a user by name, "" if unknown.
func homeOf(name string) string {
	text, err := readFollow("/etc/passwd", configLimit)
	if err != nil {
		return ""
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		if fields := strings.Split(line, ":"); len(fields) >= 7 && fields[0] == name {
			return fields[5]
		}
	}
	return ""
}

// linkHops bounds the symbolic links on the way to a path, as the kernel does.
const linkHops = 40

// named protects a path that git's configuration names, and every symbolic
// link on the way to it. It returns where path leads, "" if nowhere.
func (p *protector) named(path, why string) string {
	done, rest := "/", path
	for hops := 0; rest != ""; {
		name, more, _ := strings.Cut(rest, "/")
		switch name {
		case "", ".":
			rest = more
			continue
		case "..":
			done, rest = parentDir(done), more
			continue
		}
		next := join(done, name)
		switch mode(next) {
		case 0:
			if missing := filepath.Clean(join(done, rest)); p.writable(missing) {
				p.add(missing, Unborn, why)
			}
			return ""
		case syscall.S_IFLNK:
			var buf [4096]byte
			n, err := syscall.Readlink(next, buf[:])
			if hops++; err != nil || n == 0 || hops > linkHops {
				return ""
			}
			p.compare(next, why)
			rest = string(buf[:n]) + "/" + more
			if rest[0] == '/' {
				done = "/"
			}
		default:
			done, rest = next, more
		}
	}
	p.target(done, why)
	return done
}

// target protects the real path that a setting leads to.
func (p *protector) target(real, why string) {
	repo := p.r.Repo
	switch {
	case !p.writable(real):
	case beneath(repo.WorkTree, real) || beneath(repo.CommonDir, real) || beneath(repo.GitDir, real) || beneath(p.r.Worktree, real):
		p.note("git-partial", display(real)+" is configured as "+why+", and too much else is in it to protect it", "")
	case p.isTracked(real):
		// git itself replaces it: switch, stash, rebase.
		p.compare(real, why)
	default:
		p.freeze(real, why)
	}
}

// isTracked reports whether the repository tracks a path, or whether that
// can't be known.
func (p *protector) isTracked(path string) bool {
	repo := p.r.Repo
	if repo.WorkTree == "" || !beneath(path, repo.WorkTree) || path == repo.WorkTree || beneath(path, repo.GitDir) {
		return false
	}
	found, err := repo.Index().Tracked(strings.TrimPrefix(path[len(repo.WorkTree):], "/"))
	return found || err != nil
}

// hasFold reports whether text contains word, which is in lower case.
func hasFold(text []byte, word string) bool {
	for i := 0; i+len(word) <= len(text); i++ {
		if text[i]|0x20 == word[0]|0x20 && equalFold(text[i:i+len(word)], word) {
			return true
		}
	}
	return false
}

func equalFold(text []byte, word string) bool {
	for i, c := range text {
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != word[i] {
			return false
		}
	}
	return true
}
