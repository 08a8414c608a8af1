package azure

import (
	"net/url"
	"path/filepath"
	"testing"

	"github.com/millrace-go/millrace/internal/valettest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite"
)

// A program with an identity leads clients to its account, over HTTPS alone. This Azurite plays no batches of rows, so
// the program's messages and documents are elsewhere.
func TestFilesOfAProgramWithAnIdentity(t *testing.T) {
	t.Parallel()
	s := openIdentity(t, nil)
	u := must[*url.URL](t)(url.Parse(s.d.blobs.URL()))
	messages := must[*storage.Store](t)(sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "messages.db")))
	t.Cleanup(func() { _ = messages.Close() })
	valettest.Run(t, valettest.Place{Store: messages, Files: s.Store, Client: s.http, Host: u.Host})
}
