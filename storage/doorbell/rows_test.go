package doorbell

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/storage"
)

func TestRowsComeAndGo(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	p := quick()
	p.renew = 50 * time.Millisecond
	b := put(t, plain(t, path), loopback(), quick())
	for id, age := range map[string]time.Duration{"long dead": 2 * time.Hour, "just dead": time.Minute} {
		writeRow(t, b, id, func(r *row) { r.Until = time.Now().Add(-age).Unix() })
	}
	a := put(t, plain(t, path), loopback(), p)
	sub := a.Listen("queue")
	list := listeners(t, b, 2)
	until(t, "the row to be renewed", func() bool {
		next := listeners(t, b, 2)
		return !slices.Equal(etags(next), etags(list))
	})
	if !slices.ContainsFunc(list, func(l listener) bool { return l.id == "just dead" }) {
		t.Error("the row of somebody whose clock may be behind was removed")
	}
	sub.Close()
	listeners(t, b, 1) // no consumer waits any more
	defer a.Listen("queue").Close()
	listeners(t, b, 2)
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if got := listeners(t, b, 1); got[0].id != "just dead" {
		t.Errorf("row %q is left", got[0].id)
	}
	select {
	case <-sub.Rings():
		t.Error("a ring for nothing")
	default:
	}
}

func etags(list []listener) (tags []storage.ETag) {
	for _, l := range list {
		tags = append(tags, l.etag)
	}
	return tags
}

func TestAdvertised(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	b := put(t, plain(t, path), loopback(), quick())
	for _, c := range []struct {
		cfg  Config
		want string // with # for the port
	}{
		{loopback(), "[127.0.0.1:#]"},
		{Config{Listen: "127.0.0.1:0", Advertise: []string{"10.0.0.4", "10.0.0.4:9", "2001:db8::1", "10.0.0.4"}}, "[10.0.0.4:# 10.0.0.4:9 [2001:db8::1]:#]"},
	} {
		a := put(t, plain(t, path), c.cfg, quick())
		sub := a.Listen("queue")
		l := listeners(t, b, 1)[0]
		if got, want := fmt.Sprint(l.addresses), strings.ReplaceAll(c.want, "#", fmt.Sprint(l.addresses[0].Port())); got != want {
			t.Errorf("%+v: advertised %v; want %v", c.cfg, got, want)
		}
		sub.Close()
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}
}
