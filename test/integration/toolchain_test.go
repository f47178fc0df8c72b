package integration

import (
	"archive/zip"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
)

// ownCache is the product's own folder in a home folder.
const ownCache = "/.cache/shofer-sandbox"

// user returns all that lies in the stage's home folder, except what belongs
// to the product.
func (s *stage) userFiles() tree {
	s.t.Helper()
	all := snapshot(s.t, s.home)
	for path := range all {
		if strings.HasPrefix(path, s.home+ownCache) {
			delete(all, path)
		}
	}
	return all
}

// cache returns the product's folder for the stage's tree, which exists
// afterwards.
func (s *stage) cache() string {
	s.t.Helper()
	dir := strings.TrimSpace(s.mustInside("sh", "-c", `echo "${GOCACHE%/go-build}"`))
	if !strings.HasPrefix(dir, s.home+ownCache+"/") {
		s.t.Fatalf("GOCACHE is in %q; want it below %s", dir, s.home+ownCache)
	}
	return dir
}

// files writes files of the stage's user, and the folders above them, below
// dir.
func (s *stage) files(dir string, contents map[string]string) {
	s.t.Helper()
	for name, content := range contents {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			s.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			s.t.Fatal(err)
		}
	}
	s.user.Own(s.t, dir)
}

// goProxy fills dir as a proxy of Go modules with one module of one version.
func (s *stage) goProxy(dir, module, version string, files map[string]string) {
	s.t.Helper()
	at := strings.ReplaceAll(module, "D", "!d") + "/@v/" // how capitals are written
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, content := range files {
		w, err := z.Create(module + "@" + version + "/" + name)
		if err == nil {
			_, err = w.Write([]byte(content))
		}
		if err != nil {
			s.t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		s.t.Fatal(err)
	}
	s.files(dir, map[string]string{
		at + "list":            version + "\n",
		at + version + ".info": `{"Version":"` + version + `","Time":"2020-01-01T00:00:00Z"}`,
		at + version + ".mod":  files["go.mod"],
		at + version + ".zip":  b.String(),
	})
}

// goBuilt is the Go build cache of the first test that filled one. Others copy
// it: the standard library is the same for all, and compiling it takes long.
var goBuilt struct {
	sync.Mutex
	dir string
}

func TestToolsGo(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		s := newStage(t, u)
		s.need("go")
		const dep = "example.com/Dep"
		proxy := s.base + "/proxy"
		s.goProxy(proxy, dep, "v1.0.0", map[string]string{
			"go.mod": "module " + dep + "\n\ngo 1.21\n",
			"dep.go": "package dep\n\nfunc Answer() int { return 42 }\n",
		})
		s.files(s.tree, map[string]string{
			"go.mod":       "module example.com/main\n\ngo 1.21\n\nrequire " + dep + " v1.0.0\n",
			"main.go":      "package main\n\nimport dep \"" + dep + "\"\n\nfunc main() { println(dep.Answer()) }\n",
			"main_test.go": "package main\n\nimport (\n\t\"testing\"\n\tdep \"" + dep + "\"\n)\n\nfunc TestAnswer(t *testing.T) {\n\tif dep.Answer() != 42 {\n\t\tt.Fatal()\n\t}\n\tt.TempDir()\n}\n",
		})
		s.env = []string{"GOTOOLCHAIN=local", "GOFLAGS=-mod=mod", "GOSUMDB=off", "GOPROXY=file://" + proxy, "CGO_ENABLED=0"}
		s.must("go", "mod", "tidy") // the dependency is in the user's module cache now
		if err := os.RemoveAll(proxy); err != nil {
			t.Fatal(err)
		}
		built := s.cache() + "/go-build"
		s.lendGoCache(built)
		before := s.userFiles()

		for _, flags := range []string{"", "-mod=mod", "-mod=readonly"} {
			s.env = []string{"GOTOOLCHAIN=local", "GOFLAGS=" + flags, "GOPROXY=off", "CGO_ENABLED=0"}
			s.mustInside("go", "build", "-o", "program", ".")
			if r := testenv.Run(t, s.command("./program")); r.Stderr != "42\n" {
				t.Errorf("GOFLAGS=%s: the program says %v; want 42", flags, r)
			}
			s.mustInside("go", "test", "-count=1", "./...")
			s.mustInside("go", "vet", "./...")
		}
		s.mustInside("go", "run", ".")
		s.mustInside("go", "list", "-deps", "-test", "./...")
		s.env = append(s.env, "PATH="+s.home+"/go/bin:"+toolPath())
		s.mustInside("go", "install", ".")
		s.mustInside("main") // is found where the user's own would be
		s.mustInside("go", "mod", "verify")
		s.mustInside("go", "clean", "-testcache")
		before.same(t, s.userFiles())

		if r := s.inside("go", "get", "example.com/other@latest"); r.Code == 0 {
			t.Errorf("go get with GOPROXY=off: %v; want it to fail", r)
		}
		goBuilt.Lock()
		defer goBuilt.Unlock()
		if goBuilt.dir == "" {
			if dir, err := os.MkdirTemp(programDir(t), "go-build"); err == nil && os.CopyFS(dir, os.DirFS(built)) == nil {
				goBuilt.dir = dir
			}
		}
	})
}

