package capture

import (
	"fmt"
	"strings"
	"testing"
)

// made are credentials that nobody has, by kind. They are put together here so that
// nobody's scanner takes them for real.
func made() map[string][]string {
	x := func(n int) string { return strings.Repeat("aB3xY9", n)[:n] }
	upper := func(n int) string { return strings.Repeat("QZ7K2M", n)[:n] }
	return map[string][]string{
		"aws-access-key-id":  {"AKIA" + upper(16), "ASIA" + upper(16)},
		"aws-secret-key":     {"aws_secret_access_key = @" + x(40), "AWS_SECRET_ACCESS_KEY=@" + x(40), `"AwsSecretKey": "@` + x(40)},
		"github-token":       {"ghp_" + x(36), "gho_" + x(36), "ghs_" + x(40), "github_pat_" + x(22) + "_" + x(59)},
		"gitlab-token":       {"glpat-" + x(20), "gldt-" + x(20), "glpat-" + x(27) + ".01." + x(9)},
		"slack-token":        {"xoxb-" + "123456789012-" + x(24), "xapp-1-" + x(30)},
		"slack-webhook":      {"https://hooks.slack.com/services/@T" + upper(8) + "/B" + upper(8) + "/" + x(24)},
		"api-key":            {"sk-" + x(48), "sk-proj-" + x(40), "sk-ant-api03-" + x(80) + "-AA"},
		"google-api-key":     {"AIza" + x(35)},
		"google-token":       {"ya29." + x(60)},
		"stripe-key":         {"sk_" + "live_" + x(24), "rk_" + "test_" + x(24)},
		"npm-token":          {"npm_" + x(36)},
		"pypi-token":         {"pypi-" + "AgEIcHlwaS5vcmc" + x(60)},
		"docker-token":       {"dckr_" + "pat_" + x(27)},
		"huggingface-token":  {"hf_" + x(34)},
		"sendgrid-key":       {"SG." + x(22) + "." + x(43)},
		"digitalocean-token": {"dop_v1_" + strings.Repeat("0a", 32)},
		"age-key":            {"AGE-SECRET-KEY-1" + upper(58)},
		"jwt":                {"eyJ" + x(20) + ".eyJ" + x(40) + "." + x(43), "eyJ" + x(20) + ".eyJ" + x(40)},
		"bearer-token":       {"Authorization: Bearer @" + x(32) + "==", "bearer @" + x(20)},
		"basic-credentials":  {"Authorization: Basic @" + x(20) + "==", `"authorization": "basic @` + x(12)},
		"url-password":       {"https://user:@hunter2", "postgres://db:@s3cr3t", "redis://:@" + x(20)},
	}
}

func TestRedactShapes(t *testing.T) {
	d := NewRedactor(nil, true)
	known := map[string]bool{}
	for kind, all := range made() {
		known[kind] = true
		for _, s := range all {
			// The part after an @ is what has to go.
			lead, rest, ok := strings.Cut(s, "@")
			if !ok {
				lead, rest = "", s
			}
			after := " and more"
			if kind == "url-password" {
				after = "@host/"
			}
			in := "before " + lead + rest + after
			got, n := View{Redact: d}.Show([]byte(in))
			if want := "before " + lead + "[redacted " + kind + "]" + after; got != want || n != 1 {
				t.Errorf("Show(%q) = %q, %d; want %q, 1", in, got, n, want)
			}
		}
	}
	for _, s := range knownShapes() {
		if !known[s.kind] {
			t.Errorf("no example of %s", s.kind)
		}
	}
}

func TestRedactNot(t *testing.T) {
	d := NewRedactor([]string{"1", "abc", ""}, true)
	for _, in := range []string{
		"1 abc",
		"Basic authentication is on, Bearer tokens too",
		"see https://example.com:8080/a@b and git@github.com:org/repo.git",
		"ssh://git@github.com/org/repo",
		"http://localhost:8080/?user=x@y",
		"task-list desk-top disk-usage-of-the-whole-machine",
		"-----BEGIN CERTIFICATE-----\nMIID\n-----END CERTIFICATE-----",
		"-----BEGIN PUBLIC KEY-----",
		"commit 3f786850e387550fdab836ed7e6dc881de23001b",
		"eyJ only",
	} {
		if got, n := (View{Redact: d}).Show([]byte(in)); got != in || n != 0 {
			t.Errorf("Show(%q) = %q, %d; want it as it is", in, got, n)
		}
	}
}

func TestRedactValues(t *testing.T) {
	d := NewRedactor([]string{"hunter2", "hunter2222", "p@ss w/rd", "two lines\nof a secret\n", "\xff\xfebytes"}, false)
	for _, tc := range []struct {
		in, want string
		n        int
	}{
		{"hunter2 hunter2", "[redacted] [redacted]", 2},
		{"hunter2222", "[redacted]", 1},
		{"Hunter2", "Hunter2", 0},
		{"xhunter2x", "x[redacted]x", 1},
		{"https://u:p%40ss%20w%2Frd@h p%40ss+w%2Frd p@ss w/rd", "https://u:[redacted]@h [redacted] [redacted]", 3},
		{"two lines\nof a secret", "[redacted]\n[redacted]", 2},
		{"a \xff\xfebytes b", "a [redacted] b", 1},
		{"nothing", "nothing", 0},
	} {
		if got, n := (View{Redact: d}).Show([]byte(tc.in)); got != tc.want || n != tc.n {
			t.Errorf("Show(%q) = %q, %d; want %q, %d", tc.in, got, n, tc.want, tc.n)
		}
	}
}

