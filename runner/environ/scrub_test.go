package environ_test

import (
	"strings"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/runner/environ"
)

// scrubbed reports whether an ambient variable is dropped, and the last reason.
func scrubbed(t testing.TB, s environ.Scrub, entry string) (dropped bool, reason string) {
	t.Helper()
	env, decisions, err := environ.Build(plain(environ.Layers{Ambient: []string{entry}, Scrub: s}))
	if err != nil || len(decisions) != 1 {
		t.Fatalf("Build(%q) = %v, %v; want one decision", entry, decisions, err)
	}
	d := decisions[0]
	if _, v, _ := strings.Cut(entry, "="); len(v) > 3 && strings.Contains(d.String(), v) {
		t.Errorf("the decision tells the value: %v", d)
	}
	return len(env) == 0, d.Reason
}

func TestScrub(t *testing.T) {
	none := environ.Scrub{}
	for _, tt := range []struct {
		s     environ.Scrub
		entry string
		want  bool
	}{
		{none, "HOME=/h", false},
		{none, "GITHUB_TOKEN=x", true},
		{none, "github_token=x", true},
		{none, "OPENAI_API_KEY=x", true},
		{none, "APIKEY=x", true},
		{none, "AWS_SECRET_ACCESS_KEY=x", true},
		{none, "PGPASSWORD=x", true},
		{none, "MYSQL_PWD=x", true},
		{none, "GPG_PASSPHRASE=x", true},
		{none, "DB_PASS=x", true},
		{none, "AZURE_DEVOPS_EXT_PAT=x", true},
		{none, "npm_config_//registry.npmjs.org/:_authToken=x", true},
		{none, "DOCKER_AUTH_CONFIG={}", true},
		{none, "GOOGLE_APPLICATION_CREDENTIALS=/x", true},

		// What only sounds like it.
		{none, "GIT_CONFIG_KEY_0=http.extraheader", false},
		{none, "GIT_CONFIG_VALUE_0=AUTHORIZATION: basic eDp5", false},
		{none, "TOKENIZERS_PARALLELISM=false", false},
		{none, "KEYBOARD=us", false},
		{none, "XKB_DEFAULT_KEYMAP=us", false},
		{none, "PWD=/", false},
		{none, "OLDPWD=/", false},
		{none, "SSH_AUTH_SOCK=/x", false},
		{none, "PATH=/bin", false},
		{none, "COMPASS=x", false},
		{none, "https_proxy=http://u:p@proxy:3128", false},
		{none, "GOPROXY=https://u:p@proxy", false},

		// Values.
		{none, "X=-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaA", true},
		{none, "X=-----BEGIN PUBLIC KEY-----", false},
		{none, "X=https://user:pass@example.com/x", true},
		{none, "X=postgres://:pass@db/x", true},
		{none, "X=https://example.com:8080/a@b", false},
		{none, "X=ssh://git@example.com:22/x", false},
		{none, "X=ghp_" + strings.Repeat("a", 36), true},
		{none, "X=github_pat_" + strings.Repeat("a", 40), true},
		{none, "X=ghp_short", false},
		{none, "X=glpat-" + strings.Repeat("a", 20), true},
		{none, "X=AKIA" + strings.Repeat("A", 16), true},
		{none, "X=AIza" + strings.Repeat("b", 35), true},
		{none, "X=eyJhbGciOiJ.eyJzdWIiOi.c2ln", true},
		{none, "X=xoxb-1234567890-abc", true},
		{none, "X=sk_live_0123456789ab", true},
		{none, "X=sk-ant-" + strings.Repeat("a", 30), true},
		{none, "X=risk-" + strings.Repeat("a", 30), false},
		{none, "X=npm_" + strings.Repeat("a", 36), true},
		{none, "X=hf_" + strings.Repeat("a", 34), true},
		{none, "X=pypi-" + strings.Repeat("a", 20), true},
		{none, "X=xapp-1-" + strings.Repeat("A", 12), true},
		{none, "X=github.com/a_b-c", false},
		{none, "X=Authorization: Bearer abc", true},
		{none, "X=AGE-SECRET-KEY-1QQQ", true},

		// What the host says.
		{environ.Scrub{Allow: []string{"my_*"}}, "MY_TOKEN=x", false},
		{environ.Scrub{Allow: []string{"*_token"}}, "MY_TOKEN=x", false},
		{environ.Scrub{Allow: []string{"MY_TOKEN"}}, "MY_TOKEN2=x", true},
		{environ.Scrub{Deny: []string{"HOME"}}, "HOME=/h", true},
		{environ.Scrub{Deny: []string{"*own*"}, Allow: []string{"*"}}, "THE_OWN_ONE=x", true},
		{environ.Scrub{Off: true}, "MY_TOKEN=x", false},
		{environ.Scrub{Off: true, Deny: []string{"MY_*"}}, "MY_TOKEN=x", true},
		{environ.Scrub{Strict: true}, "EXTRA=x", true},
		{environ.Scrub{Strict: true}, "LC_TIME=C", false},
		{environ.Scrub{Strict: true}, "HTTPS_PROXY=http://p", false},
		{environ.Scrub{Strict: true, Allow: []string{"EXTRA"}}, "EXTRA=x", false},
		{environ.Scrub{Strict: true}, "XDG_TOKEN=x", true},
	} {
		got, reason := scrubbed(t, tt.s, tt.entry)
		if got != tt.want {
			t.Errorf("%+v drops %q: %v (%s); want %v", tt.s, tt.entry, got, reason, tt.want)
		}
	}
}

// Whatever the environment, what is dropped doesn't come back, decisions agree
// with what is there, and none has the value.
func FuzzBuild(f *testing.F) {
	f.Add("A=1\nMY_TOKEN=verysecretvalue", "B=2", "SHOFER_X=1", "*a", false)
	f.Add("?=x\nA", "", "", "", false)
	f.Add("=x\nA\nSHOFER_A=1", "MY_TOKEN=1", "", "", true)
	f.Fuzz(func(t *testing.T, ambient, caller, managed, pattern string, terminal bool) {
		lines := func(s string) []string {
			if s == "" {
				return nil
			}
			return strings.Split(s, "\n")
		}
		l := environ.Layers{
			Ambient: append(lines(ambient), "FUZZ_TOKEN=a value that nobody may see"), Caller: lines(caller), Managed: lines(managed),
			Scrub:     environ.Scrub{Deny: []string{pattern, "FUZZ_TOKEN"}},
			Hardening: environ.Hardening{Terminal: terminal},
		}
		env, decisions, err := environ.Build(l)
		if err != nil {
			return
		}
		agree(t, env, decisions)
		for _, d := range decisions {
			if strings.Contains(d.String(), "nobody may see") {
				t.Errorf("a decision tells the value: %v", d)
			}
		}
		set := value(l.Caller, "FUZZ_TOKEN")
		if set == "(unset)" && value(env, "FUZZ_TOKEN") != "(unset)" {
			t.Error("the scrub's variable came back")
		}
		for _, entry := range env {
			if strings.HasPrefix(entry, environ.Prefix) && value(l.Managed, strings.SplitN(entry, "=", 2)[0]) == "(unset)" {
				t.Errorf("%q isn't the runner's", entry)
			}
		}
	})
}
