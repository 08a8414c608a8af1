package boot_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/host/internal/boot"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/azure"
	"github.com/millrace-go/millrace/storage/azure/azuretest"
	"github.com/millrace-go/millrace/storage/redis"
	"github.com/millrace-go/millrace/storage/redis/redistest"
)

// A URL as -doorbell makes a store on Azure ring through Redis.
func TestADoorbellThatIsAURL(t *testing.T) {
	t.Parallel()
	account := azuretest.Start(t).Account(t).ConnectionString()
	if !strings.HasPrefix(account, "azure:") {
		account = "azure:" + account
	}
	settings := func(bell string) boot.Settings {
		f := boot.NewFlags("test", "", env())
		s := boot.AddSettings(f, "data/test.db", storage.Drivers{azure.Driver, redis.Driver})
		if err := f.Parse([]string{"-store", account, "-doorbell", bell}); err != nil {
			t.Fatal(err)
		}
		return s
	}
	url := redistest.Start(t, redistest.Config{}).URL(redistest.Fresh()) + "&bell=yes"
	open := func() *storage.Store {
		s, rings, err := settings(url).OpenStore(t.Context(), quiet())
		if err != nil {
			t.Fatal(err)
		}
		if rings != nil {
			t.Error("a bell that is a store counts no datagrams")
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		return s
	}
	here, there := open(), open()
	sub := here.Listen("mails")
	defer sub.Close()
	reg, err := here.Subscribe(t.Context(), "news", func([]byte, int) int { return 1 })
	if err != nil {
		t.Fatal(err)
	}
	defer reg.Close()
	if n, err := there.Publish(t.Context(), "news", nil, false); n != 1 || err != nil {
		t.Errorf("a publication was taken by %d, %v", n, err)
	}
	for range 4 { // two rings come at the beginning of a subscription
		there.Ring("mails")
		select {
		case <-sub.Rings():
		case <-time.After(20 * time.Second):
			t.Fatal("no ring")
		}
	}
	var usage *boot.UsageError
	for _, bad := range []string{"redis://127.0.0.1/?bell=yes", "floppy://x"} {
		if _, _, err := settings(bad).OpenStore(t.Context(), quiet()); !errors.As(err, &usage) || !strings.HasPrefix(err.Error(), "-doorbell: ") {
			t.Errorf("%s: got %v, want a UsageError that names the flag", bad, err)
		}
	}
}
