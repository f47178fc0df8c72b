package launch

import "testing"

func TestWSL(t *testing.T) {
	for release, want := range map[string]Grade{
		"6.18.44-generic":                    "",
		"5.15.167.4-microsoft-standard-WSL2": Info,
		"4.19.128-microsoft-standard":        Info,
		"4.4.0-19041-Microsoft":              Fault,
	} {
		if got := wsl(release); got.Grade != want || want != "" && got.Mend == "" {
			t.Errorf("wsl(%q) = %+v; want %q, with a mend", release, got, want)
		}
	}
}
