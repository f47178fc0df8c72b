// Package nearest guesses the word that was meant by a misspelt one.
package nearest

import "strings"

// Word returns the word that was probably meant: the closest within two edits,
// else one that word is the beginning of, else one that it begins with; "" if
// there is none.
func Word(word string, words []string) string {
	best, bestDistance := "", 3
	for _, w := range words {
		if d := distance(word, w); d < bestDistance && d < max(len(word), len(w)) {
			best, bestDistance = w, d
		}
	}
	if best != "" {
		return best
	}
	if len(word) < 2 {
		return ""
	}
	for _, w := range words {
		if strings.HasPrefix(w, word) {
			return w
		}
	}
	for _, w := range words {
		if strings.HasPrefix(word, w) {
			return w
		}
	}
	return ""
}

// distance counts the bytes to insert, delete, replace or swap with a
// neighbour that lie between a and b.
func distance(a, b string) int {
	if d := len(a) - len(b); d > 2 || d < -2 {
		return 3
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(last[j]+cost, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
