package guard_test

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/guard"
	"github.com/millrace-go/millrace/millracetest"
	"github.com/millrace-go/millrace/process"
)

// keyedBank does each payment once per key, or number. It loses the first answers of each.
type keyedBank struct {
	lose int

	mu   sync.Mutex
	done map[string]int // requests by path and key; under mu
	had  map[string]int // effects by path, under mu
}

func newKeyedBank(lose int) *keyedBank {
	return &keyedBank{lose: lose, done: map[string]int{}, had: map[string]int{}}
}

// RoundTrip is the transport to the bank.
func (b *keyedBank) RoundTrip(r *http.Request) (*http.Response, error) {
	path, key := r.URL.Path, cmp.Or(r.Header.Get("Idempotency-Key"), r.URL.Query().Get("number"))
	b.mu.Lock()
	defer b.mu.Unlock()
	b.done[path+" "+key]++
	n := b.done[path+" "+key]
	if n == 1 {
		b.had[path]++
	}
	if n <= b.lose {
		return nil, errReset
	}
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("")), Request: r}, nil
}

// verify says whether a payment of a key was done, whatever its path is.
func (b *keyedBank) verify(_ context.Context, key string) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for k := range b.done {
		if strings.HasSuffix(k, " "+key) {
			return true, nil
		}
	}
	return false, nil
}

func (b *keyedBank) want(t *testing.T, path string, effects int) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.had[path] != effects {
		t.Errorf("%s: %d effects, want %d", path, b.had[path], effects)
	}
}

type purchase struct {
	Items []string `json:"items"`
}

func (p purchase) took(string) purchase { return p }

// An agent's attempts are messages of their own. The key of a call is that of the step, of the item or of the undo, so
// the service recognises a repeat.
func TestLaw11AnAgentsKeyIsThatOfItsStep(t *testing.T) {
	for name, cfg := range map[string]func(*keyedBank) guard.Config{
		"Repeatable": func(*keyedBank) guard.Config { return guard.Config{Repeatable: true} },
		"Verify":     func(b *keyedBank) guard.Config { return guard.Config{Verify: b.verify} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bank := newKeyedBank(3)
			c := cfg(bank)
			c.Logger = quietLogger()
			g := once(guard.New("bank", c))
			client := &http.Client{Transport: g.Transport(bank)}
			call := func(ctx context.Context, path, more string) error { // the payment has a number, by which the bank can be asked
				return g.Do(ctx, sendBy(client, http.MethodPost, "http://bank/"+path+"?number="+process.Key(ctx)+more))
			}
			plan := func(p *process.Plan[purchase]) {
				process.Do(p, "charge", func(ctx context.Context, _ purchase) (string, error) { return "", call(ctx, "charge", "") }, purchase.took).
					Undo(func(ctx context.Context, _ purchase, _ string) error { return call(ctx, "refund", "") })
				process.Each(p, "pack", func(p purchase) []string { return p.Items },
					func(ctx context.Context, item string) (string, error) { return "", call(ctx, "pack-"+item, "") }, nil)
				process.Do(p, "two", func(ctx context.Context, _ purchase) (string, error) {
					for _, n := range []string{"first", "second"} {
						if err := call(guard.Keyed(ctx, process.Key(ctx)+n), "two", n); err != nil {
							return "", err
						}
					}
					return "", nil
				}, nil)
				process.Do(p, "ship", func(context.Context, purchase) (string, error) { return "", process.Refuse(errors.New("no")) }, nil)
			}
			millracetest.Run(t, millracetest.Plan("buy", plan, nil), func(t *testing.T, app *millracetest.App) {
				buy := process.Open[purchase](app.Channels(), "buy")
				if err := buy.Start(t.Context(), "p1", purchase{Items: []string{"a", "b"}}); err != nil {
					t.Fatal(err)
				}
				app.Drain()
				app.Advance(30 * time.Minute)
				s, err := buy.Get(t.Context(), "p1")
				if err != nil || s.Status != process.Aborted || !strings.Contains(s.Error, "no") {
					t.Errorf("got %s %q, %v; want that it is refused by ship\n%s", s.Status, s.Error, err, millracetest.Timeline(t, app.Store(), "buy", "p1"))
				}
				for path, effects := range map[string]int{"/charge": 1, "/pack-a": 1, "/pack-b": 1, "/two": 2, "/refund": 1} {
					bank.want(t, path, effects)
				}
			})
		})
	}
}

