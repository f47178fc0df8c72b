package main

import (
	"fmt"
	"io"
	"slices"
	"time"
)

// report is everything of one run.
type report struct {
	Machine  machine   `json:"machine"`
	Sections []section `json:"sections"`
}

// section is what was measured in one interleaved run.
type section struct {
	Title  string `json:"title"`
	As     string `json:"as"`
	Rounds int    `json:"rounds"`
	// Against names the rows that ratios are taken to.
	Against []string `json:"against"`
	Rows    []row    `json:"rows"`
	// Notes say what is missing, and why.
	Notes []string `json:"notes,omitempty"`
}

type row struct {
	Name   string        `json:"name"`
	Median time.Duration `json:"median_ns"`
	P95    time.Duration `json:"p95_ns"`
	// Ratios are medians of the ratios within each round, in the order of
	// the section's Against.
	Ratios []float64 `json:"ratios"`
}

// rows fills the section from samples. Rows to compare with that weren't
// measured are dropped.
func (s *section) rows(samples []sample) {
	byName := map[string]sample{}
	for _, x := range samples {
		byName[x.name] = x
	}
	s.Against = slices.DeleteFunc(s.Against, func(name string) bool {
		_, ok := byName[name]
		return !ok
	})
	for _, x := range samples {
		r := row{Name: x.name, Median: quantile(x.times, 0.5), P95: quantile(x.times, 0.95)}
		for _, name := range s.Against {
			r.Ratios = append(r.Ratios, pairRatio(x, byName[name]))
		}
		s.Rows = append(s.Rows, r)
	}
}

func (r report) print(w io.Writer) {
	m := r.Machine
	fmt.Fprintf(w, "%s, %d CPUs, Linux %s, %s, %s, %s\n", m.CPU, m.CPUs, m.Kernel, m.Go, m.Git, m.Bwrap)
	for _, s := range r.Sections {
		s.print(w)
	}
}

func (s section) print(w io.Writer) {
	fmt.Fprintf(w, "\n%s, as %s, %d rounds\n", s.Title, s.As, s.Rounds)
	width := 0
	for _, r := range s.Rows {
		width = max(width, len(r.Name))
	}
	fmt.Fprintf(w, "  %-*s %10s %10s", width, "", "median", "95 %")
	for _, name := range s.Against {
		fmt.Fprintf(w, "  %*s", len(name)+2, "/ "+name)
	}
	fmt.Fprintln(w)
	for _, r := range s.Rows {
		fmt.Fprintf(w, "  %-*s %7.3f ms %7.3f ms", width, r.Name, ms(r.Median), ms(r.P95))
		for i, name := range s.Against {
			fmt.Fprintf(w, "  %*.3f", len(name)+2, r.Ratios[i])
		}
		fmt.Fprintln(w)
	}
	for _, n := range s.Notes {
		fmt.Fprintf(w, "  %s\n", n)
	}
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
