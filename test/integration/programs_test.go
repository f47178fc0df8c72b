package integration

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
)

// TestPrograms runs what programs expect to work anywhere. Each is a script
// for bash that runs inside and has to print "ok" last.
func TestPrograms(t *testing.T) {
	programs := []struct {
		name   string
		needs  string // programs
		script string
	}{
		{"null", "", `echo x >/dev/null && : </dev/null`},
		{"zero", "", `test "$(head -c 3 /dev/zero | od -An -tx1)" = " 00 00 00" && echo x >/dev/zero`},
		{"full", "", `! echo x >/dev/full 2>err; LC_ALL=C bash -c 'echo x >/dev/full' 2>&1 | grep -q 'No space left'`},
		{"random", "", `test "$(head -c 8 /dev/urandom | wc -c)" = 8 && echo x >/dev/urandom && head -c 1 /dev/random >/dev/null`},
		{"process substitution", "", `test "$(cat <(echo a) <(echo b))" = "$(printf 'a\nb')" && echo x > >(cat >got; echo done >end); while ! test -e end; do :; done; test "$(cat got)" = x`},
		{"here document", "", `cat <<<here >got && test "$(cat got)" = here`},
		{"coproc and fifo", "", `coproc cat; echo x >&"${COPROC[1]}"; read -r y <&"${COPROC[0]}"; test "$y" = x; mkfifo f; (echo z >f) & read -r z <f; test "$z" = z; eval "exec ${COPROC[1]}>&-"; wait`},
		{"mktemp", "", `f=$(mktemp) && d=$(mktemp -d) && echo x >"$f" && echo x >"$d/y" && rm -r "$f" "$d"`},
		{"sockets", "python3", `python3 -c 'import socket,threading
s=socket.socket(socket.AF_UNIX); s.bind("sock"); s.listen()
c=socket.socket(socket.AF_UNIX); c.connect("sock")
t=socket.socket(); t.bind(("127.0.0.1",0)); t.listen(); u=socket.create_connection(t.getsockname())
a,b=socket.socketpair(); a.send(b"x"); assert b.recv(1)==b"x"'`},
		{"rename and link across folders", "", `mkdir a b; echo x >a/x; mv a/x b/y; ln b/y a/z; test "$(cat a/z)" = x; mv b c; mv c a/; test -e a/c/y`},
		{"cp -a and tar", "", `mkdir d; echo x >d/x; ln -s x d/l; cp -a d e && tar cf t.tar d && mkdir u && tar xf t.tar -C u && diff -r d u/d && touch -d '2001-01-01' d/x && chmod 600 d/x && install -m 755 d/x v`},
		{"sed -i, truncate, fallocate", "", `echo one >f; sed -i s/one/two/ f; test "$(cat f)" = two; truncate -s 1000 f; fallocate -l 2000 f; test "$(stat -c %s f)" = 2000; dd if=/dev/zero of=f bs=1 count=1 conv=notrunc status=none`},
		{"background and wait", "", `sleep 0.01 & wait $!; (exit 3) & wait $!; test $? = 3; kill -0 $$`},
		{"signals among its own", "", `sleep 60 & kill $!; wait $!; test $? = 143; trap 'echo term >got' TERM; kill $$; test "$(cat got)" = term`},
		{"semaphores", "python3", `python3 -c 'import multiprocessing as m
s=m.Semaphore(2); s.acquire(); s.release(); l=m.RLock(); l.acquire(); l.release(); q=m.Queue(); q.put(1); assert q.get()==1
v=m.Value("i",1); a=m.Array("i",3)
from multiprocessing import shared_memory as sm
x=sm.SharedMemory(create=True,size=10); x.buf[0]=1; x.close(); x.unlink()'`},
		{"processes", "python3", `python3 -c 'import multiprocessing as m
def f(x): return x*x
if __name__=="__main__":
    with m.get_context("fork").Pool(2) as p: assert p.map(f,range(5))==[0,1,4,9,16]'`},
		{"openpty", "python3", `python3 -c 'import os,pty,termios,fcntl,struct,tty
m,s=os.openpty(); os.write(s,b"x\n"); assert os.read(m,10)==b"x\r\n"; os.ttyname(s); open(os.ttyname(s),"w").write("y")
fcntl.ioctl(s,termios.TIOCSWINSZ,struct.pack("4H",10,20,0,0)); tty.setraw(s)
assert pty.spawn(["true"])==0' </dev/null >/dev/null`},
		{"script", "script", `script -qec 'tty >name; echo out; echo typed >/dev/tty; stty rows 10' typescript </dev/null >shown; grep -q /dev/pts name && grep -q out typescript && grep -q typed shown`},
		{"cc", "cc", `printf '#include <stdio.h>\n#include <semaphore.h>\n#include <fcntl.h>\nint main(void){char n[40];FILE*f=tmpfile();sem_t*s;snprintf(n,40,"/shofer-test-%%d",(int)getpid());s=sem_open(n,O_CREAT|O_EXCL,0600,1);if(!f||s==SEM_FAILED)return 1;sem_wait(s);sem_post(s);sem_unlink(n);puts("hello");return 0;}\n' >m.c; sed -i '1i#include <unistd.h>' m.c; cc -pthread -pipe -o m m.c && test "$(./m)" = hello && cc -c m.c && ar rc m.a m.o`},
		{"make -j", "make", `printf 'all: a b c d\n%%:\n\t@sleep 0.01; echo $@ >$@.out\nsub:\n\t+@$(MAKE) --no-print-directory all\n' >Makefile; make -j4 sub 2>err && test -e d.out && ! grep -i jobserver err`},
		{"git ls-remote", "git", `git init -q repo && git -C repo -c user.name=a -c user.email=a@example.com commit -q --allow-empty -m x && git ls-remote repo | grep -q HEAD && git ls-remote "file://$PWD/repo" | grep -q HEAD`},
		{"a deep path", "", `d=$(printf 'd%.0s' {1..200}); for i in {1..20}; do mkdir $d && cd -P $d; done; echo x >file && test "$(cat file)" = x`},
	}
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		for _, p := range programs {
			t.Run(p.name, func(t *testing.T) {
				s := newStage(t, u)
				s.need("bash")
				s.need(strings.Fields(p.needs)...)
				s.cache()
				before := s.userFiles()
				r := s.inside("bash", "-c", p.script+"\ncode=$?; wait; [ $code = 0 ] && echo ok")
				if r.Code != 0 || !strings.HasSuffix(r.Stdout, "ok\n") {
					t.Errorf("%v", r)
				}
				before.same(t, s.userFiles())
			})
		}
	})
}

