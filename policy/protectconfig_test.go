package policy

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
)

// What git's configuration names is frozen, or compared where git itself has
// to change it.
func TestProtectConfigured(t *testing.T) {
	for _, tt := range []struct {
		name  string
		setup func(t *testing.T, base, top string)
		// repo, global and xdg are added to the files of configuration.
		repo, global, xdg string
		env               []string
		want              []string
		notes             string
	}{
		{
			name: "untracked hooks", repo: "[core] hooksPath = .githooks\n",
			setup: func(t *testing.T, _, top string) { mkdir(t, top+"/.githooks") },
			want:  []string{"frozen repo/.githooks"},
		},
		{
			name: "tracked hooks", repo: "[core]\nhooksPath = .githooks/\n",
			setup: func(t *testing.T, _, top string) {
				mkdir(t, top+"/.githooks")
				write(t, top+"/.githooks/pre-commit", "")
				git(t, top, "add", ".githooks")
			},
			want: []string{"compared repo/.githooks"},
		},
		{
			name: "hooks that aren't there", repo: "[core] hooksPath = not/there\n",
			want: []string{"unborn repo/not/there"},
		},
		{
			name: "husky", repo: "[core] hooksPath = .husky/_\n",
			setup: func(t *testing.T, _, top string) {
				mkdir(t, top+"/.husky/_")
				write(t, top+"/.husky/_/pre-commit", "")
				write(t, top+"/.husky/_/.gitignore", "*\n")
				write(t, top+"/.husky/pre-commit", "")
				git(t, top, "add", ".husky")
			},
			want: []string{"pinned repo/.husky", "compared repo/.husky", "frozen repo/.husky/_"},
		},
		{
			name: "hooks outside", global: "[core] hooksPath = ~/hooks\n",
			setup: func(t *testing.T, base, _ string) { mkdir(t, base+"/home/hooks") },
		},
		{
			name: "hooks in another grant", global: "[core] hooksPath = ~/open/a/hooks\n",
			setup: func(t *testing.T, base, _ string) { mkdir(t, base+"/home/open/a/hooks") },
			want:  []string{"pinned home/open/a", "frozen home/open/a/hooks"},
		},
		{
			name: "hooks through links", repo: "[core] hooksPath = via/../link/hooks\n",
			setup: func(t *testing.T, base, top string) {
				mkdir(t, top+"/real/hooks")
				mkdir(t, base+"/elsewhere")
				symlink(t, base+"/elsewhere", top+"/via") // via/.. is base
				symlink(t, top+"/real", base+"/link")
			},
			want: []string{"pinned repo/real", "frozen repo/real/hooks", "compared repo/via"},
		},
		{
			name: "hooks that are the worktree", repo: "[core] hooksPath = .\n", notes: "git-partial",
		},
		{
			name: "a circle", repo: "[core] hooksPath = circle\n",
			setup: func(t *testing.T, _, top string) { symlink(t, "circle", top+"/circle") },
			want:  []string{"compared repo/circle"},
		},
		{
			name: "includes", global: "[include] path = more\n[includeIf \"gitdir:/nowhere/\"]\n\tPATH = ~/open/missing\n",
			setup: func(t *testing.T, base, top string) {
				write(t, base+"/home/more", "[include]\npath = open/file\n")
				mkdir(t, base+"/home/open")
				write(t, base+"/home/open/file", "[core] hooksPath = "+top+"/.h\n")
				mkdir(t, top+"/.h")
			},
			want: []string{"frozen home/open/file", "unborn home/open/missing", "frozen repo/.h"},
		},
		{
			name: "an include that is tracked", repo: "[include]\n\tpath = ../file\n", want: []string{"compared repo/file"},
		},
		{
			name: "a circle of includes", xdg: "[include] path = config\n",
		},
		{
			name: "XDG", xdg: "[CORE] HOOKSPATH = .h\n",
			setup: func(t *testing.T, _, top string) { mkdir(t, top+"/.h") },
			want:  []string{"frozen repo/.h"},
		},
		{
			name: "the environment", env: []string{"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=Core.hooksPath", "GIT_CONFIG_VALUE_0=.h"},
			setup: func(t *testing.T, _, top string) { mkdir(t, top+"/.h") },
			want:  []string{"frozen repo/.h"},
		},
		{
			name: "another global file", global: "[core] hooksPath = .h\n", env: []string{"GIT_CONFIG_GLOBAL="},
			setup: func(t *testing.T, _, top string) { mkdir(t, top+"/.h") },
		},
		{
			name: "config.worktree", repo: "[extensions] worktreeConfig = true\n",
			setup: func(t *testing.T, _, top string) {
				mkdir(t, top+"/.h")
				write(t, top+"/.git/config.worktree", "[core] hooksPath = .h\n")
			},
			want: []string{"frozen repo/.git/config.worktree", "frozen repo/.h"},
		},
		{
			name: "nothing that can be read", repo: "[core] hooksPath = .h\n[broken\n",
			setup: func(t *testing.T, _, top string) { mkdir(t, top+"/.h") },
			want:  []string{"frozen repo/.h"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			base := testenv.Dir(t)
			top := newRepo(t, base+"/repo")
			mkdir(t, base+"/home/.config/git")
			mkdir(t, base+"/home/open")
			if tt.setup != nil {
				tt.setup(t, base, top)
			}
			write(t, base+"/home/.gitconfig", tt.global)
			write(t, base+"/home/.config/git/config", tt.xdg)
			write(t, top+"/.git/config", read(t, top+"/.git/config")+tt.repo)
			p := Policy{Mode: WorkspaceWrite, Worktree: Path(top), Write: []Path{Path(base + "/home/open")}, NoCache: true}
			env := append([]string{"HOME=" + base + "/home", "GIT_CONFIG_NOSYSTEM=1"}, tt.env...)
			r := mustResolve(t, p, Options{Environ: env, MountLayer: true})
			usual := []string{
				"pinned repo/.git", "unborn repo/.git/commondir", "frozen repo/.git/config", "unborn repo/.git/config.worktree",
				"frozen repo/.git/hooks", "unborn repo/.git/info/attributes", "compared repo/.gitmodules",
			}
			got := slices.DeleteFunc(showProtect(r.Protect, base), func(s string) bool { return slices.Contains(usual, s) })
			if !slices.Equal(got, tt.want) {
				t.Errorf("Protect, besides the usual:\n\t%s\nwant:\n\t%s", strings.Join(got, "\n\t"), strings.Join(tt.want, "\n\t"))
			}
			if got := codes(r.Notes); got != tt.notes {
				t.Errorf("notes %q; want %q", got, tt.notes)
			}
		})
	}
}

