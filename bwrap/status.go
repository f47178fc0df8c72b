package bwrap

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Status is what bwrap says about itself at its --json-status-fd.
type Status struct {
	// Pid is the first process in the sandbox, by its number outside; 0 until
	// it is known. It exists before anything is set up in it.
	Pid int
	// Namespaces are the new ones, by their name ("pid", "net", "mnt", …) and
	// inode number.
	Namespaces map[string]uint64
	// Ended says that the program was executed and has ended, with Code.
	// Without it nothing was executed, or bwrap was killed: its own exit code
	// says neither.
	Ended bool
	// Code is the exit code, or 128 plus a signal: bwrap doesn't tell which.
	Code int
}

// StatusError is something at the status descriptor that isn't bwrap's.
type StatusError struct {
	// Line counts from 1.
	Line int
	Why  string
}

func (e *StatusError) Error() string {
	return "bwrap: line " + strconv.Itoa(e.Line) + " of the status: " + e.Why
}

// statusLimit bounds a line.
const statusLimit = 16 << 10

// StatusReader reads the status of one bwrap.
type StatusReader struct {
	r      *bufio.Reader
	line   int
	status Status
	err    error
}

// NewStatusReader returns a reader of the status that comes from r.
func NewStatusReader(r io.Reader) *StatusReader {
	return &StatusReader{r: bufio.NewReaderSize(r, statusLimit)}
}

// Next waits for the next object and returns all that is known after it. At the
// end of the stream it returns that again, with [io.EOF], or with
// [io.ErrUnexpectedEOF] if a line was cut off. Anything that bwrap doesn't
// write is a [*StatusError]. Members and objects that a newer version may have
// are passed over.
//
// An error stays.
func (d *StatusReader) Next() (Status, error) {
	for d.err == nil {
		line, err := d.r.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			d.line++
			d.err = d.wrong("the line is too long")
		case errors.Is(err, io.EOF) && len(line) > 0:
			d.err = io.ErrUnexpectedEOF
		case err != nil:
			d.err = err
		default:
			d.line++
			known, err := d.object(line)
			if d.err = err; err == nil && known {
				return d.status, nil
			}
		}
	}
	return d.status, d.err
}

// ReadStatus reads the status to its end. A stream that ends without the end of
// the program is no error: see [Status.Ended].
func ReadStatus(r io.Reader) (Status, error) {
	d := NewStatusReader(r)
	for {
		if s, err := d.Next(); errors.Is(err, io.EOF) {
			return s, nil
		} else if err != nil {
			return s, err
		}
	}
}

func (d *StatusReader) wrong(format string, args ...any) error {
	return &StatusError{Line: d.line, Why: fmt.Sprintf(format, args...)}
}

// object takes one line in. It reports whether there was something known in it.
func (d *StatusReader) object(line []byte) (known bool, err error) {
	members, err := d.members(line)
	if err != nil {
		return false, err
	}
	next := d.status
	if m, ok := members["child-pid"]; ok {
		if next.Pid != 0 {
			return false, d.wrong("a second child-pid")
		}
		pid, err := d.number(m, "child-pid", 1, 1<<31-1)
		if err != nil {
			return false, err
		}
		next.Pid, known = int(pid), true
		next.Namespaces = map[string]uint64{}
		for name, m := range members {
			ns, ok := strings.CutSuffix(name, "-namespace")
			if !ok {
				continue
			}
			if next.Namespaces[ns], err = d.number(m, name, 1, 1<<64-1); err != nil {
				return false, err
			}
		}
	}
	if m, ok := members["exit-code"]; ok {
		switch {
		case next.Ended:
			return false, d.wrong("a second exit-code")
		case next.Pid == 0:
			return false, d.wrong("an exit-code before the child-pid")
		}
		code, err := d.number(m, "exit-code", 0, 255)
		if err != nil {
			return false, err
		}
		next.Ended, next.Code, known = true, int(code), true
	}
	d.status = next
	return known, nil
}

// members splits an object into its members, each of which may be there once.
func (d *StatusReader) members(line []byte) (map[string]json.RawMessage, error) {
	dec := json.NewDecoder(bytes.NewReader(line))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, d.wrong("not a JSON object")
	}
	members := map[string]json.RawMessage{}
	for dec.More() {
		t, err := dec.Token()
		name, ok := t.(string)
		var value json.RawMessage
		if err != nil || !ok || dec.Decode(&value) != nil {
			return nil, d.wrong("not a JSON object")
		}
		if _, ok := members[name]; ok {
			return nil, d.wrong("the member %q is there twice", name)
		}
		members[name] = value
	}
	if t, err := dec.Token(); err != nil || t != json.Delim('}') {
		return nil, d.wrong("not a JSON object")
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, d.wrong("something follows the JSON object")
	}
	return members, nil
}

func (d *StatusReader) number(m json.RawMessage, name string, least, most uint64) (uint64, error) {
	n, err := strconv.ParseUint(string(m), 10, 64)
	if err != nil || n < least || n > most {
		return 0, d.wrong("the value of %s is not a number from %d to %d", name, least, most)
	}
	return n, nil
}
