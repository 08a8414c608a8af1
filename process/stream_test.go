package process_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/process"
	"github.com/millrace-go/millrace/storage"
)

// wantDrawn compares a stream with a drawing whose lines may be indented alike.
func wantDrawn(t *testing.T, s *process.Stream, want string) {
	t.Helper()
	var b strings.Builder
	for line := range strings.Lines(want) {
		if line = strings.TrimPrefix(line, "\t\t\t"); strings.TrimSpace(line) != "" {
			b.WriteString(line)
		}
	}
	if got := drawn(s); got != b.String() {
		t.Errorf("got\n%s\nwant\n%s", got, b.String())
	}
}

// line returns a line of a stream.
func line(t *testing.T, s *process.Stream, id string) process.Line {
	t.Helper()
	for _, x := range s.Lines {
		if x.ID == id {
			return x
		}
	}
	t.Fatalf("no line %s in\n%s", id, drawn(s))
	return process.Line{}
}

// A stream shows each verb's steps as a tree, and each line has the fields of its verb.
func TestStreamOfAllVerbs(t *testing.T) {
	g := &guide{}
	onTour(t, g.plan, func(b *booklet) {
		began := time.Now()
		b.start(tour{ID: "t1", Stops: []string{"a", "b"}, Fail: "maps"})
		b.app.Advance(2 * time.Minute)
		b.signal("t1")
		s := b.stream("t1")
		wantDrawn(b.T, s, `
			00 tour completed
			  01 book completed
			  02 ask completed
			  03 pack completed
			    03.01.01 bags completed
			    03.01.02 weigh completed
			    03.02.01 rest completed
			    03.02.02 maps aborted
			      03.02.02.00.01 guess completed
			  04 ride completed
			    04.01.01 driver completed
			    04.02.01 bus canceled
			  05 many completed
			    05.01.01 visit completed
			      05.01.01.00000 visit 0 completed
			        05.01.01.00000/01 look completed
			        05.01.01.00000/02 remember completed
			      05.01.01.00001 visit 1 completed
			        05.01.01.00001/01 look completed
			        05.01.01.00001/02 remember completed
			  06 photos completed
			  07 home completed
			    07.00000/01 look completed
			    07.00000/02 remember completed
`)
		if s.Plan != "tour" || s.Version != 3 || s.Status != process.Completed || !s.Created.Equal(began) || s.Ended.Before(began.Add(2*time.Minute)) || s.Missing != nil {
			t.Errorf("got %+v", s)
		}
		if s.Tags["guide"] != "ada" || line(b.T, s, "01").Tag != "fail=maps,guide=ada" {
			t.Errorf("tags: got %v and %q", s.Tags, line(b.T, s, "01").Tag)
		}
		var state tour
		if err := json.Unmarshal(s.State, &state); err != nil || state.Seen != 7 {
			t.Errorf("state: got %s (%v), want 7 seen", s.State, err)
		}
		for id, want := range map[string]string{
			"00": "plan ", "01": "do tour-do", "02": "ask test.ask.v1", "03": "all ", "03.01.02": "then ", "03.02.01": "sleep ", "03.02.02": "do library", "04": "any ",
			"04.01.01": "wait test.ready.v1", "05": "if ", "05.01.01": "split ", "05.01.01.00001": "part ", "05.01.01.00001/01": "do tour-do", "06": "each tour-do", "07": "sub ",
		} {
			if x := line(b.T, s, id); x.Verb+" "+x.Topic != want {
				t.Errorf("line %s: got verb and topic %q, want %q", id, x.Verb+" "+x.Topic, want)
			}
		}
		if x := line(b.T, s, "03.02.02"); x.Msg != "refused: maps is closed" || x.Attempt != 1 || len(x.Failures) != 1 || x.Failures[0].Began.IsZero() || x.Worker == "" || len(x.Tracking) != 32 {
			t.Errorf("the step that failed: got %+v", x)
		}
		if x := line(b.T, s, "02"); x.Tracking != "tour/t1#02" {
			t.Errorf("the reply address: got %q", x.Tracking)
		}
		if x := line(b.T, s, "05.01.01.00001/01"); x.Ref != "tour/t1/05.01.01.00001" || x.Tracking == line(b.T, s, "05.01.01.00000/01").Tracking {
			t.Errorf("a step of a part: got %+v", x)
		}
		if x := line(b.T, s, "06"); x.Items != 2 || x.Left != 0 {
			t.Errorf("items: got %+v", x)
		}
		if part := b.stream("t1/05.01.01.00001"); len(part.Lines) != 3 || part.Lines[1].ID != "01" {
			t.Errorf("the stream of a part: got\n%s", drawn(part))
		}
	})
}

