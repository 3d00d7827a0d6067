package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// routes puts the handlers together.
func (w *Workspace) routes() http.Handler {
	table := methods()
	mux := http.NewServeMux()
	mux.HandleFunc("/api/", func(rw http.ResponseWriter, r *http.Request) { w.api(table, rw, r) })
	mux.HandleFunc("GET /link/", w.link)
	mux.HandleFunc("GET /files/", w.download)
	mux.HandleFunc("POST /upload/v1/", w.upload)
	mux.HandleFunc("POST /respond/", w.respond)
	mux.HandleFunc("GET /sim/state", w.serveState)
	mux.HandleFunc("GET /sim/log", w.serveLog)
	mux.HandleFunc("GET /sim/files/", w.serveFile)
	mux.HandleFunc("POST /sim/do", w.serveDo)
	mux.Handle("/", w.pageHandler())
	return w.onlyHere(http.NewCrossOriginProtection().Handler(mux))
}

// onlyHere refuses requests that were sent to another host's name: a foreign page could let its own name lead here.
func (w *Workspace) onlyHere(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		host := r.Host
		if h, _, err := net.SplitHostPort(r.Host); err == nil {
			host = h
		}
		host = strings.Trim(host, "[]")
		ip := net.ParseIP(host)
		if host != "localhost" && (ip == nil || !ip.IsLoopback()) && !slices.Contains(w.o.Hosts, host) {
			http.Error(rw, "this workspace is not called "+strconv.Quote(host), http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(rw, r)
	})
}

// State is the whole workspace at a moment, as the page needs it. The log goes on after Last.
type State struct {
	Last     int                    `json:"last"`
	Team     string                 `json:"team"`
	Name     string                 `json:"name"`
	People   []Person               `json:"people"`
	Channels []Channel              `json:"channels"`
	Groups   []Group                `json:"groups"`
	Apps     []App                  `json:"apps"`
	Messages map[string][]Message   `json:"messages"` // by channel
	Sessions []Session              `json:"sessions"`
	Prompts  map[string]Prompts     `json:"prompts"` // by channel/thread
	Views    map[string][]View      `json:"views"`   // modals by person
	Homes    map[string]View        `json:"homes"`   // by app/person
	Suggest  []Suggestion           `json:"suggest"`
	Faults   []Fault                `json:"faults"`
	Limits   bool                   `json:"limits"`
	Sockets  map[string]SocketCount `json:"sockets"` // by app
}

// State gives it.
func (w *Workspace) State() State {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := State{
		Team: w.o.Team, Name: w.o.Name, Messages: map[string][]Message{}, Prompts: map[string]Prompts{}, Views: map[string][]View{},
		Homes: map[string]View{}, Suggest: slices.Clone(w.hints), Limits: w.limits.on, Sockets: map[string]SocketCount{},
	}
	for _, id := range sorted(w.channels) {
		c := w.channels[id]
		w.expire(c)
		s.Channels = append(s.Channels, c.copy())
		s.Messages[id] = copies(c.messages)
	}
	for _, id := range sorted(w.people) {
		s.People = append(s.People, *w.people[id])
	}
	for _, id := range sorted(w.groups) {
		s.Groups = append(s.Groups, *w.groups[id])
	}
	for _, a := range w.each("") {
		s.Apps = append(s.Apps, a.App)
		s.Sockets[a.ID] = a.count()
	}
	for _, id := range sorted(w.sessions) {
		s.Sessions = append(s.Sessions, w.show(w.sessions[id]))
	}
	maps.Copy(s.Prompts, w.prompts)
	for person, stack := range w.stacks {
		for _, v := range stack {
			s.Views[person] = append(s.Views[person], v.View)
		}
	}
	for id, v := range w.homes {
		s.Homes[id] = v.View
	}
	for _, f := range w.faults {
		s.Faults = append(s.Faults, f.Fault)
	}
	s.Last = w.dropped + len(w.entries)
	return s
}

func (w *Workspace) serveState(rw http.ResponseWriter, _ *http.Request) {
	rw.Header().Set("Cache-Control", "no-store")
	answer(rw, http.StatusOK, w.State())
}

// serveLog streams the log as server-sent events, after the entry that ?from= or Last-Event-ID names.
func (w *Workspace) serveLog(rw http.ResponseWriter, r *http.Request) {
	from, _ := strconv.Atoi(r.URL.Query().Get("from")) // what is no number is 0
	if last, err := strconv.Atoi(r.Header.Get("Last-Event-ID")); err == nil {
		from = last
	}
	rw.Header().Set("Content-Type", "text/event-stream")
	rw.Header().Set("Cache-Control", "no-store")
	out := http.NewResponseController(rw)
	beat := time.NewTicker(15 * time.Second) // so that a dead connection is noticed
	defer beat.Stop()
	if _, err := rw.Write([]byte(": open\n\n")); err != nil {
		return
	}
	for {
		w.mu.Lock()
		entries, changed := w.since(from)
		w.mu.Unlock()
		for _, e := range entries {
			if _, err := fmt.Fprintf(rw, "id: %d\ndata: %s\n\n", e.N, mustJSON(e)); err != nil {
				return
			}
			from = e.N
		}
		if out.Flush() != nil {
			return
		}
		select {
		case <-changed:
		case <-beat.C:
			if _, err := rw.Write([]byte(": beat\n\n")); err != nil {
				return
			}
		case <-r.Context().Done():
			return
		case <-w.stop:
			return
		}
	}
}

// act is one thing to do, by its name and with its own arguments.
type act func(w *Workspace, ctx context.Context, args json.RawMessage) (any, error)

