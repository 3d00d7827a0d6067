package llm

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	// idleLimit is how long a stream may be silent where Options say nothing. Providers send pings more often than that.
	idleLimit = time.Minute
	// linger is how long a stream's connection is waited for after its last event, so that the next request can use it.
	linger = 50 * time.Millisecond
)

// errIdle is the cause when a stream is given up because nothing comes any more.
var errIdle = errors.New("nothing came for too long")

// gatherer makes one answer of the events of a stream. It lives as long as the stream.
type gatherer interface {
	// take reads one event. text is what of it people may see, and may end within a character; done says that nothing
	// of use follows. A serverError is the error of a server that says so in the stream; any other error means that the
	// event cannot be read.
	take(name string, data []byte) (text string, done bool, err error)
	// end gives what came, all but the text. whole says whether the model has come to an end.
	end() (a answer, whole bool)
}

// streamed says whether the answer is asked for as a stream.
func (q query) streamed() bool { return q.OnText != nil && q.habits&wholeOnly == 0 }

// release hands a piece of the answer's text to the caller.
func (x *exchange) release(text string) {
	if text == "" || x.q.OnText == nil {
		return
	}
	x.released = true
	x.q.OnText(text)
}

// watched is a body that is given up when nothing comes for a while.
type watched struct {
	io.Reader
	idle  time.Duration
	timer *time.Timer
}

func watch(body io.Reader, idle time.Duration, giveUp context.CancelCauseFunc) *watched {
	return &watched{body, idle, time.AfterFunc(idle, func() { giveUp(errIdle) })}
}

// Read starts the time anew with every byte.
func (w *watched) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	if n > 0 {
		w.timer.Reset(w.idle)
	}
	return n, err
}

// body is a reply on its way in, bounded.
type body struct {
	*bufio.Reader
	left *io.LimitedReader
}

func bounded(r io.Reader) body {
	left := &io.LimitedReader{R: r, N: mostReply + 1}
	return body{bufio.NewReaderSize(left, 16<<10), left}
}

// full says whether more came than a reply may hold.
func (b body) full() bool { return b.left.N <= 0 }

// isStream looks at the first character: servers that cannot stream answer with plain JSON, and gateways with a web page,
// whatever they say in the header.
func (b body) isStream() bool {
	if mark, err := b.Peek(3); err == nil && string(mark) == "\ufeff" {
		_, _ = b.Discard(len(mark))
	}
	for {
		c, err := b.ReadByte()
		if err != nil {
			return false // the reader of plain replies says what is wrong
		}
		switch c {
		case ' ', '\t', '\r', '\n':
			continue
		}
		_ = b.UnreadByte()
		return c != '{' && c != '[' && c != '<'
	}
}

// gather reads a stream to its end, and passes its text on as it comes. It reports false when the exchange failed.
func (x *exchange) gather(ctx context.Context, resp *http.Response, in body) (answer, bool) {
	g, out, events := x.wire.gather(), outlet{give: x.release}, events{src: in.Reader}
	for began := false; ; began = true {
		name, data, err := events.next()
		if ctx.Err() != nil || err != nil {
			return x.stopped(ctx, resp, in, streamEnd{g, &out, err})
		}
		text, done, err := g.take(name, data)
		if err == nil {
			out.add(text)
		}
		if done {
			in.drain()
			return x.stopped(ctx, resp, in, streamEnd{g, &out, io.EOF})
		}
		if err == nil {
			continue
		}
		a, _ := g.end()
		x.spent = partly(a.usage)
		if p, ok := errors.AsType[serverError](err); ok {
			x.reached = began
			x.said = string(data[:min(len(data), mostError)])
			x.fail(Error{Reason: p.reason(resp.StatusCode), Status: resp.StatusCode, Detail: p.Error(), Wait: retryAfter(resp.Header, x.now())}, false)
		} else {
			x.fail(Error{Reason: CutShort, Status: resp.StatusCode, Detail: "an event of the stream cannot be read as the API's JSON: " + err.Error(), Err: err}, false)
		}
		return answer{}, false
	}
}

