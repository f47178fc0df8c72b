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

func TestSocketIn(t *testing.T) {
	for value, want := range map[string]string{
		"":                                 "",
		"unix:///run/user/1/docker.sock":   "/run/user/1/docker.sock",
		"tcp://127.0.0.1:2375":             "",
		"ssh://host":                       "",
		"unix:path=/run/user/1/bus,guid=0": "/run/user/1/bus",
		"unix:path=/a;unix:path=/b":        "/a",
		"unix:abstract=/tmp/dbus-x":        "",
		"/tmp/tmux-1/default,123,0":        "/tmp/tmux-1/default",
		"relative":                         "",
	} {
		if got := socketIn(value); got != want {
			t.Errorf("socketIn(%q) = %q; want %q", value, got, want)
		}
	}
}

func TestSocketPattern(t *testing.T) {
	e := &examiner{environ: []string{"XDG_RUNTIME_DIR=/r", "TMUX_TMPDIR=/t"}}
	for pattern, want := range map[string]string{
		"/run/docker.sock":    "/run/docker.sock",
		"{run}/bus":           "/r/bus",
		"{home}/.docker/sock": "", // no HOME
	} {
		if got := e.socketPattern(pattern); got != want {
			t.Errorf("socketPattern(%q) = %q; want %q", pattern, got, want)
		}
	}
}
