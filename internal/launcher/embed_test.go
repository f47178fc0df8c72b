package launcher

import (
	"slices"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/policy"
)

// Every option of the help is found in it, and nothing else.
func TestOptions(t *testing.T) {
	var got []string
	for _, g := range Options() {
		for _, o := range g.Options {
			got = append(got, o.Name)
			if o.Name == "version" {
				continue // which shares its line with help
			}
			if o.Text == "" {
				t.Errorf("--%s has no text", o.Name)
			}
			takes := (&flags{}).toggle(&options{}, o.Name) == nil
			if takes != (o.Value != "") {
				t.Errorf("--%s has the value %q in the help", o.Name, o.Value)
			}
		}
	}
	want := slices.Clone(names[:])
	want = slices.DeleteFunc(want, func(s string) bool { return s == "help" }) // in version's line
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("Options() has %q; want %q", got, want)
	}
}

func TestPolicy(t *testing.T) {
	p, o, err := Policy([]string{"--rw", "/srv", "--net=none", "--backend", "landlock"})
	if err != nil || len(p.Write) != 1 || p.Network.Mode != policy.NetworkNone || p.Mode != policy.WorkspaceWrite || o.Backend != "landlock" {
		t.Errorf("Policy() = %v, %+v, %v", p, o, err)
	}
	for _, args := range [][]string{{"."}, {"--"}, {"--rw"}, {"--no-such"}, {"--rw", ""}} {
		if _, _, err := Policy(args); err == nil && !slices.Equal(args, []string{"--"}) {
			t.Errorf("Policy(%q) = nil; want an error", args)
		}
	}
}
