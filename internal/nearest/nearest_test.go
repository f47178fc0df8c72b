package nearest_test

import (
	"testing"

	"github.com/shofer-dev/shofer-sandbox/internal/nearest"
)

func TestWord(t *testing.T) {
	words := []string{"write", "write_create", "read", "network", "net"}
	for _, tt := range []struct{ word, want string }{
		{"wirte", "write"}, // two neighbours swapped
		{"writ", "write"},
		{"raed", "read"},
		{"write_cr", "write_create"},
		{"nett", "net"},
		{"zzz", ""},
		{"", ""},
		{"w", ""},
	} {
		if got := nearest.Word(tt.word, words); got != tt.want {
			t.Errorf("Word(%q) = %q; want %q", tt.word, got, tt.want)
		}
	}
}
