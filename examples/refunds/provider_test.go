package refunds_test

import (
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/rs/zerolog"

	"switchboard/config"
	"switchboard/examples/backoffice"
	"switchboard/rehearse"
	"switchboard/store"
	"switchboard/store/sqlite"
)

// patience is how long a request is waited for here.
const patience = 400 * time.Millisecond

// pay20 is the script of one refund; %s is the outcome that its call must have.
const pay20 = `
- name: one refund
  as: U0SUE
  in: C0SUPPORT
  script:
    - say: refund 20 euros of A-1002
    - route: {assistant: order-refunds, confidence: 0.95}
    - call: {tool: payments.refund, args: {order: A-1002, amount: 2000}, why: pay it back, expects: status done}
    - reply: That is all that I can say.
    - expect: {that: 'calls.size() == 1 && calls[0].outcome == "%s"'}
`

// TestRel_E06_OneRefundWhateverTheProviderDoes plays one refund against a provider that goes wrong, through the whole engine.
// The effect takes place at most once, every request has the same key and the same bytes, and what is said to be done is done.
func TestRel_E06_OneRefundWhateverTheProviderDoes(t *testing.T) {
	t.Parallel()
	const always = -1
	refunds := func(k backoffice.Kind, times int) backoffice.Fault {
		return backoffice.Fault{Match: "POST /refunds", Kind: k, Times: times, Delay: time.Second}
	}
	late := backoffice.Fault{Match: "POST /refunds", Kind: backoffice.FaultLate, Delay: 10 * patience}
	noLook := backoffice.Fault{Match: "GET /refunds", Kind: backoffice.FaultBadGateway, Times: always}
	for name, v := range map[string]struct {
		faults  []backoffice.Fault
		outcome string
		booked  int
	}{
		"no fault":                          {nil, "ok", 1},
		"no answer, nothing done":           {[]backoffice.Fault{refunds(backoffice.FaultTimeout, 1)}, "ok", 1},
		"no answer, done":                   {[]backoffice.Fault{refunds(backoffice.FaultTimeoutAfter, 1)}, "ok", 1},
		"cut off, nothing done":             {[]backoffice.Fault{refunds(backoffice.FaultReset, 1)}, "ok", 1},
		"cut off, done":                     {[]backoffice.Fault{refunds(backoffice.FaultResetAfter, 1)}, "ok", 1},
		"502, nothing done":                 {[]backoffice.Fault{refunds(backoffice.FaultBadGateway, 1)}, "ok", 1},
		"502, done":                         {[]backoffice.Fault{refunds(backoffice.FaultGatewayAfter, 1)}, "ok", 1},
		"half an answer":                    {[]backoffice.Fault{refunds(backoffice.FaultMalformed, 1)}, "ok", 1},
		"too many":                          {[]backoffice.Fault{refunds(backoffice.FaultTooMany, 1)}, "ok", 1},
		"no answer, then still in progress": {[]backoffice.Fault{refunds(backoffice.FaultTimeout, 1), refunds(backoffice.FaultConflict, 1)}, "ok", 1},
		"a conflict of another kind":        {[]backoffice.Fault{refunds(backoffice.FaultConflict, 1)}, "failed", 0},
		// It says that it is still at work, and then nobody asks any more: that no refund is found yet proves nothing.
		"late, and at work until then":        {[]backoffice.Fault{late}, "unknown", 1},
		"the key is another request's":        {[]backoffice.Fault{refunds(backoffice.FaultOtherRequest, 1)}, "failed", 0},
		"a failure that is kept":              {[]backoffice.Fault{refunds(backoffice.FaultBroken, 1)}, "unknown", 0},
		"never an answer, nothing done":       {[]backoffice.Fault{refunds(backoffice.FaultTimeout, always)}, "unknown", 0},
		"never an answer, done":               {[]backoffice.Fault{refunds(backoffice.FaultTimeoutAfter, always)}, "ok", 1},
		"never an answer, done, no look-up":   {[]backoffice.Fault{refunds(backoffice.FaultTimeoutAfter, always), noLook}, "unknown", 1},
		"always cut off, nothing done":        {[]backoffice.Fault{refunds(backoffice.FaultReset, always)}, "unknown", 0},
		"always cut off, nothing, no look-up": {[]backoffice.Fault{refunds(backoffice.FaultReset, always), noLook}, "unknown", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := office(t)
			for _, f := range v.faults {
				if err := s.Fault(f); err != nil {
					t.Fatal(err)
				}
			}
			play(t, s, fmt.Sprintf(pay20, v.outcome))
			for _, f := range v.faults { // what comes late has to be there before it is counted
				if _, err := s.Await(t.Context(), func(r backoffice.Request) bool { return r.Fault == f.Kind }); err != nil {
					t.Fatal(err)
				}
			}
			effects, err := s.Effects(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if len(effects) != v.booked {
				t.Errorf("%d effects, want %d: %+v", len(effects), v.booked, effects)
			}
			sent := map[[3]string]int{}
			for _, r := range s.Requests() {
				if r.Method == http.MethodPost && r.Path == "/refunds" {
					sent[[3]string{r.URI, r.Key, r.Body}]++
				}
			}
			if len(sent) != 1 {
				t.Errorf("the attempts differ in key or bytes: %v", sent)
			}
			for _, e := range effects {
				if sent[[3]string{"/refunds", e.Key, e.Body}] == 0 {
					t.Errorf("effect %+v is not that of a request in the log", e)
				}
			}
		})
	}
}

