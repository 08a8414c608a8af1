package agree_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/internal/agree"
	"github.com/millrace-go/millrace/internal/agreetest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

const topic = "things"

// steps runs a loop, and notes when its step was called, and whether there was a reason beside the time.
type steps struct {
	loop  *agree.Loop
	began time.Time
	log   bytes.Buffer
	all   []string
}

func newSteps(s *storage.Store, heeds func([]byte) bool) *steps {
	x := &steps{began: time.Now()}
	x.loop = agree.NewLoop(s, topic, heeds, agree.NewTrouble(slog.New(slog.NewTextHandler(&x.log, nil))), "changes of things")
	return x
}

// run runs the loop for a time. The step asks to be called every minute.
func (x *steps) run(ctx context.Context, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	x.loop.Run(ctx, func(_ context.Context, rung bool) (time.Duration, bool) {
		call := time.Since(x.began).String()
		if rung {
			call += " rung"
		}
		x.all = append(x.all, call)
		return time.Minute, false
	})
}

func (x *steps) want(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(x.all, want) {
		t.Errorf("the step was called after %q, want %q", x.all, want)
	}
}

// A ring calls the step at once. Without a ring the step is called when the time has passed for which it asked.
func TestLaw1ARingIsOnlyAReason(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		mine := newSteps(s, func(data []byte) bool { return string(data) == "mine" })
		plain := newSteps(storagetest.Plain(s), nil)
		ended := make(chan struct{}, 2)
		for _, x := range []*steps{mine, plain} {
			go func() { x.run(t.Context(), 150*time.Second); ended <- struct{}{} }()
		}
		time.Sleep(30 * time.Second)
		for _, about := range []string{"another", "mine"} {
			if err := agree.Ring(t.Context(), s, topic, []byte(about)); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(10 * time.Second)
		mine.loop.Wake()
		<-ended
		<-ended
		mine.want(t, "0s", "0s rung", "30s rung", "40s rung", "1m40s")
		plain.want(t, "0s", "1m0s", "2m0s")
		if err := agree.Ring(t.Context(), storagetest.Plain(s), topic, nil); err != nil {
			t.Errorf("ring where the store doesn't: %v", err)
		}
	})
}

// The loop calls its step again when it has begun to listen, and so sees a change that was told before. A loop that is
// over after its first step listens to nothing.
func TestLaw2NothingIsMissedBeforeTheLoopListens(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		var calls storagetest.Calls
		counted := storagetest.Intercept(s, calls.Hook)
		there, seen := false, false
		agree.NewLoop(counted, topic, nil, agree.NewTrouble(slog.New(slog.DiscardHandler)), "things").Run(t.Context(), func(context.Context, bool) (time.Duration, bool) {
			seen, there = there, true // it comes just after the step has looked
			return agree.Never, seen
		})
		if !seen {
			t.Error("the loop has ended without a second look")
		}
		before := calls.Count("subscribe")
		agree.NewLoop(counted, topic, nil, agree.NewTrouble(slog.New(slog.DiscardHandler)), "things").Run(t.Context(), func(context.Context, bool) (time.Duration, bool) { return 0, true })
		if n := calls.Count("subscribe"); n != before || before != 1 {
			t.Errorf("%d and %d calls of Subscribe, want 1 and none", before, n-before)
		}
	})
}

// A loop that may not listen tries again now and then, looks in its own time meanwhile, and says so once.
func TestLaw3ALoopThatCannotListen(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		tries := 0
		var may atomic.Bool
		x := newSteps(storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
			if op.Name != "subscribe" {
				return do()
			}
			if tries++; !may.Load() {
				return op.Fail(storage.ErrUnavailable)
			}
			return do()
		}), nil)
		time.AfterFunc(10*time.Minute, func() { may.Store(true) })
		for n := range 100 {
			time.AfterFunc(5*time.Minute+time.Duration(n)*100*time.Millisecond, x.loop.Wake)
		}
		x.run(t.Context(), 20*time.Minute)
		if tries < 10 || tries > 13 {
			t.Errorf("%d tries to listen in ten minutes, want 10 to 13", tries)
		}
		if n := len(x.all); n < 120 || n > 126 {
			t.Errorf("%d steps in 20 minutes, want 20 to 26 and 100 that were woken", n)
		}
		said := x.log.String()
		if strings.Count(said, "can't be told of changes of things; trying again") != 1 || strings.Count(said, "can be told of changes of things again") != 1 {
			t.Errorf("the log says: %s", said)
		}
	})
}

