package sim

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"
)

// addFile keeps a file.
func (w *Workspace) addFile(u Upload, user string) *File {
	f := &File{ID: w.id("F"), Name: u.Name, Type: u.Type, Size: int64(len(u.Content)), User: user, Content: u.Content, Elsewhere: u.Elsewhere}
	f.URL = w.url + "/files/" + w.o.Team + "-" + f.ID + "/" + strings.ReplaceAll(u.Name, " ", "_")
	w.files[f.ID] = f
	return f
}

// wireFile is a file as Slack gives it out. Slack: https://docs.slack.dev/reference/objects/file-object
func (w *Workspace) wireFile(f *File) map[string]any {
	kind := f.Name[strings.LastIndex(f.Name, ".")+1:]
	return map[string]any{
		"id": f.ID, "name": f.Name, "title": cmp.Or(f.Title, f.Name), "mimetype": f.Type, "filetype": kind, "pretty_type": strings.ToUpper(kind), "size": f.Size,
		"user": f.User, "url_private": f.URL, "url_private_download": f.URL, "mode": "hosted", "is_external": false, "is_public": true,
		"permalink": "https://" + w.o.Domain + ".slack.com/files/" + f.User + "/" + f.ID, "file_access": "visible", "created": 1700000000,
	}
}

// filesInfo is files.info. Slack: https://docs.slack.dev/reference/methods/files.info
func (w *Workspace) filesInfo(c *call) (map[string]any, error) {
	f := w.files[c.str("file")]
	if f == nil {
		return nil, fail("file_not_found")
	}
	return map[string]any{"file": w.wireFile(f)}, nil
}

const loginPage = "<!DOCTYPE html><html><head><title>Sign in | Slack</title></head><body><form action=\"/signin\">Sign in to your workspace</form></body></html>"

// download serves a file to a bot that shows its token in the header. Whoever may not have it gets a page to sign in on,
// with status 200, as reported.
func (w *Workspace) download(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	_, id, _ := strings.Cut(strings.Split(strings.TrimPrefix(r.URL.Path, "/files/"), "/")[0], "-")
	f := w.files[id]
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	allowed := false
	for _, a := range w.each("") {
		if token != "" && token == a.BotToken {
			allowed = a.may("files:read")
		}
	}
	w.mu.Unlock()
	switch {
	case f == nil:
		http.NotFound(rw, r)
	case !allowed:
		rw.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = rw.Write([]byte(loginPage)) // the caller may be gone
	case f.Elsewhere != "":
		http.Redirect(rw, r, f.Elsewhere, http.StatusFound)
	default:
		rw.Header().Set("Content-Type", f.Type)
		rw.Header().Set("Content-Length", strconv.Itoa(len(f.Content)))
		rw.Header().Set("Content-Disposition", "attachment")
		rw.Header().Set("X-Content-Type-Options", "nosniff")
		_, _ = rw.Write(f.Content) // as above
	}
}
