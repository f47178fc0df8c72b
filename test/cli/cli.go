// Package cli runs the program runner as people use it: each command by scripts
// that look at its exit codes, at what it prints and at what it leaves; at a
// real terminal; and killed at the worst moments. It has tests only.
package cli