// pay80 is the script of a refund that finance decides; %s is the click.
const pay80 = `
- name: one refund that waits
  as: U0SUE
  in: C0SUPPORT
  script:
    - say: refund 80 euros of A-1001
    - route: {assistant: order-refunds, confidence: 0.95}
    - call: {tool: payments.refund, args: {order: A-1001, amount: 8000}, why: pay it back, expects: status done}
    - expect: {waits: payments.refund, on: [finance]}
    - click: %s
    - reply: That is all that I can say.
    - expect: {outcome: answered}
`

// TestRel_E05_NothingIsSentBeforeTheYesAndOneRefundAfterIt counts what the provider got around a decision.
func TestRel_E05_NothingIsSentBeforeTheYesAndOneRefundAfterIt(t *testing.T) {
	t.Parallel()
	for click, want := range map[string][]int{ // requests and effects
		"{approve: payments.refund, as: U0FAY}":          {2, 1}, // the first answer is lost
		"{deny: payments.refund, as: U0BOB, reason: no}": {0, 0},
		"{expire: payments.refund}":                      {0, 0},
	} {
		t.Run(click, func(t *testing.T) {
			t.Parallel()
			s := office(t)
			if err := s.Fault(backoffice.Fault{Match: "POST /refunds", Kind: backoffice.FaultTimeoutAfter}); err != nil {
				t.Fatal(err)
			}
			play(t, s, fmt.Sprintf(pay80, click))
			asked := 0
			for _, r := range s.Requests() {
				if r.Method == http.MethodPost {
					asked++
				}
			}
			effects, err := s.Effects(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if asked != want[0] || len(effects) != want[1] || len(effects) == 1 && effects[0].Amount != 8000 {
				t.Errorf("%d requests and the effects %+v, want %v", asked, effects, want)
			}
		})
	}
}

// play plays rehearsals of the pack, with a short patience, in front of a server.
func play(t *testing.T, s *backoffice.Server, rehearsals string) {
	t.Helper()
	files := fstest.MapFS{"rehearsals/own.yaml": {Data: []byte(rehearsals)}}
	dir := os.DirFS(".")
	if err := fs.WalkDir(dir, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(name, "rehearsals/") {
			return err
		}
		data, err := fs.ReadFile(dir, name)
		files[name] = &fstest.MapFile{Data: data}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	p, err := config.Load(files, config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range p.Tools {
		tool.Timeout = patience
	}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	env := s.Env()
	for _, r := range p.Rehearsals {
		got, err := rehearse.Play(t.Context(), r, rehearse.Options{
			Pack: p, Env: func(name string) (string, bool) { v, ok := env[name]; return v, ok }, Client: &http.Client{Transport: transport},
			Store: func(ctx context.Context) (store.Store, error) {
				return sqlite.Open(ctx, filepath.Join(t.TempDir(), "bot.db"), sqlite.Options{})
			},
			Now: time.Now, Log: zerolog.Nop(),
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Failures) > 0 {
			t.Errorf("%s:\n%s", got.Place, strings.Join(got.Failures, "\n"))
		}
	}
}