// A loop whose connection is lost looks in its own time, and listens again after that.
func TestALostConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		path := t.TempDir() + "/test.db"
		s := agreetest.Open(t, path)
		x := newSteps(s, nil)
		time.AfterFunc(10*time.Second, func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		x.run(t.Context(), 70*time.Second)
		x.want(t, "0s", "0s rung", "1m0s")
	})
}

// A thing is the document of these tests.
type thing struct {
	ID    string `json:"id"`
	Epoch int64  `json:"epoch"`
	Word  string `json:"word"`
}

func docOf(s *storage.Store) agree.Document[thing] {
	return agree.Document[thing]{
		Blobs: s.Blobs("things"), Key: "a", Limit: time.Second,
		Decode: func(body []byte) (d thing, err error) {
			if json.Unmarshal(body, &d) != nil || d.Epoch < 1 {
				return thing{}, fmt.Errorf("%w: no thing", storage.ErrInvalid)
			}
			return d, nil
		},
		Encode: func(d thing) ([]byte, error) { return json.Marshal(d) },
	}
}

// Of two that have seen the same, one writes. The other's write does nothing, and its sighting stays.
func TestLaw4AWriteReplacesWhatWasSeen(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		d := docOf(s)
		var a, b agree.Sighting[thing]
		for epoch := int64(1); epoch <= 2; epoch++ {
			if err := errors.Join(d.Read(t.Context(), &a), d.Read(t.Context(), &b)); err != nil {
				t.Fatal(err)
			}
			if err := d.Write(t.Context(), &a, thing{Epoch: epoch, Word: "a"}); err != nil {
				t.Fatal(err)
			}
			before := b
			if err := d.Write(t.Context(), &b, thing{Epoch: epoch, Word: "b"}); !storage.LostRace(err) || b != before {
				t.Errorf("got %v and %+v, want a lost race and %+v", err, b, before)
			}
		}
		since := a.Since
		time.Sleep(time.Hour)
		if err := d.Read(t.Context(), &a); err != nil || a.Doc.Word != "a" || a.Since != since {
			t.Errorf("got %+v, %v; want the document as seen since %v", a, err, since)
		}
		if err := d.Blobs.Delete(t.Context(), d.Key, storage.Condition{}); err != nil {
			t.Fatal(err)
		}
		if err := d.Read(t.Context(), &a); err != nil || a.ETag != "" || a.Doc != (thing{}) || time.Since(a.Since) != 0 {
			t.Errorf("got %+v, %v; want no document", a, err)
		}
		gone := a.Since
		time.Sleep(time.Minute)
		if err := d.Read(t.Context(), &a); err != nil || a.Since != gone {
			t.Errorf("got %+v, %v; want none since %v", a, err, gone)
		}
	})
}

// say is a change of the word.
func say(s *storage.Store, id, word string) agree.Change[thing] {
	d := docOf(s)
	return agree.Change[thing]{
		ID: id, Look: d.Read, Stamp: func(d thing) (string, int64) { return d.ID, d.Epoch }, Doubt: errDoubt,
		Next: func(seen agree.Sighting[thing]) (thing, bool, error) {
			return thing{id, seen.Doc.Epoch + 1, word}, seen.Doc.Word != word, nil
		},
		Write: d.Write,
	}
}

var errDoubt = errors.New("look for yourself")

