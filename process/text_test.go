package process_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/millrace-go/millrace/process"
)

// texts are what an error, a name or a reason may say: long, cut within a letter, and bytes that are no text.
var texts = map[string]string{
	"a letter at the bound": strings.Repeat("x", 989) + "ä",
	"letters of four bytes": strings.Repeat("🌊", 400),
	"a letter at 500":       strings.Repeat("x", 489) + "ä",
	"no text":               "\xff\x00\x1b[31m",
	"long and no text":      strings.Repeat("\xfe", 3000),
}

// An agent's error ends in an outcome whatever its text is: a refusal is not asked again.
func TestAnyTextOfAnError(t *testing.T) {
	for name, says := range texts {
		t.Run(name, func(t *testing.T) {
			each(t, func(c *crew, p *process.Plan[note]) {
				c.undoable(p, "a")
				c.do(p, "b")
			}, func(l *lab) {
				l.when("b", func(context.Context) (string, error) { return "", process.Refuse(errors.New(says)) })
				l.start("i")
				l.app.Advance(10 * time.Minute)
				l.want("i", process.Aborted, "a")
				l.wantJournal("a, b, undo a")
				l.wantPoison()
				if got := l.get("i").Error; !utf8.ValidString(got) || !strings.HasPrefix(got, "refused: ") || len(got) > 503 {
					l.t.Errorf("the error: got %d bytes: %q", len(got), got)
				}
			})
		})
	}
}

// badText is a result whose effect is no text.
type badText struct {
	N int `json:"n"`
}

func (badText) Effect() string { return "\xff" }

// A cancel is taken whatever its notes say, and a success whatever the name of its effect is.
func TestAnyTextOfANote(t *testing.T) {
	for name, says := range texts {
		t.Run(name, func(t *testing.T) {
			each(t, func(_ *crew, p *process.Plan[note]) {
				process.Do(p, "a", func(context.Context, note) (badText, error) { return badText{1}, nil }, func(n note, _ badText) note { return n.add("a") })
				process.Wait(p, "wait", note.goOn)
			}, func(l *lab) {
				l.start("i")
				l.want("i", process.InProcess, "a")
				l.ok(l.notes.Cancel(l.t.Context(), "i", says, says))
				l.app.Drain()
				l.want("i", process.Canceled, "a")
				l.wantPoison()
				s, err := l.looker().Stream(l.t.Context(), "i")
				l.ok(err)
				if n := s.Cancel; n == nil || !utf8.ValidString(n.By+n.Why) || len(n.By) > 103 || len(n.Why) > 503 || n.Why == "" {
					l.t.Errorf("got the note %+v", n)
				}
			})
		})
	}
}
