package tamper

import "time"

// Shift makes s as old as if it had been taken at another time: of what is older
// the identity counts, of what is younger the content.
func (s *State) Shift(d time.Duration) { s.at += int64(d) }

// Forget makes s forget what it knows of the repositories that git status
// enters, as for a long list of files.
func (s *State) Forget() { s.known = nil }
