package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// source is where the builds are in a guest.
const source = "/vm/src"

// testTime bounds one package's tests in a cell.
const testTime = 6 * time.Minute

// Marks of the script around what it runs; the rest of a line are fields.
const (
	markBegin = "=== matrix begin " // package
	markEnd   = "=== matrix end "   // package, exit status
)

// asOther are parts of tests that root runs as the ordinary user, who has cells
// of their own.
const asOther = "/^uid1000$|//^uid1000$"

// script returns the shell script that a cell runs in the folder root.
func (c cell) script(root string, all []suite) string {
	var b strings.Builder
	fmt.Fprintf(&b, "cd %s || exit\n", quote(root))
	fmt.Fprintf(&b, "bin/probe")
	for _, w := range c.wants {
		b.WriteString(" -want " + quote(w))
	}
	b.WriteString(" || exit\n")
	fmt.Fprintf(&b, "export SHOFER_TEST_LAUNCHER=%s SHOFER_TEST_CONFINES=%s SHOFER_TEST_VM=%s\n",
		quote(root+"/bin/shofer-sandbox"), yes(c.confines), quote(c.name))
	b.WriteString("unset SHOFER_TEST_REQUIRE\nworst=0\n")
	for _, s := range all {
		if !c.runs(s) {
			continue
		}
		fmt.Fprintf(&b, "echo %s\n", quote(markBegin+s.pkg))
		b.WriteString("(cd " + quote(s.pkg))
		if s.programs != nil {
			fmt.Fprintf(&b, " && PATH=%s:$PATH", quote(root+"/stand-in"))
		}
		fmt.Fprintf(&b, " && exec %s -test.v=test2json -test.timeout=%v", quote(root+"/"+s.testBinary()), testTime)
		// With a filter a test binary doesn't mind what no test used.
		skip := cmp.Or(s.skip, "^$")
		if c.root() {
			skip += "|" + asOther
		}
		fmt.Fprintf(&b, " -test.skip=%s", quote(skip))
		if s.run != "" {
			fmt.Fprintf(&b, " -test.run=%s", quote(s.run))
		}
		b.WriteString(") 2>&1\nstatus=$?\n")
		fmt.Fprintf(&b, "echo\necho %s$status\n", quote(markEnd+s.pkg+" "))
		b.WriteString("[ $status -eq 0 ] || worst=1\n")
	}
	b.WriteString("exit $worst\n")
	return b.String()
}

// quote returns s as one word of a shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
