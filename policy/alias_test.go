package policy

import (
	"slices"
	"testing"
)

const someMounts = `22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 27 254:0 /srv/repo /home/a/my\040repo rw - ext4 /dev/vda rw
31 27 254:0 /srv /mnt/srv rw - ext4 /dev/vda rw
32 27 0:40 / /srv/other rw - tmpfs tmpfs rw
33 27 254:0 /srv/repo/.git/hooks/sub /tmp/sub rw - ext4 /dev/vda rw
34 27 0:40 /x /home/x rw - tmpfs tmpfs rw

half a
`

func TestParseMounts(t *testing.T) {
	got := parseMounts(someMounts)
	want := []mountPoint{
		{"0:21", "/", "/proc"},
		{"254:0", "/", "/"},
		{"254:0", "/srv/repo", "/home/a/my repo"},
		{"254:0", "/srv", "/mnt/srv"},
		{"0:40", "/", "/srv/other"},
		{"254:0", "/srv/repo/.git/hooks/sub", "/tmp/sub"},
		{"0:40", "/x", "/home/x"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("parseMounts = %+v; want %+v", got, want)
	}
	for path, want := range map[string]int{"/proc/1": 0, "/srv/repo/.git": 1, "/srv/others": 1, "/srv/other/x": 4, "/home/x": 6, "/home/xy": 1} {
		if got := mountOf(got, path); got != want {
			t.Errorf("mountOf(%q) = %d; want %d", path, got, want)
		}
	}
	if got := mountOf(got[:1], "/srv"); got != -1 {
		t.Errorf("mountOf of a path on no mount = %d; want -1", got)
	}
	if list := readMounts(); mountOf(list, "/") < 0 {
		t.Errorf("readMounts = %+v; want one at /", list)
	}
}

func TestAliasOf(t *testing.T) {
	mounts := parseMounts(someMounts)
	for _, tt := range []struct {
		mount  int
		inside string
		kind   ProtectKind
		want   string
	}{
		{2, "/srv/repo/.git/config", Frozen, "/home/a/my repo/.git/config"},
		{2, "/srv/repo", Frozen, "/home/a/my repo"},
		{2, "/srv/repository/.git/config", Frozen, ""},
		{3, "/srv/repo/.git/hooks", Frozen, "/mnt/srv/repo/.git/hooks"},
		{5, "/srv/repo/.git/hooks", Frozen, "/tmp/sub"},
		{5, "/srv/repo/.git/hooks", Reopened, ""},
		{5, "/srv/repo/.git/hooks/sub/x", Reopened, "/tmp/sub/x"},
		{6, "/x/y", Frozen, "/home/x/y"},
		{1, "/srv/x", Frozen, "/srv/x"},
	} {
		if got := aliasOf(mounts[tt.mount], tt.inside, tt.kind); got != tt.want {
			t.Errorf("aliasOf(%+v, %q) = %q; want %q", mounts[tt.mount], tt.inside, got, tt.want)
		}
	}
}
