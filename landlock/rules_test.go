package landlock

import (
	"errors"
	"reflect"
	"strings"
	"syscall"
	"testing"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"

	"github.com/shofer-dev/shofer-sandbox/policy"
)

// The rights by their own names, apart from the sets of the code.
const (
	writeABI1 = ll.AccessFSWriteFile | ll.AccessFSRemoveDir | ll.AccessFSRemoveFile |
		ll.AccessFSMakeChar | ll.AccessFSMakeDir | ll.AccessFSMakeReg | ll.AccessFSMakeSock |
		ll.AccessFSMakeFifo | ll.AccessFSMakeBlock | ll.AccessFSMakeSym
	givenABI1 = writeABI1 &^ (ll.AccessFSMakeChar | ll.AccessFSMakeBlock)
	read      = ll.AccessFSExecute | ll.AccessFSReadFile | ll.AccessFSReadDir
	refer     = ll.AccessFSRefer
	truncate  = ll.AccessFSTruncate
	ioctl     = ll.AccessFSIoctlDev
	resolve   = ll.AccessFSResolveUnix
	scopes    = ll.ScopeSignal | ll.ScopeAbstractUnixSocket
)

func TestCompile(t *testing.T) {
	wt := policy.Grant{Path: "/wt", Access: policy.Read | policy.Write, Origin: policy.FromWorktree}
	dev := policy.Grant{Path: "/dev/tty", Access: policy.Write | policy.Ioctl, Optional: true}
	usr := policy.Grant{Path: "/usr", Access: policy.Read}
	sock := policy.Grant{Path: "/run/s", Access: policy.Connect, NoSymlinks: true}
	r := &policy.Resolved{
		Policy: policy.Policy{Mode: policy.WorkspaceWrite},
		Grants: []policy.Grant{wt, dev, usr, sock},
	}
	for _, tt := range []struct {
		abi int
		fs  FSRights
		sc  Scopes
		// What the grants give; 0 for no rule.
		wt, dev, sock FSRights
	}{
		{1, writeABI1, 0, givenABI1, givenABI1, 0},
		{2, writeABI1 | refer, 0, givenABI1 | refer, givenABI1 | refer, 0},
		{3, writeABI1 | refer | truncate, 0, givenABI1 | refer | truncate, givenABI1 | refer | truncate, 0},
		{4, writeABI1 | refer | truncate, 0, givenABI1 | refer | truncate, givenABI1 | refer | truncate, 0},
		{5, writeABI1 | refer | truncate | ioctl, 0, givenABI1 | refer | truncate, givenABI1 | refer | truncate | ioctl, 0},
		{6, writeABI1 | refer | truncate | ioctl, scopes, givenABI1 | refer | truncate, givenABI1 | refer | truncate | ioctl, 0},
		{7, writeABI1 | refer | truncate | ioctl, scopes, givenABI1 | refer | truncate, givenABI1 | refer | truncate | ioctl, 0},
		{8, writeABI1 | refer | truncate | ioctl, scopes, givenABI1 | refer | truncate, givenABI1 | refer | truncate | ioctl, 0},
		{9, writeABI1 | refer | truncate | ioctl | resolve, scopes, givenABI1 | refer | truncate, givenABI1 | refer | truncate | ioctl, resolve},
		{10, writeABI1 | refer | truncate | ioctl | resolve, scopes, givenABI1 | refer | truncate, givenABI1 | refer | truncate | ioctl, resolve},
		{11, writeABI1 | refer | truncate | ioctl | resolve, scopes, givenABI1 | refer | truncate, givenABI1 | refer | truncate | ioctl, resolve},
		{99, writeABI1 | refer | truncate | ioctl | resolve, scopes, givenABI1 | refer | truncate, givenABI1 | refer | truncate | ioctl, resolve},
	} {
		want := Ruleset{HandledFS: tt.fs, Scoped: tt.sc, Paths: []PathRule{{wt, tt.wt}, {dev, tt.dev}}}
		if tt.sock != 0 {
			want.Paths = append(want.Paths, PathRule{sock, tt.sock})
		}
		got, err := Compile(Support{ABI: tt.abi}, r)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("Compile(ABI %d) =\n%v, %v; want\n%v", tt.abi, got, err, want)
		}
	}
}