// drain waits for the end of the body for a moment.
func (b body) drain() {
	if w, ok := b.left.R.(*watched); ok {
		w.idle = linger
		w.timer.Reset(linger)
	}
	_, _ = io.CopyN(io.Discard, b, 4<<10) // the answer is complete, whatever becomes of the connection
}

// streamEnd is where a stream ended: what was gathered, and by what.
type streamEnd struct {
	g   gatherer
	out *outlet
	err error
}

// stopped decides what a stream amounts to that ended. One whose model had come to an end is whole, however it ended.
func (x *exchange) stopped(ctx context.Context, resp *http.Response, in body, e streamEnd) (answer, bool) {
	a, whole := e.g.end()
	if whole {
		e.out.end()
		a.text = e.out.all.String()
		return a, true
	}
	x.spent = partly(a.usage)
	failed := Error{Reason: CutShort, Status: resp.StatusCode, Err: e.err}
	switch {
	case errors.Is(context.Cause(ctx), errIdle):
		failed.Reason, failed.Err = Network, errIdle
		failed.Detail = "the stream fell silent"
	case in.full():
		failed.Detail = fmt.Sprintf("the reply is larger than %d MiB", mostReply>>20)
	case e.err == nil || errors.Is(e.err, io.EOF):
		failed.Detail = "the stream ended before the answer did"
	default:
		failed.Detail = "the stream broke off: " + e.err.Error()
	}
	x.fail(failed, in.full())
	return answer{}, false
}

// partly marks figures of an answer that did not come to its end.
func partly(u Usage) Usage {
	u.Known = false
	return u
}

// outlet passes a streamed text on in whole characters, and keeps all of it. White space before the first word waits for
// that word: alone it is no text.
type outlet struct {
	give func(string)
	all  strings.Builder // what was passed on
	held []byte
}

func (o *outlet) add(text string) {
	if text == "" {
		return
	}
	o.held = append(o.held, text...)
	n := wholeRunes(o.held)
	if o.all.Len() == 0 && len(bytes.TrimSpace(o.held[:n])) == 0 {
		return
	}
	o.pass(n)
}

func (o *outlet) pass(n int) {
	s := mend(o.held[:n])
	o.held = o.held[:copy(o.held, o.held[n:])]
	o.all.WriteString(s)
	o.give(s)
}

// end passes on what was held back, now that nothing can complete it.
func (o *outlet) end() {
	if len(o.held) > 0 && (o.all.Len() > 0 || len(bytes.TrimSpace(o.held)) > 0) {
		o.pass(len(o.held))
	}
}

// events reads server-sent events, more leniently than the book: the blank line between two events may be missing, and
// the last event may lack it. See https://html.spec.whatwg.org/multipage/server-sent-events.html.
type events struct {
	src   *bufio.Reader
	line  []byte // a line that is longer than the reader's buffer
	name  string
	data  []byte // of the event that is being read
	given []byte // of the one that was given last
}