// TestUnittest: the usual way to test Python, with processes of its own.
func TestUnittest(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		s := newStage(t, u)
		s.need("python3")
		s.write(s.tree+"/test_it.py", `import multiprocessing, tempfile, unittest

def square(x):
    return x * x

class T(unittest.TestCase):
    def test_pool(self):
        for method in "fork", "spawn", "forkserver":
            with multiprocessing.get_context(method).Pool(2) as pool:
                self.assertEqual(pool.map(square, range(4)), [0, 1, 4, 9])

    def test_manager(self):
        with multiprocessing.Manager() as m:
            d = m.dict()
            p = multiprocessing.Process(target=d.update, args=({"a": 1},))
            p.start(); p.join()
            self.assertEqual(dict(d), {"a": 1})

    def test_files(self):
        with tempfile.NamedTemporaryFile() as f, tempfile.TemporaryDirectory() as d:
            f.write(b"x")
`, 0o644)
		s.cache()
		before := s.userFiles()
		if r := s.inside("python3", "-m", "unittest"); r.Code != 0 || !strings.Contains(r.Stderr, "OK") {
			t.Errorf("%v", r)
		}
		before.same(t, s.userFiles())
	})
}

// TestTmpdir: a TMPDIR elsewhere is writable, unless it would open too much.
func TestTmpdir(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		s := newStage(t, u)
		s.mkdir(s.base + "/temporary files")
		s.env = []string{"TMPDIR=" + s.base + "/temporary files"}
		out := s.mustInside("sh", "-c", `f=$(mktemp) && echo x >"$f" && echo "$f"; mktemp -d`)
		if strings.Count(out, s.base+"/temporary files/tmp.") != 2 {
			t.Errorf("mktemp: %q; want names below TMPDIR", out)
		}
		for _, dir := range []string{s.home, s.base, "/", "/nonexistent", "relative"} {
			s.env = []string{"TMPDIR=" + dir}
			if r := s.inside("sh", "-c", "echo x >"+s.home+"/x"); r.Code == 0 {
				t.Errorf("TMPDIR=%s: the home folder is writable", dir)
			}
			if r := s.inside("true"); r.Code != 0 {
				t.Errorf("TMPDIR=%s: %v; want it to run", dir, r)
			}
		}
	})
}

