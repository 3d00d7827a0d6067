package guards

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Stream is the filter on a text that is still being written. At every moment what it has shown is harmless as it stands,
// and holds no half of a link or a mention.
//
// It works word by word: what is settled is cleaned, shown and forgotten, so that a long text costs no more for each word
// than a short one. It is for one goroutine.
type Stream struct {
	f     *filter
	in    veil   // before cleaning
	text  string // what has been read and not been forgotten
	fresh int    // bytes of it that were not looked at yet
	place place  // where text begins
	clean string // what was made of the beginning of text
	out   veil   // after it: cleaning can put together what was written apart
	shown strings.Builder
	blank string // white space before the first word
	stuck bool   // a later part has changed what was shown
}

// NewStream begins a text. hide takes out values that nobody may see, before cleaning and after it; hold says how many
// bytes at the end of a text may be the beginning of such a value. Both may be nil.
func NewStream(o Output, hide func(string) string, hold func(string) int) *Stream {
	return &Stream{f: o.filter(), in: veil{hide: hide, hold: hold}, out: veil{hide: hide, hold: hold}}
}

// Shown gives all that was shown so far.
func (s *Stream) Shown() string { return s.shown.String() }

// Add takes the next piece of the text, cut anywhere, and gives what may be shown in addition; often that is nothing. The
// last words stay back: they are in the whole text, which the caller cleans and shows in the end. If it turns out that
// what was shown would now read otherwise, nothing more is shown.
func (s *Stream) Add(piece string) (more string) {
	if s.stuck {
		return ""
	}
	read := s.in.add(piece)
	if read == "" {
		return ""
	}
	s.text += read
	if s.fresh += len(read); !s.worthALook(read) {
		return ""
	}
	s.fresh = 0
	plain, back := unfold(s.text)
	n, next := settle(plain, s.place)
	if n == 0 {
		return ""
	}
	clean, ok := s.part(s.text[:back.at(n)])
	if !ok || !strings.HasPrefix(clean, s.clean) || !s.leaves(clean, next) {
		s.stuck = true
		return ""
	}
	more, s.clean = clean[len(s.clean):], clean
	s.forget(plain[:n], back, next)
	return s.show(s.out.add(more))
}

const (
	enough  = 16   // bytes that are worth a look, once something is shown
	tooLong = 4096 // bytes of a line without spaces in which nothing more is shown: each look costs more than the last
)

// worthALook says whether to look at the text now, or after more has come: the work must not grow with what is held back.
func (s *Stream) worthALook(read string) bool {
	switch {
	case strings.Contains(read, "\n"):
		return true
	case len(s.text) > tooLong && !strings.ContainsFunc(read, blank):
		return false
	case s.shown.Len() == 0 && len(s.text) < tooLong/8:
		return true
	}
	return s.fresh >= max(enough, len(s.text)/8)
}

// part cleans a part of the text as it would be cleaned in its place.
func (s *Stream) part(text string) (clean string, ok bool) {
	before := ""
	switch {
	case s.place.fence != "":
		before = s.place.fence + "\n"
	case s.place.inLine:
		before = "x "
	}
	s.f.removed = nil
	return strings.CutPrefix(s.f.clean(before+text), before)
}

// leaves says whether the cleaned text leaves the rest in the same place as the text itself: cleaning may take out the line
// that opens a fence.
func (s *Stream) leaves(clean string, next place) bool {
	if s.place.fence == next.fence && !strings.Contains(clean, "```") && !strings.Contains(clean, "~~~") {
		return true
	}
	_, as := settle(clean, s.place)
	return as.fence == next.fence
}

// forget drops what is settled, as far as what follows does not depend on it.
func (s *Stream) forget(settled string, back origin, next place) {
	n := len(settled)
	last, _ := utf8.DecodeLastRuneInString(settled)
	switch {
	case next.fence != "" || next.inLine && blank(last) || last == '\n':
	default:
		n = strings.LastIndexByte(settled, '\n') + 1
		next = place{}
	}
	if n == 0 {
		return
	}
	if n < len(settled) {
		kept, ok := s.part(s.text[:back.at(n)])
		if !ok || !strings.HasPrefix(s.clean, kept) {
			return
		}
		s.clean = s.clean[len(kept):]
	} else {
		s.clean = ""
	}
	s.text, s.place = s.text[back.at(n):], next
}

// show notes what is shown. White space alone is nothing.
func (s *Stream) show(more string) string {
	if s.shown.Len() == 0 {
		if more = s.blank + more; strings.TrimSpace(more) == "" {
			s.blank = more
			return ""
		}
	}
	s.shown.WriteString(more)
	return more
}

// veil hides values in a text that comes in pieces. It gives whole words on, and never a part of a value.
type veil struct {
	hide  func(string) string
	hold  func(string) int
	held  []byte
	again bool // something that could be given on was held back
}

func (v *veil) add(piece string) string {
	v.held = append(v.held, piece...)
	if !v.again && !strings.ContainsFunc(piece, breaks) {
		return ""
	}
	text := string(v.held)
	whole := len(text)
	if v.hold != nil {
		whole -= v.hold(text)
	}
	n := whole
	for n > 0 {
		r, size := utf8.DecodeLastRuneInString(text[:n])
		if breaks(r) {
			break
		}
		n -= size
	}
	v.again = n < whole
	if n == 0 {
		v.again = whole < len(text)
		return ""
	}
	given := text[:n]
	if v.hide != nil {
		given = v.hide(text[:n])
		if given+v.hide(text[n:whole]) != v.hide(text[:whole]) {
			v.again = true
			return "" // a value goes across
		}
	}
	v.again = whole < len(text)
	v.held = v.held[:copy(v.held, v.held[n:])]
	return given
}

// breaks says whether a text may be cut behind a character.
func breaks(r rune) bool { return blank(r) || r == '\r' || spaceless(r) && unicode.IsPunct(r) }
