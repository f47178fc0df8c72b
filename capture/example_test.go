package capture_test

import (
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/shofer-dev/shofer-sandbox/capture"
)

// A command's output is kept in small windows, and in a file as soon as they
// don't hold it.
func Example() {
	dir, err := os.MkdirTemp("", "artifacts-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	store, err := capture.OpenStore(filepath.Join(dir, "store"), capture.Limits{Free: 1 << 20})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()

	output := capture.New(capture.Options{Stdout: capture.HeadTail(40), Store: store, Label: "seq 1000"})
	defer output.Close()
	cmd := exec.Command("seq", "1000")
	cmd.Stdout, cmd.Stderr = output.Stdout, output.Stderr
	if err := cmd.Run(); err != nil {
		log.Fatal(err)
	}
	output.End()

	s := output.Stdout.Snapshot()
	fmt.Printf("%d lines, %d of %d bytes omitted\n", s.Lines, s.Omitted, s.Bytes)
	fmt.Printf("%q … %q\n", s.Head, s.Tail)

	artifact, err := store.Open(s.Artifact)
	if err != nil {
		log.Fatal(err)
	}
	defer artifact.Close()
	middle := make([]byte, 12)
	if _, err := artifact.ReadAt(middle, 1892); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%q\n", middle)
	// Output:
	// 1000 lines, 3858 of 3893 bytes omitted
	// "1\n2\n3\n4\n5\n6\n7\n8\n9\n" … "997\n998\n999\n1000\n"
	// "501\n502\n503\n"
}

// What came since the last look is read by a cursor.
func ExampleCursor() {
	output := capture.New(capture.Options{Stdout: capture.Window{Tail: 16}})
	reader := capture.Cursor{Source: output.Stdout}
	for _, text := range []string{"building…\n", "compiling and linking\n"} {
		fmt.Fprint(output.Stdout, text)
		d, err := reader.Next(1000)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%d lost, then %q\n", d.Lost, d.Text)
	}
	// Output:
	// 0 lost, then "building…\n"
	// 6 lost, then "ing and linking\n"
}

// Both streams are shown as they came.
func ExampleCollector_Merged() {
	output := capture.New(capture.Options{})
	fmt.Fprintln(output.Stdout, "compiling")
	fmt.Fprintln(output.Stderr, "warning: unused")
	fmt.Fprintln(output.Stdout, "done")
	for _, p := range output.Merged() {
		fmt.Printf("%s: %s", p.Stream.Name(), p.Text)
	}
	// Output:
	// stdout: compiling
	// stderr: warning: unused
	// stdout: done
}
