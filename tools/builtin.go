package tools

import (
	"context"
	"fmt"
	"strings"
	_ "time/tzdata"
	"unicode/utf8"

	"time" // the program is one static file and must know the zones anywhere

	"switchboard/tools/docs"
)

// The names of the built-in tools. Their contracts are in config.Builtins.
const (
	DocsSearch = "docs.search"
	DocsFetch  = "docs.fetch"
	TimeNow    = "time.now"
	ResultRead = "result.read"
	AskPerson  = "ask.person" // a person answers it; nothing runs
)

// Window is how long an answer of result.read is at most, in bytes of JSON.
const Window = 8 << 10

const (
	hitsShown = 5
	nearShown = 5
)

// Deps is what the built-in tools work on. What a tool does not get, it finds empty.
type Deps struct {
	Docs *docs.View       // the documents of the assistant
	Now  func() time.Time // nil: the system's clock
	// Results gives a stored result of this run by its handle; false when there is none.
	Results func(ctx context.Context, handle string) (string, bool, error)
}

// Builtin gives the work behind a built-in contract; false when there is no tool of that name.
func Builtin(name string, d Deps) (Tool, bool) {
	switch name {
	case DocsSearch:
		return builtin(d.search), true
	case DocsFetch:
		return builtin(d.fetch), true
	case TimeNow:
		return builtin(d.now), true
	case ResultRead:
		return builtin(d.read), true
	case AskPerson:
		return builtin(nobody), true
	}
	return nil, false
}

// builtin is a tool whose work is one function from arguments to a value.
type builtin func(ctx context.Context, args map[string]any) (any, error)

// Run does the work.
func (b builtin) Run(ctx context.Context, in Input) (Output, error) {
	v, err := b(ctx, in.Args)
	if err != nil {
		return Output{}, err
	}
	return Output{Value: v}, nil
}

// nobody is what runs where a person should have answered: the dispatcher never lets it come to this.
func nobody(context.Context, map[string]any) (any, error) {
	return nil, &Fault{Kind: Internal, Detail: "A question is answered by a person."}
}

func (d Deps) search(ctx context.Context, args map[string]any) (any, error) {
	query, _ := args["query"].(string)
	hits, err := d.Docs.Search(ctx, query, hitsShown)
	if err != nil {
		return nil, stopped(ctx, "search the documents", err)
	}
	list := make([]any, 0, len(hits))
	for _, h := range hits {
		list = append(list, map[string]any{"name": h.Name, "title": h.Title, "snippet": h.Snippet})
	}
	return list, nil
}

func (d Deps) fetch(_ context.Context, args map[string]any) (any, error) {
	name, _ := args["name"].(string)
	doc, ok := d.Docs.Fetch(name)
	if ok {
		return map[string]any{"name": doc.Name, "title": doc.Title, "text": doc.Text}, nil
	}
	detail := "Document not found: " + name
	if near := d.Docs.Near(name, nearShown); len(near) > 0 {
		detail += ". Documents with names like it: " + strings.Join(near, ", ") + "."
	}
	return nil, &Fault{Kind: NotFound, Detail: detail}
}

func (d Deps) now(_ context.Context, args map[string]any) (any, error) {
	name, _ := args["zone"].(string)
	if name == "" {
		name = "UTC"
	}
	zone, err := time.LoadLocation(name)
	if err != nil || strings.EqualFold(name, "local") { // Local is the zone of the machine, which says nothing to anybody
		return nil, &Fault{Kind: Rejected, Detail: fmt.Sprintf("There is no time zone %q. Use a name like Europe/Madrid or UTC.", name), Err: err}
	}
	clock := d.Now
	if clock == nil {
		clock = time.Now
	}
	t := clock().In(zone)
	return map[string]any{"now": t.Format(time.RFC3339), "weekday": t.Weekday().String(), "zone": zone.String()}, nil
}

func (d Deps) read(ctx context.Context, args map[string]any) (any, error) {
	handle, _ := args["handle"].(string)
	from, ok := offset(args["from"])
	if !ok {
		return nil, &Fault{Kind: Rejected, Detail: "The argument \"from\" must be a whole number of bytes, 0 or more."}
	}
	var text string
	if d.Results != nil {
		var err error
		if text, ok, err = d.Results(ctx, handle); err != nil {
			return nil, stopped(ctx, "read the stored result", err)
		}
	}
	if d.Results == nil || !ok {
		return nil, &Fault{Kind: NotFound, Detail: fmt.Sprintf("There is no stored result with the handle %q. Use the handle that came with the result.", handle)}
	}
	if from > len(text) {
		return nil, &Fault{Kind: Rejected, Detail: fmt.Sprintf("The result has %d bytes; \"from\" is past its end.", len(text))}
	}
	return window(text, from), nil
}

// window cuts a part out of a text, without splitting a character, whose JSON is at most Window bytes: the answer of
// result.read must not itself be one that is too long to show.
func window(text string, from int) map[string]any {
	for from > 0 && from < len(text) && !utf8.RuneStart(text[from]) {
		from--
	}
	end, room := from, Window-len(`{"from":,"next":,"text":"","total":}`)-3*len("1000000")
	for end < len(text) {
		c, size := utf8.DecodeRuneInString(text[end:])
		cost := size
		switch {
		case c == '"' || c == '\\' || c == '\n' || c == '\t' || c == '\r':
			cost = 2
		case c < ' ':
			cost = len(`\u0000`)
		case c == utf8.RuneError:
			cost = utf8.UTFMax
		}
		if room -= cost; room < 0 {
			break
		}
		end += size
	}
	var next any
	if end < len(text) {
		next = int64(end)
	}
	return map[string]any{"text": text[from:end], "from": int64(from), "next": next, "total": int64(len(text))}
}

// offset reads a position; left out it is the beginning.
func offset(v any) (int, bool) {
	switch v := v.(type) {
	case nil:
		return 0, true
	case int64:
		return int(v), v >= 0
	case int:
		return v, v >= 0
	case float64:
		return int(v), v >= 0 && v < 1<<53 && v == float64(int(v))
	}
	return 0, false
}

// stopped is a failure of our own parts: the model learns what did not work, the cause is for the log.
func stopped(ctx context.Context, what string, err error) error {
	f := &Fault{Kind: Internal, Detail: "It was not possible to " + what + ".", Err: err}
	if ctx.Err() == nil {
		return f
	}
	f.Kind, f.Detail, f.Err = Timeout, "There was not enough time to "+what+".", ctx.Err()
	return f
}
