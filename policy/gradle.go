package policy

import (
	"io/fs"
	"path/filepath"
	"strings"
)

// gradle points Gradle at our folder. The modules that the user has are a
// read-only cache to it (from Gradle 6.1 on); where the worktree is a project
// of Gradle's, its distributions, settings and toolchains are linked.
func (c *cache) gradle() {
	theirs := c.env.get("GRADLE_USER_HOME")
	c.point("GRADLE_USER_HOME", "gradle")
	if c.env.get("GRADLE_USER_HOME") != c.dir+"/gradle" {
		return
	}
	if theirs == "" && c.home != "" {
		theirs = c.home + "/.gradle"
	}
	if theirs == "" || theirs[0] != '/' {
		return
	}
	theirs = filepath.Clean(theirs)
	if !isFolder(theirs) {
		return
	}
	if !c.env.has("GRADLE_RO_DEP_CACHE") && isFolder(theirs+"/caches/modules-2") {
		c.use("GRADLE_RO_DEP_CACHE", theirs+"/caches")
	}
	if !c.has("gradlew") && !c.has("settings.gradle") && !c.has("settings.gradle.kts") && !c.has("build.gradle") {
		return
	}
	c.reads = append(c.reads, theirs)
	c.seed("gradle", stamp(theirs, theirs+"/wrapper/dists", theirs+"/jdks"), func(s *seeding) error {
		return s.tree(theirs, "gradle", chooseGradle)
	})
}

// chooseGradle knows the layout of Gradle's home. A distribution is a link in
// a real folder, since the wrapper makes its lock file beside it.
func chooseGradle(rel string, e fs.DirEntry) action {
	first, rest, _ := strings.Cut(rel, "/")
	depth := strings.Count(rel, "/")
	switch first {
	case "gradle.properties", "init.gradle", "init.gradle.kts", "init.d":
		return link
	case "jdks":
		if depth == 0 {
			return enter
		}
		return link
	case "wrapper":
		switch {
		case depth < 4 && e.IsDir() && (rest == "" || rest == "dists" || strings.HasPrefix(rest, "dists/")):
			// wrapper, dists, NAME, HASH
			return enter
		case depth == 4 && !strings.HasSuffix(rel, ".lck") && !strings.HasSuffix(rel, ".part"):
			return link
		}
	}
	return skip
}
