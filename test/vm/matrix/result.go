package main

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// result is what came of a cell.
type result struct {
	cell
	// missing says why the cell could not be had; nothing ran then.
	missing string
	release string // the kernel that ran
	// counts of tests, not counting what they consist of.
	passed, failed, skipped int
	// skips are the reasons of skips, by test.
	skips map[string]string
	// problems are what went wrong: tests that failed, and others.
	problems []string
	// took is the time that passed; cpu is what processors worked in it.
	took, cpu time.Duration
}

// ok reports whether nothing is wrong with the cell. In a strict run what is
// required may not be missing.
func (r result) ok(strict bool) bool {
	return r.problems == nil && (r.missing == "" || !r.required || !strict)
}

// A line of a test's verbose output for test2json begins with a mark that a
// test's own output doesn't have.
var verdict = regexp.MustCompile(`^\x16--- (PASS|FAIL|SKIP): (\S+) \(`)

// reason is a line that t.Skip wrote.
var reason = regexp.MustCompile(`^ +\S+\.go:\d+: (.*)`)

// read takes apart what the script wrote, and its exit status.
func (r *result) read(output string, status int) {
	r.skips = map[string]string{}
	pkg, said := "", ""
	for line := range strings.Lines(output) {
		line = strings.TrimRight(line, "\r\n")
		switch {
		case r.release == "" && strings.HasPrefix(line, "kernel="):
			r.release = strings.TrimPrefix(line, "kernel=")
		case strings.HasPrefix(line, "probe: "), pkg == "" && strings.HasPrefix(line, "vmrun: error: "):
			r.problems = append(r.problems, line)
		case strings.HasPrefix(line, markBegin):
			pkg = strings.TrimPrefix(line, markBegin)
		case strings.HasPrefix(line, markEnd):
			name, code, _ := strings.Cut(strings.TrimPrefix(line, markEnd), " ")
			if code != "0" {
				r.problems = append(r.problems, name+" exits with "+code)
			}
			pkg = ""
		case reason.MatchString(line):
			said = reason.FindStringSubmatch(line)[1]
		default:
			if m := verdict.FindStringSubmatch(line); m != nil {
				r.count(m[1], pkg, m[2], said)
			}
		}
	}
	switch {
	case pkg != "":
		r.problems = append(r.problems, pkg+" did not end; vmrun's exit status is "+strconv.Itoa(status))
	case status != 0 && r.problems == nil:
		r.problems = append(r.problems, "exit status "+strconv.Itoa(status))
	case r.passed == 0 && r.problems == nil:
		r.problems = append(r.problems, "no test passed")
	}
}

// count counts a test. Parts of one are not, but why they were skipped is kept.
func (r *result) count(verdict, pkg, name, said string) {
	part := strings.Contains(name, "/")
	test := pkg + " " + name
	switch verdict {
	case "PASS":
		if !part {
			r.passed++
		}
	case "FAIL":
		if !part {
			r.failed++
		}
		r.problems = append(r.problems, test)
	case "SKIP":
		if !part {
			r.skipped++
		}
		r.skips[test] = said
	}
}
