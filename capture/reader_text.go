package capture

import (
	"fmt"
	"strconv"
	"strings"
)

// The texts in this file are those that existing agents were taught. Whoever can
// should use the values that they are made of: a command can print them, too.

// Text returns the page as text with a header and numbered lines. The id names the
// stream.
func (p *Page) Text(id ID) string {
	var b strings.Builder
	state := "TRUNCATED"
	if p.Complete() {
		state = "COMPLETE"
	}
	fmt.Fprintf(&b, "[Command Output: %s]\nTotal size: %s | Showing bytes %d-%d | %s\n\n", id, HumanSize(p.Size), p.Offset, p.End, state)
	b.WriteString(p.Before.marker())
	switch {
	case p.Size == 0 && !p.Live:
		b.WriteString(NoOutput + "\n")
	case len(p.Lines) == 0 && p.Live:
		fmt.Fprintf(&b, "(nothing more so far; the command is running)\n")
	case len(p.Lines) == 0 && p.Next >= p.Size:
		fmt.Fprintf(&b, "(nothing more)\n")
	}
	writeLines(&b, p.Lines, 0)
	b.WriteString(p.After.marker())
	b.WriteString(redactedNote(p.Redacted))
	return b.String()
}

// Text returns the matches as text with a header and numbered lines. The id names the
// stream.
func (m *Matches) Text(id ID) string {
	var b strings.Builder
	fmt.Fprintf(&b, "[Command Output: %s] (search: \"%s\")\n", id, m.Pattern)
	switch {
	case m.Total == 0:
		fmt.Fprintf(&b, "Total size: %s\n", HumanSize(m.Size))
	case m.First <= 1:
		fmt.Fprintf(&b, "Total matches: %d | Showing first %d\n", m.Total, m.Shown)
	case m.Shown > 0:
		fmt.Fprintf(&b, "Total matches: %d | Showing %d-%d\n", m.Total, m.First, m.First+m.Shown-1)
	default:
		fmt.Fprintf(&b, "Total matches: %d | Showing none after the first %d\n", m.Total, m.First-1)
	}
	if m.Invalid != "" {
		fmt.Fprintf(&b, "Not a valid regular expression (%s); searched for the text as it is.\n", m.Invalid)
	}
	b.WriteByte('\n')
	if m.Total == 0 {
		b.WriteString("No matches found for the search pattern.\n")
	}
	writeLines(&b, m.Lines, 5)
	b.WriteString(m.Gap.marker())
	b.WriteString(redactedNote(m.Redacted))
	return b.String()
}

// writeLines writes numbered lines, with numbers of at least width columns, and a
// line between those that don't follow one another when some of them are context.
func writeLines(b *strings.Builder, lines []Line, width int) {
	context := false
	for _, l := range lines {
		context = context || width > 0 && !l.Match
		width = max(width, len(strconv.FormatInt(l.Number+l.Repeats, 10)))
	}
	for i, l := range lines {
		if context && i > 0 && lines[i-1].Number+lines[i-1].Repeats+1 < l.Number {
			b.WriteString("--\n")
		}
		if l.Number > 0 {
			fmt.Fprintf(b, "%*d | ", width, l.Number)
		}
		if l.Continued {
			b.WriteString("…")
		}
		b.WriteString(l.Text)
		if l.Unfinished {
			b.WriteString("…")
		}
		b.WriteByte('\n')
		if l.Repeats > 0 {
			if l.Number > 0 {
				fmt.Fprintf(b, "%*s | ", width, "")
			}
			b.WriteString(repeatedLine(l.Repeats) + "\n")
		}
	}
}

// marker returns a line for a gap.
func (g *Gap) marker() string {
	if g == nil {
		return ""
	}
	return omission(g.To-g.From) + "\n"
}
