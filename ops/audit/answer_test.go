package audit_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops/audit"
	"github.com/millrace-go/millrace/storage"
)

// An act that is begun again has the answer of the first time. Nobody who reads the log sees the answer, and an answer
// that is too large isn't kept.
func TestAnAnswerIsKept(t *testing.T) {
	virtual(t, func(t *testing.T, s *storage.Store) {
		l, e := audit.Of(s), entry("queue mails")
		begin(t, l, e)
		e.Answer = `[{"large":"` + strings.Repeat("x", audit.MostAnswer) + `"}]`
		worldtest.WantErr(t, l.End(t.Context(), e, "sent back: 1", nil), storage.ErrInvalid)
		e.Answer = `[{"id":"o17"}]`
		worldtest.WantErr(t, l.End(t.Context(), e, "sent back: 1", nil), nil)
		known := begin(t, l, e)
		if !known.Done() || known.Answer != e.Answer {
			t.Errorf("got %+v", known)
		}
		all, _ := list(t, l, time.Now().Add(-time.Hour), time.Now())
		shown, err := json.Marshal(all)
		if err != nil || len(all) != 1 || strings.Contains(string(shown), "o17") {
			t.Errorf("the log shows %s (%v)", shown, err)
		}
	})
}

// An act doesn't end before it has begun, also where another machine has written its end.
func TestAnActEndsAfterItsBeginning(t *testing.T) {
	virtual(t, func(t *testing.T, s *storage.Store) {
		l, e := audit.Of(s), entry("queue mails")
		began := begin(t, l, e)
		worldtest.WantErr(t, l.End(t.Context(), e, "done", nil), nil)
		for row, err := range s.Table("audit").Query(t.Context(), time.Now().UTC().Format("2006-01-02"), storage.RowRange{}) {
			worldtest.WantErr(t, err, nil)
			if !strings.HasSuffix(row.Key, "~") {
				continue
			}
			slow := began.Time.Add(-time.Minute).Format(time.RFC3339)
			now, err := json.Marshal(map[string]any{"id": e.ID, "ended": slow, "result": "done"})
			worldtest.WantErr(t, err, nil)
			_, err = s.Table("audit").Put(t.Context(), time.Now().UTC().Format("2006-01-02"), row.Key, now, storage.Condition{IfMatch: row.ETag})
			worldtest.WantErr(t, err, nil)
		}
		got, err := l.Get(t.Context(), e.ID)
		worldtest.WantErr(t, err, nil)
		if got.Ended.Before(got.Time) || !got.Done() {
			t.Errorf("got %+v", got)
		}
	})
}
