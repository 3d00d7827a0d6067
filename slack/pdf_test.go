package slack

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/tetratelabs/wazero"

	"switchboard/chat"
	"switchboard/slack/sim"
)

// paper writes PDFs. PDF 1.7 (ISO 32000-1), 7.5: numbered objects, a table of where each begins, and a trailer.
type paper struct{ objects []string }

func (p *paper) add(object string) int {
	p.objects = append(p.objects, object)
	return len(p.objects)
}

func (p *paper) stream(dictionary, data string) int {
	return p.add(fmt.Sprintf("<<%s/Length %d>>\nstream\n%s\nendstream", dictionary, len(data), data))
}

func (p *paper) bytes(root int) []byte {
	var out bytes.Buffer
	out.WriteString("%PDF-1.7\n")
	var table strings.Builder
	for i, o := range p.objects {
		fmt.Fprintf(&table, "%010d 00000 n \n", out.Len())
		fmt.Fprintf(&out, "%d 0 obj\n%s\nendobj\n", i+1, o)
	}
	fmt.Fprintf(&out, "xref\n0 %d\n0000000000 65535 f \n%strailer\n<</Size %d/Root %d 0 R>>\nstartxref\n%d\n%%%%EOF\n",
		len(p.objects)+1, table.String(), len(p.objects)+1, root, out.Len())
	return out.Bytes()
}

// sheet is what stands on a page: a stream of drawing commands.
type sheet struct{ filter, data string }

// lines draws lines of text, in Windows' Latin letters.
func lines(text ...string) sheet {
	var out strings.Builder
	out.WriteString("BT /F 12 Tf 14 TL 72 700 Td")
	for _, line := range text {
		fmt.Fprintf(&out, " (%s) Tj T*", line)
	}
	out.WriteString(" ET")
	return sheet{data: out.String()}
}

// printed makes a PDF of pages.
func printed(pages ...sheet) []byte {
	var p paper
	font := p.add("<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>")
	var kids strings.Builder
	tree := 2 + 2*len(pages)
	for _, s := range pages {
		content := p.stream(s.filter, s.data)
		page := p.add(fmt.Sprintf("<</Type/Page/Parent %d 0 R/MediaBox[0 0 612 792]/Contents %d 0 R/Resources<</Font<</F %d 0 R>>>>>>", tree, content, font))
		fmt.Fprintf(&kids, "%d 0 R ", page)
	}
	p.add(fmt.Sprintf("<</Type/Pages/Count %d/Kids[%s]>>", len(pages), kids.String()))
	return p.bytes(p.add(fmt.Sprintf("<</Type/Catalog/Pages %d 0 R>>", tree)))
}

