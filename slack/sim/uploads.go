package sim

import (
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
)

// upload is a file on its way in: announced, then sent, then completed, which shares it. Until then nobody sees it.
// Slack: https://docs.slack.dev/messaging/working-with-files#upload
type upload struct {
	app  *app
	file *File
	sent bool
}

// mostUpload is what a file may weigh here; Slack takes 1 GB.
const mostUpload = 32 << 20

// uploadURL is files.getUploadURLExternal. Slack: https://docs.slack.dev/reference/methods/files.getUploadURLExternal
func (w *Workspace) uploadURL(c *call) (map[string]any, error) {
	name, size := c.str("filename"), c.number("length", 0)
	switch {
	case name == "":
		return nil, fail(badArguments, "[ERROR] missing required field: filename")
	case size <= 0:
		return nil, fail(badArguments, "[ERROR] must be greater than 0 [json-pointer:/length]")
	case size > mostUpload:
		return nil, fail("file_upload_size_restricted")
	}
	f := &File{ID: w.id("F"), Name: name, Title: name, Type: typeOf(name), Size: int64(size), User: c.app.User}
	secret := w.secret()
	w.uploads[secret] = &upload{app: c.app, file: f}
	return map[string]any{"upload_url": w.url + "/upload/v1/" + secret, "file_id": f.ID}, nil
}

// typeOf gives the media type that goes with a file's name.
func typeOf(name string) string {
	if t := mime.TypeByExtension(path.Ext(name)); t != "" {
		media, _, _ := mime.ParseMediaType(t) // the table's own types can be read
		return media
	}
	return "application/octet-stream"
}

// upload takes the bytes of a file, raw or as the one file of a form. The address alone lets them in, once. That Slack
// refuses another size than was announced is a guess. A fault named files.upload breaks it.
func (w *Workspace) upload(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	u := w.uploads[strings.TrimPrefix(r.URL.Path, "/upload/v1/")]
	var f *fault
	if u != nil {
		f = w.strike("files.upload", u.app.ID)
	}
	w.mu.Unlock()
	if u == nil {
		http.NotFound(rw, r)
		return
	}
	if f != nil && !w.before(rw, r, f) {
		return
	}
	data, err := sentFile(rw, r)
	w.mu.Lock()
	switch {
	case err == nil && u.sent:
		err = fmt.Errorf("take file %s: it was sent before", u.file.ID)
	case err == nil && int64(len(data)) != u.file.Size:
		err = fmt.Errorf("take file %s: it has %d bytes, and %d were announced", u.file.ID, len(data), u.file.Size)
	case err == nil:
		u.file.Content, u.sent = data, true
		w.note(Entry{What: Called, Method: "files.upload", App: u.app.ID, Text: u.file.Name})
	}
	w.mu.Unlock()
	if err != nil {
		http.Error(rw, err.Error(), http.StatusBadRequest)
		return
	}
	if f != nil && !w.after(rw, r, f) {
		return
	}
	_, _ = io.WriteString(rw, "OK - "+strconv.Itoa(len(data))) // the caller may be gone
}

// sentFile reads the bytes.
func sentFile(rw http.ResponseWriter, r *http.Request) ([]byte, error) {
	r.Body = http.MaxBytesReader(rw, r.Body, mostUpload+1<<20)
	media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")) // what cannot be read is no form
	if media != "multipart/form-data" {
		return io.ReadAll(r.Body)
	}
	parts, err := r.MultipartReader()
	if err != nil {
		return nil, fmt.Errorf("read the form of an upload: %w", err)
	}
	for {
		part, err := parts.NextPart()
		if err != nil {
			return nil, fmt.Errorf("find a file in the form of an upload: %w", err)
		}
		if part.FileName() != "" {
			return io.ReadAll(part)
		}
	}
}

// completeUpload is files.completeUploadExternal: files that were sent become messages of the app. Without a channel they
// stay the app's own. Slack: https://docs.slack.dev/reference/methods/files.completeUploadExternal
func (w *Workspace) completeUpload(c *call) (map[string]any, error) {
	raw, err := c.raw("files")
	if err != nil {
		return nil, err
	}
	var named []struct {
		ID    string `json:"id"`
		Title string `json:"title"`
	}
	if json.Unmarshal(raw, &named) != nil || len(named) == 0 {
		return nil, fail(badArguments, "[ERROR] missing required field: files")
	}
	var files []*File
	for _, n := range named {
		u := w.uploadOf(c.app, n.ID)
		if u == nil || !u.sent {
			return nil, fail("file_not_found")
		}
		if n.Title != "" {
			u.file.Title = n.Title
		}
		files = append(files, u.file)
	}
	body, err := w.content(&call{app: c.app, args: map[string]any{"text": c.str("initial_comment"), "blocks": c.args["blocks"]}})
	if err != nil {
		return nil, err
	}
	to := c.str("channel_id")
	var ch *channel
	thread := ""
	if to != "" {
		if ch, err = w.place(c.app, to); err != nil {
			return nil, err
		}
		if thread, err = w.thread(ch, c.str("thread_ts")); err != nil {
			return nil, err
		}
	}
	out := []any{}
	for _, f := range files {
		f.URL = w.url + "/files/" + w.o.Team + "-" + f.ID + "/" + strings.ReplaceAll(f.Name, " ", "_")
		w.files[f.ID] = f
		for secret, u := range w.uploads {
			if u.file == f {
				delete(w.uploads, secret)
			}
		}
		out = append(out, map[string]any{"id": f.ID, "title": f.Title})
	}
	if ch != nil {
		w.post1(ch, &Message{
			Channel: ch.ID, TS: w.ts(), Thread: thread, User: c.app.User, App: c.app.ID, Bot: c.app.Bot, Subtype: "file_share",
			Text: body.text, Blocks: body.blocks, Files: files,
		})
	}
	return map[string]any{"files": out}, nil
}

func (w *Workspace) uploadOf(a *app, id string) *upload {
	for _, u := range w.uploads {
		if u.app == a && u.file.ID == id {
			return u
		}
	}
	return nil
}

// Bytes gives what a shared file holds; ok is false where there is no such file.
func (w *Workspace) Bytes(id string) (content []byte, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.files[id]
	if f == nil {
		return nil, false
	}
	return f.Content, true
}

// serveFile shows a file to whoever looks at the page. Texts are shown, the rest is handed over to be kept; the browser may
// run nothing of it. With ?save it is always handed over.
func (w *Workspace) serveFile(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	f := w.files[strings.TrimPrefix(r.URL.Path, "/sim/files/")]
	w.mu.Unlock()
	if f == nil {
		http.NotFound(rw, r)
		return
	}
	h := rw.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; sandbox")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	if text := strings.HasPrefix(f.Type, "text/") || f.Type == "application/json"; text && !r.URL.Query().Has("save") {
		h.Set("Content-Type", "text/plain; charset=utf-8")
	} else {
		h.Set("Content-Type", "application/octet-stream")
		h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": f.Name}))
	}
	_, _ = rw.Write(f.Content) // the reader may be gone
}