// A stream shows what is undone, and what was asked for by whom.
func TestStreamOfCancelled(t *testing.T) {
	g := &guide{}
	onTour(t, g.plan, func(b *booklet) {
		b.start(tour{ID: "t1"})
		if x := line(b.T, b.stream("t1"), "03.02.01"); x.Timeout.IsZero() || !x.Open() {
			t.Errorf("a sleep: got %+v", x)
		}
		if err := b.tours.Cancel(b.Context(), "t1", "ada", "rain"); err != nil {
			t.Fatal(err)
		}
		b.app.Drain()
		s := b.stream("t1")
		wantDrawn(b.T, s, `
			00 tour canceled
			  01 book undone [undone]
			  02 ask completed
			  03 pack canceled
			    03.01.01 bags undone [undone]
			    03.01.02 weigh completed
			    03.02.01 rest canceled
`)
		if s.Cancel == nil || s.Cancel.By != "ada" || s.Cancel.Why != "rain" || s.Msg != "canceled by ada" {
			t.Errorf("got %q, %+v", s.Msg, s.Cancel)
		}
	})
}

// A stream shows what an instance did before it was run again, and what has left the document.
func TestStreamOfRerun(t *testing.T) {
	g := &guide{}
	onTour(t, g.plan, func(b *booklet) {
		b.start(tour{ID: "t1", Fail: "bags"})
		b.app.Advance(time.Minute)
		wantDrawn(b.T, b.stream("t1"), `
			00 tour aborted
			  01 book undone [undone]
			  02 ask completed
			  03 pack aborted
			    03.01.01 bags aborted
			    03.02.01 rest canceled
`)
		if _, err := b.by("ada", "the sun shines").Rerun(b.Context(), "t1", "01"); err != nil {
			t.Fatal(err)
		}
		b.app.Drain()
		s := b.stream("t1")
		wantDrawn(b.T, s, `
			00 tour aborted
			  01 book undone [undone]
			  02 ask completed
			  03 pack aborted
			    03.01.01 bags aborted
			    03.02.01 rest canceled
			  01~1 book undone [undone]
			  02~1 ask completed
			  03~1 pack aborted
			    03.01.01~1 bags aborted
			    03.02.01~1 rest canceled
`)
		n := 0
		for x, err := range b.look.Find(b.Context(), process.Query{Since: time.Now().Add(-time.Hour)}) {
			if n++; err != nil || x.Status != process.Aborted || !x.Ended.Equal(s.Ended) {
				t.Errorf("index: got %+v, %v", x, err)
			}
		}
		if n != 1 {
			t.Errorf("index: got %d rows, want 1", n)
		}
		if a, b := line(b.T, s, "01").Tracking, line(b.T, s, "01~1").Tracking; a == b || a == "" || b == "" {
			t.Errorf("keys: got %s and %s", a, b)
		}
		if s.Run != 1 || len(s.Notes) != 1 || s.Notes[0].Why != "the sun shines" {
			t.Errorf("got run %d and notes %+v", s.Run, s.Notes)
		}
	})
}

// A plan of more than 99 steps is shown in its order, also those that have left the document.
func TestStreamOfManySteps(t *testing.T) {
	onTour(t, func(p *process.Plan[tour]) {
		for i := range 120 {
			process.Then(p, fmt.Sprint("step ", i+1), func(s tour) tour { return s.saw(1) })
		}
		process.Wait[tour, ready](p, "end", nil)
	}, func(b *booklet) {
		b.start(tour{ID: "t1"})
		s := b.stream("t1")
		for i, x := range s.Lines[1:] {
			if want := fmt.Sprint("step ", i+1); x.Name != want && i < 120 {
				t.Fatalf("line %d: got %s, want %s", i+1, x.Name, want)
			}
		}
		if len(s.Lines) != 122 || s.Missing != nil {
			t.Errorf("got %d lines and %q, want 122", len(s.Lines), s.Missing)
		}
		rows := b.app.Store().Table("tour-trail")
		for row, err := range rows.Query(b.Context(), "t1", storage.RowRange{Limit: 1}) {
			if err != nil {
				t.Fatal(err)
			}
			if err := rows.Delete(b.Context(), "t1", row.Key, storage.Condition{}); err != nil {
				t.Fatal(err)
			}
			if _, err := rows.Put(b.Context(), "t1", "t1#zzz", []byte("junk"), storage.Condition{}); err != nil {
				t.Fatal(err)
			}
		}
		s = b.stream("t1")
		if got := strings.Join(s.Missing, "; "); len(s.Lines) != 121 || !strings.Contains(got, "steps on their way to the trail (1)") || !strings.Contains(got, `"t1#zzz" can't be read`) {
			t.Errorf("without a row: got %d lines and %q", len(s.Lines), got)
		}
	})
}

