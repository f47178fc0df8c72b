package capture

// Piece is a part of a command's output as [Collector.Merged] shows it: Text, or
// a mark that something is omitted.
type Piece struct {
	Stream *Stream
	Text   []byte
	// Omitted is how many bytes of Stream are left out here, OmittedLines how
	// many line ends are among them. Text is empty where it isn't 0.
	Omitted, OmittedLines int64
}

// maxRuns bounds the log: 24 bytes each.
const maxRuns = 2048

// order is the log of which stream's turn it was. It knows the runs of what the
// windows hold; where these are too many, those of less than grain bytes are
// joined over the other stream's.
type order struct {
	runs  []run
	next  int // length at which to shorten it; zero is the first time
	grain int64
}

// run is from ≤ offset < to of a stream, that came at a stretch.
type run struct {
	s        *Stream
	from, to int64
}

// add notes that n bytes come in s, at offset from.
func (o *order) add(s *Stream, from int64, n int) {
	if i := len(o.runs) - 1; i >= 0 && o.runs[i].s == s && o.runs[i].to == from {
		o.runs[i].to += int64(n)
		return
	}
	if len(o.runs) >= max(o.next, 64) {
		o.shorten()
		o.next = 2 * len(o.runs)
	}
	o.runs = append(o.runs, run{s, from, from + int64(n)})
}

// shorten drops runs that no window holds any more. Of what is left it joins
// small ones as long as that is too much.
func (o *order) shorten() {
	kept := o.runs[:0]
	for _, r := range o.runs {
		if from, to := r.s.w.gap(); r.from < from || r.to > to {
			kept = append(kept, r)
		}
	}
	o.runs = kept
	for len(o.runs) > maxRuns/2 {
		if o.runs = joined(o.runs, o.grain); len(o.runs) > maxRuns/2 {
			o.grain = max(16, 2*o.grain)
		}
	}
}

// joined takes runs together until they have grain bytes, and makes one of
// those of each stream, unless a gap is between them.
func joined(runs []run, grain int64) []run {
	out, start, size := runs[:0], 0, int64(0)
	for _, r := range runs {
		if size >= grain {
			start, size = len(out), 0
		}
		size += r.to - r.from
		i := len(out) - 1
		for i >= start && out[i].s != r.s {
			i--
		}
		if i >= start && out[i].to == r.from {
			out[i].to = r.to
		} else {
			out = append(out, r)
		}
	}
	return out
}

// Merged returns what is in memory of both streams, in the order in which it was
// written, cut as a [Snapshot] is, with one mark for what is omitted of each
// stream. Output that came through two pipes has the order in which it was read
// from them, which is nearly that in which it was written. Where more than a
// thousand turns of the streams are in the windows, the order of the smallest is
// given up. A rune isn't split by the other stream's output.
func (c *Collector) Merged() []Piece {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []Piece
	type place struct {
		next     int64 // what comes next
		from, to int64 // what is omitted
	}
	at := make(map[*Stream]*place, 2)
	for _, s := range c.streams() {
		p := &place{}
		p.from, p.to = s.w.cuts()
		at[s] = p
	}
	// text adds what is in the windows of s up to end, less a rune that isn't
	// complete there although more follows.
	text := func(s *Stream, p *place, end int64) {
		b := s.w.bytes(p.next, end)
		if end != p.from && end != s.w.size {
			b = b[:wholeRunes(b)]
		}
		if len(b) > 0 {
			out = append(out, Piece{Stream: s, Text: b})
			p.next += int64(len(b))
		}
	}
	show := func(s *Stream, p *place, to int64) {
		if p.next < min(p.from, to) {
			text(s, p, min(p.from, to))
		}
		if p.from < p.to && p.next == p.from && to > p.from {
			ends := s.w.ends - lineEnds(s.w.bytes(0, p.from)) - lineEnds(s.w.bytes(p.to, s.w.size))
			out = append(out, Piece{Stream: s, Omitted: p.to - p.from, OmittedLines: ends})
			p.next = p.to
		}
		if p.next >= p.to && p.next < to {
			text(s, p, to)
		}
	}
	for _, r := range c.order.runs {
		show(r.s, at[r.s], r.to)
	}
	// Where a window has no tail, the log needn't know of what is omitted.
	for _, s := range c.streams() {
		show(s, at[s], s.w.size)
	}
	return out
}
