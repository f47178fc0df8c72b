package policy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"syscall"
)

// GitIndex reads the list of tracked files of a working tree: git's index,
// versions 2 to 4, with object names of SHA-1 or SHA-256, split or sparse.
//
// The file lies where a confined command can write. Whatever is in it, reading
// takes bounded memory and ends; what git itself would refuse is an error. The
// trailing checksum is not looked at.
type GitIndex struct {
	// GitDir is the folder with the index in it.
	GitDir string
	// HashSize is the length of object names in bytes: 20 for SHA-1, 32 for
	// SHA-256. Zero is 20.
	HashSize int
}

// Index returns the index of the repository's working tree. It asks the
// repository's configuration for the length of object names.
func (repo *Repo) Index() GitIndex {
	ix := GitIndex{GitDir: repo.GitDir, HashSize: 20}
	text, err := readSmall(repo.CommonDir+"/config", configLimit)
	if err != nil {
		return ix
	}
	// An unreadable rest leaves what was read before.
	_ = EachGitSetting(text, func(key, value string) {
		if key == "extensions.objectformat" && lower(value) == "sha256" {
			ix.HashSize = 32
		}
	})
	return ix
}

var (
	errIndex   = errors.New("no index of git's")
	errTooDeep = errors.New("too many gitlinks")
)

// gitlinkLimit bounds the list of gitlinks.
const gitlinkLimit = 100_000

// Modes of entries.
const (
	modeFolder  = 0o040000 // of a sparse index
	modeGitlink = 0o160000
)

// Gitlinks returns the paths, relative to the working tree's top, at which
// other repositories are linked in. No index is an empty one.
func (ix GitIndex) Gitlinks() ([]string, error) {
	var links []string
	err := ix.each(func(mode uint32, name []byte) bool {
		if mode == modeGitlink {
			links = append(links, string(name))
		}
		return len(links) < gitlinkLimit
	})
	if err == nil && len(links) == gitlinkLimit {
		err = errTooDeep
	}
	return links, err
}

// Tracked reports whether a path relative to the working tree's top is that of
// a tracked file or of a folder with tracked files. A folder that a sparse
// index keeps folded counts with everything beneath.
func (ix GitIndex) Tracked(path string) (bool, error) {
	found := false
	folder := []byte(path + "/")
	err := ix.each(func(mode uint32, name []byte) bool {
		found = string(name) == path || bytes.HasPrefix(name, folder) ||
			mode == modeFolder && len(name) > 0 && bytes.HasPrefix(folder, name)
		return !found
	})
	return found, err
}

// each calls f for every entry until it returns false. The name is valid until
// f returns.
func (ix GitIndex) each(f func(mode uint32, name []byte) bool) error {
	if ix.HashSize == 0 {
		ix.HashSize = 20
	}
	// In a split index entries without a name come first. Each replaces one of
	// the shared index, which has its name.
	var replacing []uint32
	stopped := false
	own := func(mode uint32, name []byte) bool {
		if len(name) == 0 {
			replacing = append(replacing, mode)
			return true
		}
		stopped = !f(mode, name)
		return !stopped
	}
	link, err := ix.read("index", own)
	if err != nil || stopped {
		if errors.Is(err, syscall.ENOENT) {
			err = nil
		}
		return err
	}
	if link == nil {
		if len(replacing) > 0 {
			return indexError(ix.GitDir+"/index", "an entry without a name")
		}
		return nil
	}
	i, used := 0, 0
	_, err = ix.read("sharedindex."+link.base, func(mode uint32, name []byte) bool {
		at := i
		i++
		if link.deleted.has(at) {
			return true
		}
		if link.replaced.has(at) {
			if used == len(replacing) {
				return true // git dies of it
			}
			mode = replacing[used]
			used++
		}
		return f(mode, name)
	})
	return err
}

// indexError names the file and what is wrong with it.
func indexError(path, what string) error {
	return &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("%w: %s", errIndex, what)}
}

