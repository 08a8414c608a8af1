package limit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/coord/limit"
	"github.com/millrace-go/millrace/internal/storecall"
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
				r := newRate(t, s, 1000, limit.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
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

// claim keeps a row of another member in the blob, with its next beat every 5 seconds, until the returned function is
// called.
func claim(t *testing.T, s *storage.Store, row string) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan bool)
	write := func(beat int) error {
		d := struct {
			Members map[string]json.RawMessage `json:"members"`
		}{map[string]json.RawMessage{}}
		blob, err := s.Blobs("shares").Get(ctx, "rate/"+name, "")
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			return err
		}
		if err == nil && json.Unmarshal(blob.Body, &d) != nil {
			t.Errorf("the blob is %q", blob.Body)
		}
		d.Members["greedy"] = json.RawMessage(fmt.Sprintf(row, beat))
		body, err := json.Marshal(d)
		if err != nil {
			return err
		}
		_, err = s.Blobs("shares").Put(ctx, "rate/"+name, body, storage.Condition{IfMatch: blob.ETag, IfAbsent: blob.ETag == ""})
		return err
	}
	if err := write(1); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(ended)
		for beat := 2; ctx.Err() == nil; beat++ {
			switch err := write(beat); {
			case err == nil:
				_ = storecall.Sleep(ctx, 5*time.Second)
			case !storage.LostRace(err) && ctx.Err() == nil:
				t.Error(err)
			}
		}
	}()
	return func() { cancel(); <-ended }
}

// A member that lives and claims all, or more than all, has it: nobody goes beyond the limit because of that. The
// others have what is left, and all of it once the member is dead. So it is with one that says that there is hardly
// anything.
func TestLaw8AMemberThatClaimsTheWholeLimit(t *testing.T) {
	for what, c := range map[string]struct {
		row  string
		left float64
	}{
		"all":               {`{"limit":100000,"share":100000,"wants":100000,"beat":%d,"ttl":20000}`, 0},
		"more than all":     {`{"limit":100000,"share":900000000,"wants":900000000,"beat":%d,"ttl":20000}`, 0},
		"all, and wants 0":  {`{"limit":100000,"share":100000,"wants":0,"beat":%d,"ttl":20000}`, 0},
		"nine tenths":       {`{"limit":100000,"share":90000,"wants":100000,"beat":%d,"ttl":20000}`, 10},
		"that there is 0.2": {`{"limit":200,"share":100,"wants":200,"beat":%d,"ttl":20000}`, 0.1},
	} {
		t.Run(what, func(t *testing.T) {
			inWorld(t, func(t *testing.T, s *storage.Store) {
				end := claim(t, s, c.row)
				a, b := newRate(t, s, 100, limit.Config{}), newRate(t, s, 100, limit.Config{})
				backlog(t, a)
				backlog(t, b)
				for range 600 {
					if sum := a.Share() + b.Share(); sum > c.left+1e-6 { // floats are not exact
						t.Fatalf("the others have %v of %v", sum, c.left)
					}
					time.Sleep(100 * time.Millisecond)
				}
				if sum := a.Share() + b.Share(); sum < c.left*0.95 {
					t.Errorf("the others have %v of %v", sum, c.left)
				}
				end()
				until(t, "half for each", 2*ttl, func() bool { return a.Share() == 50 && b.Share() == 50 })
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
		if got, err := limit.Damaged(t.Context(), s); err != nil || fmt.Sprint(got) != "[rate/c slots/b]" {
			t.Errorf("got %v, %v", got, err)
		}
		if _, err := limit.Damaged(t.Context(), nil); err == nil {
			t.Error("no error without a store")
		}
	})
}
