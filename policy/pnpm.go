package policy

import "io/fs"

// pnpm points pnpm's store at our folder, where the worktree is a project of
// pnpm's: for npm the variable would be an unknown one, of which it warns.
//
// The files of the store are links to the user's, so pnpm has to copy them
// into a project: a hard link to a link would lead out of the project. That
// also keeps a command that edits a file in node_modules from changing it for
// every other project.
func (c *cache) pnpm() {
	if !c.has("pnpm-lock.yaml") {
		return
	}
	const name = "npm_config_store_dir"
	theirs := c.env.get(name)
	if theirs != "" && c.writable(theirs) {
		return
	}
	if theirs == "" {
		theirs = c.pnpmStore()
	}
	// The second spelling is that of pnpm 11.
	for _, prefix := range [...]string{"npm_config_", "pnpm_config_"} {
		c.env.set(prefix+"store_dir", c.dir+"/pnpm")
		c.env.set(prefix+"package_import_method", "copy")
	}
	if theirs == "" || theirs[0] != '/' {
		return
	}
	metadata := c.base + "/pnpm"
	c.reads = append(c.reads, theirs, metadata)
	dirs := []string{metadata}
	for _, version := range listDir(theirs) {
		for _, sub := range [...]string{"", "/files", "/index", "/projects"} {
			dirs = append(dirs, theirs+"/"+version+sub)
		}
	}
	for _, kind := range listDir(metadata) {
		dirs = append(dirs, metadata+"/"+kind)
		for _, registry := range listDir(metadata + "/" + kind) {
			dirs = append(dirs, metadata+"/"+kind+"/"+registry)
		}
	}
	c.seed("pnpm", stamp(dirs...), func(s *seeding) error {
		for _, version := range listDir(theirs) {
			from, to := theirs+"/"+version, "pnpm/"+version
			if err := s.tree(from+"/files", to+"/files", allFiles(link)); err != nil {
				return err
			}
			err := s.tree(from, to, func(rel string, e fs.DirEntry) action {
				switch rel {
				case "files", "projects", "tmp":
					return skip
				}
				return allFiles(copied)(rel, e)
			})
			if err != nil {
				return err
			}
		}
		return s.tree(metadata, "xdg/pnpm", allFiles(link))
	})
}

// pnpmStore returns where pnpm keeps its store by default.
func (c *cache) pnpmStore() string {
	if home := c.env.get("PNPM_HOME"); home != "" {
		return home + "/store"
	}
	if data := c.env.get("XDG_DATA_HOME"); data != "" {
		return data + "/pnpm/store"
	}
	if c.home != "" {
		return c.home + "/.local/share/pnpm/store"
	}
	return ""
}