// read reads one file. It returns the link to a shared index, if there is one,
// unless f has stopped it.
func (ix GitIndex) read(name string, f func(mode uint32, name []byte) bool) (*indexLink, error) {
	path := ix.GitDir + "/" + name
	in, err := openIndex(path)
	if err != nil {
		return nil, err
	}
	defer syscall.Close(in.fd)
	head, err := in.next(12)
	if err != nil {
		return nil, err
	}
	version, count := binary.BigEndian.Uint32(head[4:]), binary.BigEndian.Uint32(head[8:])
	if string(head[:4]) != "DIRC" || version < 2 || version > 4 {
		return nil, indexError(path, "no known version")
	}
	d := indexDecoder{in: in, hash: ix.HashSize, version: version}
	for range count {
		mode, name, err := d.entry()
		if err != nil {
			return nil, err
		}
		if !f(mode, name) {
			return nil, nil
		}
	}
	return d.extensions()
}

// indexDecoder decodes the entries of a file.
type indexDecoder struct {
	in      *indexReader
	hash    int
	version uint32
	last    []byte // in version 4 a name begins like the one before
}

// statSize is the length of what an entry has before the object name; its mode
// is in it.
const (
	statSize = 40
	modeAt   = 24
)

// Bits in the flags of an entry.
const (
	flagName     = 0x0fff
	flagExtended = 0x4000
)

func (d *indexDecoder) entry() (mode uint32, name []byte, err error) {
	fixed := statSize + d.hash + 2
	b, err := d.in.next(fixed)
	if err != nil {
		return 0, nil, err
	}
	mode = binary.BigEndian.Uint32(b[modeAt:])
	flags := binary.BigEndian.Uint16(b[fixed-2:])
	if flags&flagExtended != 0 {
		if d.version < 3 {
			return 0, nil, d.in.bad("an unknown flag")
		}
		if _, err := d.in.next(2); err != nil {
			return 0, nil, err
		}
		fixed += 2
	}
	length := int(flags & flagName)
	if d.version == 4 {
		name, err = d.compressed(length)
		return mode, name, err
	}
	if length == flagName {
		if length, err = d.in.find(0); err != nil {
			return 0, nil, err
		}
	}
	// One to eight NULs follow, up to a multiple of eight.
	padded := (fixed+length+8)&^7 - fixed
	b, err = d.in.next(padded)
	if err != nil {
		return 0, nil, err
	}
	return mode, b[:length], nil
}

// compressed reads a name of version 4: how much of the last one to leave out,
// and what follows.
func (d *indexDecoder) compressed(length int) ([]byte, error) {
	strip, err := d.varint()
	if err != nil {
		return nil, err
	}
	if strip > len(d.last) {
		return nil, d.in.bad("a name is cut too short")
	}
	keep := len(d.last) - strip
	rest := length - keep
	if length == flagName {
		if rest, err = d.in.find(0); err != nil {
			return nil, err
		}
	}
	if rest < 0 {
		return nil, d.in.bad("a name is shorter than its beginning")
	}
	b, err := d.in.next(rest + 1)
	if err != nil {
		return nil, err
	}
	if keep+rest > nameLimit {
		return nil, d.in.bad("a name is too long")
	}
	d.last = append(d.last[:keep], b[:rest]...)
	return d.last, nil
}

// varint reads a number as git's packs have it.
func (d *indexDecoder) varint() (int, error) {
	n := 0
	for i := 0; ; i++ {
		b, err := d.in.next(1)
		if err != nil {
			return 0, err
		}
		n = n<<7 | int(b[0]&0x7f)
		if b[0]&0x80 == 0 {
			return n, nil
		}
		n++
		if n > nameLimit || i > 4 {
			return 0, d.in.bad("a number is too large")
		}
	}
}

// extensions looks for the link to a shared index.
func (d *indexDecoder) extensions() (*indexLink, error) {
	for d.in.left() >= int64(8+d.hash) {
		head, err := d.in.next(8)
		if err != nil {
			return nil, err
		}
		name, size := string(head[:4]), int64(binary.BigEndian.Uint32(head[4:]))
		if size > d.in.left()-int64(d.hash) {
			return nil, d.in.bad("an extension is too large")
		}
		if name == "link" {
			if size > linkLimit {
				return nil, d.in.bad("the link to a shared index is too large")
			}
			b, err := d.in.next(int(size))
			if err != nil {
				return nil, err
			}
			return d.link(b)
		}
		if err := d.in.skip(size); err != nil {
			return nil, err
		}
	}
	return nil, nil
}
