package policy

import (
	"path/filepath"
	"strings"
	"syscall"
)

// goProxyDefault is what the go command uses when nobody says otherwise.
const goProxyDefault = "https://proxy.golang.org,direct"

// golang points the go command at our folder. The user's module cache becomes
// a proxy in front of theirs: the go command copies from it what it needs,
// offline too, and checks it as it checks everything.
func (c *cache) golang() {
	e := goEnv{c: c}
	gopath, _, _ := strings.Cut(e.get("GOPATH"), ":")
	if gopath == "" && c.home != "" {
		gopath = c.home + "/go"
	}
	modules := e.get("GOMODCACHE")
	if modules == "" && gopath != "" {
		modules = gopath + "/pkg/mod"
	}

	c.point("GOCACHE", "go-build")
	c.point("GOTMPDIR", "tmp")
	if c.env.get("GOTMPDIR") == c.dir+"/tmp" && !c.o.DryRun {
		// The go command wants it to be there. An error shows up there, too.
		_ = syscall.Mkdir(c.dir+"/tmp", 0o700)
	}
	if bin := e.get("GOBIN"); bin != "" && !c.writable(bin) {
		c.env.set("GOBIN", c.dir+"/go/bin")
		c.extendPath(filepath.Clean(bin), c.dir+"/go/bin")
	}
	if gopath == "" || !c.writable(gopath) {
		path := c.dir + "/go"
		if gopath != "" {
			path += ":" + gopath
			c.extendPath(filepath.Clean(gopath)+"/bin", c.dir+"/go/bin")
		}
		c.env.set("GOPATH", path)
	}
	if modules != "" && c.writable(modules) {
		return
	}
	c.env.set("GOMODCACHE", c.dir+"/go/pkg/mod")
	if modules == "" || modules[0] != '/' {
		return
	}
	download := filepath.Clean(modules) + "/cache/download"
	if !isFolder(download) {
		return
	}
	c.reads = append(c.reads, filepath.Clean(modules))
	proxy := e.get("GOPROXY")
	if proxy == "" {
		proxy = goProxyDefault
	}
	c.env.set("GOPROXY", fileURL(download)+","+proxy)
	if c.has("go.mod") || c.has("go.work") {
		c.seedGo(&e, gopath, download)
	}
}

// goEnv answers what the go command would: the environment first, then the
// user's configuration file, which is read when it is first needed.
type goEnv struct {
	c    *cache
	text string
	read bool
}

func (e *goEnv) get(name string) string {
	if value := e.c.env.get(name); value != "" {
		return value
	}
	if !e.read {
		e.read = true
		e.load()
	}
	if e.text == "" {
		return ""
	}
	for line := range strings.SplitSeq(e.text, "\n") {
		if value, ok := strings.CutPrefix(line, name+"="); ok {
			return strings.TrimSuffix(value, "\r")
		}
	}
	return ""
}

func (e *goEnv) load() {
	path := e.c.env.get("GOENV")
	if path == "off" {
		return
	}
	if path == "" {
		if dir := e.c.env.get("XDG_CONFIG_HOME"); dir != "" && dir[0] == '/' {
			path = dir + "/go/env"
		} else if e.c.home != "" {
			path = e.c.home + "/.config/go/env"
		}
	}
	if path == "" {
		return
	}
	if text, err := readFollow(path, configLimit); err == nil {
		e.text = string(text)
	}
}

// fileURL returns the URL of an absolute path, with everything escaped that
// means something in a URL or in a list of proxies.
func fileURL(path string) string {
	const digits = "0123456789ABCDEF"
	b := make([]byte, 0, len(path)+16)
	b = append(b, "file://"...)
	for i := range len(path) {
		c := path[i]
		if isAlpha(c) || c >= '0' && c <= '9' || strings.IndexByte("/-._~@", c) >= 0 {
			b = append(b, c)
		} else {
			b = append(b, '%', digits[c>>4], digits[c&15])
		}
	}
	return string(b)
}
