package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/shofer-dev/shofer-sandbox/capture"
)

// drainSize is how many bytes come through the pipe in each round.
const drainSize = 512 << 20

// drain compares taking a command's output with cat's doing so.
func (b *bench) drain() (section, error) {
	s := section{
		Title: "512 MiB from a pipe", As: b.as, Rounds: max(1, b.heavy/3),
		Against: []string{"cat >/dev/null", "cat >file"},
	}
	store, err := capture.OpenStore(filepath.Join(b.home, "artifacts"), capture.Limits{Free: -1})
	if err != nil {
		return s, err
	}
	defer func() { _ = store.Close() }()
	file := filepath.Join(b.home, "file")
	got, err := interleave(s.Rounds, []contender{
		{"cat >/dev/null", func() error { return produce(cat(os.DevNull)) }},
		{"windows", func() error { return produce(collect(capture.Options{})) }},
		{"cat >file", func() error {
			if err := produce(cat(file)); err != nil {
				return err
			}
			return os.Remove(file)
		}},
		{"windows and artifact", func() error {
			if err := produce(collect(capture.Options{Store: store})); err != nil {
				return err
			}
			_, err := store.Clear()
			return err
		}},
	})
	s.rows(got)
	return s, err
}

// produce starts a program that writes much to a pipe, and hands its other end
// to consume.
func produce(consume func(r *os.File) error) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	cmd := exec.Command("head", "-c", fmt.Sprint(drainSize), "/dev/zero")
	cmd.Stdout = w
	err = cmd.Start()
	w.Close()
	if err != nil {
		return err
	}
	if err := consume(r); err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return err
	}
	return cmd.Wait()
}

func cat(to string) func(r *os.File) error {
	return func(r *os.File) error {
		f, err := os.Create(to)
		if err != nil {
			return err
		}
		defer f.Close()
		cmd := exec.Command("cat")
		cmd.Stdin, cmd.Stdout = r, f
		return cmd.Run()
	}
}

func collect(o capture.Options) func(r *os.File) error {
	return func(r *os.File) error {
		c := capture.New(o)
		if err := c.Stdout.Drain(r); err != nil {
			return err
		}
		if err := c.Close(); err != nil {
			return err
		}
		shot := c.Stdout.Snapshot()
		if shot.Bytes != drainSize || o.Store != nil && shot.Artifact == "" {
			return fmt.Errorf("captured %d bytes, artifact %q, %w", shot.Bytes, shot.Artifact, shot.SpillErr)
		}
		return nil
	}
}
