package archtest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// points is how many points docs/requirements.md has of each source.
var points = []struct {
	source string
	n      int
}{{"S0", 101}, {"S1", 101}, {"S2", 86}, {"S3", 17}, {"S4", 49}}

// states are what docs/requirements.md may say of a point.
var states = []string{"met", "host", "otherwise", "partly", "not yet"}

var (
	pointRow = regexp.MustCompile(`(?m)^\| (S\d-\d{3}) \| (.*?) \| (.*?) \| (.*?) \|$`)
	placeOf  = regexp.MustCompile("^`([^`#]+)(?:#(\\w+))?`$")
)

// TestRequirements checks that docs/requirements.md has each point once and in
// order, and that the places that it names are there.
func TestRequirements(t *testing.T) {
	m := thisModule(t)
	page, err := os.ReadFile(filepath.Join(m.root, "docs/requirements.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := pointRow.FindAllStringSubmatch(string(page), -1)
	i := 0
	for _, p := range points {
		for n := 1; n <= p.n; n++ {
			want := fmt.Sprintf("%s-%03d", p.source, n)
			if i >= len(rows) || rows[i][1] != want {
				t.Fatalf("row %d isn't %s", i+1, want)
			}
			i++
		}
	}
	if i < len(rows) {
		t.Errorf("%s is one point too many", rows[i][1])
	}
	for _, row := range rows {
		number, state, what, places := row[1], row[2], row[3], row[4]
		if !slices.Contains(states, state) {
			t.Errorf("%s: the state is %q", number, state)
		}
		if what == "" {
			t.Errorf("%s says nothing", number)
		}
		for _, place := range strings.Split(places, ", ") {
			if err := m.checkPlace(place); err != nil {
				t.Errorf("%s: %v", number, err)
			}
		}
	}
}

// checkPlace checks that a file is there, and has the name if there is one: as
// a function, if it is called like a test.
func (m module) checkPlace(place string) error {
	f := placeOf.FindStringSubmatch(place)
	if f == nil || !filepath.IsLocal(f[1]) {
		return fmt.Errorf("%q is no place", place)
	}
	text, err := os.ReadFile(filepath.Join(m.root, f[1]))
	if err != nil {
		return err
	}
	name := f[2]
	if name == "" {
		return nil
	}
	pattern := `\b` + name + `\b`
	if strings.HasSuffix(f[1], "_test.go") && regexp.MustCompile(`^(Test|Fuzz|Example)`).MatchString(name) {
		pattern = `(?m)^func ` + name + `\(`
	}
	if !regexp.MustCompile(pattern).Match(text) {
		return fmt.Errorf("%s has no %s", f[1], name)
	}
	return nil
}

func TestBadPlaces(t *testing.T) {
	m := thisModule(t)
	for place, want := range map[string]string{
		"`go.mod`": "", "`internal/archtest/requirements_test.go#TestBadPlaces`": "", "`go.mod#module`": "",
		"go.mod": "is no place", "`/etc/passwd`": "is no place", "`../x`": "is no place", "`no/such`": "no such file",
		"`go.mod#modul`": "has no modul", "`internal/archtest/requirements_test.go#TestBad`": "has no TestBad",
	} {
		err := m.checkPlace(place)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("checkPlace(%s) = %v; want %q", place, err, want)
		}
	}
}
