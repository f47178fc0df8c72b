package policy

import (
	"slices"
	"strings"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
)

func TestOverlays(t *testing.T) {
	root := testenv.Dir(t)
	home := root + "/home"
	for _, file := range []string{"/.cache/pip/x", "/.cache/uv/x", "/.ccache/x", "/.cache/deno/x", "/.bun/install/cache/x", "/elsewhere/x"} {
		mkdir(t, parentDir(home+file))
		write(t, home+file, "")
	}
	mkdir(t, home+"/.cache/composer") // which is empty
	mkdir(t, root+"/plain")
	write(t, root+"/plain/pyproject.toml", "")
	newRepo(t, root+"/repo")
	for _, tt := range []struct {
		worktree, files, env string
		change               func(*Policy, *Options)
		want                 string // names of overlays
	}{
		{"repo", "", "", nil, ""},
		{"repo", "pyproject.toml", "", nil, "pip uv"},
		{"repo", "uv.lock", "", nil, "uv"},
		{"repo", "Makefile deno.json composer.json bun.lock", "", nil, "ccache deno bun"},
		{"repo", "", "DENO_DIR=" + home + "/elsewhere", nil, "ccache deno bun"},
		{"repo", "", "DENO_DIR=/tmp/deno", nil, "ccache bun"},
		{"repo", "", "DENO_DIR=" + home + "/none", nil, "ccache bun"},
		{"repo", "", "", func(p *Policy, _ *Options) { p.NoCache = true }, ""},
		{"repo", "", "", func(p *Policy, _ *Options) { p.NoProtect = true }, ""},
		{"repo", "", "", func(p *Policy, _ *Options) { p.NoProtect, p.PrivateTmp = true, true }, "ccache deno bun"},
		{"repo", "", "", func(_ *Policy, o *Options) { o.Overlays = false }, ""},
		{"plain", "", "", nil, ""},
	} {
		for _, f := range []string{"pyproject.toml", "uv.lock"} {
			remove(t, root+"/repo/"+f)
		}
		for f := range strings.FieldsSeq(tt.files) {
			write(t, root+"/repo/"+f, "")
		}
		p, o := cachePolicy(root+"/"+tt.worktree, home, tt.env)
		o.MountLayer, o.Overlays = true, true
		if tt.change != nil {
			tt.change(&p, &o)
		}
		r := mustResolve(t, p, o)
		var got []string
		for _, over := range r.Overlays {
			got = append(got, baseName(over.Dir))
			if !slices.ContainsFunc(r.Grants, func(g Grant) bool { return g.Path == over.Path && g.Access&Write != 0 && g.NoSymlinks }) {
				t.Errorf("%s is not granted", over.Path)
			}
			if beneath(over.Dir, r.CacheDir) || !beneath(over.Lower, home) || mode(over.Path) == 0 || !slices.ContainsFunc(r.Env, func(e string) bool { return strings.HasSuffix(e, "="+over.Path) }) {
				t.Errorf("%+v with the cache at %s and %q", over, r.CacheDir, r.Env)
			}
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("Resolve in %s with %q and %q: overlays %q; want %q", tt.worktree, tt.files, tt.env, got, tt.want)
		}
	}
}
