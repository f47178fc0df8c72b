package policy

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
)

// tool runs a real tool in dir and returns its output.
func tool(t *testing.T, dir string, env []string, name string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = dir, env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func mustTool(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	out, err := tool(t, dir, env, name, args...)
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return out
}

// snapshot lists what lies in a folder, with times and sizes.
func snapshot(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err == nil {
			fmt.Fprintln(&b, path, info.Mode(), info.Size(), info.ModTime().UnixNano())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// goProxy makes a folder that is a proxy with one module in it.
func goProxy(t *testing.T, dir, module, escaped string) {
	t.Helper()
	at := dir + "/" + escaped + "/@v"
	mkdir(t, at)
	write(t, at+"/list", "v1.0.0\n")
	write(t, at+"/v1.0.0.info", `{"Version":"v1.0.0"}`)
	write(t, at+"/v1.0.0.mod", "module "+module+"\n")
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, text := range map[string]string{"go.mod": "module " + module + "\n", "m.go": "package m\n\nconst X = 7\n"} {
		w, err := z.Create(module + "@v1.0.0/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	write(t, at+"/v1.0.0.zip", b.String())
}

// TestGoOffline: what lies in the user's module cache is enough for a build
// without network, public and private modules alike, and stays as it is.
func TestGoOffline(t *testing.T) {
	testenv.NeedTool(t, "go")
	for _, private := range []string{"", "corp.example"} {
		t.Run("private "+private, func(t *testing.T) {
			root, home := testDir(t), outsideTmp(t)
			goProxy(t, root+"/proxy", "corp.example/Mod", "corp.example/!mod")
			mkdir(t, root+"/wt")
			write(t, root+"/wt/go.mod", "module x\n\ngo 1.24\n\nrequire corp.example/Mod v1.0.0\n")
			write(t, root+"/wt/main.go", "package main\n\nimport m \"corp.example/Mod\"\n\nfunc main() { println(m.X) }\n")
			p, o := cachePolicy(root+"/wt", home, "GOFLAGS=-modcacherw", "GOTOOLCHAIN=local", "GOTELEMETRY=off", "LANG=C", "CGO_ENABLED=0")
			user := append(o.Environ, "GOPROXY=file://"+root+"/proxy", "GONOSUMDB=*")
			mustTool(t, root+"/wt", user, "go", "mod", "tidy")

			o.Environ = append(o.Environ, "GOPROXY=off", "GOVCS=*:off")
			if private != "" {
				o.Environ = append(o.Environ, "GOPRIVATE="+private)
			}
			before := snapshot(t, home+"/go")
			r := mustResolve(t, p, o)
			if out := mustTool(t, root+"/wt", r.Env, "go", "run", "."); !strings.Contains(out, "7") {
				t.Errorf("go run = %s", out)
			}
			mustTool(t, root+"/wt", r.Env, "go", "vet", "./...")
			if after := snapshot(t, home+"/go"); after != before {
				t.Errorf("the user's module cache was changed:\n%s\nto\n%s", before, after)
			}
			if names := listDir(r.CacheDir + "/go-build"); len(names) == 0 {
				t.Error("nothing was built in our folder")
			}
		})
	}
}

// npmRegistry serves one package.
func npmRegistry(t *testing.T) *httptest.Server {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for name, text := range map[string]string{
		"package/package.json": `{"name": "left", "version": "1.0.0", "main": "index.js"}`,
		"package/index.js":     "module.exports = 7\n",
	} {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	mux.HandleFunc("/left", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"name": "left", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0":
			{"name": "left", "version": "1.0.0", "dist": {"tarball": "%s/left/-/left-1.0.0.tgz"}}}}`, server.URL)
	})
	mux.HandleFunc("/left/-/left-1.0.0.tgz", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(b.Bytes())
	})
	return server
}

func TestNpmOffline(t *testing.T) {
	testenv.NeedTool(t, "node", "npm")
	root, home := testDir(t), outsideTmp(t)
	server := npmRegistry(t)
	project := `{"name": "x", "version": "1.0.0", "dependencies": {"left": "1.0.0"}}`
	for _, dir := range []string{root + "/first", root + "/wt"} {
		mkdir(t, dir)
		write(t, dir+"/package.json", project)
	}
	write(t, home+"/.npmrc", "registry="+server.URL+"\nfund=false\naudit=false\nupdate-notifier=false\n")
	p, o := cachePolicy(root+"/wt", home)
	mustTool(t, root+"/first", o.Environ, "npm", "install")
	server.Close()

	remove(t, home+"/.npm/_logs")
	before := snapshot(t, home)
	r := mustResolve(t, p, o)
	remove(t, home+"/.cache/none") // only what npm itself did counts
	mustTool(t, root+"/wt", r.Env, "npm", "install", "--offline")
	if out := mustTool(t, root+"/wt", r.Env, "node", "-p", "require('left')"); out != "7\n" {
		t.Errorf("the installed package says %q", out)
	}
	remove(t, home+"/.cache")
	if after := snapshot(t, home); stripFirst(after) != stripFirst(before) {
		t.Errorf("the user's folders were changed:\n%s\nto\n%s", before, after)
	}
}

// stripFirst drops the line of the folder itself, whose time changes with our
// folder in it.
func stripFirst(s string) string {
	_, rest, _ := strings.Cut(s, "\n")
	return rest
}

// TestCargoOffline has a crate from a registry and one from git.
func TestCargoOffline(t *testing.T) {
	testenv.NeedTool(t, "cargo", "rustc", "git")
	root, home := testDir(t), outsideTmp(t)
	p, o := cachePolicy(root+"/wt", home, "CARGO_NET_RETRY=0")
	for _, name := range []string{"RUSTUP_HOME", "RUSTUP_TOOLCHAIN"} {
		if v := os.Getenv(name); v != "" {
			o.Environ = append(o.Environ, name+"="+v)
		}
	}
	if os.Getenv("RUSTUP_HOME") == "" {
		o.Environ = append(o.Environ, "RUSTUP_HOME="+os.Getenv("HOME")+"/.rustup")
	}

	crate := func(dir, name, text string) {
		mkdir(t, dir+"/src")
		write(t, dir+"/Cargo.toml", "[package]\nname = \""+name+"\"\nversion = \"0.1.0\"\nedition = \"2021\"\n")
		write(t, dir+"/src/lib.rs", text)
	}
	crate(root+"/reg", "reg", "pub fn x() -> i32 { 3 }\n")
	mustTool(t, root+"/reg", o.Environ, "cargo", "package", "--no-verify", "--allow-dirty", "--quiet", "--offline")
	archive, err := os.ReadFile(root + "/reg/target/package/reg-0.1.0.crate")
	if err != nil {
		t.Fatal(err)
	}
	crate(root+"/dep", "dep", "pub fn y() -> i32 { 4 }\n")
	git(t, root+"/dep", "init", "-q")
	git(t, root+"/dep", "add", ".")
	git(t, root+"/dep", "commit", "-q", "-m", "one")

	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	sum := sha256.Sum256(archive)
	// An index in git: old versions of cargo know no other.
	mkdir(t, root+"/index/3/r")
	write(t, root+"/index/config.json", fmt.Sprintf(`{"dl": "%s/dl"}`, server.URL))
	write(t, root+"/index/3/r/reg", fmt.Sprintf(`{"name":"reg","vers":"0.1.0","deps":[],"cksum":"%s","features":{},"yanked":false}`, hex.EncodeToString(sum[:])))
	git(t, root+"/index", "init", "-q")
	git(t, root+"/index", "add", ".")
	git(t, root+"/index", "commit", "-q", "-m", "one")
	mux.HandleFunc("/dl/reg/0.1.0/download", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(archive)
	})
	mkdir(t, home+"/.cargo")
	write(t, home+"/.cargo/config.toml", "[registries.mine]\nindex = \"file://"+root+"/index\"\n")
	for _, dir := range []string{"first", "wt"} {
		mkdir(t, root+"/"+dir+"/src")
		write(t, root+"/"+dir+"/Cargo.toml", "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n"+
			"[dependencies]\nreg = { version = \"0.1\", registry = \"mine\" }\ndep = { git = \"file://"+root+"/dep\" }\n")
		write(t, root+"/"+dir+"/src/main.rs", "fn main() { println!(\"{}\", reg::x() + dep::y()); }\n")
	}
	mustTool(t, root+"/first", o.Environ, "cargo", "build", "--quiet")
	server.Close()
	write(t, root+"/wt/Cargo.lock", read(t, root+"/first/Cargo.lock"))
	remove(t, root+"/dep")
	remove(t, root+"/index")

	before := snapshot(t, home+"/.cargo")
	r := mustResolve(t, p, o)
	if len(r.Notes) != 0 {
		t.Errorf("notes = %+v", r.Notes)
	}
	if out := mustTool(t, root+"/wt", r.Env, "cargo", "run", "--quiet", "--offline"); out != "7\n" {
		t.Errorf("cargo run = %q", out)
	}
	if after := snapshot(t, home+"/.cargo"); after != before {
		t.Errorf("the user's folder was changed:\n%s\nto\n%s", before, after)
	}
}
