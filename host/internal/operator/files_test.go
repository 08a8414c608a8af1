package operator

import (
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/files/valet"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/millracetest"
	"github.com/millrace-go/millrace/ops/acts"
	"github.com/millrace-go/millrace/ops/audit"
	"github.com/millrace-go/millrace/worker"
)

// An operator lists, shows, releases, deletes and revokes the files of a program whose code is elsewhere.
func TestFiles(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		routes := []channel.Route{valet.Route(), channel.Event[valet.Uploaded](), channel.Event[valet.Rejected]()}
		x := &stranger{World: worldtest.NewBare(t, worldtest.OpenStore(t, worldtest.Virtual), handlers.Config{}, routes...)}
		v, err := valet.New(x.Channels, valet.Config{Rules: map[string]valet.Rules{"note": {MaxSize: 100}}, Scan: func(context.Context, valet.File, io.Reader) (valet.Verdict, error) {
			return valet.Unclear("it has a password"), nil
		}})
		worldtest.WantErr(t, err, nil)
		v.Register(x.Registry)
		x.Start(worker.Config{})
		contains(t, "none", x.want(t, 0, "", "files", "list"), "No files.")
		contains(t, "unknown", x.want(t, 3, "", "files", "show", "a"), `no file "a"`)

		upload := func(put bool) valet.Key {
			key, err := v.Upload(t.Context(), valet.Upload{Rule: "note", Owner: "ada", Name: "note.txt", Type: "text/plain", Size: 5})
			worldtest.WantErr(t, err, nil)
			if put {
				millracetest.Upload(t, v, key, []byte("hello"))
			}
			synctest.Wait()
			_ = worldtest.Pause(t.Context(), time.Minute)
			return key
		}
		held, open := upload(true), upload(false)
		contains(t, "list", x.want(t, 0, "", "files", "list"), "ID STATE NAME TYPE BYTES OWNER MADE "+held.ID+" held note.txt text/plain 5 ada")
		contains(t, "a state", x.want(t, 0, "", "files", "list", "-state", "granted"), open.ID)
		contains(t, "another owner", x.want(t, 0, "", "files", "list", "-owner", "bob"), "No files.")
		contains(t, "bad state", x.want(t, 2, "", "files", "list", "-state", "lost"), "granted, arrived, held")
		contains(t, "show", x.want(t, 0, "", "files", "show", held.ID), "Reason: it has a password")

		contains(t, "doctor", x.want(t, 4, "", "doctor"), held.ID+`" is held: it has a password`, "files release")
		contains(t, "no reason", x.want(t, 2, "", "files", "release", held.ID), "--why")
		x.want(t, 0, "", "files", "release", held.ID, "-why", "I know the sender", "-by", "bob")
		x.want(t, 0, "", "files", "revoke", open.ID, "-why", "left")
		_ = worldtest.Pause(t.Context(), time.Minute)
		f := oneLine[acts.File](t, x.want(t, 0, "", "files", "show", held.ID, "-json"))
		if f.State != valet.StateClean || f.Owner != "ada" || len(f.SHA256) != 64 {
			t.Errorf("got %+v", f)
		}
		if _, out, _ := x.do(t, "", "doctor"); strings.Contains(out, "held") {
			t.Errorf("doctor finds %s", out)
		}
		contains(t, "revoked", x.want(t, 0, "", "files", "show", open.ID), "revoked", "Reason: left")
		x.want(t, 0, "", "files", "revoke-owner", "ada")
		x.want(t, 0, "", "files", "delete", held.ID, "-why", "asked for", "-yes")
		_ = worldtest.Pause(t.Context(), time.Minute)
		contains(t, "deleted", x.want(t, 0, "", "files", "show", held.ID), "deleted")
		contains(t, "deleted twice", x.want(t, 3, "", "files", "delete", held.ID, "-why", "x", "-yes"), "nothing to do")
		contains(t, "nothing held", x.want(t, 3, "", "files", "release", open.ID, "-why", "x"), "nothing to do")
		contains(t, "unknown", x.want(t, 3, "", "files", "revoke", "nope"), "no file")

		third := upload(true)
		x.want(t, 0, "", "files", "release", third.ID, "-why", "I know the sender")
		_ = worldtest.Pause(t.Context(), time.Minute)
		contains(t, "dry run", x.want(t, 0, "", "files", "delete", third.ID, "-dry-run"), "Would be")
		read, err := v.Download(t.Context(), third.ID, valet.Download{Owner: "cook"})
		worldtest.WantErr(t, err, nil)
		contains(t, "a URL", x.want(t, 0, "", "files", "revoke", read.URL, "-why", "it has leaked"), "a key by its URL")
		contains(t, "another URL", x.want(t, 1, "", "files", "revoke", "/files/v1.a.b.c"), "no key of the store")
		_ = worldtest.Pause(t.Context(), time.Minute)
		if f, err := v.File(t.Context(), third.ID); err != nil || f.State != valet.StateClean || len(f.Gone) != 1 {
			t.Errorf("after the key's revocation: got %+v (%v)", f, err)
		}
		contains(t, "all", x.want(t, 0, "", "files", "revoke-all", "-why", "a secret has leaked", "-yes"), "within a minute")
		for e, err := range audit.Of(x.Store).List(t.Context(), time.Now().Add(-time.Hour), time.Now()) {
			if worldtest.WantErr(t, err, nil); strings.Contains(e.On+e.Why+e.Result+e.Who, "v1.") {
				t.Errorf("a row has a key: %+v", e)
			}
		}
		contains(t, "cors", x.want(t, 1, "", "files", "cors", "-origin", "https://example.org"), "nothing has to be set")
		contains(t, "bad key", x.want(t, 1, "", "files", "revoke", "a~b"), "no ID of a key")

		audited := x.want(t, 0, "", "audit", "list")
		contains(t, "audit", audited, "files release", "I know the sender")
		if strings.Contains(audited, "files issue") {
			t.Errorf("uses of keys are among the acts of operators:\n%s", audited)
		}
		contains(t, "keys", x.want(t, 0, "", "files", "log"), "files issue", "files complete")
		contains(t, "of one file", x.want(t, 0, "", "files", "log", "-file", open.ID, "-json"), open.ID)
		for e, err := range valet.Log(x.Store).List(t.Context(), time.Now().Add(-time.Hour), time.Now()) {
			if worldtest.WantErr(t, err, nil); strings.Contains(e.On+e.Why+e.Result+e.Who, "v1.") {
				t.Errorf("a row has a key: %+v", e)
			}
		}
	})
}
