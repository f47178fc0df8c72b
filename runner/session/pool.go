package session

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"
)

// Pool keeps sessions by key. The zero value is ready to use. Its methods may
// be called by several goroutines at once.
type Pool struct {
	// Max is how many sessions there may be. Zero is 8. It isn't changed once
	// the pool is in use.
	Max int

	mu       sync.Mutex
	closed   bool
	sessions map[string]*member
}

type member struct {
	key     string
	session *Session
}

// Info says what a session of a pool is doing.
type Info struct {
	Key  string    `json:"key"`
	Pid  int       `json:"pid"` // of the shell, 0 if there is none now
	Busy bool      `json:"busy"`
	Used time.Time `json:"used"` // when the last command ended
}

// Start starts a command in the session of a key, which is made if there is
// none. A session that was made with another shell, environment, prefix or
// snapshot is another one, under the same key too; the starter must be what the
// key stands for.
//
// Where there is no room for another, the one that hasn't been used for the
// longest time ends, among those that run neither a command nor a background
// job. The errors are those of [Session.Start], and a [*LimitError].
func (p *Pool) Start(ctx context.Context, key string, c Config, command Command) (*Run, error) {
	for {
		s, err := p.session(key, c)
		if err != nil {
			return nil, err
		}
		r, err := s.Start(ctx, command)
		if !errors.Is(err, ErrClosed) || p.isClosed() {
			return r, err
		}
		// It was ended just now, to make room.
	}
}

func (p *Pool) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

// session returns the session of a key.
func (p *Pool) session(key string, c Config) (*Session, error) {
	id := identity(key, c)
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, ErrClosed
	}
	m := p.sessions[id]
	if m != nil && !m.session.isClosed() {
		p.mu.Unlock()
		return m.session, nil
	}
	victim, err := p.room()
	if err == nil {
		var s *Session
		if s, err = New(c); err == nil {
			m = &member{key, s}
			if p.sessions == nil {
				p.sessions = map[string]*member{}
			}
			p.sessions[id] = m
		}
	}
	p.mu.Unlock()
	if victim != nil {
		_ = victim.Close() // it has no command whose outcome mattered
	}
	if err != nil {
		return nil, err
	}
	return m.session, nil
}

// identity is what tells sessions apart.
func identity(key string, c Config) string {
	parts := []string{key, c.Shell, c.Prefix}
	if c.Snapshot != nil {
		parts = append(parts, c.Snapshot.text)
	}
	return strings.Join(append(parts, c.Env...), "\x00")
}

// room takes a session out if there are too many for another, and returns it.
// The caller holds p.mu.
func (p *Pool) room() (*Session, error) {
	limit := p.Max
	if limit <= 0 {
		limit = 8
	}
	var oldest string
	var used time.Time
	for id, m := range p.sessions {
		if m.session.isClosed() {
			delete(p.sessions, id)
			continue
		}
		if at, idle := m.session.idle(); idle && (oldest == "" || at.Before(used)) {
			oldest, used = id, at
		}
	}
	if len(p.sessions) < limit {
		return nil, nil
	}
	if oldest == "" {
		return nil, &LimitError{Max: limit}
	}
	victim := p.sessions[oldest].session
	if !victim.retire() { // it has got a command just now
		return p.room()
	}
	delete(p.sessions, oldest)
	return victim, nil
}

// retire lets an idle session take no other command, and reports whether it was
// idle still.
func (s *Session) retire() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run != nil {
		return false
	}
	s.closed = true
	return true
}

// idle reports whether neither a command nor a background job runs, and since
// when.
func (s *Session) idle() (time.Time, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used, s.run == nil && len(s.last.children) == 0
}

func (s *Session) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// List says what sessions there are, by key.
func (p *Pool) List() []Info {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []Info
	for _, m := range p.sessions {
		used, _ := m.session.idle()
		list = append(list, Info{Key: m.key, Pid: m.session.Pid(), Busy: m.session.Busy(), Used: used})
	}
	slices.SortFunc(list, func(a, b Info) int { return strings.Compare(a.Key, b.Key) })
	return list
}

// End ends the sessions of a key, with what runs in them, and waits for that.
func (p *Pool) End(key string) error {
	return p.end(func(m *member) bool { return m.key == key })
}

// Close ends all sessions, and waits for that. No command can be started
// afterwards.
func (p *Pool) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	return p.end(func(*member) bool { return true })
}

// end ends sessions, side by side.
func (p *Pool) end(which func(*member) bool) error {
	var list []*Session
	p.mu.Lock()
	for id, m := range p.sessions {
		if which(m) {
			delete(p.sessions, id)
			list = append(list, m.session)
		}
	}
	p.mu.Unlock()
	errs := make([]error, len(list))
	var all sync.WaitGroup
	for i, s := range list {
		all.Go(func() { errs[i] = s.Close() })
	}
	all.Wait()
	return errors.Join(errs...)
}
