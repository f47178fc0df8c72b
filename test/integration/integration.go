// Package integration runs the launcher, and package launch, as people use
// them: real commands, repositories and toolchains on the real kernel, as root
// and as an ordinary user. It has tests only.
//
// What a test expects to be out of reach lies outside /tmp and $TMPDIR, which
// every command may write to.
package integration
