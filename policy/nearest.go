package policy

import (
	"strings"

	"github.com/shofer-dev/shofer-sandbox/internal/nearest"
)

// didYouMean returns a hint that names the nearest of words, else lists them.
func didYouMean(word string, words []string) string {
	if w := nearest.Word(word, words); w != "" {
		return "did you mean \"" + w + "\"?"
	}
	return "one of " + strings.Join(words, ", ")
}
