package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"golang.org/x/sys/unix"
)

// report is what a launcher holds.
type report struct {
	Launcher string `json:"launcher"`
	Command  string `json:"command"`
	// Refused is what it said instead of running anything.
	Refused string   `json:"refused,omitempty"`
	Results []result `json:"results,omitempty"`
}

func (r report) count(v verdict) (n int) {
	for _, x := range r.Results {
		if x.Verdict == v {
			n++
		}
	}
	return n
}

// printed is the JSON form of all reports.
type printed struct {
	Kernel   string   `json:"kernel"`
	UID      int      `json:"uid"`
	Families []string `json:"families"`
	Reports  []report `json:"reports"`
}

// print prints the reports.
func print(w io.Writer, reports []report, o options) error {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return err
	}
	kernel := unix.ByteSliceToString(u.Release[:])
	if o.json {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(printed{kernel, os.Getuid(), families, reports})
	}
	for _, r := range reports {
		printResults(w, r, o.verbose)
	}
	fmt.Fprintf(w, "Linux %s, uid %d: held/broken/n.a.\n\n", kernel, os.Getuid())
	return printTable(w, reports)
}

// printResults prints what is broken, or everything.
func printResults(w io.Writer, r report, verbose bool) {
	fmt.Fprintf(w, "%s\n", r.Launcher)
	if r.Refused != "" {
		fmt.Fprintf(w, "  runs nothing here: %s\n\n", r.Refused)
		return
	}
	for _, x := range r.Results {
		if !verbose && x.Verdict != broken {
			continue
		}
		why := ""
		if x.Why != "" {
			why = ": " + x.Why
		} else if x.Verdict == broken && x.Kind == "refusal" {
			why = ": was done"
		}
		fmt.Fprintf(w, "  %-6s %s/%s%s\n", x.Verdict, x.Family, x.Check, why)
	}
	fmt.Fprintf(w, "  %d held, %d broken, %d n.a.\n\n", r.count(held), r.count(broken), r.count(none))
}

// printTable prints launcher by family.
func printTable(w io.Writer, reports []report) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(tw, "\t")
	for i := range reports {
		fmt.Fprintf(tw, "[%d]\t", i+1)
	}
	fmt.Fprintln(tw)
	for _, f := range families {
		var counts []map[verdict]int
		any := false
		for _, r := range reports {
			count := map[verdict]int{}
			for _, x := range r.Results {
				if x.Family == f {
					count[x.Verdict]++
					any = true
				}
			}
			counts = append(counts, count)
		}
		if !any {
			continue
		}
		fmt.Fprintf(tw, "%s\t", f)
		for i, c := range counts {
			if reports[i].Refused != "" {
				fmt.Fprint(tw, "-\t")
				continue
			}
			fmt.Fprintf(tw, "%d/%d/%d\t", c[held], c[broken], c[none])
		}
		fmt.Fprintln(tw)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	for i, r := range reports {
		fmt.Fprintf(w, "[%d] %s\n", i+1, r.Launcher)
	}
	return nil
}
