package config

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

// FS gives the pack's files as they were read, so that this very version can be loaded again.
func (p *Pack) FS() fs.FS { return FromFiles(p.Files) }

// FromFiles makes a file system of files, e.g. of a stored version. Names are slash-separated paths.
func FromFiles(files []File) fs.FS {
	m := memory{".": {name: ".", dir: true}}
	for _, f := range files {
		m[f.Name] = &entry{name: path.Base(f.Name), data: f.Data}
		for at := f.Name; at != "."; at = path.Dir(at) {
			dir := path.Dir(at)
			if m[dir] == nil {
				m[dir] = &entry{name: path.Base(dir), dir: true}
			}
			if !slices.ContainsFunc(m[dir].list, func(e *entry) bool { return e == m[at] }) {
				m[dir].list = append(m[dir].list, m[at])
			}
		}
	}
	for _, e := range m {
		slices.SortFunc(e.list, func(a, b *entry) int { return cmp.Compare(a.name, b.name) })
	}
	return m
}

// digest is taken over names and bytes with their lengths, so that no two sets of files share one by moving a border.
func digest(files []File) string {
	h := sha256.New()
	part := func(b []byte) {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(b)))
		h.Write(n[:])
		h.Write(b)
	}
	for _, f := range files {
		part([]byte(f.Name))
		part(f.Data)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// memory is a read-only file system of files that are held already.
type memory map[string]*entry

// Open implements fs.FS.
func (m memory) Open(name string) (fs.File, error) {
	e := m[name]
	if e == nil || !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return &handle{entry: e, r: bytes.NewReader(e.data)}, nil
}

// entry is a file or a folder; it is its own FileInfo and DirEntry.
type entry struct {
	name string
	dir  bool
	data []byte
	list []*entry
}

func (e *entry) Name() string               { return e.name }
func (e *entry) Size() int64                { return int64(len(e.data)) }
func (e *entry) ModTime() time.Time         { return time.Time{} }
func (e *entry) IsDir() bool                { return e.dir }
func (e *entry) Sys() any                   { return nil }
func (e *entry) Type() fs.FileMode          { return e.Mode().Type() }
func (e *entry) Info() (fs.FileInfo, error) { return e, nil }
func (e *entry) Mode() fs.FileMode {
	if e.dir {
		return fs.ModeDir | 0o555
	}
	return 0o444
}

// handle is an opened entry.
type handle struct {
	*entry
	r    *bytes.Reader
	next int
}

func (h *handle) Stat() (fs.FileInfo, error) { return h.entry, nil }
func (h *handle) Close() error               { return nil }
func (h *handle) Read(b []byte) (int, error) {
	if h.dir {
		return 0, &fs.PathError{Op: "read", Path: h.name, Err: fs.ErrInvalid}
	}
	return h.r.Read(b)
}

// ReadDir implements fs.ReadDirFile.
func (h *handle) ReadDir(n int) ([]fs.DirEntry, error) {
	rest := h.list[h.next:]
	if n > 0 {
		if len(rest) == 0 {
			return nil, io.EOF
		}
		rest = rest[:min(n, len(rest))]
	}
	h.next += len(rest)
	out := make([]fs.DirEntry, len(rest))
	for i, e := range rest {
		out[i] = e
	}
	return out, nil
}

// under says whether a name lies in a folder of the pack.
func under(name, dir string) bool { return strings.HasPrefix(name, dir+"/") }
