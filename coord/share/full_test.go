package share_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/coord/share"
	"github.com/millrace-go/millrace/storage"
)

// fill writes as many members as there can be, with their next beat.
func fill(t *testing.T, s *storage.Store, beat int) {
	t.Helper()
	rows := make([]string, 500)
	for i := range rows {
		rows[i] = fmt.Sprintf(`"p%d":{"limit":1000000,"share":2000,"wants":1000000,"beat":%d,"ttl":20000}`, i, beat)
	}
	if _, err := s.Blobs("shares").Put(t.Context(), "rate/"+name, []byte(`{"members":{`+strings.Join(rows, ",")+`}}`), storage.Condition{}); err != nil {
		t.Fatal(err)
	}
}

// 500 processes share a rate. One more makes no calls, and logs why, while they live. If they have died, it has all
// when their rows are over.
func TestLaw9OneProcessTooManyMakesNoCalls(t *testing.T) {
	for what, alive := range map[string]bool{"they live": true, "they have died": false} {
		t.Run(what, func(t *testing.T) {
			inWorld(t, func(t *testing.T, s *storage.Store) {
				fill(t, s, 1)
				var log bytes.Buffer // the handler has a mutex, and the end of the test waits for the last line
				r := newRate(t, s, 1000, share.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
				calls := 0
				for beat := range 12 {
					calls += busy(r, 5*time.Second)
					if alive {
						fill(t, s, beat+2)
					}
					if beat == 2 && calls > 0 {
						t.Errorf("%d calls before the shares of the others have ended", calls)
					}
				}
				if alive != (calls == 0) || !alive && r.Share() != 1000 {
					t.Errorf("%d calls in a minute, and a share of %v in the end", calls, r.Share())
				}
				time.Sleep(2 * time.Minute) // it leaves
				synctest.Wait()
				if !strings.Contains(log.String(), "501 processes share the number; at most 500 can") {
					t.Errorf("the log doesn't tell of it:\n%s", &log)
				}
			})
		})
	}
}

// A blob that can't be read has its name told, and others don't.
func TestLaw8ABadBlobIsNamed(t *testing.T) {
	inWorld(t, func(t *testing.T, s *storage.Store) {
		for key, body := range map[string]string{"rate/a": `{"members":{}}`, "slots/b": "hello", "rate/c": ""} {
			if _, err := s.Blobs("shares").Put(t.Context(), key, []byte(body), storage.Condition{}); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := share.Damaged(t.Context(), s); err != nil || fmt.Sprint(got) != "[rate/c slots/b]" {
			t.Errorf("got %v, %v", got, err)
		}
		if _, err := share.Damaged(t.Context(), nil); err == nil {
			t.Error("no error without a store")
		}
	})
}
