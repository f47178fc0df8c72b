package policy

import (
	"io/fs"
	"strings"
)

// maven points Maven at a local repository in our folder, where the worktree
// is a project of Maven's. Artifacts never change and are linked; what Maven
// writes beside them is copied. (Maven's own maven.repo.local.tail would do
// without, but only from 3.9.1 on.)
func (c *cache) maven() {
	if !c.has("pom.xml") || c.home == "" {
		return
	}
	const option = "-Dmaven.repo.local="
	options := c.env.get("MAVEN_OPTS")
	if strings.Contains(options, option) || strings.ContainsAny(c.dir, " \t\n\"'\\$`*?[") {
		// The script that starts Maven splits the variable at blanks, so
		// that some paths have no spelling in it.
		return
	}
	if options != "" {
		options += " "
	}
	c.env.set("MAVEN_OPTS", options+option+c.dir+"/m2")
	theirs := c.mavenRepository()
	c.reads = append(c.reads, c.home+"/.m2")
	dirs := []string{theirs}
	for _, name := range listDir(theirs) {
		dirs = append(dirs, theirs+"/"+name)
	}
	c.seed("maven", stamp(dirs...), func(s *seeding) error {
		return s.tree(theirs, "m2", func(rel string, e fs.DirEntry) action {
			switch {
			case e.IsDir():
				return enter
			case !e.Type().IsRegular(), strings.HasSuffix(rel, ".lock"), strings.HasSuffix(rel, ".part"):
				return skip
			case strings.Contains(rel, "maven-metadata") || strings.Contains(rel, "_remote.repositories") ||
				strings.HasSuffix(rel, ".properties") || strings.HasSuffix(rel, ".lastUpdated"):
				return copied
			}
			return link
		})
	})
}

// mavenRepository returns the user's local repository: what settings.xml says,
// or the default.
func (c *cache) mavenRepository() string {
	if text, err := readFollow(c.home+"/.m2/settings.xml", configLimit); err == nil {
		_, rest, found := strings.Cut(string(text), "<localRepository>")
		path, _, closed := strings.Cut(rest, "</localRepository>")
		if path = strings.ReplaceAll(strings.TrimSpace(path), "${user.home}", c.home); found && closed && strings.HasPrefix(path, "/") {
			return path
		}
	}
	return c.home + "/.m2/repository"
}
