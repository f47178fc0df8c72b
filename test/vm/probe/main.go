// Command probe prints what this machine offers to a sandbox, one key=value a
// line, and checks what a test believes of it.
//
//	probe [-want KEY=VALUE]...
//
// A wanted value that ends in * is a prefix. The exit code is 0 when all is as
// wanted, 1 when something is not, 2 for bad usage.
//
// Each fact is found by trying, as this user: a kernel's version says little.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
)

func main() {
	if os.Args[0] == nothing {
		return
	}
	code, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
	}
	os.Exit(code)
}

// wants are the values of -want.
type wants []string

// String is for package flag.
func (w *wants) String() string { return strings.Join(*w, " ") }

// Set is for package flag.
func (w *wants) Set(s string) error {
	if !strings.Contains(s, "=") {
		return errors.New("not of the form KEY=VALUE")
	}
	*w = append(*w, s)
	return nil
}

func run(args []string) (int, error) {
	set := flag.NewFlagSet("probe", flag.ContinueOnError)
	var want wants
	set.Var(&want, "want", "`KEY=VALUE` that is expected")
	if err := set.Parse(args); err != nil {
		return 2, nil //nolint:nilerr // the flag set has said it
	}
	got := map[string]string{}
	for _, f := range facts {
		got[f.key] = f.find()
		fmt.Printf("%s=%s\n", f.key, got[f.key])
	}
	var errs []error
	for _, w := range want {
		key, value, _ := strings.Cut(w, "=")
		if has, ok := got[key]; !ok {
			return 2, fmt.Errorf("no fact is called %q", key)
		} else if !matches(has, value) {
			errs = append(errs, fmt.Errorf("%s is %q; want %q", key, has, value))
		}
	}
	if errs != nil {
		return 1, errors.Join(errs...)
	}
	return 0, nil
}

// matches compares a fact with a wanted value.
func matches(has, want string) bool {
	if prefix, ok := strings.CutSuffix(want, "*"); ok {
		return strings.HasPrefix(has, prefix)
	}
	return has == want
}
