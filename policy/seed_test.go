package policy

import (
	"os"
	"strings"
	"testing"
)

// TestSeedLayouts fills our folder from the folders of tools that not every
// machine has. Each file of theirs ends up as a link, a copy, or not at all.
func TestSeedLayouts(t *testing.T) {
	const (
		linked = "link"
		plain  = "copy"
		absent = ""
	)
	tests := []struct {
		name    string
		project string            // files in the worktree
		env     map[string]string // DIR is our folder, HOME the home directory
		files   map[string]string // in the home directory
		ours    map[string]string // in our folder
	}{
		{
			"Maven", "pom.xml",
			map[string]string{"MAVEN_OPTS": "-Xmx1g -Dmaven.repo.local=DIR/m2"},
			map[string]string{
				".m2/repository/g/a/1/a-1.jar": "jar", ".m2/repository/g/a/1/_remote.repositories": "r",
				".m2/repository/g/a/maven-metadata-central.xml": "m", ".m2/repository/g/a/1/a-1.jar.part": "",
			},
			map[string]string{
				"m2/g/a/1/a-1.jar": linked, "m2/g/a/1/_remote.repositories": plain,
				"m2/g/a/maven-metadata-central.xml": plain, "m2/g/a/1/a-1.jar.part": absent,
			},
		},
		{
			"Maven with a repository of its own", "pom.xml",
			map[string]string{},
			map[string]string{
				".m2/settings.xml":   "<settings><localRepository> ${user.home}/repo </localRepository></settings>",
				"repo/g/a/1/a-1.jar": "jar",
			},
			map[string]string{"m2/g/a/1/a-1.jar": linked},
		},
		{
			"Yarn", "package.json yarn.lock",
			map[string]string{"YARN_CACHE_FOLDER": "DIR/yarn"},
			map[string]string{
				".cache/yarn/v6/npm-a-1/node_modules/a/index.js": "a", ".cache/yarn/v6/.tmp/x": "x", ".cache/yarn/v4/old": "x",
			},
			map[string]string{"yarn/v6/npm-a-1": linked, "yarn/v6/.tmp": absent, "yarn/v4": absent},
		},
		{
			"modern Yarn", "package.json yarn.lock .yarnrc.yml",
			map[string]string{"YARN_CACHE_FOLDER": "", "YARN_GLOBAL_FOLDER": "DIR/yarn-berry"},
			map[string]string{".yarn/berry/cache/a.zip": "a"},
			map[string]string{"yarn-berry/cache/a.zip": linked},
		},
		{
			"pnpm", "package.json pnpm-lock.yaml",
			map[string]string{
				"npm_config_store_dir": "DIR/pnpm", "npm_config_package_import_method": "copy",
				"pnpm_config_store_dir": "DIR/pnpm", "pnpm_config_package_import_method": "copy",
			},
			map[string]string{
				".local/share/pnpm/store/v10/files/aa/bb": "b", ".local/share/pnpm/store/v10/index/aa/b.json": "{}",
				".local/share/pnpm/store/v10/projects/p": "p", ".cache/pnpm/metadata/r/a.json": "{}",
			},
			map[string]string{
				"pnpm/v10/files/aa/bb": linked, "pnpm/v10/index/aa/b.json": plain, "pnpm/v10/projects": absent,
				"xdg/pnpm/metadata/r/a.json": linked,
			},
		},
		{
			"npm alone", "package.json",
			map[string]string{"npm_config_store_dir": "", "npm_config_cache": "DIR/npm"},
			map[string]string{
				".npmrc": "x=y\ncache = ~/other\n", "other/_cacache/content-v2/a": "a", "other/_cacache/index-v5/b": "b",
				".cache/node/corepack/v1/yarn/4.0.0/yarn.js": "y", ".cache/node/corepack/lastKnownGood.json": "{}",
				".cache/node-gyp/20.0.0/include/node.h": "h",
			},
			map[string]string{
				"npm/_cacache/content-v2/a": linked, "npm/_cacache/index-v5/b": plain,
				"xdg/node/corepack/v1/yarn/4.0.0": linked, "xdg/node/corepack/lastKnownGood.json": plain,
				"xdg/node-gyp/20.0.0": linked,
			},
		},
		{
			"Gradle", "settings.gradle",
			map[string]string{"GRADLE_USER_HOME": "DIR/gradle", "GRADLE_RO_DEP_CACHE": "HOME/.gradle/caches"},
			map[string]string{
				".gradle/caches/modules-2/files-2.1/a": "a", ".gradle/gradle.properties": "p", ".gradle/init.d/x.gradle": "x",
				".gradle/jdks/jdk-17/release": "r", ".gradle/daemon/8/log": "l",
				".gradle/wrapper/dists/gradle-8-bin/abc/gradle-8/bin/gradle": "g", ".gradle/wrapper/dists/gradle-8-bin/abc/gradle-8-bin.zip.lck": "",
				".gradle/wrapper/dists/gradle-8-bin/abc/gradle-8-bin.zip.ok": "",
			},
			map[string]string{
				"gradle/caches": absent, "gradle/gradle.properties": linked, "gradle/init.d": linked, "gradle/jdks/jdk-17": linked,
				"gradle/daemon": absent, "gradle/wrapper/dists/gradle-8-bin/abc/gradle-8": linked,
				"gradle/wrapper/dists/gradle-8-bin/abc/gradle-8-bin.zip.ok": linked, "gradle/wrapper/dists/gradle-8-bin/abc/gradle-8-bin.zip.lck": absent,
			},
		},
		{
			"Poetry", "poetry.lock",
			map[string]string{},
			map[string]string{".cache/pypoetry/virtualenvs/x-py3/bin/python": "p"},
			map[string]string{"xdg/pypoetry/virtualenvs/x-py3": linked},
		},
		{
			"pre-commit", ".pre-commit-config.yaml",
			map[string]string{},
			map[string]string{".cache/pre-commit/db.db": "d", ".cache/pre-commit/repo1/x": "x"},
			map[string]string{"xdg/pre-commit/db.db": plain, "xdg/pre-commit/repo1": absent},
		},
		{
			"cargo", "Cargo.toml",
			map[string]string{"CARGO_HOME": "DIR/cargo"},
			map[string]string{
				".cargo/config.toml": "c", ".cargo/credentials.toml": "s", ".cargo/bin/cargo-x": "x", ".cargo/.package-cache": "",
				".cargo/registry/cache/r/a-1.crate": "a", ".cargo/registry/src/r/a-1/lib.rs": "l",
				".cargo/registry/index/r/.cache/a": "a", ".cargo/registry/index/r/.git/HEAD": "h", ".cargo/registry/index/r/.git/objects/pack/p": "p",
				".cargo/git/db/d/HEAD": "h", ".cargo/git/db/d/objects/aa/bb": "b", ".cargo/git/checkouts/d/1234/lib.rs": "l",
			},
			map[string]string{
				"cargo/config.toml": linked, "cargo/credentials.toml": linked, "cargo/bin": absent, "cargo/.package-cache": absent,
				"cargo/registry/cache/r/a-1.crate": linked, "cargo/registry/src": absent,
				"cargo/registry/index/r/.cache/a": plain, "cargo/registry/index/r/.git/HEAD": plain,
				"cargo/registry/index/r/.git/objects/info/alternates": plain, "cargo/registry/index/r/.git/objects/pack/p": absent,
				"cargo/git/db/d/HEAD": plain, "cargo/git/db/d/objects/info/alternates": plain, "cargo/git/db/d/objects/aa": absent,
				"cargo/git/checkouts/d/1234": linked,
			},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			root, home := testDir(t), outsideTmp(t)
			mkdir(t, root+"/wt")
			for name := range strings.FieldsSeq(test.project) {
				write(t, root+"/wt/"+name, "")
			}
			for name, text := range test.files {
				mkdir(t, home+"/"+parentDir(name))
				write(t, home+"/"+name, text)
			}
			p, o := cachePolicy(root+"/wt", home, "MAVEN_OPTS=-Xmx1g")
			if test.name == "Yarn" {
				o.Environ = append(o.Environ, "XDG_CACHE_HOME="+home+"/.cache") // root's default is another
			}
			r := mustResolve(t, p, o)
			if len(r.Notes) != 0 {
				t.Errorf("notes = %+v", r.Notes)
			}
			for name, text := range test.env {
				if got, want := value(r.Env, name), strings.NewReplacer("DIR", r.CacheDir, "HOME", home).Replace(text); got != want {
					t.Errorf("%s = %q; want %q", name, got, want)
				}
			}
			for name, want := range test.ours {
				got := absent
				if info, err := os.Lstat(r.CacheDir + "/" + name); err == nil {
					got = plain
					if info.Mode()&os.ModeSymlink != 0 {
						got = linked
						if _, err := os.Stat(r.CacheDir + "/" + name); err != nil {
							t.Errorf("%s leads nowhere: %v", name, err)
						}
					}
				}
				if got != want {
					t.Errorf("%s is %q; want %q", name, got, want)
				}
			}
		})
	}
}