// Large items lie in pages, and a page is a line.
func TestStreamOfPages(t *testing.T) {
	onTour(t, func(p *process.Plan[tour]) {
		process.Split(p, "days", func(s tour) []tour { return []tour{s} }, func(s tour) tour { return s }, func(p *process.Plan[tour]) {
			process.Each(p, "photos", func(s tour) []string { return slices.Repeat([]string{strings.Repeat("x", 70_000)}, s.Seen) }, func(context.Context, string) (int, error) { return 1, nil }, nil)
		}, nil)
	}, func(b *booklet) {
		b.start(tour{ID: "t1", Seen: 2})
		s := b.stream("t1")
		wantDrawn(b.T, s, `
			00 tour completed
			  01 days completed
			    01.00000 days 0 completed
			      01.00000/01 photos completed
			        01.00000/01.00000 photos 0 completed
			        01.00000/01.00001 photos 1 completed
`)
		for id, want := range map[string]int{"01.00000/01": 2, "01.00000/01.00000": 1, "01.00000/01.00001": 1} {
			if x := line(b.T, s, id); x.Items != want || x.Topic != "tour-do" {
				t.Errorf("line %s: got %d items of %s, want %d", id, x.Items, x.Topic, want)
			}
		}
	})
}

// A stream shows 1,000 parts, those first that are open or have failed, and says what it leaves out.
func TestStreamIsBounded(t *testing.T) {
	g := &guide{}
	onTour(t, g.plan, func(b *booklet) {
		b.start(tour{ID: "t1", Stops: []string{"a", "b"}})
		const all, open, bad = 1010, 1007, 1008
		ended, failed := bytes.Repeat([]byte{0xff}, all/8+1), make([]byte, all/8+1)
		ended[open/8] &^= 1 << (open % 8)
		failed[bad/8] |= 1 << (bad % 8)
		b.put("many", fmt.Sprintf(`{"value":{"plan":"tour","version":3,"status":"inprocess","created":"2000-01-01T00:00:00Z","events":[{"id":"05.01.01","name":"visit","status":"inprocess",`+
			`"created":"2000-01-01T00:00:00Z","fan":{"n":%d,"next":%d,"items":%d,"left":1,"ended":%q,"bad":%q}}]}}`, all, all, all,
			base64.StdEncoding.EncodeToString(ended), base64.StdEncoding.EncodeToString(failed)))
		for _, i := range []int{0, 998, open, bad} {
			b.put(fmt.Sprintf("many/05.01.01.%05d", i), `{"value":{"plan":"tour","version":3,"part":"05.01.01","status":"inprocess","created":"2000-01-01T00:00:00Z","parent":{"id":"many","path":"05.01.01"}}}`)
		}
		s := b.stream("many") // of the first ones 997 are gone
		wantDrawn(b.T, s, `
			00 tour inprocess
			  05.01.01 visit inprocess
			    05.01.01.00000 visit 0 inprocess
			    05.01.01.01007 visit 1007 inprocess
			    05.01.01.01008 visit 1008 inprocess
`)
		if got := line(b.T, s, "05.01.01").Hidden; got != all-3 || len(s.Missing) != 1 || !strings.HasPrefix(s.Missing[0], "parts and steps (1007): a stream shows at most 1000 parts") {
			t.Errorf("got %d hidden, and %q", got, s.Missing)
		}
	})
}

