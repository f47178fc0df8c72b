package seccomp

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
)

// TestProgramsWithoutNetwork runs real programs under NoNetwork: what needs no
// network works, what does fails at once and says so.
func TestProgramsWithoutNetwork(t *testing.T) {
	for _, tt := range []struct {
		name, tool string
		args       []string
		code       int
		out        string // what the output has, both streams
	}{
		{"python local", "python3", []string{"-c", pythonLocal}, 0, "3 4 5 hello"},
		{"python connect", "python3", []string{"-c", "import socket; print(socket.getaddrinfo('127.0.0.1', 80)[0][4]); socket.create_connection(('127.0.0.1', 9))"}, 1, "Errno 97"},
		{"python resolve", "python3", []string{"-c", "import socket; socket.getaddrinfo('name.invalid', 80)"}, 1, "gaierror"},
		{"curl address", "curl", []string{"-sS", "http://127.0.0.1:9/"}, 7, "connect"},
		{"curl name", "curl", []string{"-sS", "http://name.invalid/"}, 6, "resolve"},
		{"git local", "git", []string{"-c", "alias.all=!" + gitLocal, "all"}, 0, "cloned"},
		{"git remote", "git", []string{"ls-remote", "http://127.0.0.1:9/x"}, 128, "unable to access"},
		{"node local", "node", []string{"-e", nodeLocal}, 0, "worker 42\nchild hello"},
		{"node connect", "node", []string{"-e", "require('net').connect(9, '127.0.0.1').on('error', e => console.log(e.code))"}, 0, "EAFNOSUPPORT"},
		// It opens an audit socket first, and gives up on any error that doesn't
		// say that the kernel has none.
		{"useradd", "useradd", []string{"--help"}, 0, "Usage"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			testenv.EachUser(t, func(t *testing.T, u testenv.User) {
				tool := needSystemTool(t, u, tt.tool)
				needFilters(t)
				cmd := u.Helper(t, "filtered", append([]string{`{"Filter":{"NoNetwork":true}}`, tool}, tt.args...)...)
				cmd.Dir = u.Dir(t)
				cmd.Env = append(cmd.Env, "HOME="+cmd.Dir, "TMPDIR="+cmd.Dir, "GORACE=atexit_sleep_ms=0")
				r := testenv.Run(t, cmd)
				if r.Code != tt.code || !strings.Contains(r.Stdout+r.Stderr, tt.out) {
					t.Errorf("%v; want exit %d and %q", r, tt.code, tt.out)
				}
			})
		})
	}
}

const pythonLocal = `
import asyncio, multiprocessing, socket
def inc(x): return x + 1
if __name__ == "__main__":
    multiprocessing.set_start_method("fork")
    with multiprocessing.Pool(2) as p:
        out = p.map(inc, [2, 3, 4])
    with multiprocessing.Manager() as m:  # a server on a local socket
        l = m.list(out)
        out = list(l)
    async def main():
        return "hello"
    a, b = socket.socketpair()
    a.send(asyncio.run(main()).encode())
    print(*out, b.recv(9).decode())
`

const gitLocal = `set -e
export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
git init -q repo
git -C repo commit -q --allow-empty -m one
git clone -q repo copy
git -C repo commit -q --allow-empty -m two
git -C copy fetch -q
git clone -q "file://$PWD/repo" other
test "$(git -C copy rev-parse origin/HEAD)" = "$(git -C other rev-parse HEAD)"
git -C other push -q "$PWD/repo" HEAD:refs/heads/pushed
echo cloned
`

const nodeLocal = `
const { Worker } = require("worker_threads");
const { spawn } = require("child_process");
new Worker("require('worker_threads').parentPort.postMessage(42)", { eval: true }).on("message", m => {
  console.log("worker", m);
  const c = spawn(process.execPath, ["-e", "process.send('hello')"], { stdio: ["ignore", "inherit", "inherit", "ipc"] });
  c.on("message", m => console.log("child", m));
});
`

// TestGoWithoutNetwork builds and tests with Go, which knows no IPv4 then.
func TestGoWithoutNetwork(t *testing.T) {
	testenv.NeedTool(t, "go")
	needFilters(t)
	dir := testenv.Dir(t)
	for name, content := range map[string]string{
		"go.mod": "module example.com/m\n\ngo 1.26\n",
		"m.go":   "package m\n\nfunc One() int { return 1 }\n",
		"m_test.go": `package m

import "testing"

func TestOne(t *testing.T) {
	if One() != 1 {
		t.Fatal("not one")
	}
}
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"build", "./..."}, {"test", "-vet=off", "./..."}} {
		cmd := testenv.Helper(t, "filtered", append([]string{`{"Filter":{"NoNetwork":true}}`, lookPath(t, "go")}, args...)...)
		cmd.Dir = dir
		cmd.Env = append(cmd.Env, "CGO_ENABLED=0", "GOFLAGS=")
		testenv.Output(t, cmd)
	}
}

// needSystemTool returns the path of the system's own tool where there is one:
// others, such as a version manager's, may belong to another user. It skips t
// unless u can run it.
func needSystemTool(t *testing.T, u testenv.User, name string) string {
	t.Helper()
	for _, dir := range []string{"/usr/bin", "/bin", "/usr/sbin", "/sbin"} {
		if p := filepath.Join(dir, name); executable(p) {
			if name != "useradd" { // knows no --version
				u.NeedTool(t, p)
			}
			return p
		}
	}
	u.NeedTool(t, name)
	return lookPath(t, name)
}

func executable(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode().IsRegular() && st.Mode().Perm()&0o111 != 0
}

func lookPath(t *testing.T, name string) string {
	t.Helper()
	p, err := exec.LookPath(name)
	if err != nil {
		testenv.Skip(t, "%v", err)
	}
	return p
}
