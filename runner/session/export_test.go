package session

import (
	"testing"
	"time"
)

// ShortenKill makes a session wait less for what was killed, until t ends.
func ShortenKill(t testing.TB, d time.Duration) {
	old := killTimeout
	killTimeout = d
	t.Cleanup(func() { killTimeout = old })
}

// SnapshotOf makes a snapshot of any script.
func SnapshotOf(script string) *Snapshot { return &Snapshot{text: script} }
