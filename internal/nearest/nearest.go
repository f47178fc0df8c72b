// Package nearest guesses the word that was meant by a misspelt one.
package nearest

import "strings"

// Word returns the word that was probably meant: one that is a single edit
// away, or that word is the beginning of, or that it begins with, or that is
// two edits away; "" if none is near.
func Word(word string, words []string) string {
	within := func(limit int) string {
		for _, w := range words {
			if distance(word, w) <= limit && min(len(word), len(w)) > limit {
				return w
			}
		}
		return ""
	}
	if w := within(1); w != "" {
		return w
	}
	if len(word) >= 2 {
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
	}
	return within(2)
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