// TestStdioFiles: standard streams that are files outside the grants can be
// opened again by name, and nothing else beside them.
func TestStdioFiles(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		s := newStage(t, u)
		script := `echo one >/dev/stderr && echo two >>/proc/self/fd/1 && echo three | tee -a /dev/stderr >>/dev/stdout && ! true >>` + s.outside + `/other`
		for _, how := range []string{`"$@" >>"$OUT" 2>>"$ERR"`, `"$@" >>"$OUT" 2>&1`} {
			s.env = []string{"OUT=" + s.outside + "/out", "ERR=" + s.outside + "/err"}
			s.write(s.outside+"/out", "", 0o644)
			s.write(s.outside+"/err", "", 0o644)
			s.write(s.outside+"/other", "", 0o644)
			r := testenv.Run(t, s.command("sh", "-c", how, "sh", s.launcher, ".", "--", "sh", "-c", script))
			all := ""
			for _, name := range []string{"out", "err"} {
				b, err := os.ReadFile(filepath.Join(s.outside, name))
				if err != nil {
					t.Fatal(err)
				}
				all += string(b)
			}
			if r.Code != 0 || !strings.Contains(all, "two") || strings.Count(all, "three") != 2 {
				t.Errorf("%s: %v, written: %q; want one, two, three", how, r, all)
			}
		}
		// Standard input is for reading.
		s.write(s.outside+"/in", "input\n", 0o644)
		s.env = []string{"IN=" + s.outside + "/in"}
		r := testenv.Run(t, s.command("sh", "-c", `"$@" <"$IN"`, "sh", s.launcher, ".", "--", "sh", "-c", "cat /dev/stdin; ! true >/dev/stdin"))
		if r.Code != 0 || r.Stdout != "input\n" {
			t.Errorf("standard input: %v; want it to be read, and not to be written", r)
		}
	})
}

// TestJobServer: the launcher within a recipe hands make's job server down.
func TestJobServer(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		s := newStage(t, u)
		s.need("make")
		s.write(s.tree+"/Makefile", "all:\n\t+@"+s.launcher+" . -- $(MAKE) --no-print-directory sub\nsub: a b c\na b c:\n\t@echo $@ >$@.out\n", 0o644)
		r := testenv.Run(t, s.command("make", "-j3", "all"))
		if out := s.must("sh", "-c", "cat *.out"); r.Code != 0 || strings.Contains(r.Stderr, "jobserver") || out != "a\nb\nc\n" {
			t.Errorf("%v; want no word of the job server", r)
		}
	})
}

// TestDescriptors: above 2, pipes pass and what --keep-fd names, nothing else.
func TestDescriptors(t *testing.T) {
	testenv.EachUser(t, func(t *testing.T, u testenv.User) {
		s := newStage(t, u)
		s.write(s.outside+"/file", "secret\n", 0o644)
		open := func(keep string) string {
			cmd := s.command("sh", "-c", `exec 5<"$0/file" 6<"$0" 7<>"$0/file" 8>/dev/null; "$@"`, s.outside, s.launcher)
			cmd.Args = append(cmd.Args, strings.Fields(keep)...)
			cmd.Args = append(cmd.Args, ".", "--", "sh", "-c", "for fd in 3 4 5 6 7 8 9; do test -e /proc/self/fd/$fd && echo $fd; done; true")
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			defer w.Close()
			cmd.ExtraFiles = []*os.File{r, w}
			return strings.Join(strings.Fields(testenv.Output(t, cmd)), " ")
		}
		if got := open(""); got != "3 4" {
			t.Errorf("open inside: %s; want the pipes 3 and 4", got)
		}
		if got := open("--keep-fd 5 --keep-fd 8"); got != "3 4 5 8" {
			t.Errorf("open inside with --keep-fd 5 and 8: %s; want 3 4 5 8", got)
		}
		// One that is kept for reading can't be reopened for writing.
		cmd := s.command("sh", "-c", `exec 5<"$0/file"; "$@"`, s.outside, s.launcher, "--keep-fd", "5", ".", "--",
			"sh", "-c", "cat <&5; ! true >/proc/self/fd/5")
		if r := testenv.Run(t, cmd); r.Code != 0 || r.Stdout != "secret\n" {
			t.Errorf("a kept descriptor: %v; want it to be read only", r)
		}
		if b, err := os.ReadFile(s.outside + "/file"); err != nil || string(b) != "secret\n" {
			t.Errorf("the file outside has %q, %v", b, err)
		}
	})
}

// TestManyArguments: arguments and variables pass as they are.
func TestManyArguments(t *testing.T) {
	s := newStage(t, testenv.Self())
	args := []string{"", " ", "a b", "new\nline", "b\xffd", "--", "-x", "$HOME", "*", strings.Repeat("x", 100_000)}
	for i := range 1000 {
		args = append(args, strconv.Itoa(i))
	}
	s.env = []string{"ODD=b\xffd\n", "EMPTY="}
	out := s.mustInside(append([]string{"sh", "-c", `printf '%s\0' "$@" "$ODD" "${EMPTY-unset}"`, "sh"}, args...)...)
	if want := strings.Join(append(args, "b\xffd\n", "", ""), "\x00"); out != want {
		t.Errorf("got %d bytes, want %d as they were given", len(out), len(want))
	}
}
