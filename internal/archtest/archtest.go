// Package archtest holds the structure of this module against its source: which
// package may import which, what the launcher may link, where unsafe may be
// used, and that each package says what it is for. It has tests only.
//
// The files are parsed in the test's own process. A test that asks the go
// command instead keeps its cached pass when a file changes that it didn't open
// itself. What is behind a build constraint for another system than Linux isn't
// looked at by the check of what the launcher links.
package archtest