// PDFs of one page that says "secret", one locked with a password, one only against being copied from: 128 bit, revision 3.
const (
	lockedPDF  = `JVBERi0xLjMKJZOMi54gUmVwb3J0TGFiIEdlbmVyYXRlZCBQREYgZG9jdW1lbnQgKG9wZW5zb3VyY2UpCjEgMCBvYmoKPDwKL0YxIDIgMCBSCj4+CmVuZG9iagoyIDAgb2JqCjw8Ci9CYXNlRm9udCAvSGVsdmV0aWNhIC9FbmNvZGluZyAvV2luQW5zaUVuY29kaW5nIC9OYW1lIC9GMSAvU3VidHlwZSAvVHlwZTEgL1R5cGUgL0ZvbnQKPj4KZW5kb2JqCjMgMCBvYmoKPDwKL0NvbnRlbnRzIDggMCBSIC9NZWRpYUJveCBbIDAgMCA1OTUuMjc1NiA4NDEuODg5OCBdIC9QYXJlbnQgNyAwIFIgL1Jlc291cmNlcyA8PAovRm9udCAxIDAgUiAvUHJvY1NldCBbIC9QREYgL1RleHQgL0ltYWdlQiAvSW1hZ2VDIC9JbWFnZUkgXQo+PiAvUm90YXRlIDAgL1RyYW5zIDw8Cgo+PiAKICAvVHlwZSAvUGFnZQo+PgplbmRvYmoKNCAwIG9iago8PAovUGFnZU1vZGUgL1VzZU5vbmUgL1BhZ2VzIDcgMCBSIC9UeXBlIC9DYXRhbG9nCj4+CmVuZG9iago1IDAgb2JqCjw8Ci9BdXRob3IgKGtcMzYxJkpcMDM3Q1wzNTZQICkgL0NyZWF0aW9uRGF0ZSAoTlwyNDV7XDAyNFZcMDM2XDI2MVwwMjRjXDM0NlwyNTJcMzAzXDMyNGYhXVwzMzJcMjc2c1wzNzBcMjMyXCkwKSAvQ3JlYXRvciAoa1wzNjEmSlwwMzdDXDM1NlAgKSAvS2V5d29yZHMgKCkgL01vZERhdGUgKE5cMjQ1e1wwMjRWXDAzNlwyNjFcMDI0Y1wzNDZcMjUyXDMwM1wzMjRmIV1cMzMyXDI3NnNcMzcwXDIzMlwpMCkgL1Byb2R1Y2VyIChYXDM3MjlLXDAyNFpcMzE1RDFcMzY3XDMxMlwyNjdcMjQydl1cMDA0XDIyM1wzNzQiXDI1NVwzMjM5OngqayVcMjc3XDMxM1wyMTdUXDMyM1wyNDJcMjUzI28pIAogIC9TdWJqZWN0IChcMTc3XDM2MTpUXDAwM01cMzUwQzpcMjYyXDM3NikgL1RpdGxlIChcMTc3XDM2MT1NXDAyMkJcMzQ0QSkgL1RyYXBwZWQgL0ZhbHNlCj4+CmVuZG9iago2IDAgb2JqCjw8Ci9GaWx0ZXIgL1N0YW5kYXJkIC9MZW5ndGggMTI4IC9PIDwyQzYyRDYyNUFCMjM3MTU1MUU3RDdFODYxMTg3NkQ3OTZFRERFRDczMTQ5ODlCNTdCQzFDRjU1QzA1QzFGMjc5PiAvUCAtNCAvUiAzIC9VIDw0Q0E5NUFDMkE2MkZEOTBEQjAxMDVGOTRERTdCRjQ0NTAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwPiAKICAvViAyCj4+CmVuZG9iago3IDAgb2JqCjw8Ci9Db3VudCAxIC9LaWRzIFsgMyAwIFIgXSAvVHlwZSAvUGFnZXMKPj4KZW5kb2JqCjggMCBvYmoKPDwKL0ZpbHRlciBbIC9BU0NJSTg1RGVjb2RlIC9GbGF0ZURlY29kZSBdIC9MZW5ndGggOTcKPj4Kc3RyZWFtCvNMw22Z1NxczAgWxRRmxBjgzGcRP38Onpa7uKerpJeusr4/hHIuZWOeJ2ysFcN9ESAZ11T3QWGj9+7cBM9L73Yple5MIlLGsM1SkJ/5/mErjt7+OZDk50p+XVu39M0IXAtlbmRzdHJlYW0KZW5kb2JqCnhyZWYKMCA5CjAwMDAwMDAwMDAgNjU1MzUgZiAKMDAwMDAwMDA2MSAwMDAwMCBuIAowMDAwMDAwMDkyIDAwMDAwIG4gCjAwMDAwMDAxOTkgMDAwMDAgbiAKMDAwMDAwMDQwMiAwMDAwMCBuIAowMDAwMDAwNDcwIDAwMDAwIG4gCjAwMDAwMDA5MTEgMDAwMDAgbiAKMDAwMDAwMTEyMSAwMDAwMCBuIAowMDAwMDAxMTgwIDAwMDAwIG4gCnRyYWlsZXIKPDwKL0VuY3J5cHQgNiAwIFIKL0lEIApbPDFjMTc4MTk4ZmJkZmE1MWIyNTk5NWQ4OWQ0MTAyMDQzPjwxYzE3ODE5OGZiZGZhNTFiMjU5OTVkODlkNDEwMjA0Mz5dCiUgUmVwb3J0TGFiIGdlbmVyYXRlZCBQREYgZG9jdW1lbnQgLS0gZGlnZXN0IChvcGVuc291cmNlKQoKL0luZm8gNSAwIFIKL1Jvb3QgNCAwIFIKL1NpemUgOQo+PgpzdGFydHhyZWYKMTM2NgolJUVPRgo=`
	guardedPDF = `JVBERi0xLjMKJZOMi54gUmVwb3J0TGFiIEdlbmVyYXRlZCBQREYgZG9jdW1lbnQgKG9wZW5zb3VyY2UpCjEgMCBvYmoKPDwKL0YxIDIgMCBSCj4+CmVuZG9iagoyIDAgb2JqCjw8Ci9CYXNlRm9udCAvSGVsdmV0aWNhIC9FbmNvZGluZyAvV2luQW5zaUVuY29kaW5nIC9OYW1lIC9GMSAvU3VidHlwZSAvVHlwZTEgL1R5cGUgL0ZvbnQKPj4KZW5kb2JqCjMgMCBvYmoKPDwKL0NvbnRlbnRzIDggMCBSIC9NZWRpYUJveCBbIDAgMCA1OTUuMjc1NiA4NDEuODg5OCBdIC9QYXJlbnQgNyAwIFIgL1Jlc291cmNlcyA8PAovRm9udCAxIDAgUiAvUHJvY1NldCBbIC9QREYgL1RleHQgL0ltYWdlQiAvSW1hZ2VDIC9JbWFnZUkgXQo+PiAvUm90YXRlIDAgL1RyYW5zIDw8Cgo+PiAKICAvVHlwZSAvUGFnZQo+PgplbmRvYmoKNCAwIG9iago8PAovUGFnZU1vZGUgL1VzZU5vbmUgL1BhZ2VzIDcgMCBSIC9UeXBlIC9DYXRhbG9nCj4+CmVuZG9iago1IDAgb2JqCjw8Ci9BdXRob3IgKFwyMjE7XDAwM1wyNzNcMDI1XDIwMlwzMTQsXDIzNykgL0NyZWF0aW9uRGF0ZSAoXDI2NG9eXDM0NVxcXDMzN1wyMjNoXDMzNFwwMzYmb3BcMzI3U1wyMjVNXDIzMiRzXDI3MVwzNTQ0KSAvQ3JlYXRvciAoXDIyMTtcMDAzXDI3M1wwMjVcMjAyXDMxNCxcMjM3KSAvS2V5d29yZHMgKCkgL01vZERhdGUgKFwyNjRvXlwzNDVcXFwzMzdcMjIzaFwzMzRcMDM2Jm9wXDMyN1NcMjI1TVwyMzIkc1wyNzFcMzU0NCkgL1Byb2R1Y2VyIChcMjQyMFwwMzRcMjcyXDAzNlwyMzNcMzU3OFwyMTZcMDE3RlwwMzNcMDA2XDMwNy9cMzE0XDAwNFwzMzB1JlwzNjBcMzc0PlwwMTNcMjMxXDIyMUZcMzY2XDM3MX1cMzQzV1wzMTNFXDMzNlwzNjEpIAogIC9TdWJqZWN0IChcMjA1O1wwMzdcMjQ1XDAxMVwyMTRcMzEyP1wyMDVKcikgL1RpdGxlIChcMjA1O1wwMzBcMjc0XDAzMFwyMDNcMzA2PSkgL1RyYXBwZWQgL0ZhbHNlCj4+CmVuZG9iago2IDAgb2JqCjw8Ci9GaWx0ZXIgL1N0YW5kYXJkIC9MZW5ndGggMTI4IC9PIDw3N0I4RkIwOTgwMjJEM0FCMzQyMzdFQTU2NDNDMDg3MTBFQTUxMjNGQzVGODhCRjk5M0E2OENDQTVGMTJCNDBGPiAvUCAtMjAgL1IgMyAvVSA8NkY1MzUzMjM4MTc5Qzk5RjEzRjc0Q0E3OEFEN0NFN0UwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMD4gCiAgL1YgMgo+PgplbmRvYmoKNyAwIG9iago8PAovQ291bnQgMSAvS2lkcyBbIDMgMCBSIF0gL1R5cGUgL1BhZ2VzCj4+CmVuZG9iago4IDAgb2JqCjw8Ci9GaWx0ZXIgWyAvQVNDSUk4NURlY29kZSAvRmxhdGVEZWNvZGUgXSAvTGVuZ3RoIDk3Cj4+CnN0cmVhbQqc7ZvwSHBsgnJ2ih4ZlETBtDXHYMz6lo/uq73rt9KC08cXumDKknOSN/PMzBxe1VAg6UMawGB9BXwQh6DC7gfMZ3p9cWolUoPJLWJ5i2A53psSJ7Ibwu17NSRIuHmv7LzlZW5kc3RyZWFtCmVuZG9iagp4cmVmCjAgOQowMDAwMDAwMDAwIDY1NTM1IGYgCjAwMDAwMDAwNjEgMDAwMDAgbiAKMDAwMDAwMDA5MiAwMDAwMCBuIAowMDAwMDAwMTk5IDAwMDAwIG4gCjAwMDAwMDA0MDIgMDAwMDAgbiAKMDAwMDAwMDQ3MCAwMDAwMCBuIAowMDAwMDAwOTUzIDAwMDAwIG4gCjAwMDAwMDExNjQgMDAwMDAgbiAKMDAwMDAwMTIyMyAwMDAwMCBuIAp0cmFpbGVyCjw8Ci9FbmNyeXB0IDYgMCBSCi9JRCAKWzwxYzE3ODE5OGZiZGZhNTFiMjU5OTVkODlkNDEwMjA0Mz48MWMxNzgxOThmYmRmYTUxYjI1OTk1ZDg5ZDQxMDIwNDM+XQolIFJlcG9ydExhYiBnZW5lcmF0ZWQgUERGIGRvY3VtZW50IC0tIGRpZ2VzdCAob3BlbnNvdXJjZSkKCi9JbmZvIDUgMCBSCi9Sb290IDQgMCBSCi9TaXplIDkKPj4Kc3RhcnR4cmVmCjE0MDkKJSVFT0YK`
)

