package slack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	slackgo "github.com/slack-go/slack"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"

	"switchboard/chat"
)

const (
	fileMost  = 64 << 10  // bytes of a file's text that are taken in
	filesMost = 128 << 10 // bytes of all files of a message
	leastRead = 1 << 10   // bytes worth reading
	filesTime = 20 * time.Second
)

// file is a file as it hangs on a message. Slack: https://docs.slack.dev/reference/objects/file-object
type file struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Title       string `json:"title"`
	Mimetype    string `json:"mimetype"`
	Filetype    string `json:"filetype"`
	Mode        string `json:"mode"`
	Size        int64  `json:"size"`
	URL         string `json:"url_private"`
	Download    string `json:"url_private_download"`
	Access      string `json:"file_access"`
	IsExternal  bool   `json:"is_external"`
	ExternalURL string `json:"external_url"`
}

// filesOf gives the files of a message, as far as the event tells.
func filesOf(files []file) []chat.File {
	var out []chat.File
	for i := range files {
		out = append(out, files[i].chat())
	}
	return out
}

// chat gives a file in the words of all surfaces.
func (f *file) chat() chat.File {
	c := chat.File{ID: f.ID, Name: tidyName(f.Name), Type: f.Mimetype, Size: f.Size, URL: f.Download}
	if c.Name == "" {
		c.Name = tidyName(f.Title)
	}
	if c.Type == "" {
		c.Type = f.Filetype
	}
	if c.URL == "" {
		c.URL = f.URL
	}
	switch {
	case f.Mode == "tombstone":
		c.Note = "it was deleted"
	case f.Mode == "hidden_by_limit":
		c.Note = "the workspace's plan hides it"
	case f.IsExternal || f.Mode == "external":
		c.Note = "cannot be read: it is kept outside of Slack"
	}
	if c.Note != "" {
		c.URL = ""
	}
	return c
}

// readFiles reads what texts say. What cannot be read, or not whole, gets a note for people.
func (s *Slack) readFiles(ctx context.Context, files []chat.File) []chat.File {
	if len(files) == 0 {
		return files
	}
	ctx, cancel := context.WithTimeout(ctx, filesTime)
	defer cancel()
	files = slices.Clone(files)
	left := filesMost
	for i := range files {
		f := &files[i]
		if f.Note != "" || f.Text != "" {
			continue
		}
		if f.URL == "" {
			s.fetchFacts(ctx, f) // Slack keeps some back in shared channels until it is asked
		}
		switch {
		case f.Note != "":
		case !readable(f) && !isPDF(f):
			f.Note = "cannot be read: it is not text"
		case isPDF(f) && f.Size > pdfMost:
			f.Note = noteOf(errHeavy)
		case f.URL == "":
			f.Note = "cannot be read: Slack does not say where it is"
		case left < leastRead:
			f.Note = "not read: the files of this message are too much text together"
		default:
			s.readFile(ctx, f, min(fileMost, left))
			left -= len(f.Text)
		}
	}
	return files
}

// fetchFacts asks about a file of which the event tells only the id.
// Slack: https://docs.slack.dev/reference/methods/files.info
func (s *Slack) fetchFacts(ctx context.Context, f *chat.File) {
	if !idForm.MatchString(f.ID) {
		return
	}
	var info *slackgo.File
	err := s.call(ctx, looking, "files.info", "", func(ctx context.Context) (err error) {
		info, _, _, err = s.api.GetFileInfoContext(ctx, f.ID, 0, 0)
		return err
	})
	if err != nil {
		f.Note = noteOf(err)
		return
	}
	*f = (&file{
		ID: info.ID, Name: info.Name, Title: info.Title, Mimetype: info.Mimetype, Filetype: info.Filetype, Mode: info.Mode,
		Size: int64(info.Size), URL: info.URLPrivate, Download: info.URLPrivateDownload, IsExternal: info.IsExternal,
	}).chat()
}

// readable says whether a file is of a kind that is text.
func readable(f *chat.File) bool {
	media, _, err := mime.ParseMediaType(f.Type)
	if err != nil {
		media = f.Type
	}
	media = strings.ToLower(media)
	if strings.HasPrefix(media, "text/") || strings.HasSuffix(media, "+json") || strings.HasSuffix(media, "+xml") && media != "image/svg+xml" {
		return true
	}
	switch media {
	case "application/json", "application/xml", "application/yaml", "application/x-yaml", "application/javascript",
		"application/typescript", "application/x-sh", "application/sql", "application/toml", "application/x-ndjson",
		"application/csv", "application/x-httpd-php", "application/x-python", "application/x-ruby", "application/graphql":
		return true
	}
	switch strings.ToLower(strings.TrimPrefix(path.Ext(f.Name), ".")) {
	case "txt", "md", "markdown", "csv", "tsv", "json", "jsonl", "ndjson", "yaml", "yml", "toml", "ini", "conf", "cfg", "log",
		"xml", "html", "htm", "css", "js", "ts", "tsx", "jsx", "go", "py", "rb", "rs", "java", "kt", "c", "h", "cc", "cpp",
		"hpp", "cs", "php", "sh", "bash", "sql", "diff", "patch", "tex", "rst", "swift", "scala", "lua", "pl", "r", "proto",
		"graphql", "tf", "ics", "vtt", "srt", "eml":
		return true
	}
	return false
}

// These are for people, so they say what to do rather than what happened.
var (
	errLogin     = errors.New("Slack asks for a login: the bot lacks the scope files:read")
	errElsewhere = errors.New("it is kept on another host, where the bot does not go")
	errNotText   = errors.New("it is not text")
)