// with reads the arguments of an act.
func with[T any](do func(*Workspace, T) (any, error)) act {
	return func(w *Workspace, _ context.Context, raw json.RawMessage) (any, error) {
		var args T
		if err := json.Unmarshal(raw, &args); err != nil {
			return nil, fmt.Errorf("read arguments: %w", err)
		}
		return do(w, args)
	}
}

// on is what several acts are about.
type on struct {
	From    string `json:"from"`
	Channel string `json:"channel"`
	TS      string `json:"ts"`
	Thread  string `json:"thread"`
	Text    string `json:"text"`
	Name    string `json:"name"`
	View    string `json:"view"`
	App     string `json:"app"`
	Reason  Reason `json:"reason"`
	On      bool   `json:"on"`
	N       int    `json:"n"`
	Repeat  Repeat `json:"repeat"`
}

// acts are what POST /sim/do can do: {"act": name, …arguments}.
func acts() map[string]act {
	return map[string]act{
		"say": with(func(w *Workspace, s Say) (any, error) {
			ts, err := w.Say(s)
			return map[string]string{"ts": ts}, err
		}),
		"click":    with(func(w *Workspace, k Click) (any, error) { return delivered(w.Click(k)) }),
		"submit":   with(func(w *Workspace, s Submit) (any, error) { return delivered(w.SubmitView(s)) }),
		"slash":    with(func(w *Workspace, k Command) (any, error) { return delivered(w.Slash(k)) }),
		"shortcut": with(func(w *Workspace, k Shortcut) (any, error) { return delivered(w.Shortcut(k)) }),
		"home":     with(func(w *Workspace, v Visit) (any, error) { return nil, w.OpenHome(v) }),
		"edit": with(func(w *Workspace, o on) (any, error) {
			return nil, w.Edit(o.From, o.Channel, o.TS, typed(o.Text))
		}),
		"delete": with(func(w *Workspace, o on) (any, error) { return nil, w.Delete(o.From, o.Channel, o.TS) }),
		"react":  with(func(w *Workspace, o on) (any, error) { return nil, w.React(o.From, o.Channel, o.TS, o.Name) }),
		"close":  with(func(w *Workspace, o on) (any, error) { return nil, w.CloseView(o.From, o.View) }),
		"stop":   with(func(w *Workspace, o on) (any, error) { return nil, w.Stop(o.From, o.Channel, o.Thread) }),
		"rename": with(func(w *Workspace, o on) (any, error) { return nil, w.Rename(o.From, o.Channel, o.Thread, o.Text) }),
		"join":   with(func(w *Workspace, o on) (any, error) { return nil, w.Join(o.Channel, o.From) }),
		"leave":  with(func(w *Workspace, o on) (any, error) { return nil, w.Leave(o.Channel, o.From) }),
		"im": with(func(w *Workspace, o on) (any, error) {
			id, err := w.OpenIM(o.From, o.App)
			return map[string]string{"channel": id}, err
		}),
		"fault":  with(func(w *Workspace, f Fault) (any, error) { w.Fail(f); return nil, nil }),
		"heal":   with(func(w *Workspace, _ on) (any, error) { w.Heal(); return nil, nil }),
		"limits": with(func(w *Workspace, o on) (any, error) { w.SetLimits(o.On); return nil, nil }),
		"cut":    with(func(w *Workspace, o on) (any, error) { w.Cut(o.App); return nil, nil }),
		"disconnect": with(func(w *Workspace, o on) (any, error) {
			w.Disconnect(o.App, o.Reason)
			return nil, nil
		}),
		"socket_mode": with(func(w *Workspace, o on) (any, error) { w.SetSocketMode(o.App, o.On); return nil, nil }),
		"silence":     with(func(w *Workspace, o on) (any, error) { w.SilencePings(o.App, o.On); return nil, nil }),
		"refuse":      with(func(w *Workspace, o on) (any, error) { w.RefuseSockets(o.App, o.N); return nil, nil }),
		"resend": with(func(w *Workspace, o on) (any, error) {
			return map[string]int{"sent": w.Resend(o.Channel, o.TS, o.Repeat)}, nil
		}),
		"repeat":    with(func(w *Workspace, r Repeat) (any, error) { w.SetRepeat(r); return nil, nil }),
		"redeliver": with(func(w *Workspace, _ on) (any, error) { w.Redeliver(); return nil, nil }),
	}
}

func delivered(id string, err error) (any, error) { return map[string]string{"delivery": id}, err }

// serveDo does an act: 200 with what it gives, or 422 with what is wrong.
func (w *Workspace) serveDo(rw http.ResponseWriter, r *http.Request) {
	var raw json.RawMessage
	var name struct {
		Act string `json:"act"`
	}
	err := json.NewDecoder(http.MaxBytesReader(rw, r.Body, 16<<20)).Decode(&raw)
	if err == nil {
		err = json.Unmarshal(raw, &name)
	}
	if err != nil {
		answer(rw, http.StatusBadRequest, map[string]string{"error": "read the act: " + err.Error()})
		return
	}
	do := acts()[name.Act]
	if do == nil {
		answer(rw, http.StatusUnprocessableEntity, map[string]string{"error": "there is no act " + strconv.Quote(name.Act)})
		return
	}
	out, err := do(w, r.Context(), raw)
	if err != nil {
		answer(rw, http.StatusUnprocessableEntity, map[string]string{"error": err.Error()})
		return
	}
	if out == nil {
		out = map[string]bool{"ok": true}
	}
	answer(rw, http.StatusOK, out)
}
