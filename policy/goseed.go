package policy

import (
	"io/fs"
	"path"
	"strings"
)

// seedGo gives the go command what it does not ask a proxy for: the answers of
// the checksum database that the user's module cache holds, with the state in
// gopath that they belong to, and the modules that the user has declared
// private, which go straight to their origin.
func (c *cache) seedGo(e *goEnv, gopath, download string) {
	private := e.get("GONOPROXY")
	if private == "" {
		private = e.get("GOPRIVATE")
	}
	now := stamp(gopath+"/pkg/sumdb/sum.golang.org/latest", download, download+"/github.com", download+"/golang.org/x")
	if private != "" {
		now += private
	}
	c.seed("go", now, func(s *seeding) error {
		const ours = "go/pkg/mod/cache/download"
		err := s.tree(download+"/sumdb", ours+"/sumdb", allFiles(link))
		if err == nil {
			err = s.tree(gopath+"/pkg/sumdb", "go/pkg/sumdb", allFiles(copied))
		}
		if err != nil || private == "" || private == "none" {
			return err
		}
		patterns := strings.Split(private, ",")
		return s.tree(download, ours, func(rel string, e fs.DirEntry) action {
			return choosePrivate(rel, e, patterns)
		})
	})
}

// choosePrivate picks the modules that match one of the patterns. Above a
// module's @v folder every folder is entered: whether it matches is known only
// there.
func choosePrivate(rel string, e fs.DirEntry, patterns []string) action {
	module, name, inside := strings.Cut(rel, "/@v/")
	switch {
	case rel == "sumdb":
		return skip
	case !inside && e.IsDir():
		if module, ok := strings.CutSuffix(rel, "/@v"); ok && !matchModule(patterns, unescapeModule(module)) {
			return skip
		}
		return enter
	case !inside || !e.Type().IsRegular() || !matchModule(patterns, unescapeModule(module)):
		return skip
	case name == "list":
		return merged
	case strings.HasSuffix(name, ".info"), strings.HasSuffix(name, ".mod"),
		strings.HasSuffix(name, ".zip"), strings.HasSuffix(name, ".ziphash"):
		return link
	}
	return skip
}

// unescapeModule undoes the form that module paths have in file names: "!x"
// for "X".
func unescapeModule(name string) string {
	if !strings.Contains(name, "!") {
		return name
	}
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		if name[i] == '!' && i+1 < len(name) {
			i++
			b.WriteByte(name[i] - 'a' + 'A')
			continue
		}
		b.WriteByte(name[i])
	}
	return b.String()
}

// matchModule reports whether a pattern matches the start of a module's path,
// as the go command reads GOPRIVATE: each pattern as many elements as it has.
func matchModule(patterns []string, module string) bool {
	for _, pattern := range patterns {
		pattern = strings.TrimSuffix(strings.TrimSpace(pattern), "/")
		if pattern == "" {
			continue
		}
		elements := strings.Count(pattern, "/") + 1
		end := 0
		for ; elements > 0; elements-- {
			next := strings.IndexByte(module[end:], '/')
			if next < 0 {
				end = len(module) + 1
				elements--
				break
			}
			end += next + 1
		}
		if elements > 0 {
			continue
		}
		if ok, err := path.Match(pattern, module[:end-1]); ok && err == nil {
			return true
		}
	}
	return false
}
