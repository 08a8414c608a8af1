package redis

import (
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/coord/lease"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/redis/redistest"
)

// A used set notes what must never be used twice.
type used map[string]string

func (u used) note(t *testing.T, what, value string) {
	t.Helper()
	if before := u[value]; before != "" {
		t.Errorf("%s is used twice: for %s, and before that for %s", value, what, before)
	}
	u[value] = what
}

func (u used) delivery(t *testing.T, what string, d storage.Delivery) {
	t.Helper()
	u.note(t, what, string(d.Receipt))
	b, err := base64.RawURLEncoding.DecodeString(string(d.Receipt))
	must(t, err)
	u.note(t, "ID of "+what, string(b[:16]))
}

// A replica that lacks the newest writes becomes the master. None of what the lost writes had is given to others: no
// ETag, no ID, no receipt and no fence. The number of lost changes is told.
func TestAPromotedStaleReplica(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t, redistest.Config{})
	replica := redistest.Start(t, redistest.Config{ReplicaOf: master})
	at := newLink(t, master)
	var log journal
	s, inner := openLogged(t, at.url("stale"), log.logger())
	docs, rows, q := s.Blobs("docs"), s.Table("rows"), s.Queue("jobs")
	old, err := docs.Put(t.Context(), "a", []byte("old"), storage.Condition{})
	must(t, err)
	must(t, q.Send(t.Context(), texts("kept")))
	first, err := lease.Try(t.Context(), s, "nightly", lease.Config{})
	must(t, err)
	must(t, first.Release(t.Context()))
	awaitCopy(t, master, replica)
	replica.Promote(t) // from here on it gets nothing more

	seen := used{}
	change := func(what string) {
		etag, err := docs.Put(t.Context(), "b", []byte(what), storage.Condition{})
		must(t, err)
		seen.note(t, "document "+what, string(etag))
		etag, err = rows.Put(t.Context(), "p", "r", []byte(what), storage.Condition{})
		must(t, err)
		seen.note(t, "row "+what, string(etag))
		must(t, s.Queue("more").Send(t.Context(), texts(what)))
		seen.delivery(t, "message "+what, receiveOne(t, s.Queue("more"), time.Hour))
	}
	for i := range 20 {
		change("lost " + strconv.Itoa(i))
	}
	lostETag, err := docs.Put(t.Context(), "a", []byte("lost"), storage.Condition{IfMatch: old})
	must(t, err)
	lostReceipt := receiveOne(t, q, time.Hour).Receipt
	seen.note(t, "the receipt that is lost", string(lostReceipt))
	lost, err := lease.Try(t.Context(), s, "nightly", lease.Config{})
	must(t, err)
	want := sequence(t, master, "stale") - sequence(t, replica, "stale")

	at.point(t, replica)
	master.Kill(t)
	awaitAnswer(t, s)
	if _, err := docs.Put(t.Context(), "a", []byte("x"), storage.Condition{IfMatch: lostETag}); !errors.Is(err, storage.ErrPrecondition) {
		t.Errorf("a write after the lost state: %v, want %v", err, storage.ErrPrecondition)
	}
	if err := q.Delete(t.Context(), []storage.Receipt{lostReceipt}); !errors.Is(err, storage.ErrReceiptStale) {
		t.Errorf("a lost receipt deletes: %v, want %v", err, storage.ErrReceiptStale)
	}
	for i := range 20 {
		change("again " + strconv.Itoa(i))
	}
	if d := receiveOne(t, q, time.Hour); string(d.Body) != "kept" {
		t.Errorf("got message %q, want kept", d.Body)
	} else {
		seen.note(t, "the message kept", string(d.Receipt))
	}
	next, err := lease.Try(t.Context(), s, "nightly", lease.Config{})
	must(t, err)
	if next.Fence() <= lost.Fence() || lost.Fence() <= first.Fence() {
		t.Errorf("fences %d, %d (lost), %d; want each larger than the one before", first.Fence(), lost.Fence(), next.Fence())
	}
	wantLoss(t, inner, replica, "stale", want)
	if text := log.String(); !strings.Contains(text, "acknowledged changes are lost") || !strings.Contains(text, "changes="+strconv.FormatInt(want, 10)) {
		t.Errorf("the log tells nothing of %d lost changes:\n%s", want, text)
	}
}

// wantLoss checks how many lost changes a process and the server tell.
func wantLoss(t *testing.T, s *store, server *redistest.Server, prefix string, want int64) {
	t.Helper()
	if got := s.e.Lost(); got != want {
		t.Errorf("the process tells %d lost changes, want %d", got, want)
	}
	if got := server.Do(t, "HGET", "{"+prefix+"}", "lost"); got != strconv.FormatInt(want, 10) {
		t.Errorf("the store tells %q lost changes, want %d", got, want)
	}
}

// sequence returns how many changes a store has of all processes.
func sequence(t *testing.T, server *redistest.Server, prefix string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(server.Do(t, "EVAL", `
		local n, own = 0, redis.call('HGETALL', KEYS[1])
		for i = 1, #own, 2 do
			if string.sub(own[i], 1, 2) == 'n:' then n = n + own[i + 1] end
		end
		return n`, "1", "{"+prefix+"}"), 10, 64)
	must(t, err)
	return n
}