// lendGoCache fills an empty Go build cache with what another test built.
func (s *stage) lendGoCache(dir string) {
	s.t.Helper()
	goBuilt.Lock()
	defer goBuilt.Unlock()
	if goBuilt.dir == "" {
		return
	}
	if err := os.CopyFS(dir, os.DirFS(goBuilt.dir)); err != nil {
		s.t.Fatal(err)
	}
	s.user.Own(s.t, dir)
}

func TestToolsNpm(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		s := newStage(t, u)
		s.need("npm", "node")
		s.files(s.tree, map[string]string{
			"package.json":     `{"name": "main", "version": "1.0.0", "private": true, "scripts": {"postinstall": "node -e \"require('fs').writeFileSync('ran', '')\""}}`,
			"lib/package.json": `{"name": "lib", "version": "1.0.0"}`,
			"lib/index.js":     "module.exports = 42\n",
		})
		s.env = []string{"npm_config_update_notifier=false", "npm_config_audit=false", "npm_config_fund=false"}

		// The user's own cache has one package from the registry.
		s.mkdir(s.base + "/elsewhere")
		fetch := s.command("npm", "install", "is-number@7.0.0")
		fetch.Dir = s.base + "/elsewhere"
		registry := testenv.Run(t, fetch)
		s.cache()
		before := s.userFiles()

		s.mustInside("npm", "install", "--offline", "./lib")
		if out := s.mustInside("node", "-p", "require('lib')"); out != "42\n" {
			t.Errorf("the local package exports %q; want 42", out)
		}
		s.mustInside("npm", "install", "--offline")
		if _, err := os.Stat(s.tree + "/ran"); err != nil {
			t.Errorf("the postinstall script: %v", err)
		}
		s.mustInside("npm", "pack", "./lib")
		before.same(t, s.userFiles())

		if registry.Code != 0 {
			testenv.Skip(t, "can't reach npm's registry: %v", registry)
		}
		s.mustInside("npm", "install", "--offline", "is-number@7.0.0") // by the user's cache
		if out := s.mustInside("node", "-p", "require('is-number')(5)"); out != "true\n" {
			t.Errorf("is-number(5): %q; want true", out)
		}
		s.mustInside("npm", "uninstall", "is-number")
		s.mustInside("npm", "install", "--prefer-online", "is-number@6.0.0") // by the network
		before.same(t, s.userFiles())
	})
}

