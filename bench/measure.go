package main

import (
	"fmt"
	"math"
	"os"
	"slices"
	"time"
)

// contender is one thing that is timed.
type contender struct {
	name string
	run  func() error
}

// sample holds the times of one contender.
type sample struct {
	name  string
	times []time.Duration
}

// interleave runs each contender once in every round, A B C A B C …, so that a
// machine that gets slower or busier does so for all of them, and returns their
// times in the given order. The first tenth of the rounds isn't counted, nor
// part of rounds. Any failure ends it.
func interleave(rounds int, cs []contender) ([]sample, error) {
	return interleaveThen(rounds, cs, func() error { return nil })
}

// interleaveThen is interleave with what is to be done after each run, in time
// that isn't counted.
func interleaveThen(rounds int, cs []contender, then func() error) ([]sample, error) {
	out := make([]sample, len(cs))
	for i, c := range cs {
		out[i] = sample{name: c.name, times: make([]time.Duration, 0, rounds)}
	}
	warm := max(1, rounds/10)
	for round := range warm + rounds {
		for i, c := range cs {
			start := time.Now()
			err := c.run()
			took := time.Since(start)
			if err == nil {
				err = then()
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
			if round >= warm {
				out[i].times = append(out[i].times, took)
			}
		}
	}
	return out, nil
}

// quantile returns the value that a part q of the times, from 0 to 1, doesn't
// exceed, interpolated between neighbours. It is 0 for no times.
func quantile(times []time.Duration, q float64) time.Duration {
	if len(times) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(times))
	pos := q * float64(len(sorted)-1)
	low := int(pos)
	high := min(low+1, len(sorted)-1)
	part := pos - float64(low)
	return time.Duration(math.Round(float64(sorted[low])*(1-part) + float64(sorted[high])*part))
}

// pairRatio returns the median of a's times over b's of the same round: what
// drifts between rounds cancels out. It is 0 when there is nothing to compare.
func pairRatio(a, b sample) float64 {
	n := min(len(a.times), len(b.times))
	if n == 0 {
		return 0
	}
	ratios := make([]float64, n)
	for i := range n {
		ratios[i] = float64(a.times[i]) / float64(b.times[i])
	}
	slices.Sort(ratios)
	return (ratios[(n-1)/2] + ratios[n/2]) / 2
}

// surroundings are what a started program finds.
type surroundings struct {
	dir, home string
	null      *os.File
}

func (s surroundings) attr() *os.ProcAttr {
	return &os.ProcAttr{Dir: s.dir, Env: s.env(), Files: []*os.File{s.null, s.null, os.Stderr}}
}

func (s surroundings) env() []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + s.home, "LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=Author", "GIT_AUTHOR_EMAIL=author@example.com",
		"GIT_COMMITTER_NAME=Committer", "GIT_COMMITTER_EMAIL=committer@example.com",
	}
}

// command returns a function that runs argv to its end, with a failure for any
// exit code but 0.
func (s surroundings) command(argv ...string) func() error {
	a := s.attr()
	return func() error {
		p, err := os.StartProcess(argv[0], argv, a)
		if err != nil {
			return err
		}
		st, err := p.Wait()
		if err == nil && !st.Success() {
			err = fmt.Errorf("%q: %v", argv, st)
		}
		return err
	}
}
