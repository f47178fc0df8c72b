package main

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strings"
)

// keyring holds the keys of Debian's archives; package debian-archive-keyring.
const keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// archives are the addresses of Debian's packages.
type archives struct{ main, security string }

// findArchives asks this machine's apt which archives it is set up for, unless
// the environment names others.
func findArchives(ctx context.Context) (archives, error) {
	a := archives{os.Getenv("VMRUN_MIRROR"), os.Getenv("VMRUN_SECURITY_MIRROR")}
	if _, err := os.Stat(keyring); err != nil {
		return a, hinted("apt-get install debian-archive-keyring", "the keys of Debian's archives are missing: %w", err)
	}
	if a.main == "" {
		out, err := output(ctx, "", "apt-get", "indextargets",
			"--format", "$(ORIGIN)|$(RELEASE)|$(REPO_URI)", "Created-By: Packages")
		if err != nil {
			return a, err
		}
		a.fill(string(out))
	}
	if a.main == "" {
		return a, hinted("apt-get update, or set VMRUN_MIRROR (and VMRUN_SECURITY_MIRROR) to an archive's address",
			"apt knows no archive of Debian")
	}
	if a.security == "" {
		a.security = strings.TrimRight(a.main, "/") + "-security"
	}
	return a, nil
}

// fill takes addresses from lines of origin, release and address.
func (a *archives) fill(targets string) {
	for line := range strings.Lines(targets) {
		f := strings.Split(strings.TrimSpace(line), "|")
		if len(f) != 3 || f[0] != "Debian" {
			continue
		}
		to := &a.main
		if strings.HasSuffix(f[1], "-security") {
			to = &a.security
		}
		if *to == "" {
			*to = f[2]
		}
	}
}

// of returns the address that a suite is served at.
func (a archives) of(suite string) string {
	if strings.HasSuffix(suite, "-security") {
		return a.security
	}
	return a.main
}

// apt is apt with sources, lists and a cache of its own, so that neither root
// nor a change of this machine's setup is needed.
type apt struct{ conf string }

// newApt sets one up in the cache and fetches the lists of the suites.
func (c cache) newApt(ctx context.Context, suites []string) (apt, error) {
	from, err := findArchives(ctx)
	if err != nil {
		return apt{}, err
	}
	me, err := user.Current()
	if err != nil {
		return apt{}, err
	}
	dir := filepath.Join(c.dir, "apt")
	for _, d := range []string{"lists/partial", "cache/archives/partial"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			return apt{}, err
		}
	}
	var sources strings.Builder
	for _, suite := range suites {
		fmt.Fprintf(&sources, "deb [signed-by=%s] %s %s main\n", keyring, from.of(suite), suite)
	}
	a := apt{filepath.Join(dir, "apt.conf")}
	for file, text := range map[string]string{
		filepath.Join(dir, "sources.list"): sources.String(),
		a.conf:                             fmt.Sprintf(aptConf, dir, me.Username),
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return apt{}, err
		}
	}
	if _, err := a.run(ctx, "", "apt-get", "update", "-q"); err != nil {
		return apt{}, hinted("is the network there? VMRUN_MIRROR names another archive",
			"the lists of %s can't be had: %w", strings.Join(suites, ", "), err)
	}
	return a, nil
}

// aptConf has the folder and the user. Lists of other suites stay: they are
// needed again.
const aptConf = `Dir::Etc::sourcelist "%[1]s/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::State::lists "%[1]s/lists";
Dir::Cache "%[1]s/cache";
APT::Sandbox::User "%[2]s";
APT::Get::List-Cleanup "false";
APT::Update::Error-Mode "any";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
Acquire::Languages "none";
Acquire::Retries "3";
`

// run runs a program of apt's in dir.
func (a apt) run(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	return output(ctx, dir, name, append([]string{"-c", a.conf}, args...)...)
}