func TestCompileRead(t *testing.T) {
	r := &policy.Resolved{
		Policy: policy.Policy{Read: []policy.Path{}},
		Grants: []policy.Grant{
			{Path: "/usr", Access: policy.Read},
			{Path: "/wt", Access: policy.Write},
			{Path: "/run/s", Access: policy.Connect},
		},
	}
	for abi := 1; abi <= Newest; abi++ {
		rs, err := Compile(Support{ABI: abi}, r)
		if err != nil {
			t.Fatal(err)
		}
		if got := rs.HandledFS & read; got != read {
			t.Errorf("ABI %d: handled %v; want %v among them", abi, rs.HandledFS, FSRights(read))
		}
		if got := rs.Paths[0].Rights; got != read {
			t.Errorf("ABI %d: /usr gets %v; want %v", abi, got, FSRights(read))
		}
		if got := rs.Paths[1].Rights; got&(read|givenABI1) != read|givenABI1 {
			t.Errorf("ABI %d: /wt gets %v; want to read and write", abi, got)
		}
	}
}

func TestCompilePorts(t *testing.T) {
	all := policy.Network{ConnectTCP: []uint16{80, 443}, BindTCP: []uint16{0}, ConnectUDP: []uint16{53}, BindUDP: []uint16{}}
	for _, tt := range []struct {
		abi   int
		n     policy.Network
		net   NetRights
		ports []PortRule
	}{
		{11, policy.Network{}, 0, nil},
		{11, policy.Network{Mode: policy.NetworkAll}, 0, nil},
		{11, policy.Network{Mode: policy.NetworkNone}, 0, nil}, // not by ports
		{3, all, 0, nil},
		{4, all, ll.AccessNetConnectTCP | ll.AccessNetBindTCP, []PortRule{
			{0, ll.AccessNetBindTCP}, {80, ll.AccessNetConnectTCP}, {443, ll.AccessNetConnectTCP},
		}},
		{10, all, ll.AccessNetConnectTCP | ll.AccessNetBindTCP | ll.AccessNetConnectSendUDP | ll.AccessNetBindUDP, []PortRule{
			{0, ll.AccessNetBindTCP}, {80, ll.AccessNetConnectTCP}, {443, ll.AccessNetConnectTCP}, {53, ll.AccessNetConnectSendUDP},
		}},
		{11, policy.Network{ConnectTCP: []uint16{}}, ll.AccessNetConnectTCP, nil},
		{11, policy.Network{BindTCP: []uint16{8080}}, ll.AccessNetBindTCP, []PortRule{{8080, ll.AccessNetBindTCP}}},
		{11, policy.Network{BindUDP: []uint16{}}, ll.AccessNetBindUDP, nil},
	} {
		rs, err := Compile(Support{ABI: tt.abi}, &policy.Resolved{Policy: policy.Policy{Network: tt.n}})
		if err != nil || rs.HandledNet != tt.net || !reflect.DeepEqual(rs.Ports, tt.ports) {
			t.Errorf("Compile(ABI %d, %+v) = %v %v, %v; want %v %v", tt.abi, tt.n, rs.HandledNet, rs.Ports, err, tt.net, tt.ports)
		}
	}
}

func TestCompileIPC(t *testing.T) {
	for _, tt := range []struct {
		ipc  policy.IPC
		want Scopes
	}{
		{policy.IPC{}, scopes},
		{policy.IPC{AllowSignals: true}, ll.ScopeAbstractUnixSocket},
		{policy.IPC{AllowAbstract: true}, ll.ScopeSignal},
		{policy.IPC{AllowSignals: true, AllowAbstract: true}, 0},
	} {
		rs, err := Compile(Support{ABI: 6}, &policy.Resolved{Policy: policy.Policy{IPC: tt.ipc}})
		if err != nil || rs.Scoped != tt.want {
			t.Errorf("Compile(%+v).Scoped = %v, %v; want %v", tt.ipc, rs.Scoped, err, tt.want)
		}
	}
}

