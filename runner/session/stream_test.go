package session

import (
	"bytes"
	"strings"
	"testing"
)

// FuzzStream compares a stream, to which output with a fence comes in pieces,
// with what is left when the fence is cut out of the whole.
func FuzzStream(f *testing.F) {
	f.Add("out", "later", "\x1fMARK", uint8(1))
	f.Add("\x1f\x1fMA\x1fMAR", "\x1fMARK", "\x1fMARK", uint8(3))
	f.Add("aaa", "", "aab", uint8(2))
	f.Add("", "", "\x1f\x1f", uint8(0))
	f.Fuzz(func(t *testing.T, before, after, fence string, size uint8) {
		if fence == "" || strings.Contains(before+fence[:len(fence)-1], fence) {
			return
		}
		whole := before + fence + after
		want := strings.Replace(whole, fence, "", 1)
		end := strings.Index(whole, fence) + len(fence)
		s := newStream(nil)
		var out bytes.Buffer
		s.attach(&out)
		seen := s.arm(fence)
		n := int(size)%7 + 1
		for at := 0; at < len(whole); at += n {
			fed := min(at+n, len(whole))
			s.take([]byte(whole[at:fed]))
			passed := false
			select {
			case <-seen:
				passed = true
			default:
			}
			if passed != (fed >= end) {
				t.Fatalf("after %d of %q: seen %v", fed, whole, passed)
			}
			if held := fed - out.Len(); !passed && held >= len(fence) {
				t.Fatalf("after %d of %q only %q is passed on", fed, whole, out.String())
			}
		}
		if err := s.detach(); err != nil || out.String() != want {
			t.Errorf("%q without %q is %q, %v; want %q", whole, fence, out.String(), err, want)
		}
		s.take([]byte("nobody's"))
		if out.String() != want {
			t.Errorf("after detach %q was written", out.String())
		}
	})
}

// Without its fence, a stream passes on all the same what could have been part
// of it.
func TestNoFence(t *testing.T) {
	s := newStream(nil)
	var out bytes.Buffer
	s.attach(&out)
	s.arm("\x1fMARK")
	s.take([]byte("out\x1fMA"))
	if out.String() != "out" {
		t.Errorf("passed on: %q", out.String())
	}
	if err := s.detach(); err != nil || out.String() != "out\x1fMA" {
		t.Errorf("after detach: %q, %v", out.String(), err)
	}
}
