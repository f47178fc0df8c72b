package policy

import "io/fs"

// python brings what Python's tools keep in the user's cache directory although
// it is more than a cache: the environments of Poetry, and pre-commit's record
// of the hooks that it has installed. (What pip and uv hold is downloaded
// again: neither can be filled from outside.)
func (c *cache) python() {
	if c.env.get("XDG_CACHE_HOME") != c.dir+"/xdg" {
		return
	}
	if c.has("poetry.lock") {
		envs := c.base + "/pypoetry/virtualenvs"
		c.seed("poetry", stamp(envs), func(s *seeding) error {
			return s.tree(envs, "xdg/pypoetry/virtualenvs", linkAtDepth(1))
		})
	}
	if c.has(".pre-commit-config.yaml") && !c.env.has("PRE_COMMIT_HOME") {
		hooks := c.base + "/pre-commit"
		c.reads = append(c.reads, hooks)
		// The record names the hooks by their absolute paths, which stay where
		// they are.
		c.seed("pre-commit", stamp(hooks), func(s *seeding) error {
			return s.tree(hooks, "xdg/pre-commit", func(rel string, e fs.DirEntry) action {
				if rel == "db.db" && e.Type().IsRegular() {
					return copied
				}
				return skip
			})
		})
	}
}
