package storagetest_test

import (
	"context"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/driver"
	"github.com/millrace-go/millrace/storage/storagetest"
)

func TestHistoriesOfTheModel(t *testing.T) {
	t.Parallel()
	storagetest.RunHistories(t, onModel("", bare))
}

// Each bug must show in a history, and in a picture. That may take several histories, because a race doesn't happen
// in each.
func TestHistoriesCatchBugs(t *testing.T) {
	t.Parallel()
	for kind, bugs := range map[string][]string{
		"blobs": {"puts race", "put ignores if-match", "put ignores if-absent", "if-match creates", "etags by key", "no etags",
			"get ignores if-none-match", "never modified", "missing is empty", "deleting nothing is fine", "deleting nothing is a lost race",
			"delete ignores conditions", staleReads},
		"commits": {"puts race", "put ignores if-match"},
		"rows":    {"puts race", "put ignores if-match", "etags by key", "delete ignores conditions"},
		"queue": {"delivers twice", "does not count deliveries", "ignores visibility", "never delivers again",
			"keeps the receipt over deliveries", "delete on a dead receipt", "delete names all receipts", "delete tells of no dead receipt",
			"extend keeps the receipt", "extend keeps the old receipt alive", "extend does not extend", "extend never hands back", "extend erases the body",
			"rewrite keeps the body", "rewrite counts from nothing", "rewrite loses the delay", "rewrite keeps the receipt", lostSends},
	} {
		for _, bug := range bugs {
			t.Run(kind+" "+bug, func(t *testing.T) {
				t.Parallel()
				err := error(nil)
				for seed := uint64(0); err == nil && seed < 20; seed++ {
					p := newPlace(bug)
					stores := make([]*storage.Store, 4)
					for i := range stores {
						stores[i] = storagetest.Intercept(storage.New(wrong{p.open()}), turns)
					}
					err = storagetest.PlayHistory(t.Context(), kind, stores, seed, t.TempDir())
				}
				if err == nil {
					t.Fatal("not caught")
				}
				t.Log(err)
				if _, picture, ok := strings.Cut(err.Error(), "; see "); ok {
					if page, err := os.ReadFile(picture); err != nil || !strings.Contains(string(page), "</html>") {
						t.Errorf("%q is no picture: %v", picture, err)
					}
				} else if !strings.Contains(err.Error(), "ETag") && !strings.Contains(err.Error(), "without end") {
					t.Error("no picture is named")
				}
			})
		}
	}
}

// turns yields to other players before and after each call.
func turns(_ context.Context, _ storagetest.Op, do func() error) error {
	runtime.Gosched()
	defer runtime.Gosched()
	return do()
}

// These bugs are in the wrong store, beside those of its model.
const (
	staleReads = "reads what it read before"
	lostSends  = "loses a message"
)

// wrong is a model with bugs that sequential calls seldom or never show.
type wrong struct{ *model }

func (s wrong) Blobs(name string) driver.Blobs {
	if s.has(staleReads) {
		return &forgetful{Blobs: s.model.Blobs(name), read: map[string]storage.Blob{}}
	}
	return s.model.Blobs(name)
}

func (s wrong) Queue(name string) driver.Queue {
	if s.has(lostSends) {
		return lossy{s.model.Queue(name)}
	}
	return s.model.Queue(name)
}

// forgetful answers every read like the first.
type forgetful struct {
	driver.Blobs
	mu   sync.Mutex
	read map[string]storage.Blob // under mu
}

func (b *forgetful) Get(ctx context.Context, key string, not storage.ETag) (storage.Blob, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if before, ok := b.read[key]; ok && before.ETag != not {
		return before, nil
	}
	now, err := b.Blobs.Get(ctx, key, not)
	if err == nil {
		b.read[key] = now
	}
	return now, err
}

// lossy loses the messages that are sent in turns 7, 17 and so on.
type lossy struct{ driver.Queue }

func (q lossy) Send(ctx context.Context, messages []storage.Message) error {
	if strings.HasSuffix(string(messages[0].Body), "7/0") {
		return nil
	}
	return q.Queue.Send(ctx, messages)
}

// CheckHistory decides a history with unknown outcomes where it can be decided.
func TestUnknownOutcomes(t *testing.T) {
	t.Parallel()
	type answer = storagetest.Answer[string, string] // "write x", or "read" and its result
	step := func(s string, a answer) []string {
		if value, ok := strings.CutPrefix(a.In, "write "); ok {
			return []string{value}
		}
		if a.Out == s {
			return []string{s}
		}
		return nil
	}
	write := func(value string) answer { return answer{Key: "k", In: "write " + value} }
	lost := func(value string) answer { return answer{Key: "k", In: "write " + value, Unknown: true} }
	read := func(value string) answer { return answer{Key: "k", In: "read", Out: value} }
	for name, c := range map[string]struct {
		calls []answer
		ok    bool
	}{
		"now":                 {[]answer{write("a"), lost("b"), read("b"), read("b")}, true},
		"later":               {[]answer{write("a"), lost("b"), read("a"), read("b")}, true},
		"never":               {[]answer{write("a"), lost("b"), read("a"), read("a")}, true},
		"once":                {[]answer{write("a"), lost("b"), read("b"), write("c"), read("b")}, false},
		"not before":          {[]answer{write("a"), read("b"), lost("b"), read("b")}, false},
		"of all":              {[]answer{write("a"), {In: "write b", Unknown: true}, read("b"), read("b")}, true},
		"too many to tell":    {[]answer{write("a"), lost("b"), lost("c"), read("a")}, false},
		"no calls":            {nil, false},
		"nothing is unknown":  {[]answer{write("a"), read("a"), write("b"), read("b")}, true},
		"an answer that lies": {[]answer{write("a"), read("a"), write("b"), read("a")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var h storagetest.History[string, string]
			for _, a := range c.calls {
				h.Record(0, func() []answer { return []answer{a} })
			}
			if err := storagetest.CheckHistory(&h, step, t.TempDir()); (err == nil) != c.ok {
				t.Errorf("got %v; want it in order: %v", err, c.ok)
			}
		})
	}
}