// next gives the next event. data is good until the call after that. At the end it gives io.EOF.
func (e *events) next() (name string, data []byte, err error) {
	for {
		line, err := e.read()
		if err != nil {
			if errors.Is(err, io.EOF) && (complete(e.data) || len(e.data) > 0 && e.name == "error") {
				return e.event()
			}
			return "", nil, err // half an event is none
		}
		if len(line) == 0 {
			if len(e.data) > 0 {
				return e.event()
			}
			e.name = ""
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		if line[0] == '{' { // an error, written by something that has forgotten where it writes to
			field, value = []byte("data"), line
		}
		switch string(field) {
		case "event":
			if ready := complete(e.data); ready {
				name, data, err = e.event()
			}
			e.name = string(value)
		case "data":
			if ready := complete(e.data); ready {
				name, data, err = e.event()
			} else if len(e.data) > 0 {
				e.data = append(e.data, '\n')
			}
			e.data = append(e.data, value...)
		}
		if data != nil {
			return name, data, err
		}
	}
}

// event gives the event that has been read.
func (e *events) event() (name string, data []byte, err error) {
	name, data = e.name, e.data
	e.name, e.data, e.given = "", e.given[:0], e.data
	return name, data, nil
}

// complete says whether what was read of an event can be all of it.
func complete(data []byte) bool {
	return len(data) > 0 && (string(data) == endOfStream || json.Valid(data))
}

// read gives the next line without its end. It is good until the next call.
func (e *events) read() ([]byte, error) {
	e.line = e.line[:0]
	for {
		part, err := e.src.ReadSlice('\n')
		switch {
		case err == nil && len(e.line) == 0:
			return bytes.TrimRight(part, "\r\n"), nil
		case err == nil, errors.Is(err, io.EOF) && len(e.line)+len(part) > 0:
			return bytes.TrimRight(append(e.line, part...), "\r\n"), nil
		case errors.Is(err, bufio.ErrBufferFull):
			e.line = append(e.line, part...)
		default:
			return nil, err
		}
	}
}

// unquote gives the text of a JSON string that is known to be sound. Half a pair of surrogates stays as it is, in three
// bytes, and so do bytes that are no UTF-8: the other half may be in the next event.
func unquote(raw []byte) string {
	if len(raw) < 2 || raw[0] != '"' {
		return ""
	}
	raw = raw[1 : len(raw)-1]
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw)
	}
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' || i+1 == len(raw) {
			out = append(out, raw[i])
			continue
		}
		i++
		switch c := raw[i]; c {
		case 'b', 'f', 'n', 'r', 't':
			out = append(out, "\b\f\n\r\t"[strings.IndexByte("bfnrt", c)])
		case 'u':
			r := hex(raw[i+1:])
			if r < 0xd800 || r > 0xdfff {
				out = utf8.AppendRune(out, r)
			} else {
				out = append(out, 0xed, 0x80|byte(r>>6&0x3f), 0x80|byte(r&0x3f))
			}
			i += 4
		default:
			out = append(out, c)
		}
	}
	return string(out)
}

// hex reads four digits.
func hex(raw []byte) (r rune) {
	for _, c := range raw[:min(4, len(raw))] {
		r <<= 4
		switch {
		case c <= '9':
			r |= rune(c - '0')
		default:
			r |= rune(c|0x20-'a') + 10
		}
	}
	return r
}

// wholeRunes gives the length of b without the character that its end may be the beginning of.
func wholeRunes(b []byte) int {
	n := len(b)
	if n >= 3 && b[n-3] == 0xed && b[n-2]&0xf0 == 0xa0 {
		return n - 3 // the first of two surrogates
	}
	for i := 1; i <= min(3, n); i++ {
		if c := b[n-i]; utf8.RuneStart(c) {
			if !utf8.FullRune(b[n-i:]) {
				return n - i
			}
			break
		}
	}
	return n
}

// mend makes characters of the halves in b, now that they stand together. A half that is alone becomes a replacement.
func mend(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); {
		if high, ok := surrogate(b[i:]); ok && high < 0xdc00 {
			if low, ok := surrogate(b[i+3:]); ok && low >= 0xdc00 {
				out = utf8.AppendRune(out, 0x10000+(high-0xd800)<<10+(low-0xdc00))
				i += 6
				continue
			}
		}
		out = append(out, b[i])
		i++
	}
	return strings.ToValidUTF8(string(out), "\ufffd")
}

// surrogate reads one half of a pair, in the three bytes that unquote writes.
func surrogate(b []byte) (rune, bool) {
	if len(b) < 3 || b[0] != 0xed || b[1] < 0xa0 || b[1] > 0xbf || b[2]&0xc0 != 0x80 {
		return 0, false
	}
	return 0xd000 | rune(b[1]&0x3f)<<6 | rune(b[2]&0x3f), true
}
