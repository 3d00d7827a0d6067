package rehearse_test

import (
	"context"
	"net/http"
	"os"
	"strings"
	"testing"

	"switchboard/config"
	"switchboard/examples/backoffice"
	"switchboard/rehearse"
)

// TestTheExamplesHold plays the example packs against their real server, a fresh one for each rehearsal.
func TestTheExamplesHold(t *testing.T) {
	t.Parallel()
	for _, example := range []struct{ name, as, in string }{{"club", "U0ANA", "C0FRONT"}, {"refunds", "U0SUE", "C0SUPPORT"}} {
		pack, err := config.Load(os.DirFS("../examples/"+example.name), config.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if len(pack.Rehearsals) == 0 {
			t.Fatalf("%s has no rehearsals", example.name)
		}
		for _, r := range pack.Rehearsals {
			t.Run(example.name+"/"+r.Name, func(t *testing.T) {
				t.Parallel()
				server, err := backoffice.Start(t.Context(), backoffice.Options{})
				if err != nil {
					t.Fatal(err)
				}
				transport := &http.Transport{}
				t.Cleanup(func() {
					transport.CloseIdleConnections()
					if err := server.Close(context.WithoutCancel(t.Context())); err != nil {
						t.Error(err)
					}
				})
				o := options(t, pack, server.Env(), &http.Client{Transport: transport})
				o.As, o.In = example.as, example.in
				got, err := rehearse.Play(t.Context(), r, o)
				if err != nil {
					t.Fatal(err)
				}
				if len(got.Failures) > 0 {
					t.Errorf("%s:\n%s", got.Place, strings.Join(got.Failures, "\n"))
				}
			})
		}
	}
}
