package slack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"path"
	"runtime/debug"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/klippa-app/go-pdfium"
	pdfiumerrors "github.com/klippa-app/go-pdfium/errors"
	"github.com/klippa-app/go-pdfium/references"
	"github.com/klippa-app/go-pdfium/requests"
	"github.com/klippa-app/go-pdfium/webassembly"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"switchboard/chat"
)

const (
	pdfHead  = "%PDF-"  // with which one begins
	pdfMost  = 10 << 20 // bytes of one
	pdfPages = 50       // its pages that are read
	pdfTime  = 10 * time.Second
	pdfRoom  = 1024 // memory of the parser, in pages of WebAssembly (64 KiB): 64 MiB
)

// isPDF says whether a file is a PDF, by what Slack says of it. Slack's own word for the type is pdf:
// https://docs.slack.dev/reference/objects/file-object#types
func isPDF(f *chat.File) bool {
	media, _, err := mime.ParseMediaType(f.Type)
	if err != nil {
		media = f.Type
	}
	switch strings.ToLower(media) {
	case "application/pdf", "application/x-pdf", "pdf":
		return true
	}
	return strings.EqualFold(path.Ext(f.Name), ".pdf")
}

// These are for people, as those of files.
var (
	errHeavy    = errors.New("it has more than the 10 MiB that a PDF may have")
	errLocked   = errors.New("a password locks it")
	errBroken   = errors.New("it is damaged, or no PDF")
	errPictures = errors.New("it holds no text, only pictures")
	errSlow     = errors.New("reading it takes too long")
	errStuck    = errors.New("it is damaged, or too much to take apart")
)

// pdfs reads the text of PDFs. Anybody who may write to the bot can send one, so the parser (PDFium) is kept where it can do
// no harm: it is WebAssembly, with its own bounded memory, no files, no network, no clock, and an end to its time. It is
// interpreted, not compiled: that is ten times slower on a page, but starts in 0.3 s rather than in 3 s and runs no machine
// code but Go's own. One is made for each PDF and thrown away with all that the PDF did to it, so that a bot to which
// nobody sends PDFs spends nothing on them, and there is nothing to stop.
type pdfs struct {
	one   chan struct{}           // held while one is read: that takes some 250 MiB, and up to 450 for one that is made to
	time  time.Duration           // for one PDF
	room  uint32                  // of the parser, in pages of WebAssembly
	cache wazero.CompilationCache // nil keeps no parser at hand, which would take 130 MiB
}

func (p *pdfs) begin() { p.one, p.time, p.room = make(chan struct{}, 1), pdfTime, pdfRoom }

// enter waits until nobody else reads a PDF, and gives what says that one is done.
func (p *pdfs) enter(ctx context.Context) (leave func(), err error) {
	select {
	case p.one <- struct{}{}:
		return func() { <-p.one }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for another PDF to be read: %w", context.Cause(ctx))
	}
}

// readPDF gives at most so many bytes of a PDF's text, and a note for people where that is not all of it. Those who wait
// for their turn have not yet fetched theirs: many large ones must not fill the memory.
func (s *Slack) readPDF(ctx context.Context, f *chat.File, most int) (text, note string, err error) {
	leave, err := s.pdfs.enter(ctx)
	if err != nil {
		return "", "", err
	}
	defer leave()
	data, err := s.download(ctx, f, pdfMost)
	if err != nil {
		return "", "", err
	}
	if len(data) > pdfMost {
		return "", "", errHeavy
	}
	return s.pdfs.read(ctx, data, most)
}

// read gives the text of a PDF. Its error says for people why there is none, or is that of ctx.
func (p *pdfs) read(ctx context.Context, data []byte, most int) (text, note string, err error) {
	defer debug.FreeOSMemory() // else what the parser took stays for minutes with a program that needs a tenth of it
	within, cancel := context.WithTimeout(ctx, p.time)
	defer cancel()
	text, note, err = p.parse(within, data, most)
	switch {
	case err == nil:
		return text, note, nil
	case ctx.Err() != nil:
		return "", "", fmt.Errorf("read a PDF: %w", context.Cause(ctx))
	case within.Err() != nil:
		return "", "", fmt.Errorf("%w: %w", errSlow, err)
	}
	return "", "", err
}

// parse starts a parser, reads with it, and ends it.
func (p *pdfs) parse(ctx context.Context, data []byte, most int) (text, note string, err error) {
	defer func() { // the library catches its own; this is for what it overlooks
		if r := recover(); r != nil {
			text, note, err = "", "", fmt.Errorf("%w: the parser panicked: %v", errStuck, r)
		}
	}()
	if err := ctx.Err(); err != nil {
		return "", "", err
	}
	pool, err := webassembly.Init(webassembly.Config{
		Context:  ctx,
		MaxTotal: 1,
		FSConfig: wazero.NewFSConfig(), // empty: the library's own shows it the whole disk
		Stdout:   io.Discard,
		Stderr:   io.Discard,
		RuntimeConfig: wazero.NewRuntimeConfigInterpreter().
			WithCoreFeatures(api.CoreFeaturesV2 | experimental.CoreFeaturesExceptionHandling). // PDFium is built with these
			WithMemoryLimitPages(p.room).
			WithCompilationCache(p.cache).
			WithCloseOnContextDone(true),
	})
	if err != nil {
		return "", "", fmt.Errorf("start the reader of PDFs: %w", err)
	}
	defer func() { _ = pool.Close() }()
	parser, err := pool.GetInstanceWithContext(ctx)
	if err != nil {
		return "", "", fmt.Errorf("start the reader of PDFs: %w", err)
	}
	defer func() { _ = parser.Close() }() // what it says of a broken document is no news
	opened, err := parser.OpenDocument(&requests.OpenDocument{File: &data})
	switch {
	case errors.Is(err, pdfiumerrors.ErrPassword), errors.Is(err, pdfiumerrors.ErrSecurity):
		return "", "", fmt.Errorf("%w: %w", errLocked, err)
	case err != nil:
		return "", "", fmt.Errorf("%w: %w", errBroken, err)
	}
	count, err := parser.FPDF_GetPageCount(&requests.FPDF_GetPageCount{Document: opened.Document})
	if err != nil {
		return "", "", fmt.Errorf("%w: %w", errBroken, err)
	}
	d := openPDF{parser: parser, ref: opened.Document, pages: count.PageCount}
	return d.read(most)
}

