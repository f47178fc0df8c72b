package capture

// counted is a source that knows how many lines it has had. A last line without an end
// counts.
type counted interface {
	// totals returns the size and the lines of one moment, and whether they
	// are known.
	totals() (size, lines int64, ok bool)
}

func (s *Stream) totals() (size, lines int64, ok bool) {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	return s.w.size, s.w.lines(), true
}

func (a *Artifact) totals() (size, lines int64, ok bool) {
	i, err := a.Info()
	return i.Size, i.Lines, err == nil && i.State == Complete
}
