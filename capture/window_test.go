package capture

import (
	"strings"
	"testing"
)

func TestSnapshotCuts(t *testing.T) {
	for _, tc := range []struct {
		name, in       string
		w              Window
		head, tail     string
		omitted, lines int64
	}{
		{"nothing", "", HeadTail(10), "", "", 0, 0},
		{"all", "0123456789", HeadTail(10), "0123456789", "", 0, 0},
		{"one too many", "0123456789a", HeadTail(10), "01234", "6789a", 1, 0},
		{"odd budget", "0123456789", HeadTail(5), "012", "89", 5, 0},
		{"head only", "0123456789", Window{Head: 4}, "0123", "", 6, 0},
		{"tail only", "0123456789", Window{Tail: 4}, "", "6789", 6, 0},
		{"negative", "0123456789", Window{-1, 4}, "", "6789", 6, 0},
		{"line near the end of the head", "0123456\n89abcdefghijkl", Window{Head: 8}, "0123456\n", "", 14, 0},
		{"line near enough", "01234\n6789abcdefghijkl", Window{Head: 8}, "01234\n", "", 16, 0},
		{"line too far", "0123\n56789abcdefghijkl", Window{Head: 8}, "0123\n567", "", 14, 0},
		{"tail at a line", "0123456789\nabcdefgh", Window{Tail: 8}, "", "abcdefgh", 11, 1},
		{"tail at a line, another near", "0123456789\na\ncdefgh", Window{Tail: 8}, "", "a\ncdefgh", 11, 1},
		{"tail near a line", "0123456789abcd\nefghij", Window{Tail: 8}, "", "efghij", 15, 1},
		{"tail far from a line", "0123456789abcd\nefghi", Window{Tail: 8}, "", "bcd\nefghi"[1:], 12, 0},
		{"only lines", "\n\n\n\n\n\n\n\n\n\n", HeadTail(4), "\n\n", "\n\n", 6, 6},
		{"head in a rune", "ab😀😀😀", Window{Head: 5}, "ab", "", 12, 0},
		{"head after a rune", "ab😀😀😀", Window{Head: 6}, "ab😀", "", 8, 0},
		{"tail in a rune", "😀😀😀yz", Window{Tail: 9}, "", "😀yz", 8, 0},
		{"tail before a rune", "😀😀😀yz", Window{Tail: 10}, "", "😀😀yz", 4, 0},
		{"not UTF-8", "\xff\xff\xff\xff\xff\xff\xff\xff", HeadTail(4), "\xff\xff", "\xff\xff", 4, 0},
		{"NUL", "\x00\x00\x00\x00\x00\x00", HeadTail(4), "\x00\x00", "\x00\x00", 2, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for chunk := range len(tc.in) + 1 {
				c := New(Options{Stdout: tc.w})
				for p := []byte(tc.in); len(p) > 0; p = p[min(len(p), chunk+1):] {
					_, _ = c.Stdout.Write(p[:min(len(p), chunk+1)])
				}
				s := c.Stdout.Snapshot()
				if string(s.Head) != tc.head || string(s.Tail) != tc.tail || s.Omitted != tc.omitted || s.OmittedLines != tc.lines {
					t.Fatalf("by %d: %q, %d bytes and %d lines, %q; want %q, %d, %d, %q",
						chunk+1, s.Head, s.Omitted, s.OmittedLines, s.Tail, tc.head, tc.omitted, tc.lines, tc.tail)
				}
			}
		})
	}
}

func TestDefaultWindows(t *testing.T) {
	for _, tc := range []struct {
		o              Options
		stdout, stderr Window
	}{
		{Options{}, Window{5 << 10, 5 << 10}, Window{5 << 10, 5 << 10}},
		{Options{Stdout: HeadTail(Small)}, Window{2560, 2560}, Window{2560, 2560}},
		{Options{Stderr: HeadTail(Large)}, Window{5 << 10, 5 << 10}, Window{10 << 10, 10 << 10}},
		{Options{Stdout: Window{Tail: 30 << 10}, Merged: true}, Window{0, 30 << 10}, Window{0, 30 << 10}},
	} {
		c := New(tc.o)
		if c.Stdout.w.Window != tc.stdout || c.Stderr.w.Window != tc.stderr || (c.Stdout == c.Stderr) != tc.o.Merged {
			t.Errorf("New(%+v) has %v and %v", tc.o, c.Stdout.w.Window, c.Stderr.w.Window)
		}
	}
}

// TestRunesAtEveryOffset: wherever a window ends in four-byte runes, what is
// shown is whole runes, and nothing is lost from the count.
func TestRunesAtEveryOffset(t *testing.T) {
	text := strings.Repeat("😀", 50)
	for lead := range 4 {
		for head := range 20 {
			for tail := range 20 {
				if head+tail == 0 {
					continue
				}
				c := New(Options{Stdout: Window{head, tail}})
				all := strings.Repeat("x", lead) + text
				_, _ = c.Stdout.Write([]byte(all))
				s := c.Stdout.Snapshot()
				wantHead, wantTail := head, tail/4*4
				if head > lead {
					wantHead = lead + (head-lead)/4*4
				}
				if len(s.Head) != wantHead || len(s.Tail) != wantTail || int(s.Omitted) != len(all)-wantHead-wantTail {
					t.Fatalf("%d+%d of %d: %q, %d, %q", head, tail, lead, s.Head, s.Omitted, s.Tail)
				}
			}
		}
	}
}
