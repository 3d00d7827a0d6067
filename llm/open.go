package llm

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tmc/langchaingo/llms"
)

// Options says which model to open and how to reach it.
type Options struct {
	Provider string // openai | anthropic; the wire format, so also every compatible server
	ID       string // the provider's name of the model, e.g. gpt-4o-mini
	BaseURL  string // address of the API; "": the provider's own
	Key      string // "": the server asks for none, and none is sent
	Price    *Price // nil: replies cost nothing
	// Output bounds an answer in tokens where the request sets no bound. 0: the server's own limit, or 4096 where the
	// format demands a number.
	Output int
	// Temperature is sent only when set; several models refuse it.
	Temperature *float64
	// Timeout bounds one attempt. 0: two minutes.
	Timeout time.Duration
	// Idle bounds the silence within a stream, from its headers on. 0: one minute. A stream that falls silent for longer
	// ends as Network.
	Idle time.Duration
	// HTTP carries the requests. nil: a NewTransport of this model's own.
	HTTP http.RoundTripper

	// Now, Sleep and Rand are the clock and the dice of the retries. nil: the real ones. Rand gives 0 <= x < 1.
	Now   func() time.Time
	Sleep func(ctx context.Context, d time.Duration) error
	Rand  func() float64
}

// attemptLimit is what one attempt may take where Options say nothing; long answers arrive only when they are whole.
const attemptLimit = 2 * time.Minute

// live is a Model behind a provider's API.
type live struct {
	name   string // provider/id
	o      Options
	p      profile
	wire   wire
	client llms.Model
	scrub  scrubber
	// habits is what this server has been found to want, a set of habit bits.
	habits atomic.Uint32
}

// Open gives a live model. It asks nothing of the network. The error names the option that is wrong.
//
// Do fails with an *Error, or, when the caller's context ended, with an error that wraps the context's; if attempts had
// been made before that, it wraps the last one's *Error too, whose Usage says what they cost.
func Open(o Options) (Model, error) {
	p, w, ok := dialectOf(o.Provider)
	if !ok {
		return nil, fmt.Errorf("open model %s/%s: unknown provider %q: use openai or anthropic (each also speaks to compatible servers)", o.Provider, o.ID, o.Provider)
	}
	if o.ID == "" {
		return nil, fmt.Errorf("open model %s: the model's id is missing: give the provider's name of it", o.Provider)
	}
	base, err := p.address(o.BaseURL)
	if err != nil {
		return nil, fmt.Errorf("open model %s/%s: %w", o.Provider, o.ID, err)
	}
	o.BaseURL = base
	p.official = base == p.base
	if o.Output == 0 {
		o.Output = p.output
	}
	if o.Timeout <= 0 {
		o.Timeout = attemptLimit
	}
	if o.Idle <= 0 {
		o.Idle = idleLimit
	}
	if o.HTTP == nil {
		o.HTTP = NewTransport()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Sleep == nil {
		o.Sleep = sleep
	}
	if o.Rand == nil {
		o.Rand = rand.Float64
	}
	key := o.Key
	if key == "" {
		key = "none" // the library refuses an empty one; the shim takes it off again
	}
	client, err := w.open(o, key, &http.Client{Transport: shim{next: o.HTTP, keyless: o.Key == "", idle: o.Idle}})
	if err != nil {
		return nil, fmt.Errorf("open model %s/%s: %w", o.Provider, o.ID, err)
	}
	return &live{name: o.Provider + "/" + o.ID, o: o, p: p, wire: w, client: client, scrub: scrubber{o.Key}}, nil
}

// NewTransport gives a transport that is tuned for few hosts and long waits. Models may share one; close its idle
// connections when they are done with.
func NewTransport() *http.Transport {
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:   10 * time.Second,
		ExpectContinueTimeout: time.Second,
		ForceAttemptHTTP2:     true,
		MaxIdleConns:          256,
		MaxIdleConnsPerHost:   128,
		IdleConnTimeout:       90 * time.Second,
	}
}

// profile is what is particular about a provider, as data.
type profile struct {
	base      string // its own address
	suffix    string // what an address has to end in; it is added where missing
	output    int    // the answer limit that is sent where none is set; 0: none is sent
	keepTools bool   // with Choice None the tools stay and the choice is said
	format    bool   // it knows response_format
	official  bool   // the address is its own
}

// address checks a base address and gives it in the form that is used.
func (p profile) address(base string) (string, error) {
	if base == "" {
		return p.base, nil
	}
	u, err := url.Parse(base)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return "", errors.New("the base URL is not an absolute http or https address without a query, such as https://api.openai.com/v1")
	}
	if u.User != nil {
		return "", errors.New("the base URL holds a user name or a password: give the key as the model's key instead")
	}
	base = strings.TrimRight(base, "/")
	if !strings.HasSuffix(base, p.suffix) {
		base += p.suffix
	}
	return base, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
