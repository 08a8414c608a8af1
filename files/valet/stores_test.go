package valet_test

import (
	"net/http"
	"net/url"
	"path/filepath"
	"sync"
	"testing"

	"github.com/millrace-go/millrace/internal/valettest"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage/azure"
	"github.com/millrace-go/millrace/storage/azure/azuretest"
	"github.com/millrace-go/millrace/storage/redis"
	"github.com/millrace-go/millrace/storage/redis/redistest"
)

var redisServer = sync.OnceValues(redistest.Launch)

func TestFilesOnSQLite(t *testing.T) {
	t.Parallel()
	valettest.Run(t, valettest.Place{Store: worldtest.OpenStore(t, "")})
}

func TestFilesOnRedis(t *testing.T) {
	t.Parallel()
	s, err := redis.Open(t.Context(), redistest.Place(t, redisServer)+"&files="+url.QueryEscape(filepath.Join(t.TempDir(), "files")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	valettest.Run(t, valettest.Place{Store: s})
}

// On Azure Storage no byte of a file goes through the program. The driver's own tests have an account with an identity.
func TestFilesOnAzure(t *testing.T) {
	t.Parallel()
	a := azuretest.Shared(t, azurite).Account(t)
	s, err := azure.Open(t.Context(), a.ConnectionString())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	u, err := url.Parse(a.Blob)
	if err != nil {
		t.Fatal(err)
	}
	valettest.Run(t, valettest.Place{Store: s, Client: http.DefaultClient, Host: u.Host, Plain: true})
}