// An agent's call whose outcome is unknown makes its step stuck: an operator decides. So it is where the call is given
// up, and where the worker stops.
func TestLaw11AnAgentsUnknownOutcomeIsAnOperators(t *testing.T) {
	for name, call := range map[string]func(ctx context.Context, app *millracetest.App) error{
		"no answer": func(context.Context, *millracetest.App) error { return errReset },
		"given up":  func(context.Context, *millracetest.App) error { time.Sleep(time.Hour); return nil },
		"stopped": func(ctx context.Context, app *millracetest.App) error {
			go app.Restart()
			<-ctx.Done()
			return ctx.Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var app *millracetest.App
			var calls atomic.Int64
			keys := make(chan string, 100)
			g := guard.New("bank", guard.Config{Logger: quietLogger(), Timeout: guard.NoTimeout})
			plan := func(p *process.Plan[purchase]) {
				process.Do(p, "charge", func(ctx context.Context, _ purchase) (string, error) {
					return "", g.Do(ctx, func(ctx context.Context) error {
						keys <- process.Key(ctx)
						if calls.Add(1) == 1 {
							return call(ctx, app)
						}
						return nil
					})
				}, nil)
			}
			millracetest.Run(t, millracetest.Plan("buy", plan, nil), func(t *testing.T, a *millracetest.App) {
				app = a
				buy := process.Open[purchase](app.Channels(), "buy")
				look, err := process.Look(app.Store(), "buy", "/test")
				if err != nil {
					t.Fatal(err)
				}
				if err := buy.Start(t.Context(), "p1", purchase{}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(30 * time.Minute) // in a bubble
				s, err := buy.Get(t.Context(), "p1")
				if err != nil || s.Status != process.Stuck || calls.Load() != 1 {
					t.Errorf("%d calls, %s, %v; want one, and that it is stuck\n%s", calls.Load(), s.Status, err, millracetest.Timeline(t, app.Store(), "buy", "p1"))
				}
				for x, err := range look.Open(t.Context()) {
					if err != nil || !strings.Contains(x.Error, "outcome unknown") || x.Name != "charge" {
						t.Errorf("the index has %+v, %v", x, err)
					}
				}
				time.Sleep(2 * time.Hour) // in a bubble: the call that was given up has ended well
				if name != "given up" {
					if _, err := look.Operator("ada", "never arrived").Retry(t.Context(), "p1", "01"); err != nil {
						t.Fatal(err)
					}
					app.Drain()
					if a, b := <-keys, <-keys; a != b {
						t.Errorf("the keys %s and %s, want one", a, b)
					}
				}
				if poisoned := app.Poison(); (name == "given up") != (len(poisoned) == 1) {
					t.Errorf("in the poison queue: %v", poisoned)
				}
				if s, err = buy.Get(t.Context(), "p1"); err != nil || s.Status != process.Completed {
					t.Errorf("in the end it is %s, %v", s.Status, err)
				}
			})
		})
	}
}

// A program's own key goes before that of the message, in the question as in the call, also outside of a handler.
func TestKeyed(t *testing.T) {
	t.Parallel()
	bank := newKeyedBank(0)
	var asked []string
	g := guard.New("bank", guard.Config{Logger: quietLogger(), Repeatable: true, Verify: func(_ context.Context, key string) (bool, error) {
		asked = append(asked, key)
		return false, nil
	}})
	client := &http.Client{Transport: g.Transport(bank)}
	post := sendBy(client, http.MethodPost, "http://bank/pay")
	for _, ctx := range []context.Context{
		guard.Keyed(handling(t, "m1", 1), "k1"),
		guard.Keyed(t.Context(), "k2"),
		guard.Keyed(handling(t, "m3", 1), ""),
		t.Context(),
	} {
		if err := g.Do(ctx, post); err != nil {
			t.Error(err)
		}
	}
	if got := strings.Join(asked, " "); got != "k1 k2 m3" {
		t.Errorf("asked for %q, want k1 k2 m3", got)
	}
	for _, key := range []string{"k1", "k2", "m3", ""} {
		if n := bank.done["/pay "+key]; n != 1 {
			t.Errorf("the key %q: %d requests, want 1", key, n)
		}
	}
}

// The attempts at one step are one message to the breaker: alone, it can't open it.
func TestLaw3AnAgentsAttemptsAreOneMessage(t *testing.T) {
	t.Parallel()
	g := once(guard.New("bank", guard.Config{Logger: quietLogger(), Break: guard.Break{Of: 5, Window: time.Hour}}))
	calls := 0
	plan := func(p *process.Plan[purchase]) {
		process.Do(p, "charge", func(ctx context.Context, _ purchase) (string, error) {
			calls++
			return "", g.Do(ctx, func(context.Context) error {
				if g.Open() {
					t.Error("one step has opened the breaker")
				}
				return errDown
			})
		}, nil).Attempts(1000).Backoff(10 * time.Millisecond)
	}
	millracetest.Run(t, millracetest.Plan("buy", plan, nil), func(t *testing.T, app *millracetest.App) {
		if err := process.Open[purchase](app.Channels(), "buy").Start(t.Context(), "p1", purchase{}); err != nil {
			t.Fatal(err)
		}
		app.Drain()
		app.Advance(30 * time.Minute)
		if calls < 6 {
			t.Errorf("%d calls, want that it is tried again and again", calls)
		}
	})
}
