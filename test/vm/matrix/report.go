package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// report prints the table and what else there is to know, and returns whether
// all is well.
func report(w io.Writer, results []result, b *builds, took time.Duration, strict bool) bool {
	ok := true
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "\ncell\tkernel\tpassed\tfailed\tskipped\tseconds\tcpu\t")
	for _, r := range results {
		how := ""
		switch {
		case r.missing != "" && r.required:
			how = "MISSING, and required"
		case r.missing != "":
			how = "LEFT OUT"
		case r.problems != nil:
			how = "FAILED"
		}
		ok = ok && r.ok(strict)
		fmt.Fprintf(tw, "%s\t%s\t%d\t%d\t%d\t%.1f\t%.1f\t%s\n", r.name, r.release, r.passed, r.failed, r.skipped, r.took.Seconds(), r.cpu.Seconds(), how)
	}
	_ = tw.Flush() // of standard output; nobody else can be told
	for _, r := range results {
		if r.missing != "" {
			fmt.Fprintf(w, "\nnot run: %s: %s\n", r.name, r.missing)
		}
		if r.problems != nil {
			fmt.Fprintf(w, "\nFAILED: %s\n  %s\n", r.name, strings.Join(r.problems, "\n  "))
		}
	}
	skips(w, results)
	fmt.Fprintln(w)
	for _, s := range b.suites {
		if s.why != "" && slices.ContainsFunc(results, func(r result) bool { return r.runs(s) }) {
			what := "only " + s.run
			if s.skip != "" {
				what = "not " + s.skip
			}
			fmt.Fprintf(w, "of %s %s: %s\n", s.pkg, what, s.why)
		}
	}
	if b.unlisted != nil {
		fmt.Fprintf(w, "\npackages with tests that test/vm/matrix/suites.go doesn't list: %s\n", strings.Join(b.unlisted, ", "))
	}
	fmt.Fprintf(w, "\n%d cells in %v\n", len(results), took.Round(time.Second))
	return ok
}

// skips prints why tests were skipped, and where.
func skips(w io.Writer, results []result) {
	type where struct{ tests, cells map[string]bool }
	reasons := map[string]where{}
	for _, r := range results {
		for test, why := range r.skips {
			if reasons[why].tests == nil {
				reasons[why] = where{map[string]bool{}, map[string]bool{}}
			}
			reasons[why].tests[test] = true
			reasons[why].cells[r.name] = true
		}
	}
	if len(reasons) > 0 {
		fmt.Fprintln(w, "\nskipped:")
	}
	for _, why := range slices.Sorted(maps.Keys(reasons)) {
		tests := slices.Sorted(maps.Keys(reasons[why].tests))
		more := ""
		if len(tests) > 3 {
			more = fmt.Sprintf(" and %d more", len(tests)-3)
			tests = tests[:3]
		}
		fmt.Fprintf(w, "  %s\n      %s%s, in %d cells\n", why, strings.Join(tests, ", "), more, len(reasons[why].cells))
	}
}