func TestToolsPip(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		s := newStage(t, u)
		s.need("python3")
		if r := testenv.Run(t, s.command("python3", "-c", "import setuptools, wheel, pip, venv, ensurepip")); r.Code != 0 {
			testenv.Skip(t, "python3 lacks what builds packages: %v", r)
		}
		s.files(s.tree, map[string]string{
			"pyproject.toml":     "[build-system]\nrequires = [\"setuptools\"]\nbuild-backend = \"setuptools.build_meta\"\n\n[project]\nname = \"answer\"\nversion = \"1.0\"\n\n[tool.setuptools]\npackages = [\"answer\"]\n",
			"answer/__init__.py": "VALUE = 42\n",
		})
		s.files(s.home, map[string]string{".cache/pip/marker": "theirs\n"})
		s.cache()
		before := s.userFiles()
		s.mustInside("python3", "-m", "venv", "--system-site-packages", "venv")
		s.mustInside("venv/bin/python", "-m", "pip", "install", "--quiet", "--no-index", "--no-build-isolation", ".")
		if out := s.mustInside("venv/bin/python", "-c", "import os; os.chdir('/'); import answer; print(answer.VALUE)"); out != "42\n" {
			t.Errorf("the package has the value %q; want 42", out)
		}
		s.mustInside("venv/bin/python", "-m", "pip", "install", "--quiet", "--no-index", "--no-build-isolation", "--editable", ".")
		s.mustInside("venv/bin/python", "-m", "pip", "uninstall", "--quiet", "--yes", "answer")
		if dir := strings.TrimSpace(s.mustInside("venv/bin/python", "-m", "pip", "cache", "dir")); !strings.HasPrefix(dir, s.home+ownCache) {
			t.Errorf("pip's cache is %s; want it redirected", dir)
		}
		before.same(t, s.userFiles())

		r := s.inside("python3", "-m", "pip", "install", "--quiet", "--no-index", "--no-build-isolation", "--break-system-packages", "--user", ".")
		if r.Code == 0 {
			t.Errorf("pip install --user: %v; want it to fail", r)
		}
		before.same(t, s.userFiles())
	})
}

func TestToolsCargo(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		s := newStage(t, u)
		s.need("cargo", "rustc", "cc")
		s.files(s.tree, map[string]string{
			"Cargo.toml":     "[package]\nname = \"main\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[dependencies]\nlib = { path = \"lib\" }\n",
			"src/main.rs":    "fn main() { println!(\"{}\", lib::answer()); }\n\n#[test]\nfn answers() { assert_eq!(lib::answer(), 42); }\n",
			"build.rs":       "fn main() { std::fs::write(std::path::Path::new(&std::env::var(\"OUT_DIR\").unwrap()).join(\"x\"), \"x\").unwrap(); }\n",
			"lib/Cargo.toml": "[package]\nname = \"lib\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
			"lib/src/lib.rs": "pub fn answer() -> i32 { 42 }\n",
		})
		s.files(s.home, map[string]string{".cargo/config.toml": "[term]\nquiet = true\n", ".cargo/registry/cache/marker": "theirs\n"})
		s.cache()
		before := s.userFiles()
		s.mustInside("cargo", "build", "--offline")
		if out := s.mustInside("cargo", "run", "--offline"); out != "42\n" {
			t.Errorf("cargo run: %q; want 42", out)
		}
		s.mustInside("cargo", "test", "--offline")
		before.same(t, s.userFiles())
	})
}

func TestToolsJava(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		s := newStage(t, u)
		s.need("javac", "java", "jar")
		s.files(s.tree, map[string]string{
			"Main.java": "public class Main { public static void main(String[] a) throws Exception { java.io.File.createTempFile(\"main\", \"tmp\").delete(); System.out.println(42); } }\n",
			"pom.xml":   "<project xmlns=\"http://maven.apache.org/POM/4.0.0\"><modelVersion>4.0.0</modelVersion><groupId>a</groupId><artifactId>b</artifactId><version>1</version><packaging>pom</packaging></project>\n",
		})
		s.files(s.home, map[string]string{".m2/repository/marker": "theirs\n"})
		s.cache()
		before := s.userFiles()
		s.mustInside("javac", "-d", "out", "Main.java")
		s.mustInside("jar", "cf", "main.jar", "-C", "out", ".")
		if out := s.mustInside("java", "-cp", "main.jar", "Main"); out != "42\n" {
			t.Errorf("java: %q; want 42", out)
		}
		// Of Maven only what needs no plugin, since those aren't there offline.
		if s.find("mvn") != "" {
			s.env = []string{"MAVEN_OPTS=-Duser.home=" + s.home}
			s.mustInside("mvn", "--offline", "--quiet", "validate")
		}
		before.same(t, s.userFiles())
	})
}