func decoded(t *testing.T, text string) []byte {
	t.Helper()
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// bomb is a page whose drawing commands unpack to so many bytes, packed twice.
func bomb(t *testing.T, size int) sheet {
	t.Helper()
	pack := func(data []byte) []byte {
		var out bytes.Buffer
		w, err := zlib.NewWriterLevel(&out, zlib.BestSpeed)
		if err == nil {
			_, err = w.Write(data)
		}
		if err == nil {
			err = w.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	return sheet{filter: "/Filter[/FlateDecode/FlateDecode]", data: string(pack(pack(bytes.Repeat([]byte(" "), size))))}
}

// keptParser is one that is kept at hand: with the race detector each takes seconds to make.
var keptParser = sync.OnceValue(func() wazero.CompilationCache {
	cache := wazero.NewCompilationCache()
	p := pdfs{time: time.Minute, room: pdfRoom, cache: cache}
	if _, _, err := p.read(context.Background(), nil, 1); !errors.Is(err, errBroken) {
		panic(err)
	}
	return cache
})

func TestPDFText(t *testing.T) {
	t.Parallel()
	many := make([]sheet, pdfPages+2)
	for i := range many {
		many[i] = sheet{}
	}
	many[0] = lines("the first")
	many[pdfPages-1] = lines("the fiftieth")
	many[pdfPages] = lines("never read")
	broken := printed(lines("the first"), lines("gone"), lines("the third"))
	broken = bytes.Replace(broken, []byte("5 0 obj\n<</Type/Page/"), []byte("5 0 obj\n<</Type/Rage/"), 1)
	for _, c := range []struct {
		name       string
		data       []byte
		most       int
		text, note string
		err        error
	}{
		{name: "one page", data: printed(lines("Caf\xe9, 5 \x80", "a hyphen-", "ated word, and 10-", "20")), text: "Café, 5 €\na hyphenated word, and 10-\n20"},
		{name: "several pages", data: printed(lines("one"), sheet{}, lines("three")), text: "[page 1]\none\n\n[page 2: no text]\n\n[page 3]\nthree"},
		{name: "many pages", data: printed(many...), text: "\n\n[page 50]\nthe fiftieth", note: "only the first 50 of its 52 pages are read"},
		{
			name: "much text", data: printed(lines("one"), lines(strings.Repeat("\xe9", 2000)), lines("three")), most: 1024,
			text: "[page 1]\none\n\n[page 2]\n" + strings.Repeat("é", 500), note: "only its first 1 KiB of text are read, up to page 2 of 3",
		},
		{name: "against copying only", data: decoded(t, guardedPDF), text: "secret"},
		{name: "a page is damaged", data: broken, text: "[page 1]\nthe first\n\n[page 3]\nthe third", note: "1 of its 3 pages are damaged and not read"},
		{name: "cut off", data: printed(lines("one"))[:300], err: errBroken},
		{name: "garbage", data: []byte("%PDF-1.7 and nothing of the kind"), err: errBroken},
		{name: "empty", data: nil, err: errBroken},
		{name: "locked", data: decoded(t, lockedPDF), err: errLocked},
		{name: "no text", data: printed(sheet{}, sheet{data: "0 0 100 100 re f"}), err: errPictures},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := pdfs{time: time.Minute, room: pdfRoom, cache: keptParser()} // what runs beside the test must not change what it sees
			if c.most == 0 {
				c.most = fileMost
			}
			text, note, err := p.read(t.Context(), c.data, c.most)
			if !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
				t.Fatalf("%q, %q, %v; want %v", text, note, err, c.err)
			}
			if note != c.note || !strings.Contains(text, c.text) || c.note == "" && text != c.text {
				t.Errorf("%.300q, %q; want %.300q, %q", text, note, c.text, c.note)
			}
			if len(text) > c.most || !utf8.ValidString(text) || strings.Contains(text, "never") {
				t.Errorf("%d bytes: %.300q", len(text), text)
			}
		})
	}
}

