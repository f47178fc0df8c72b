package intercept

import "testing"

func TestComplete(t *testing.T) {
	for text, want := range map[string]bool{
		"":                          true,
		"\n":                        true,
		"echo a":                    true,
		"echo a\n":                  true,
		"echo a # b":                true,
		"for i in 1 2; do":          false,
		"for i in 1 2; do\n:; done": true,
		"if true\nthen":             false,
		"echo 'a":                   false,
		"echo \"a":                  false,
		"echo $(":                   false,
		"f() {":                     false,
		"case x in":                 false,
		"true &&":                   false,
		"true |":                    false,
		"cat <<E\n":                 false,
		"cat <<E\na\n":              false,
		"cat <<E\na\nE\n":           true,
		"cat <<-'E'\na\n\tE\n":      true,
		"echo a \\\n":               false,
		"echo a \\\nb\n":            true,
		"echo a \\\\\n":             true,
		"fi":                        true, // wrong, whatever comes
		"echo )":                    true,
	} {
		if got := Complete(text); got != want {
			t.Errorf("Complete(%q) = %v; want %v", text, got, want)
		}
	}
}