// A write whose answer is lost isn't repeated: where it was done, where somebody has written since, and where somebody
// wrote in its place.
func TestLaw5AChangeIsMadeOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		done  bool   // the write whose answer is lost
		other string // what somebody says after that
		want  error
		word  string
		epoch int64
	}{
		"not done":           {false, "", nil, "red", 2},
		"done":               {true, "", nil, "red", 2},
		"done and replaced":  {true, "blue", errDoubt, "blue", 3},
		"replaced, not done": {false, "blue", nil, "red", 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
				if err := say(s, "first", "white").Make(t.Context()); err != nil {
					t.Fatal(err)
				}
				writes := 0
				lossy := storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
					if op.Name != "put blob" {
						return do()
					}
					if writes++; writes > 1 {
						return do()
					}
					if c.done {
						if err := do(); err != nil {
							t.Error(err)
						}
					}
					if c.other != "" {
						if err := say(s, "other", c.other).Make(t.Context()); err != nil {
							t.Error(err)
						}
					}
					return op.Fail(storage.ErrUnavailable)
				})
				if err := say(lossy, "mine", "red").Make(t.Context()); !errors.Is(err, c.want) {
					t.Errorf("got %v, want %v", err, c.want)
				}
				var seen agree.Sighting[thing]
				if err := docOf(s).Read(t.Context(), &seen); err != nil || seen.Doc.Word != c.word || seen.Doc.Epoch != c.epoch {
					t.Errorf("got %+v, %v; want %s in epoch %d", seen.Doc, err, c.word, c.epoch)
				}
			})
		})
	}
}

// A change ends with its own error, with a store that fails three times, and with its context.
func TestAChangeThatCannotBeMade(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		mine := errors.New("it is red already")
		c := say(s, "a", "red")
		c.Next = func(agree.Sighting[thing]) (thing, bool, error) { return thing{}, false, mine }
		if err := c.Make(t.Context()); !errors.Is(err, mine) {
			t.Errorf("got %v, want the change's own error", err)
		}
		link := storagetest.NewLink(s)
		link.Cut()
		if err := say(link.Store, "b", "red").Make(t.Context()); !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("got %v, want ErrUnavailable", err)
		}
		over := errors.New("closing time")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(over)
		if err := say(link.Store, "c", "red").Make(ctx); !errors.Is(err, over) {
			t.Errorf("got %v, want the cause", err)
		}
	})
}

// A document that can't be read is a fault for as long as it is there, and a change doesn't write over it.
func TestLaw6ADamagedDocumentIsNotAnAbsentOne(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		d := docOf(s)
		etag, err := d.Blobs.Put(t.Context(), d.Key, []byte("?"), storage.Condition{})
		if err != nil {
			t.Fatal(err)
		}
		var seen agree.Sighting[thing]
		for range 2 {
			if err := d.Read(t.Context(), &seen); !errors.Is(err, storage.ErrInvalid) || seen.Fault == nil || seen.ETag != etag {
				t.Errorf("got %v and %+v, want a fault", err, seen)
			}
			time.Sleep(time.Minute)
		}
		if time.Since(seen.Since) != 2*time.Minute {
			t.Errorf("damaged since %v, want two minutes", time.Since(seen.Since))
		}
		if err := say(s, "a", "red").Make(t.Context()); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("got %v, want ErrInvalid", err)
		}
		if err := d.Write(t.Context(), &seen, thing{Epoch: 1}); err != nil || seen.Fault != nil {
			t.Errorf("got %v and %+v, want a repair", err, seen)
		}
	})
}

// A failure is logged once, and so is its end. One that no try can mend is an error.
func TestTrouble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		x := agree.NewTrouble(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}})))
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		x.Note(gone, "look", storage.ErrUnavailable)
		x.Note(t.Context(), "look", nil)
		x.Note(t.Context(), "look", storage.ErrUnavailable)
		time.Sleep(time.Minute)
		x.Note(t.Context(), "look", errors.New("another one"))
		if d := x.Since("look"); d != time.Minute {
			t.Errorf("it fails for %v, want a minute", d)
		}
		x.Note(t.Context(), "read", storage.ErrInvalid)
		x.Note(t.Context(), "look", nil)
		if d := x.Since("look"); d != 0 {
			t.Errorf("it fails for %v, want 0", d)
		}
		want := "level=WARN msg=\"can't look; trying again\" error=unavailable\n" +
			"level=ERROR msg=\"can't read; trying again\" error=\"" + storage.ErrInvalid.Error() + "\"\n" +
			"level=INFO msg=\"can look again\"\n"
		if got := log.String(); strings.ReplaceAll(got, `"unavailable"`, "unavailable") != strings.Replace(want, "error=unavailable", "error="+fmt.Sprint(quoted(storage.ErrUnavailable)), 1) {
			t.Errorf("got %s\nwant %s", got, want)
		}
	})
}

// quoted is an error's text as the log has it.
func quoted(err error) string {
	if s := err.Error(); strings.Contains(s, " ") {
		return fmt.Sprintf("%q", s)
	}
	return err.Error()
}