// Which of its bounds ends a bomb depends on how fast the machine is: that on memory, or that on time.
func TestPDFBomb(t *testing.T) {
	t.Parallel()
	p := pdfs{time: 2 * time.Second, room: 400, cache: keptParser()}
	if text, _, err := p.read(t.Context(), printed(bomb(t, 32<<20)), fileMost); !errors.Is(err, errStuck) && !errors.Is(err, errSlow) {
		t.Errorf("%.100q, %v", text, err)
	}
}

// A PDF that keeps its reader busy is given up, and does not keep the others waiting for longer than that.
func TestPDFTime(t *testing.T) {
	t.Parallel()
	endless := printed(lines(slices.Repeat([]string{strings.Repeat("a", 100)}, 20_000)...))
	p := pdfs{time: time.Second, room: pdfRoom, cache: keptParser()}
	if text, _, err := p.read(t.Context(), endless, fileMost); !errors.Is(err, errSlow) {
		t.Errorf("%.100q, %v", text, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if text, _, err := p.read(ctx, endless, fileMost); !errors.Is(err, context.Canceled) || errors.Is(err, errSlow) {
		t.Errorf("%.100q, %v", text, err)
	}
	p.begin()
	leave, err := p.enter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.enter(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("two are read at a time: %v", err)
	}
	leave()
	if _, err := p.enter(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestPDFsOfMessage(t *testing.T) {
	t.Parallel()
	h := build(t, plan{})
	h.slack.pdfs.time, h.slack.pdfs.cache = time.Minute, keptParser()
	uploads := []sim.Upload{
		{Name: "a.pdf", Type: "application/pdf", Content: printed(lines("from the first"))},
		{Name: "b.txt", Type: "text/plain", Content: printed(lines("from the second"), sheet{filter: "/Filler(" + strings.Repeat("a", fileMost) + ")"})},
		{Name: "c.pdf", Type: "application/pdf", Content: bytes.Repeat([]byte(" "), pdfMost+1)},
		{Name: "d.pdf", Type: "application/pdf", Content: []byte("<!doctype html><p>not found")},
		{Name: "e.txt", Type: "text/plain", Content: []byte("and text")},
	}
	h.say(t, sim.Say{From: mia, Channel: h.dm(t, mia), Files: uploads})
	h.settled(t)
	got := h.take()
	if len(got) != 1 || len(got[0].Files) != len(uploads) {
		t.Fatalf("accepted %+v", got)
	}
	seen, err := h.slack.Look(t.Context(), got[0], false)
	if err != nil {
		t.Fatal(err)
	}
	type read struct{ Text, Note string }
	var all []read
	for _, f := range seen.Message.Files {
		all = append(all, read{f.Text, f.Note})
	}
	if d := cmp.Diff([]read{
		{"from the first", ""},
		{"[page 1]\nfrom the second\n\n[page 2: no text]", ""},
		{"", "cannot be read: it has more than the 10 MiB that a PDF may have"},
		{"", "cannot be read: " + errLogin.Error()},
		{"and text", ""},
	}, all); d != "" {
		t.Error(d)
	}
	// Slack may say nothing of the size.
	f := seen.Message.Files[2]
	f.Note, f.Size = "", 0
	if f := h.slack.readFiles(t.Context(), []chat.File{f})[0]; f.Note != "cannot be read: it has more than the 10 MiB that a PDF may have" {
		t.Error(f.Note)
	}
}

func TestPDFByType(t *testing.T) {
	t.Parallel()
	for want, files := range map[bool][]chat.File{
		true:  {{Type: "application/pdf"}, {Type: "Application/PDF; x=y"}, {Type: "application/x-pdf"}, {Type: "pdf"}, {Name: "A.PDF", Type: "application/octet-stream"}},
		false: {{}, {Name: "pdf"}, {Type: "text/plain", Name: "a.pdf.txt"}, {Type: "image/png"}},
	} {
		for _, f := range files {
			if got := isPDF(&f); got != want {
				t.Errorf("%+v: %v", f, got)
			}
		}
	}
}