func TestCompileRefuses(t *testing.T) {
	confined := &policy.Resolved{}
	unconfined := &policy.Resolved{Policy: policy.Policy{Mode: policy.Unconfined}, Grants: []policy.Grant{{Path: "/", Access: policy.Write}}}
	for _, errno := range []syscall.Errno{syscall.ENOSYS, syscall.EOPNOTSUPP, syscall.EPERM} {
		s := Support{Err: errno}
		var e *SupportError
		if rs, err := Compile(s, confined); !errors.As(err, &e) || !errors.Is(err, errno) || !rs.Empty() {
			t.Errorf("Compile(%v) = %v, %v; want a SupportError", errno, rs, err)
		} else if !strings.Contains(err.Error(), s.Reason()) {
			t.Errorf("error = %q; want the reason %q in it", err, s.Reason())
		}
		if rs, err := Compile(s, unconfined); err != nil || !reflect.DeepEqual(rs, Ruleset{}) {
			t.Errorf("Compile(%v, unconfined) = %v, %v; want nothing, nil", errno, rs, err)
		}
	}
	if rs, err := Compile(Support{ABI: 7}, unconfined); err != nil || !reflect.DeepEqual(rs, Ruleset{}) {
		t.Errorf("Compile(unconfined) = %v, %v; want nothing, nil", rs, err)
	}
	if _, err := Compile(Support{ABI: 7}, nil); err == nil {
		t.Error("Compile(nil) = nil; want an error")
	}
}

func TestRulesetString(t *testing.T) {
	rs := Ruleset{
		HandledFS:  ll.AccessFSWriteFile | ll.AccessFSTruncate,
		HandledNet: ll.AccessNetConnectTCP,
		Scoped:     ll.ScopeSignal,
		Paths: []PathRule{
			{policy.Grant{Path: "/a b\n\xff", Optional: true, NoSymlinks: true}, ll.AccessFSWriteFile},
			{policy.Grant{Path: "/c"}, ll.AccessFSTruncate | 1<<40},
		},
		Ports: []PortRule{{443, ll.AccessNetConnectTCP}},
	}
	want := `deny fs write_file,truncate
deny net connect_tcp
deny scope signal
allow path "/a b\n\xff" write_file if-present no-symlinks
allow path "/c" truncate,bit40
allow port 443 connect_tcp
`
	if got := rs.String(); got != want {
		t.Errorf("String() =\n%s; want\n%s", got, want)
	}
	if got := (Ruleset{}).String(); got != "nothing\n" {
		t.Errorf("String() of nothing = %q", got)
	}
}

// TestABIs holds the table against what is known of it: each version adds to the
// one before, and each right has a name.
func TestABIs(t *testing.T) {
	for v := 1; v <= Newest; v++ {
		a, before := ABIs[v], ABIs[v-1]
		if a.Version != v || a.Kernel == "" {
			t.Errorf("ABIs[%d] = %+v", v, a)
		}
		if before.FS&^a.FS != 0 || before.Net&^a.Net != 0 || before.Scopes&^a.Scopes != 0 || before.RestrictFlags&^a.RestrictFlags != 0 {
			t.Errorf("ABI %d lacks what %d has", v, v-1)
		}
		for _, s := range []string{a.FS.String(), a.Net.String(), a.Scopes.String()} {
			if strings.Contains(s, "bit") {
				t.Errorf("ABI %d: a right without a name in %s", v, s)
			}
		}
	}
}

// TestABIOfThisKernel holds the row of the running kernel against it: what the
// row has is accepted, and nothing more.
func TestABIOfThisKernel(t *testing.T) {
	needABI(t, 1)
	s := Probe()
	row := s.abi()
	accepts := func(attr ll.RulesetAttr) bool {
		fd, err := ll.LandlockCreateRuleset(&attr, 0)
		if err != nil {
			return false
		}
		if err := syscall.Close(fd); err != nil {
			t.Fatal(err)
		}
		return true
	}
	for i := range 64 {
		bit := uint64(1) << i
		if got, want := accepts(ll.RulesetAttr{HandledAccessFS: bit}), uint64(row.FS)&bit != 0; got != want && s.ABI <= Newest {
			t.Errorf("fs bit %d: accepted = %v; want %v", i, got, want)
		}
		if got, want := accepts(ll.RulesetAttr{HandledAccessNet: bit}), uint64(row.Net)&bit != 0; got != want && s.ABI <= Newest {
			t.Errorf("net bit %d: accepted = %v; want %v", i, got, want)
		}
		if got, want := accepts(ll.RulesetAttr{Scoped: bit}), uint64(row.Scopes)&bit != 0; got != want && s.ABI <= Newest {
			t.Errorf("scope bit %d: accepted = %v; want %v", i, got, want)
		}
	}
}
