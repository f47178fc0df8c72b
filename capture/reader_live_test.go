package capture

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
)

// TestFollow reads a stream that grows by bytes that split every rune.
func TestFollow(t *testing.T) {
	want := []byte(strings.Repeat("a😀b€\néx\r\n", 50) + "no end \xf0\x9f")
	src := newText(nil)
	src.live = true
	go func() {
		for _, c := range want {
			src.add([]byte{c})
		}
		src.end()
	}()
	var got []byte
	at := int64(0)
	for p, err := range NewReader(src).Follow(t.Context(), 0, 16) {
		if err != nil {
			t.Fatal(err)
		}
		if p.Offset != at || p.End == p.Offset || splitsRune(want, p.End) {
			t.Fatalf("page %d to %d after %d", p.Offset, p.End, at)
		}
		got, at = append(got, bytesOf(p, want)...), p.Next
	}
	if !bytes.Equal(got, want) {
		t.Errorf("followed %q; want %q", got, want)
	}
}

func TestFollowEnds(t *testing.T) {
	src := newText([]byte("so far\n"))
	src.live = true
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	pages := 0
	for p, err := range NewReader(src).Follow(ctx, 0, 0) {
		switch {
		case err == nil:
			pages++
			if got := listed(p.Lines); got != "1:so far" {
				t.Errorf("page %q", got)
			}
			cancel(cause)
		case !errors.Is(err, cause):
			t.Errorf("error %v; want %v", err, cause)
		}
	}
	if pages != 1 {
		t.Errorf("%d pages; want 1", pages)
	}
	for p, err := range NewReader(src).Follow(t.Context(), 0, 0) {
		if p == nil || err != nil {
			t.Errorf("page %v, %v", p, err)
		}
		break
	}
}

// TestConcurrentReaders reads in all ways while the stream grows.
func TestConcurrentReaders(t *testing.T) {
	src := newText(nil)
	src.live = true
	rd := NewReader(src)
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range 2000 {
			src.add(fmt.Appendf(nil, "line %d\n", i+1))
		}
		src.end()
	})
	for i := range 4 {
		r := newRand(uint64(i))
		wg.Go(func() {
			for live := true; live; {
				live = src.Live()
				var p *Page
				var err error
				switch r.IntN(4) {
				case 0:
					p, err = rd.Lines(t.Context(), r.Int64N(2000), 10, 0)
				case 1:
					p, err = rd.Tail(t.Context(), 10, 0)
				case 2:
					p, err = rd.Page(t.Context(), r.Int64N(src.Size()+1), 100)
				default:
					var m *Matches
					if m, err = rd.Search(t.Context(), Query{Pattern: "line 1"}); err == nil {
						p = &Page{Lines: m.Lines}
					}
				}
				if err != nil {
					t.Error(err)
					return
				}
				for _, l := range p.Lines {
					if want := fmt.Sprintf("line %d", l.Number); !l.Continued && !l.Unfinished && l.Text != want {
						t.Errorf("line %d is %q", l.Number, l.Text)
						return
					}
				}
			}
		})
	}
	wg.Go(func() {
		n := int64(0)
		for p, err := range rd.Follow(t.Context(), 0, 0) {
			if err != nil {
				t.Error(err)
				return
			}
			n = p.Next
		}
		if n != src.Size() {
			t.Errorf("followed %d bytes of %d", n, src.Size())
		}
	})
	wg.Wait()
}
