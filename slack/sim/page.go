package sim

import (
	"embed"
	"io/fs"
	"net/http"
)

// web is the page, as the browser gets it: there is no build step, and nothing is loaded from elsewhere.
//
//go:embed web
var web embed.FS

// pagePolicy lets the page run its own files and nothing else. It shows texts of strangers, so besides never parsing them
// as HTML it may not: require-trusted-types-for makes the browser refuse every string that would be parsed. Pictures are
// its own only, so that no text can make the browser fetch an address.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// pageHandler serves the page at /.
func (w *Workspace) pageHandler() http.Handler {
	files, err := fs.Sub(web, "web")
	if err != nil {
		// Only a name that is no path can make it fail.
		return http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
			http.Error(rw, "open the page's files: "+err.Error(), http.StatusInternalServerError)
		})
	}
	serve := http.FileServerFS(files)
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			rw.Header().Set("Allow", "GET, HEAD")
			http.Error(rw, "the page can only be read", http.StatusMethodNotAllowed)
			return
		}
		h := rw.Header()
		h.Set("Content-Security-Policy", pagePolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		// The files change with the program, and a page of yesterday's program must not speak to today's simulator.
		h.Set("Cache-Control", "no-cache")
		serve.ServeHTTP(rw, r)
	})
}
