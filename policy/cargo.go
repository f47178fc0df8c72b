package policy

import (
	"io/fs"
	"path/filepath"
	"strings"
)

// cargo points cargo at our folder. Where the worktree is a crate, the user's
// archives are linked, the registries' indexes copied, and the configuration
// and credentials linked, as they lie.
func (c *cache) cargo() {
	theirs := c.env.get("CARGO_HOME")
	c.point("CARGO_HOME", "cargo")
	if theirs == "" && c.home != "" {
		theirs = c.home + "/.cargo"
	}
	if c.env.get("CARGO_HOME") != c.dir+"/cargo" || theirs == "" || theirs[0] != '/' {
		return
	}
	theirs = filepath.Clean(theirs)
	c.extendPath(theirs+"/bin", c.dir+"/cargo/bin")
	if !c.has("Cargo.toml") {
		return
	}
	c.reads = append(c.reads, theirs)
	c.seed("cargo", cargoStamp(theirs), func(s *seeding) error {
		if err := s.tree(theirs, "cargo", chooseCargo); err != nil {
			return err
		}
		for _, name := range listDir(theirs + "/git/db") {
			if err := s.alternates(theirs, "git/db/"+name); err != nil {
				return err
			}
		}
		for _, name := range listDir(theirs + "/registry/index") {
			if err := s.alternates(theirs, "registry/index/"+name+"/.git"); err != nil {
				return err
			}
		}
		return s.tree(theirs+"/git/checkouts", "cargo/git/checkouts", linkAtDepth(2))
	})
}

// alternates lends the objects of a repository in the user's folder to ours:
// cargo's git library doesn't follow symbolic links to objects.
func (s *seeding) alternates(theirs, repo string) error {
	objects := theirs + "/" + repo + "/objects"
	if !isFolder(objects) {
		return nil
	}
	ours := "cargo/" + repo + "/objects/"
	// Without the second, that library makes its temporary files in "/".
	for _, dir := range [...]string{"info", "pack"} {
		if err := s.root.MkdirAll(ours+dir, 0o777); err != nil {
			return s.leave(err)
		}
	}
	if _, err := s.root.Lstat(ours + "info/alternates"); err == nil {
		return nil
	}
	if err := s.put(ours+"info/alternates", []byte(objects+"\n")); err != nil {
		return s.leave(err)
	}
	return nil
}

// cargoStamp looks at the folders to which cargo adds.
func cargoStamp(theirs string) string {
	dirs := []string{theirs, theirs + "/git/db"}
	for _, sub := range [...]string{"/registry/cache", "/registry/index"} {
		dirs = append(dirs, theirs+sub)
		for _, name := range listDir(theirs + sub) {
			dirs = append(dirs, theirs+sub+"/"+name)
			if sub == "/registry/index" {
				dirs = append(dirs, theirs+sub+"/"+name+"/.cache")
			}
		}
	}
	return stamp(dirs...)
}

// chooseCargo knows cargo's layout. What it unpacks is left out: it unpacks
// again.
func chooseCargo(rel string, e fs.DirEntry) action {
	first, rest, below := strings.Cut(rel, "/")
	switch first {
	case "config.toml", "config", "credentials.toml", "credentials":
		return link
	case "registry", "git":
	default:
		return skip
	}
	if !below {
		return enter
	}
	second, _, _ := strings.Cut(rest, "/")
	if second != "cache" && second != "index" && second != "db" {
		return skip
	}
	switch {
	case e.IsDir() && e.Name() == "objects" && (second == "db" || strings.HasSuffix(rel, "/.git/objects")):
		return skip
	case e.IsDir():
		return enter
	case !e.Type().IsRegular() || strings.HasSuffix(rel, ".lock"):
		return skip
	case strings.HasSuffix(rel, ".crate"):
		return link // never changed
	}
	return copied
}