// openPDF is a PDF at reading.
type openPDF struct {
	parser pdfium.Pdfium
	ref    references.FPDF_DOCUMENT
	pages  int // as it says itself
}

// read gives the text of the pages, each under its number if there are several, and a note where some is left out.
func (d *openPDF) read(most int) (text, note string, err error) {
	var out strings.Builder
	words, bad, cut, done := false, 0, false, 0
	for ; done < min(d.pages, pdfPages) && !cut; done++ {
		var page string
		page, err = d.page(done, most-out.Len())
		if errors.Is(err, pdfiumerrors.ErrPage) { // the next one may be whole
			bad, err = bad+1, nil
			continue
		}
		if err != nil { // it broke the parser, or time is over
			break
		}
		words = words || page != ""
		cut = add(&out, d.head(done, page), page, most)
	}
	if !words {
		switch {
		case err != nil:
			cause, _, _ := strings.Cut(err.Error(), "\n") // without the parser's stack
			return "", "", fmt.Errorf("%w: page %d: %s", errStuck, done+1, cause)
		case bad > 0 || d.pages < 1:
			return "", "", errBroken
		}
		return "", "", errPictures
	}
	text = out.String()
	switch {
	case cut:
		note = fmt.Sprintf("only its first %d KiB of text are read, up to page %d of %d", (len(text)+1023)>>10, done, d.pages)
	case done < d.pages:
		note = fmt.Sprintf("only the first %d of its %d pages are read", done, d.pages)
	case bad > 0:
		note = fmt.Sprintf("%d of its %d pages are damaged and not read", bad, d.pages)
	}
	return text, note, nil
}

// head is what stands above a page: a question may be about a page, and an answer should say where it found something.
func (d *openPDF) head(page int, text string) string {
	switch {
	case d.pages < 2:
		return ""
	case text == "":
		return fmt.Sprintf("[page %d: no text]", page+1)
	}
	return fmt.Sprintf("[page %d]\n", page+1)
}

// add writes a page, and says whether it had to be cut.
func add(out *strings.Builder, head, page string, most int) (cut bool) {
	whole := head + page
	if out.Len() > 0 && whole != "" {
		whole = "\n\n" + whole
	}
	if left := most - out.Len(); len(whole) > left {
		for left > 0 && !utf8.RuneStart(whole[left]) {
			left--
		}
		whole, cut = whole[:left], true
	}
	out.WriteString(whole)
	return cut
}

// page reads a page, and not much more of it than so many bytes: a small file can hold a page with millions of letters.
func (d *openPDF) page(number, most int) (string, error) {
	page, err := d.parser.FPDF_LoadPage(&requests.FPDF_LoadPage{Document: d.ref, Index: number})
	if err != nil {
		return "", err
	}
	letters, err := d.parser.FPDFText_LoadPage(&requests.FPDFText_LoadPage{Page: requests.Page{ByReference: &page.Page}})
	if err != nil {
		return "", err
	}
	count, err := d.parser.FPDFText_CountChars(&requests.FPDFText_CountChars{TextPage: letters.TextPage})
	if err != nil {
		return "", err
	}
	text := ""
	if n := min(count.Count, most+1); n > 0 {
		got, err := d.parser.FPDFText_GetText(&requests.FPDFText_GetText{TextPage: letters.TextPage, Count: n})
		if err != nil {
			return "", err
		}
		text = tidyPage(got.Text)
	}
	if _, err := d.parser.FPDFText_ClosePage(&requests.FPDFText_ClosePage{TextPage: letters.TextPage}); err != nil {
		return "", err
	}
	_, err = d.parser.FPDF_ClosePage(&requests.FPDF_ClosePage{Page: page.Page})
	return text, err
}

// tidyPage makes plain text of PDFium's: lines that end as everywhere, words that a hyphen splits at the end of a line
// joined again, and no control characters. For such a hyphen and the line's end PDFium writes U+0002.
func tidyPage(text string) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\r\n", "\n")
	var out strings.Builder
	before := ' '
	for at, r := range text {
		switch {
		case r == '\x02':
			if after, _ := utf8.DecodeRuneInString(text[at+1:]); !unicode.IsLetter(before) || !unicode.IsLetter(after) {
				out.WriteByte('-') // 10-20 is not 1020
			}
		case r == '\r':
			out.WriteByte('\n')
		case r == '\n', r == '\t', !unicode.IsControl(r) && r != '\uFFFE' && r != '\uFFFF':
			out.WriteRune(r)
		}
		before = r
	}
	return strings.TrimSpace(out.String())
}
