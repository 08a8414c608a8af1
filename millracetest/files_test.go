package millracetest_test

import (
	"bytes"
	"context"
	"net/http"
	"testing"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/files/valet"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/millracetest"
)

// withFiles runs a test of a program with files of one session.
func withFiles(t *testing.T, test func(t *testing.T, app *millracetest.App, v *valet.Valet)) {
	t.Helper()
	cfg := valet.Config{Rules: map[string]valet.Rules{"any": {MaxSize: 100 << 20}}, Owner: func(r *http.Request) string { return r.Header.Get("Who") }}
	p := millracetest.Program{
		Routes: func() (*channel.Routes, error) {
			return channel.NewRoutes(valet.Route(), channel.Event[valet.Uploaded]("told"), channel.Event[valet.Rejected]("told"))
		},
		Register: func(h *handlers.Registry) error {
			v, err := valet.New(h.Channels(), cfg)
			if err == nil {
				v.Register(h)
				handlers.React(h, "told", func(context.Context, valet.Uploaded) error { return nil })
				handlers.React(h, "told", func(context.Context, valet.Rejected) error { return nil })
			}
			return err
		},
	}
	millracetest.Run(t, p, func(t *testing.T, app *millracetest.App) {
		v, err := valet.New(app.Channels(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		test(t, app, v)
	})
}

func upload(t *testing.T, v *valet.Valet, size, have int) valet.Key {
	t.Helper()
	key, err := v.Upload(t.Context(), valet.Upload{Rule: "any", Owner: "ada", Name: "a.bin", Type: "application/octet-stream", Size: int64(size)})
	if err != nil {
		t.Fatal(err)
	}
	session := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set("Who", "ada")
		v.ServeHTTP(w, r)
	})
	if s := millracetest.Upload(t, session, key, bytes.Repeat([]byte{1}, have)); s.State != valet.StateArrived {
		t.Errorf("got %+v", s)
	}
	return key
}

// Upload puts files of one part and of several, for the owner of a session.
func TestUpload(t *testing.T) {
	t.Parallel()
	withFiles(t, func(t *testing.T, app *millracetest.App, v *valet.Valet) {
		for _, size := range []int{1, 8 << 20, 8<<20 + 1, 17 << 20} {
			key := upload(t, v, size, size)
			app.Drain()
			if f, err := v.File(t.Context(), key.ID); err != nil || f.State != valet.StateClean || f.Size != int64(size) {
				t.Errorf("got %+v, %v", f, err)
			}
		}
	})
}

// wrongFile uploads another number of bytes than was declared.
func wrongFile(size, have int) func(t *testing.T) {
	return func(t *testing.T) {
		withFiles(t, func(t *testing.T, _ *millracetest.App, v *valet.Valet) { upload(t, v, size, have) })
	}
}