// aKey is a private key that opens nothing.
var aKey = "-----BEGIN " + "RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\n" + strings.Repeat("MIIEpAIBAAKCAQEA0Z3VS5JJcds3xfn\n", 20) + "-----END " + "RSA PRIVATE KEY-----"

// hiddenKey is the key's first lines when they are hidden. The third is empty.
func hiddenKey(lines int) string {
	const mark = "[redacted private-key]"
	return mark + "\n" + mark + "\n" + strings.Repeat("\n"+mark, lines-3)
}

func TestRedactKey(t *testing.T) {
	d := NewRedactor(nil, true)
	lines := strings.Count(aKey, "\n") + 1
	hidden := hiddenKey(lines)
	open := strings.Join(strings.SplitAfter(aKey, "\n")[:9], "")
	for _, tc := range []struct {
		name, in, want string
		n              int
	}{
		{"alone", aKey + "\n", hidden + "\n", 1},
		{"inside", "a " + aKey + " b\nc\n", "a " + hidden + " b\nc\n", 1},
		{"two", aKey + "\n" + aKey + "\n", hidden + "\n" + hidden + "\n", 2},
		{"escaped", strings.ReplaceAll(aKey, "\n", `\n`) + ` "x"`, `[redacted private-key] "x"`, 1},
		{"no end", open, hiddenKey(9) + "\n", 1},
		{"much after", open + strings.Repeat("x\n", maxSecret) + "y\n", "", 1},
		{"two on a line", strings.ReplaceAll(aKey, "\n", `\n`) + " " + strings.ReplaceAll(aKey, "\n", `\n`), "[redacted private-key] [redacted private-key]", 2},
	} {
		got, n := View{Redact: d}.Show([]byte(tc.in))
		if tc.want == "" {
			// A key without an end doesn't hide everything that comes after.
			if !strings.HasSuffix(got, "x\ny\n") || strings.Contains(got, "MII") {
				t.Errorf("%s: ends with %q", tc.name, got[max(0, len(got)-40):])
			}
		} else if got != tc.want {
			t.Errorf("%s: %q; want %q", tc.name, got, tc.want)
		}
		if n != tc.n {
			t.Errorf("%s: %d secrets; want %d", tc.name, n, tc.n)
		}
		for _, by := range []int{1, 7, 1000} {
			if s := showBy(View{Redact: d}, []byte(tc.in), by); s != got {
				t.Errorf("%s by %d bytes: %q; want %q", tc.name, by, s, got)
			}
		}
	}
}

// TestRedactPortions writes secrets in every portion, within short and very long lines.
func TestRedactPortions(t *testing.T) {
	r := newRand(11)
	d := NewRedactor([]string{"the-value"}, true)
	token := made()["github-token"][0]
	for _, length := range []int{20, 5000, 3 * maxHeld} {
		var in, want strings.Builder
		secrets := 0
		for range 30 {
			pad := strings.Repeat("x ", r.IntN(length))
			in.WriteString(pad)
			want.WriteString(pad)
			switch r.IntN(4) {
			case 0:
				in.WriteString(token + " ")
				want.WriteString("[redacted github-token] ")
				secrets++
			case 1:
				in.WriteString("the-value")
				want.WriteString("[redacted]")
				secrets++
			case 2:
				in.WriteString("\n")
				want.WriteString("\n")
			case 3:
				in.WriteString(aKey)
				want.WriteString(hiddenKey(strings.Count(aKey, "\n") + 1))
				secrets++
			}
		}
		for _, by := range []int{1, 100, 4096, 1 << 20} {
			var b strings.Builder
			w := NewRenderer(&b, View{Redact: d})
			for text := in.String(); len(text) > 0; {
				n := min(by, len(text))
				_, _ = w.Write([]byte(text[:n]))
				text = text[n:]
			}
			if err := w.Close(); err != nil || b.String() != want.String() {
				t.Fatalf("lines of %d by %d bytes: not as wanted (%v)", length, by, err)
			}
			if w.Redacted() != secrets {
				t.Errorf("lines of %d by %d bytes: %d secrets; want %d", length, by, w.Redacted(), secrets)
			}
		}
	}
}

func FuzzRedact(f *testing.F) {
	for _, all := range made() {
		for _, s := range all {
			f.Add([]byte("x "+s+"\ny"), 3)
		}
	}
	f.Add([]byte(aKey), 5)
	d := NewRedactor([]string{"the-value"}, true)
	f.Fuzz(func(t *testing.T, in []byte, portion int) {
		v := View{Redact: d}
		got, n := v.Show(in)
		if strings.Contains(got, "the-value") {
			t.Errorf("%q shows the value", got)
		}
		if a, b := strings.Count(got, "\n"), strings.Count(string(in), "\n"); a != b {
			t.Errorf("%d lines; want %d", a, b)
		}
		if n == 0 && got != string(in) {
			t.Errorf("%q has changed to %q", in, got)
		}
		if by := showBy(v, in, max(1, portion&31)); by != got {
			t.Errorf("by %d bytes %q; want %q", portion&31, by, got)
		}
	})
}

func BenchmarkRedact(b *testing.B) {
	in := wordsAt(newRand(1), 8<<20)
	var values []string
	for i := range 40 {
		values = append(values, fmt.Sprintf("value-number-%d-of-the-lot", i))
	}
	v := View{Redact: NewRedactor(values, true)}
	b.SetBytes(int64(len(in)))
	for b.Loop() {
		v.Show(in)
	}
}
