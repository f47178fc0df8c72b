package launch_test

import (
	"net"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
	"github.com/shofer-dev/shofer-sandbox/landlock"
	"github.com/shofer-dev/shofer-sandbox/policy"
)

// dial is a program that connects to a port of the loopback by TCP, or by
// MPTCP, which falls back to TCP.
const dial = `
import socket, sys
proto = 262 if sys.argv[2] == "mptcp" else 0
s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, proto)
s.connect(("127.0.0.1", int(sys.argv[1])))
print("connected")
`

func TestNetwork(t *testing.T) {
	needLandlock(t)
	if s := landlock.Probe(); s.ABI < landlock.ABITCP {
		testenv.Skip(t, "needs Landlock ABI %d", landlock.ABITCP)
	}
	const python = "/usr/bin/python3"
	if _, err := os.Stat(python); err != nil {
		testenv.Skip(t, "needs %s", python)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	open := l.Addr().(*net.TCPAddr).Port

	inside, _ := places(t)
	for _, tt := range []struct {
		name  string
		net   policy.Network
		by    string
		proto string
		want  string
	}{
		{"all", policy.Network{}, "", "tcp", "connected"},
		{"none", policy.Network{Mode: policy.NetworkNone}, "seccomp", "tcp", "Address family not supported"},
		{"allowed port", policy.Network{ConnectTCP: []uint16{uint16(open)}}, "landlock+seccomp", "tcp", "connected"},
		{"another port", policy.Network{ConnectTCP: []uint16{1}}, "landlock+seccomp", "tcp", "Permission denied"},
		{"another port by mptcp", policy.Network{ConnectTCP: []uint16{1}}, "landlock+seccomp", "mptcp", "Protocol not supported"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := workspace(inside)
			p.Network = tt.net
			s := prepare(t, p)
			for _, f := range s.Applied().Features {
				if f.Promise == policy.PromiseNetwork && (f.State != policy.Enforced || f.By != tt.by) {
					t.Errorf("network is %s by %q; want enforced by %q", f.State, f.By, tt.by)
				}
			}
			out, _ := s.Command(python, "-c", dial, strconv.Itoa(open), tt.proto).CombinedOutput()
			if !strings.Contains(string(out), tt.want) {
				t.Errorf("output %q; want %q", out, tt.want)
			}
		})
	}
}
