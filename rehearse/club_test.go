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

// TestTheClubHolds plays the example pack against its real server, a fresh one for each rehearsal.
func TestTheClubHolds(t *testing.T) {
	t.Parallel()
	pack, err := config.Load(os.DirFS("../examples/club"), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(pack.Rehearsals) == 0 {
		t.Fatal("the club has no rehearsals")
	}
	for _, r := range pack.Rehearsals {
		t.Run(r.Name, func(t *testing.T) {
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
			o.As, o.In = "U0ANA", "C0FRONT"
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
