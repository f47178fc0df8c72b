package capture

import (
	"bytes"
	"regexp"
	"sync"
)

// credential is the form of a kind of credential.
type credential struct {
	kind string
	// needs are texts, in small letters, of which each credential has one in
	// any case.
	needs []string
	// re's last group is what to hide, or its match where it has none.
	re *regexp.Regexp
}

// knownShapes are those of services whose credentials have a form of their own, and
// of headers and URLs.
var knownShapes = sync.OnceValue(func() []credential {
	var all []credential
	add := func(kind, re string, needs ...string) {
		all = append(all, credential{kind, needs, regexp.MustCompile(re)})
	}
	add("aws-access-key-id", `\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b`, "akia", "asia", "abia", "acca")
	add("aws-secret-key", `(?i)aws_?secret_?(?:access_?)?key["']?\s*[:=]+>?\s*["']?([a-z0-9/+=]{40})`, "secret")
	add("github-token", `\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{22,})`,
		"ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_")
	add("gitlab-token", `\bgl(?:pat|dt|rt|ptt|ft|soat|cbt|imt|agent|oas|ffct)-[A-Za-z0-9_.-]{20,}`,
		"glpat-", "gldt-", "glrt-", "glptt-", "glft-", "glsoat-", "glcbt-", "glimt-", "glagent-", "gloas-", "glffct-")
	add("slack-token", `\b(?:xox[abeoprs]|xapp)-[A-Za-z0-9-]{10,}`, "xox", "xapp-")
	add("slack-webhook", `hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9/_+-]{20,})`, "hooks.slack")
	// OpenAI's and Anthropic's, and others that took their form.
	add("api-key", `\bsk-[A-Za-z0-9_-]{20,}`, "sk-")
	add("google-api-key", `\bAIza[A-Za-z0-9_-]{35}`, "aiza")
	add("google-token", `\bya29\.[A-Za-z0-9_-]{20,}`, "ya29.")
	add("stripe-key", `\b(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{16,}`, "_live_", "_test_")
	add("npm-token", `\bnpm_[A-Za-z0-9]{36}`, "npm_")
	add("pypi-token", `\bpypi-[A-Za-z0-9_-]{50,}`, "pypi-")
	add("docker-token", `\bdckr_[po]at_[A-Za-z0-9_-]{20,}`, "dckr_")
	add("huggingface-token", `\bhf_[A-Za-z0-9]{30,}`, "hf_")
	add("sendgrid-key", `\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}`, "sg.")
	add("digitalocean-token", `\bdo[opr]_v1_[a-f0-9]{64}`, "_v1_")
	add("age-key", `\bAGE-SECRET-KEY-1[A-Z0-9]{50,}`, "age-secret-key-")
	add("jwt", `\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?`, "eyj")
	add("bearer-token", `(?i)\bbearer\s+([a-z0-9._~+/-]{16,}=*)`, "bearer")
	add("basic-credentials", `(?i)\bauthorization["']?\s*[:=]\s*["']?basic\s+([a-z0-9+/]{8,}={0,2})`, "basic")
	add("url-password", `://[^\s:/?#@"'<>]*:([^\s/?#@"'<>]+)@`, "://")
	return all
})

// find appends the credentials of the shape. It is given the line in small letters,
// too.
func (c credential) find(found []secret, line, small []byte) []secret {
	for _, n := range c.needs {
		if !bytes.Contains(small, []byte(n)) {
			continue
		}
		for _, m := range c.re.FindAllSubmatchIndex(line, -1) {
			n := len(m) - 2
			found = append(found, secret{m[n], m[n+1], c.kind})
		}
		break
	}
	return found
}

// small returns b with small letters in place of the capital ones of ASCII.
func small(b []byte) []byte {
	s := bytes.Clone(b)
	for i, c := range s {
		if 'A' <= c && c <= 'Z' {
			s[i] = c + 'a' - 'A'
		}
	}
	return s
}