// A submodule's repository has hooks of its own.
func TestProtectModuleHooks(t *testing.T) {
	base := testenv.Dir(t)
	newRepo(t, base+"/lib")
	top := newRepo(t, base+"/repo")
	git(t, top, "submodule", "--quiet", "add", "../lib", "lib")
	git(t, top+"/lib", "config", "core.hooksPath", ".h")
	mkdir(t, top+"/lib/.h")
	r := protectOf(t, Policy{Worktree: Path(top)})
	if got := showProtect(r.Protect, top); !slices.Contains(got, "frozen lib/.h") || !slices.Contains(got, "pinned lib") {
		t.Errorf("Protect = %q; want the hooks of the submodule", got)
	}
}

func TestEachGitSetting(t *testing.T) {
	var got []string
	err := EachGitSetting([]byte("\ufeff[A]\nb = c # d\n[a \"X\"] e\n[f.G]h=\"i\"\n[bad"), func(key, value string) {
		got = append(got, key+"="+value)
	})
	if want := []string{"a.b=c", `a".e=true`, "f.g.h=i"}; !slices.Equal(got, want) {
		t.Errorf("settings %q; want %q", got, want)
	}
	if err == nil {
		t.Error("no error for a section without an end")
	}
}

func TestExpand(t *testing.T) {
	p := protector{home: "/h"}
	for value, want := range map[string]string{
		"": "", "a/b": "a/b", "/a": "/a", "~/x/y": "/h/x/y", "~": "/h/", ":(optional)~/x": "/h/x", "~no-such-user/x": "", "~root/x": homeOf("root") + "/x",
	} {
		if got := p.expand(value); got != want {
			t.Errorf("expand(%q) = %q; want %q", value, got, want)
		}
	}
	if homeOf("root") == "" {
		if _, err := os.Stat("/etc/passwd"); err == nil {
			t.Error("root has no home")
		}
	}
}
