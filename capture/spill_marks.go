package capture

import (
	"encoding/binary"
	"os"
)

// A long artifact has a file of marks beside it: how many line ends there are
// before the places at which its gap begins and ends. Each is written when the
// stream gets there, and needed when that much more was written as the artifact
// keeps at its end. Mark 0 is that of the gap's beginning; mark n is that of step
// n's end, whose place is used again after marksKept steps more.
const (
	marksKept = 1023
	markSize  = 8
)

func markOffset(n int64) int64 {
	if n > 0 {
		n = 1 + (n-1)%marksKept
	}
	return n * markSize
}

func writeMark(file *os.File, n, ends int64) error {
	_, err := file.WriteAt(binary.LittleEndian.AppendUint64(nil, uint64(ends)), markOffset(n))
	return err
}

// readMark returns 0 where there is no mark.
func readMark(file *os.File, n int64) int64 {
	var b [markSize]byte
	if _, err := file.ReadAt(b[:], markOffset(n)); err != nil {
		return 0
	}
	return int64(binary.LittleEndian.Uint64(b[:]))
}

// gapWithLines returns the gap of a stream whose size grows. The marks are asked
// for only where there is a gap; without them its lines are 0.
func (s shape) gapWithLines(size func() int64, marks func() *os.File) Gap {
	for {
		now := size()
		n := s.freed(now)
		from, to := s.gap(now)
		if n == 0 {
			return Gap{From: from, To: to}
		}
		file := marks()
		if file == nil {
			return Gap{From: from, To: to}
		}
		lines := readMark(file, n) - readMark(file, 0)
		if s.freed(size())-n < marksKept {
			return Gap{from, to, max(0, lines)}
		}
	}
}
