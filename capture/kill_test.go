package capture

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/shofer-dev/shofer-sandbox/internal/testenv"
)

// writerShape is small, so that a killed writer leaves gaps.
var writerShape = shape{Head: 20_000, Tail: 30_000, Step: 5_000}

// writerText is what the writer's artifact with this label holds, over and over.
func writerText(label int) []byte { return randomText(newRand(uint64(label)), 10_000) }

// repeated returns n bytes of text, over and over.
func repeated(text []byte, n int64) []byte {
	return bytes.Repeat(text, int(n)/len(text)+1)[:n]
}

// written is what the writer says each time that bytes are written.
type written struct {
	ID   [26]byte
	Size int64
}

// writerHelper fills artifacts of a store until it is killed, and says on
// stdout what is written. Labels begin at a number. The last argument is the
// store's quota.
func writerHelper(args []string) int {
	limits := Limits{Free: -1}
	if len(args) > 2 {
		quota, err := strconv.ParseInt(args[2], 10, 64)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		limits.Total = quota
	}
	store, err := OpenStore(args[0], limits)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	store.shape = writerShape
	first, err := strconv.Atoi(args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	r := newRand(uint64(first))
	for label := first; ; label++ {
		c := New(Options{Store: store, Stdout: HeadTail(1000), Label: strconv.Itoa(label)})
		text := repeated(writerText(label), 1<<20)
		for range r.IntN(200) {
			n := 1 + r.IntN(min(len(text), 9000))
			_, _ = c.Stdout.Write(text[:n])
			if text = text[n:]; len(text) == 0 {
				break
			}
			shot := c.Stdout.Snapshot()
			if shot.SpillErr != nil {
				fmt.Fprintln(os.Stderr, shot.SpillErr)
				return 1
			}
			if shot.Artifact == "" {
				continue
			}
			w := written{Size: shot.Bytes}
			copy(w.ID[:], shot.Artifact)
			if err := binary.Write(os.Stdout, binary.LittleEndian, w); err != nil {
				return 1 // nobody listens
			}
		}
		if err := c.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
}

// TestKilledWriter: whatever was written before a kill -9 is in the store, in
// artifacts that are whole entries, and nothing live is left.
func TestKilledWriter(t *testing.T) {
	rounds := 20
	if testing.Short() {
		rounds = 3
	}
	store := openStore(t, Limits{Age: 1})
	seen := map[State]int{}
	for round := range rounds {
		said := killWriter(t, store, round)
		infos, err := store.List()
		if err != nil {
			t.Fatal(err)
		}
		sizes := map[ID]int64{}
		for _, i := range infos {
			sizes[i.ID] = i.Size
			seen[i.State]++
			if i.State == Live {
				t.Errorf("%+v is live although its writer is dead", i)
			}
			if err := checkWritten(store, i); err != nil {
				t.Errorf("%+v: %v", i, err)
			}
		}
		for id, size := range said {
			if sizes[id] < size {
				t.Errorf("%s has %d bytes; %d were written", id, sizes[id], size)
			}
		}
		if _, err := store.Prune(); err != nil {
			t.Error(err)
		}
		if names, err := os.ReadDir(store.Path()); err != nil || len(names) > 0 {
			t.Errorf("left behind: %v, %v", names, err)
		}
	}
	if seen[Abandoned] == 0 || seen[Complete] == 0 {
		t.Errorf("states seen: %v; want both", seen)
	}
}

// checkWritten compares an artifact with what its label says.
func checkWritten(store *Store, i Info) error {
	label, err := strconv.Atoi(i.Label)
	if err != nil {
		return err
	}
	a, err := store.Open(i.ID)
	if err != nil {
		return err
	}
	defer func() { _ = a.Close() }()
	from, to := writerShape.gap(i.Size)
	return checkSource(a, repeated(writerText(label), i.Size), from, to, newRand(uint64(label)))
}

// killWriter starts a writer, kills it after a random time, and returns how much
// it had written to each artifact.
func killWriter(t *testing.T, store *Store, round int) map[ID]int64 {
	t.Helper()
	cmd := testenv.Helper(t, "writer", store.Path(), strconv.Itoa(round*10_000))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := map[ID]int64{}
	kill := time.AfterFunc(time.Hour, func() { _ = cmd.Process.Kill() })
	for {
		var w written
		if err := binary.Read(out, binary.LittleEndian, &w); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		} else if err != nil {
			t.Error(err)
			break
		}
		if len(said) == 0 {
			kill.Reset(time.Duration(newRand(uint64(round)).IntN(40_000)) * time.Microsecond)
		}
		said[ID(w.ID[:])] = w.Size
	}
	_ = cmd.Wait() // it was killed
	if len(said) == 0 {
		t.Error("the writer wrote nothing")
	}
	return said
}

// TestLiveElsewhere: a live artifact of another process can be read and followed
// and isn't pruned, until that process dies.
func TestLiveElsewhere(t *testing.T) {
	store := openStore(t, Limits{Age: 1, Total: 1})
	cmd := testenv.Helper(t, "writer", store.Path(), "7")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// The writer stops when the pipe is full, in the middle of an artifact.
	var w written
	for w.Size < writerShape.Head+writerShape.Tail+2*writerShape.Step {
		if err := binary.Read(out, binary.LittleEndian, &w); err != nil {
			t.Fatal(err)
		}
	}
	id := ID(w.ID[:])
	a, err := store.Open(id)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	i, err := a.Info()
	if err != nil {
		t.Fatal(err)
	}
	if i.State == Live {
		if err := store.Remove(id); !errors.Is(err, ErrLive) {
			t.Errorf("Remove(live) = %v", err)
		}
	}
	label, err := strconv.Atoi(i.Label)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	time.AfterFunc(50*time.Millisecond, func() { _ = cmd.Process.Kill() })
	f := &follower{c: Cursor{Source: a}}
	for err == nil {
		if err = a.Wait(t.Context(), f.c.Offset); err == nil {
			err = f.next(1000)
		}
	}
	if !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	_ = cmd.Wait()
	all, wrong := repeated(writerText(label), a.Size()), int64(0)
	for k := range f.got {
		if f.got[k] != all[k] {
			wrong++
		}
	}
	if len(f.got) != len(all) || wrong > f.lost {
		t.Errorf("followed %d of %d bytes, %d of them wrong, and lost %d", len(f.got), len(all), wrong, f.lost)
	}
	if p, err := store.Prune(); err != nil || len(p.IDs) == 0 {
		t.Errorf("Prune() = %v, %v", p, err)
	}
	if _, err := store.Open(id); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Open(removed) = %v", err)
	}
	if n := a.Size(); n != int64(len(all)) {
		t.Errorf("size %d after it was removed; want %d", n, len(all))
	}
}
