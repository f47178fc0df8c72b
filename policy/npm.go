package policy

import (
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
)

// node points npm, pnpm and Yarn at our folder, and fills it from the user's
// where the worktree is a package.
func (c *cache) node() {
	// npm reads the variable in any case, the last one counting.
	theirs := ""
	for _, name := range [...]string{"npm_config_cache", "NPM_CONFIG_CACHE"} {
		if value := c.env.get(name); value != "" {
			theirs = value
		}
	}
	npm := theirs == "" || !c.writable(theirs)
	if npm {
		c.env.unset("NPM_CONFIG_CACHE")
		c.env.set("npm_config_cache", c.dir+"/npm")
	}
	if !c.has("package.json") {
		return
	}
	c.yarn()
	c.pnpm()
	if npm {
		if theirs == "" {
			theirs = c.npmrcCache()
		}
		c.seedNpm(theirs)
	}
	c.seed("node", stamp(c.base+"/node/corepack/v1", c.base+"/node-gyp"), func(s *seeding) error {
		// Corepack: v1/TOOL/VERSION; node-gyp: VERSION.
		if err := s.tree(c.base+"/node/corepack", "xdg/node/corepack", linkAtDepth(3)); err != nil {
			return err
		}
		return s.tree(c.base+"/node-gyp", "xdg/node-gyp", linkAtDepth(1))
	})
}

// linkAtDepth links what lies so many levels down, folders too.
func linkAtDepth(depth int) func(string, fs.DirEntry) action {
	return func(rel string, e fs.DirEntry) action {
		switch level := strings.Count(rel, "/") + 1; {
		case level == depth:
			return link
		case e.IsDir():
			return enter
		}
		return copied
	}
}

// npmrcCache returns the user's npm cache: what ~/.npmrc says, or ~/.npm.
func (c *cache) npmrcCache() string {
	if c.home == "" {
		return ""
	}
	if text, err := readFollow(c.home+"/.npmrc", configLimit); err == nil {
		for line := range strings.SplitSeq(string(text), "\n") {
			key, value, _ := strings.Cut(line, "=")
			if strings.TrimSpace(key) != "cache" {
				continue
			}
			value = strings.Trim(strings.TrimSpace(value), `"'`)
			value = strings.ReplaceAll(value, "${HOME}", c.home)
			if rest, ok := strings.CutPrefix(value, "~/"); ok {
				value = c.home + "/" + rest
			}
			return value
		}
	}
	return c.home + "/.npm"
}

// seedNpm fills npm's content-addressed cache: the content by links, since it
// never changes, the index by copies, since npm appends to it. npm passes
// through _cacache/tmp for everything that it adds.
func (c *cache) seedNpm(theirs string) {
	if theirs == "" || theirs[0] != '/' {
		return
	}
	cacache := filepath.Clean(theirs) + "/_cacache"
	c.reads = append(c.reads, cacache)
	now := stamp(cacache + "/tmp")
	if now == "" {
		now = stamp(cacache + "/index-v5")
	}
	c.seed("npm", now, func(s *seeding) error {
		if err := s.tree(cacache+"/content-v2", "npm/_cacache/content-v2", allFiles(link)); err != nil {
			return err
		}
		return s.tree(cacache+"/index-v5", "npm/_cacache/index-v5", allFiles(merged))
	})
}

// yarn: the classic one keeps a folder for each package; the modern one keeps
// an archive for each in a global folder, unless the project keeps them itself,
// and is told apart by its file.
func (c *cache) yarn() {
	locked := c.has("yarn.lock")
	if locked && c.has(".yarnrc.yml") {
		if c.home == "" || c.env.get("YARN_GLOBAL_FOLDER") != c.dir+"/yarn-berry" {
			return
		}
		theirs := c.home + "/.yarn/berry"
		c.reads = append(c.reads, theirs)
		c.seed("yarn-berry", stamp(theirs+"/cache", theirs+"/index"), func(s *seeding) error {
			return s.tree(theirs+"/cache", "yarn-berry/cache", linkAtDepth(1))
		})
		return
	}
	theirs := c.env.get("YARN_CACHE_FOLDER")
	c.point("YARN_CACHE_FOLDER", "yarn")
	if theirs == "" {
		theirs = c.base + "/yarn"
		if syscall.Geteuid() == 0 && c.caller.get("XDG_CACHE_HOME") == "" {
			// The classic Yarn's idea of root's home.
			theirs = "/usr/local/share/.cache/yarn"
		}
	}
	if c.env.get("YARN_CACHE_FOLDER") != c.dir+"/yarn" || !locked {
		return
	}
	c.reads = append(c.reads, theirs)
	c.seed("yarn", stamp(theirs+"/v6"), func(s *seeding) error {
		return s.tree(theirs, "yarn", func(rel string, _ fs.DirEntry) action {
			switch {
			case !strings.Contains(rel, "/") && rel != "v6":
				return skip
			case rel == "v6":
				return enter
			case strings.HasPrefix(rel, "v6/.tmp"):
				return skip
			}
			return link
		})
	})
}