// readFile reads the beginning of a file.
func (s *Slack) readFile(ctx context.Context, f *chat.File, most int) {
	var err error
	if isPDF(f) {
		f.Text, f.Note, err = s.readPDF(ctx, f, most)
	} else {
		f.Text, f.Note, err = s.readText(ctx, f, most)
	}
	if err != nil {
		f.Note = noteOf(err)
		s.o.Log.Info().Err(err).Str("file", f.ID).Msg("a file cannot be read")
	}
}

// readText gives at most so many bytes of a file's text, and a note for people where that is not all.
func (s *Slack) readText(ctx context.Context, f *chat.File, most int) (text, note string, err error) {
	data, err := s.download(ctx, f, most)
	if err != nil {
		return "", "", err
	}
	if bytes.HasPrefix(data, []byte(pdfHead)) { // whatever it is called
		return s.readPDF(ctx, f, most)
	}
	text, whole, err := decode(data[:min(len(data), most)], len(data) <= most)
	if err == nil && !whole {
		note = fmt.Sprintf("only its first %d KiB are read", (len(text)+1023)>>10)
	}
	return text, note, err
}

// noteOf says for people why a file cannot be read.
func noteOf(err error) string {
	for _, plain := range []error{errLogin, errElsewhere, errNotText, errHeavy, errLocked, errPictures, errSlow, errBroken, errStuck} {
		if errors.Is(err, plain) {
			return "cannot be read: " + plain.Error()
		}
	}
	switch refusal(err) {
	case "missing_scope":
		return "cannot be read: the bot lacks the scope files:read"
	case "file_not_found", "file_deleted":
		return "cannot be read: it is gone"
	}
	return "cannot be read just now"
}

// download gives a file's first bytes: as many as asked for, and one more if there are more.
func (s *Slack) download(ctx context.Context, f *chat.File, most int) (data []byte, err error) {
	err = s.call(ctx, looking, "files.download", "", func(ctx context.Context) (err error) {
		data, err = s.fetchFile(ctx, f, int64(most)+1)
		return err
	})
	return data, err
}

// fetchFile asks for a file. The token goes to Slack's own hosts only, and a redirect to another host is not followed.
// Slack: https://docs.slack.dev/reference/objects/file-object#authentication
func (s *Slack) fetchFile(ctx context.Context, f *chat.File, most int64) ([]byte, error) {
	from, err := url.Parse(f.URL)
	if err != nil || !s.trusted(from) {
		return nil, errElsewhere
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, from.String(), nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+s.o.BotToken)
	client := *s.client
	client.CheckRedirect = func(next *http.Request, _ []*http.Request) error {
		if next.URL.Host != from.Host || next.URL.Scheme != from.Scheme {
			return errElsewhere
		}
		return errLogin // Slack serves a file where it says that it is, and sends away who may not have it
	}
	answer, err := client.Do(request)
	if err != nil {
		return nil, withoutAddress(err) // it holds the file's name
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return nil, slackgo.StatusCodeError{Code: answer.StatusCode, Status: answer.Status}
	}
	data, err := io.ReadAll(io.LimitReader(answer.Body, most))
	if err != nil {
		return nil, err
	}
	if login(answer.Header.Get("Content-Type"), data, f) {
		return nil, errLogin
	}
	return data, nil
}

// trusted says whether a host may see the token: Slack's own, and the one whose API is used.
func (s *Slack) trusted(u *url.URL) bool {
	if api, err := url.Parse(s.o.APIURL); err == nil && s.o.APIURL != "" && api.Host == u.Host && api.Scheme == u.Scheme {
		return true
	}
	host := strings.ToLower(u.Hostname())
	return u.Scheme == "https" && (host == "slack.com" || strings.HasSuffix(host, ".slack.com") ||
		host == "slack-files.com" || strings.HasSuffix(host, ".slack-gov.com"))
}

// login says whether a page came in place of the file: Slack gives it with status 200 to whom it does not let have the
// file, as reported for tokens without files:read.
func login(mediaType string, data []byte, f *chat.File) bool {
	media, _, _ := mime.ParseMediaType(mediaType)
	head := bytes.ToLower(bytes.TrimSpace(data[:min(len(data), 512)]))
	page := media == "text/html" || bytes.HasPrefix(head, []byte("<!doctype html")) || bytes.HasPrefix(head, []byte("<html"))
	html := strings.Contains(strings.ToLower(f.Type), "html") || strings.HasSuffix(strings.ToLower(f.Name), ".html") ||
		strings.HasSuffix(strings.ToLower(f.Name), ".htm")
	return page && !html
}

// decode gives the text, without half a character at its end.
func decode(data []byte, whole bool) (string, bool, error) {
	out, _, err := transform.Bytes(unicode.BOMOverride(transform.Nop), data)
	if err != nil {
		return "", false, errNotText
	}
	if !whole {
		for range utf8.UTFMax {
			if r, size := utf8.DecodeLastRune(out); r != utf8.RuneError || size != 1 {
				break
			}
			out = out[:len(out)-1]
		}
	}
	if !utf8.Valid(out) || bytes.IndexByte(out, 0) >= 0 {
		return "", false, errNotText
	}
	if len(out) > fileMost { // another encoding may have grown
		return decode(out[:fileMost], false)
	}
	return strings.ReplaceAll(string(out), "\r\n", "\n"), whole, nil
}
