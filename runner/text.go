package runner

// Brief returns the result without the text of the output: what is left of the
// streams are their totals and artifacts.
func (r *Result) Brief() *Result {
	b := *r
	for _, o := range []**Output{&b.Stdout, &b.Stderr, &b.Merged} {
		if *o != nil {
			c := **o
			c.Head, c.Tail, c.Omitted, c.OmittedLines, c.Truncated = nil, nil, c.Bytes, c.Lines, c.Bytes > 0
			*o = &c
		}
	}
	return &b
}