// A stream says which parts of it can't be known. A document of another kind is an error that says so.
func TestStreamOfStrangeDocuments(t *testing.T) {
	g := &guide{}
	onTour(t, g.plan, func(b *booklet) {
		b.start(tour{ID: "t1", Stops: []string{"a", "b"}})
		const created = `"created":"2000-01-01T00:00:00Z"`
		for id, c := range map[string]struct {
			body string
			want error
			text string
		}{
			"absent": {"", storage.ErrNotFound, `process: show tour "absent"`},
			"text":   {"hello", nil, "the document is not an instance of the plan"},
			"list":   {"[1]", nil, "the document is not an instance of the plan"},
			"other":  {`{"value":{"plan":"other","status":"completed"}}`, nil, "the document is not an instance of the plan"},
			"value":  {`{"value":{"balance":7}}`, nil, "the document is not an instance of the plan"},
			"typed":  {`{"value":{"plan":"tour","status":"completed","events":"none"}}`, nil, "the document is not an instance of the plan"},
			"over":   {`{"value":{"plan":"tour"}}`, storage.ErrNotFound, ""},
		} {
			if c.body != "" {
				b.put(id, c.body)
			}
			_, err := b.look.Stream(b.Context(), id)
			if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) || strings.Contains(err.Error(), "hello") {
				t.Errorf("%s: got error %v, want %v with %q", id, err, c.want, c.text)
			}
		}
		event := func(id, more string) string {
			return fmt.Sprintf(`{"id":%q,"name":"x","status":"inprocess",%s%s}`, id, created, more)
		}
		b.put("strange", `{"value":{"plan":"tour","version":3,"status":"inprocess",`+created+`,"events":[null,`+strings.Join([]string{
			event("old.02", ""), event("02.01.01.01.01", ""), event("..", ""), event("01", ""), event("01", ""), event("9/9#~", ""), event("05.01.01", `,"fan":{"n":1000000000,"next":1000000000,"items":-7,"left":3,"ended":"AA=="}`),
		}, ",")+`]}}`)
		if s := b.stream("strange"); len(s.Lines) != 1007 || len(s.Missing) != 1 {
			t.Errorf("a strange document: got %d lines and %q", len(s.Lines), s.Missing)
		}
		b.put("part", `{"value":{"plan":"tour","version":3,"status":"inprocess",`+created+`,"events":[`+event("07", `,"undos":[null,{"status":"undone","attempt":1}]`)+`]}}`)
		b.put("part/07.00000", `{"value":{"plan":"other"}}`)
		if s := b.stream("part"); len(s.Lines) != 2 || len(s.Lines[1].Undos) != 1 || !strings.Contains(strings.Join(s.Missing, "; "), "part 07.00000: the document is not an instance") {
			t.Errorf("a strange part: got %q and\n%s", s.Missing, drawn(s))
		}

		b.put("lost", `{"value":{"plan":"tour","version":9,"status":"inprocess",`+created+`,"events":[`+event("01", "")+`]}}`)
		s := b.stream("lost")
		if !slices.Equal(s.Missing, []string{"verbs, topics and parts: the structure of version 9 is not stored"}) || len(s.Lines) != 2 || s.Lines[1].Topic != "" {
			t.Errorf("without a structure: got %q and %+v", s.Missing, s.Lines)
		}
	})
}

// An instance is shown before its first step, and after its last one has been deleted.
func TestStreamFromFirstToLast(t *testing.T) {
	onTour(t, func(p *process.Plan[tour]) {
		p.Retention(time.Hour)
		process.Then(p, "look", func(s tour) tour { return s })
	}, func(b *booklet) {
		b.app.Stop()
		if err := b.tours.StartNew(b.Context(), "t1", tour{ID: "t1"}); err != nil {
			t.Fatal(err)
		}
		if s := b.stream("t1"); s.Status != process.Init || len(s.Lines) != 1 || s.Missing != nil {
			t.Errorf("before its first step: got %+v", s)
		}
		b.app.Start()
		b.app.Drain()
		if s := b.stream("t1"); s.Status != process.Completed || len(s.Lines) != 2 {
			t.Errorf("after it has ended: got %+v", s)
		}
		b.app.Advance(time.Hour)
		s := b.stream("t1")
		if s.Status != process.Completed || len(s.Lines) != 1 || !slices.Equal(s.Missing, []string{"its time is over, and its steps are deleted"}) {
			t.Errorf("after its time: got %+v", s)
		}
	})
}
