package capture

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
)

// drained is what the drain helper says at its end.
type drained struct {
	Bytes, Lines, Omitted int64
	Artifact              ID
	Reason                string
	Gap                   Gap
	// KiB is by how much the process's memory was at most more than at the
	// beginning.
	KiB int64
}

// drainHelper takes stdin to its end. Arguments are the store's folder, or -,
// and the limit of an artifact.
func drainHelper(args []string) int {
	base := peakKiB()
	o := Options{}
	if args[0] != "-" {
		limit, err := strconv.ParseInt(args[1], 10, 64)
		if err == nil {
			o.Store, err = OpenStore(args[0], Limits{Free: -1, Total: -1, Artifact: limit})
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	c := New(o)
	if err := c.Stdout.Drain(os.NewFile(0, "stdin")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	c.End()
	s := c.Stdout.Snapshot()
	d := drained{Bytes: s.Bytes, Lines: s.Lines, Omitted: s.Omitted, Artifact: s.Artifact, Gap: c.Stdout.Gap(), KiB: peakKiB() - base}
	if s.SpillErr != nil {
		d.Reason = s.SpillErr.Error()
	}
	if err := errors.Join(c.Close(), json.NewEncoder(os.Stdout).Encode(d)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// peakKiB returns the most memory that this process had.
func peakKiB() int64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		panic(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	if err != nil {
		panic(err)
	}
	return kib
}

// TestBigStreams: a gibibyte, in lines and as a single one, is taken in constant
// memory, with a store and without.
func TestBigStreams(t *testing.T) {
	size := int64(1 << 30)
	if testing.Short() {
		size = 64 << 20
	}
	dir := t.TempDir()
	for _, tc := range []struct {
		name, producer string
		lines          int64
		store, limit   string
		gap            bool
	}{
		{"one line, windows", "head -c %d /dev/zero", 1, "-", "", true},
		{"lines, windows", "yes 1234567 | head -c %d", size / 8, "-", "", true},
		{"one line, spilled", "head -c %d /dev/zero", 1, dir + "/a", "-1", false},
		{"lines, capped", "yes 1234567 | head -c %d", size / 8, dir + "/b", "10000000", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cmd := testenv.Helper(t, "drain", tc.store, tc.limit)
			producer := testenv.Command(t, "sh", "-c", fmt.Sprintf(tc.producer, size))
			var err error
			if cmd.Stdin, err = producer.StdoutPipe(); err != nil {
				t.Fatal(err)
			}
			if err := producer.Start(); err != nil {
				t.Fatal(err)
			}
			res := testenv.Run(t, cmd)
			if err := producer.Wait(); err != nil {
				t.Error(err)
			}
			var d drained
			if err := json.Unmarshal([]byte(res.Stdout), &d); err != nil || res.Code != 0 {
				t.Fatal(err, res)
			}
			t.Logf("%+v", d)
			if d.Bytes != size || d.Lines != tc.lines || d.Reason != "" || (d.Gap.From < d.Gap.To) != tc.gap {
				t.Errorf("%+v; want %d bytes and %d lines", d, size, tc.lines)
			}
			if (tc.store == "-") != (d.Artifact == "") {
				t.Errorf("artifact %q with the store %s", d.Artifact, tc.store)
			}
			if tc.lines > 1 {
				if want := d.Gap.To/8 - d.Gap.From/8; d.Gap.Lines != want {
					t.Errorf("the gap %+v should have %d lines", d.Gap, want)
				}
			}
			// The race detector has memory of its own for each of ours.
			if d.KiB > 16<<10 && !raced() {
				t.Errorf("%d KiB of memory", d.KiB)
			}
			if tc.store == "-" {
				return
			}
			store, err := OpenStore(tc.store, Limits{Free: -1})
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			infos, err := store.List()
			if err != nil || len(infos) != 1 || infos[0].Size != size || infos[0].Gap != d.Gap {
				t.Fatalf("List() = %+v, %v", infos, err)
			}
			if infos[0].Disk > 10_000_000 && tc.gap {
				t.Errorf("%d bytes on disk", infos[0].Disk)
			}
			if _, err := store.Clear(); err != nil {
				t.Error(err)
			}
		})
	}
}

// raced reports whether this binary has the race detector.
func raced() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

func TestDrain(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c := New(Options{})
	if _, err := w.WriteString("first"); err != nil {
		t.Fatal(err)
	}
	// What has come is there after a deadline, and draining goes on.
	for _, want := range []string{"first", "firstsecond"} {
		if err := r.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		if err := c.Stdout.Drain(r); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Drain() = %v; want %v", err, os.ErrDeadlineExceeded)
		}
		if got := c.Stdout.Snapshot(); string(got.Head) != want {
			t.Errorf("%q; want %q", got.Head, want)
		}
		if _, err := w.WriteString("second"); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), r.SetReadDeadline(time.Time{})); err != nil {
		t.Fatal(err)
	}
	if err := c.Stdout.Drain(r); err != nil {
		t.Error(err)
	}
	if got := c.Stdout.Snapshot(); string(got.Head) != "firstsecondsecond" {
		t.Errorf("%q", got.Head)
	}
}

// TestDrainSplitRunes: a pipe delivers what it likes; nothing is lost or changed.
func TestDrainSplitRunes(t *testing.T) {
	text := bytes.Repeat([]byte("😀"), 100)
	for cut := range 9 {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		c := New(Options{Stdout: HeadTail(64 + cut)})
		done := make(chan error, 1)
		go func() { done <- c.Stdout.Drain(r) }()
		for p := text; len(p) > 0; p = p[min(len(p), 1+cut):] {
			if _, err := w.Write(p[:min(len(p), 1+cut)]); err != nil {
				t.Fatal(err)
			}
		}
		w.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
		r.Close()
		m := model{s: c.Stdout, all: text}
		if err := m.check(HeadTail(64 + cut)); err != nil {
			t.Errorf("by %d bytes: %v", 1+cut, err)
		}
	}
}

// TestIdleDrains: a drain that waits costs no buffer.
func TestIdleDrains(t *testing.T) {
	const n = 200
	var before, after runtime.MemStats
	var ends []*os.File
	done := make(chan error, n)
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range n {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, w)
		c := New(Options{})
		go func() {
			err := c.Stdout.Drain(r)
			done <- errors.Join(err, r.Close())
		}()
		if _, err := w.WriteString("something\n"); err != nil {
			t.Fatal(err)
		}
		for c.Stdout.Size() == 0 {
			runtime.Gosched()
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if each := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / n; each > 4<<10 {
		t.Errorf("%d bytes for each idle drain", each)
	}
	for _, w := range ends {
		w.Close()
	}
	for range n {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestDrainOfFile(t *testing.T) {
	// What can't be waited for is read all the same.
	text := bytes.Repeat([]byte("text\n"), 100_000)
	path := t.TempDir() + "/file"
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c := New(Options{})
	if err := c.Stdout.Drain(f); err != nil {
		t.Error(err)
	}
	if s := c.Stdout.Snapshot(); s.Bytes != int64(len(text)) || s.Lines != 100_000 {
		t.Errorf("%d bytes, %d lines", s.Bytes, s.Lines)
	}
}
