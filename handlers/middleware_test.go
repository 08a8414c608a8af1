package handlers_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/handling/verdict"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

type decision = func(Account, Add) (Account, []channel.Message, error)

// decideWithin returns a world that decides within middleware, on a store with a hook.
func decideWithin(t *testing.T, hook storagetest.Hook, decide decision, middleware ...handlers.Middleware) *world {
	t.Helper()
	s := worldtest.OpenStore(t, worldtest.Virtual)
	if hook != nil {
		s = storagetest.Intercept(s, hook)
	}
	w := worldOn(t, s, handlers.Config{Timeout: time.Minute, Middleware: middleware})
	handlers.Decide(w.Registry, w.Accounts, Add.Subject, decide, Added{}, Refused{})
	return w
}

// around makes a middleware of f.
func around(f func(ctx context.Context, amount int, next func(context.Context) error) error) handlers.Middleware {
	return func(next handlers.Next) handlers.Next {
		return func(ctx context.Context, d *handlers.Delivery) error {
			return f(ctx, d.Message.(Add).Amount, func(ctx context.Context) error { return next(ctx, d) })
		}
	}
}

// results notes what happens to the commands of each amount.
type results struct {
	mu sync.Mutex
	of map[int][]string
}

func (r *results) add(amount int, what any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of == nil {
		r.of = map[int][]string{}
	}
	r.of[amount] = append(r.of[amount], fmt.Sprint(what))
}

func (r *results) want(t *testing.T, amount int, want string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if got := strings.Join(r.of[amount], ", "); got != want {
		t.Errorf("command %d: got %q, want %q", amount, got, want)
	}
}

// note is a middleware that notes its beginning, and what Next returned.
func (r *results) note() handlers.Middleware {
	return around(func(ctx context.Context, amount int, next func(context.Context) error) error {
		r.add(amount, "begin")
		err := next(ctx)
		r.add(amount, err)
		return err
	})
}

// decideAll sends a command for each amount to one account, handles them together, and returns their errors.
func decideAll(w *world, amounts ...int) map[int]error {
	w.t.Helper()
	for _, n := range amounts {
		worldtest.Send(w.World, Add{To: "k", Amount: n})
	}
	return handleAll(w)
}

func handleAll(w *world) map[int]error {
	w.t.Helper()
	errs := map[int]error{}
	for d, err := range w.handle(w.t.Context(), w.receive("accounts")...) {
		errs[d.Message.(Add).Amount] = err
	}
	return errs
}

// wantDecided checks the errors: those of bad have one, the others none. It checks that the others are decided, and
// deleted.
func wantDecided(t *testing.T, w *world, errs map[int]error, bad ...int) {
	t.Helper()
	balance := 0
	failing := map[int]bool{}
	for _, n := range bad {
		failing[n] = true
	}
	for n, err := range errs {
		if (err != nil) != failing[n] {
			t.Errorf("command %d: got error %v; want one: %v", n, err, failing[n])
		}
		if !failing[n] {
			balance += n
		}
	}
	if got := w.Balance("k"); got != balance {
		t.Errorf("got balance %d, want that of the others, %d", got, balance)
	}
	if got := worldtest.Queued(t, w.Store, "accounts"); got != len(bad) {
		t.Errorf("got %d commands in the queue, want those that failed, %d", got, len(bad))
	}
}

// onCommit makes a hook for units of work that write an account.
func onCommit(f func(op storagetest.Op, do func() error) error) storagetest.Hook {
	return func(_ context.Context, op storagetest.Op, do func() error) error {
		if op.Name == "commit" && strings.HasPrefix(op.Resource, "blob accounts") {
			return f(op, do)
		}
		return do()
	}
}

var errBroken = errors.New("broken")

func failOn(bad int) decision {
	return func(a Account, m Add) (Account, []channel.Message, error) {
		if m.Amount == bad {
			return a, nil, errBroken
		}
		return a.Add(m)
	}
}

// The unit of work loses races and is folded again without a message that fails. The middleware runs once all the same,
// and sees each message's own result.
func TestMiddlewareRunsOnceADelivery(t *testing.T) {
	t.Parallel()
	var seen results
	races, folds := 3, 0
	w := decideWithin(t, onCommit(func(op storagetest.Op, do func() error) error {
		if races > 0 {
			races--
			return op.Fail(storage.ErrPrecondition)
		}
		return do()
	}), func(a Account, m Add) (Account, []channel.Message, error) {
		folds++
		return failOn(13)(a, m)
	}, seen.note())
	wantDecided(t, w, decideAll(w, 1, 13, 2), 13)
	if folds < 3*3 {
		t.Errorf("got %d folds, want several tries", folds)
	}
	for _, n := range []int{1, 2} {
		seen.want(t, n, "begin, <nil>")
	}
	seen.want(t, 13, "begin, broken")
}

// Next takes as long as the unit of work, and returns its error.
func TestNextReturnsTheFinalResult(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var seen results
		down := true
		w := decideWithin(t, onCommit(func(op storagetest.Op, do func() error) error {
			time.Sleep(3 * time.Second)
			if down {
				return op.Fail(storage.ErrUnavailable)
			}
			return do()
		}), Account.Add, around(func(ctx context.Context, amount int, next func(context.Context) error) error {
			began := time.Now()
			err := next(ctx)
			seen.add(amount, fmt.Sprint(errors.Is(err, storage.ErrUnavailable), " after ", time.Since(began)))
			return err
		}))
		errs := decideAll(w, 1, 2)
		if verdict.Judge(errs[1]).Action != verdict.Unavailable || verdict.Judge(errs[2]).Action != verdict.Unavailable {
			t.Errorf("got errors %v, want that the store is unavailable", errs)
		}
		down = false
		time.Sleep(time.Minute)
		wantDecided(t, w, handleAll(w))
		for _, n := range []int{1, 2} {
			seen.want(t, n, "true after 3s, false after 3s")
		}
	})
}

// A middleware within another one has the context that the outer one gave to Next.
func TestMiddlewareOfAFoldPassesItsContextOn(t *testing.T) {
	t.Parallel()
	type key struct{}
	var seen results
	w := decideWithin(t, nil, Account.Add, around(func(ctx context.Context, amount int, next func(context.Context) error) error {
		return next(context.WithValue(ctx, key{}, amount))
	}), around(func(ctx context.Context, amount int, next func(context.Context) error) error {
		_, _, handled := channel.Handled(ctx)
		seen.add(amount, fmt.Sprint(ctx.Value(key{}), " ", handled))
		ended, cancel := context.WithCancel(ctx)
		cancel()
		return next(ended) // a fold doesn't end with it
	}))
	wantDecided(t, w, decideAll(w, 1, 2))
	seen.want(t, 1, "1 true")
	seen.want(t, 2, "2 true")
}

// The outermost middleware decides. A message whose middleware fails after its fold comes again, and is not folded
// again.
func TestMiddlewareDecides(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var folds results
		failing := true
		w := decideWithin(t, nil, func(a Account, m Add) (Account, []channel.Message, error) {
			folds.add(m.Amount, "fold")
			return failOn(13)(a, m)
		}, around(func(ctx context.Context, amount int, next func(context.Context) error) error {
			switch err := next(ctx); {
			case amount == 13 && errors.Is(err, errBroken):
				return nil
			case amount == 2 && failing:
				return errors.Join(err, errors.New("can't report it"))
			default:
				return err
			}
		}))
		errs := decideAll(w, 1, 2, 13)
		if errs[1] != nil || errs[2] == nil || errs[13] != nil {
			t.Errorf("got errors %v, want one of 2 alone", errs)
		}
		if got := w.Balance("k"); got != 3 {
			t.Errorf("got balance %d, want 3", got)
		}
		failing = false
		time.Sleep(time.Minute)
		if errs := handleAll(w); len(errs) != 1 || errs[2] != nil {
			t.Errorf("got errors %v, want that 2 comes again and succeeds", errs)
		}
		if got := w.Balance("k"); got != 3 {
			t.Errorf("got balance %d after it came again, want 3", got)
		}
		folds.want(t, 2, "fold, fold") // once without 13
		if got := worldtest.Queued(t, w.Store, "accounts"); got != 0 {
			t.Errorf("got %d commands in the queue, want none", got)
		}
	})
}

// A middleware that returns nil without calling Next ends the message; the document remembers it. One that returns an
// error is asked again.
func TestMiddlewareReturnsEarly(t *testing.T) {
	t.Parallel()
	skipping := true
	w := decideWithin(t, nil, Account.Add, around(func(ctx context.Context, amount int, next func(context.Context) error) error {
		switch {
		case skipping && amount == 100:
			return nil
		case skipping && amount == 200:
			return errBroken
		}
		return next(ctx)
	}))
	worldtest.Send(w.World, Add{Key: "skipped", To: "k", Amount: 100})
	errs := decideAll(w, 1, 200)
	if errs[1] != nil || errs[100] != nil || !errors.Is(errs[200], errBroken) {
		t.Errorf("got errors %v, want one of 200 alone", errs)
	}
	if got := w.Balance("k"); got != 1 {
		t.Errorf("got balance %d, want 1", got)
	}
	skipping = false
	worldtest.Send(w.World, Add{Key: "skipped", To: "k", Amount: 100})
	if errs := handleAll(w); len(errs) != 1 || errs[100] != nil {
		t.Errorf("a copy: got errors %v, want none", errs)
	}
	if got := w.Balance("k"); got != 1 {
		t.Errorf("got balance %d after a copy, want 1", got)
	}
}

// Next returns the same result however often it is called, and from whichever goroutine.
func TestMiddlewareCallsNextAgain(t *testing.T) {
	t.Parallel()
	var seen, folds results
	w := decideWithin(t, nil, func(a Account, m Add) (Account, []channel.Message, error) {
		folds.add(m.Amount, "fold")
		return failOn(13)(a, m)
	}, around(func(ctx context.Context, amount int, next func(context.Context) error) error {
		var calls sync.WaitGroup
		for range 3 {
			calls.Go(func() { seen.add(amount, next(ctx)) })
		}
		calls.Wait()
		return next(ctx)
	}))
	wantDecided(t, w, decideAll(w, 13, 1), 13)
	seen.want(t, 13, "broken, broken, broken")
	seen.want(t, 1, "<nil>, <nil>, <nil>")
	folds.want(t, 13, "fold")
	folds.want(t, 1, "fold")
}

// Whatever a middleware does, before Next and after, its own delivery fails, and the others are folded. It is given up
// when it hangs, at once with others that hang.
func TestMiddlewareFailsAlone(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(ctx context.Context, release chan struct{}){
		"panics": func(context.Context, chan struct{}) { panic("broken") },
		"exits":  func(context.Context, chan struct{}) { runtime.Goexit() },
		"hangs":  func(_ context.Context, release chan struct{}) { <-release },
		"waits for its context": func(ctx context.Context, _ chan struct{}) {
			<-ctx.Done()
			panic(context.Cause(ctx))
		},
	} {
		for _, when := range []string{"before", "after"} {
			t.Run(name+" "+when, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					release := make(chan struct{})
					t.Cleanup(func() { close(release) })
					w := decideWithin(t, nil, Account.Add, around(func(ctx context.Context, amount int, next func(context.Context) error) error {
						if when == "before" && amount > 100 {
							fail(ctx, release)
						}
						err := next(ctx)
						if amount > 100 {
							fail(ctx, release)
						}
						return err
					}))
					began := time.Now()
					errs := decideAll(w, 1, 101, 2, 102)
					most := time.Duration(0)
					switch name {
					case "hangs":
						most = 70 * time.Second
					case "waits for its context":
						most = time.Minute
					}
					if took := time.Since(began); took != most {
						t.Errorf("it took %v, want %v", took, most)
					}
					for _, n := range []int{101, 102} {
						_, panics := errs[n].(*handlers.PanicError)
						hang, hangs := errs[n].(*verdict.HangError)
						if hangs != (name == "hangs") || !panics && !hangs {
							t.Errorf("command %d: got error %v", n, errs[n])
						}
						if hangs && !strings.Contains(hang.Stack, "TestMiddlewareFailsAlone") {
							t.Errorf("command %d: got stack %q, want that of the middleware", n, hang.Stack)
						}
					}
					if when == "before" {
						wantDecided(t, w, errs, 101, 102)
					} else if got := w.Balance("k"); got != 1+2+101+102 || errs[1] != nil || errs[2] != nil {
						t.Errorf("got balance %d, errors %v; want all applied, and that 1 and 2 succeed", got, errs)
					}
				})
			})
		}
	}
}

// A fold fails as without middleware: Next returns a panic as an error, and a hang decides whatever the middleware
// makes of it.
func TestFoldFailsWithinMiddleware(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(release chan struct{}){
		"panics": func(chan struct{}) { panic("broken") },
		"exits":  func(chan struct{}) { runtime.Goexit() },
		"hangs":  func(release chan struct{}) { <-release },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				t.Cleanup(func() { close(release) })
				var seen results
				w := decideWithin(t, nil, func(a Account, m Add) (Account, []channel.Message, error) {
					if m.Amount == 13 {
						fail(release)
					}
					return a.Add(m)
				}, around(func(ctx context.Context, amount int, next func(context.Context) error) error {
					err := next(ctx)
					var p *handlers.PanicError
					var h *verdict.HangError
					seen.add(amount, fmt.Sprint(errors.As(err, &p), errors.As(err, &h)))
					if h != nil {
						return errors.New("something else")
					}
					return err
				}))
				errs := decideAll(w, 1, 13)
				if name == "hangs" {
					seen.want(t, 13, "false true")
					if _, hangs := errs[13].(*verdict.HangError); !hangs || verdict.Judge(errs[1]).Action != verdict.HandBack {
						t.Errorf("got errors %v; want that 13 hangs, and 1 is handed back", errs)
					}
					return
				}
				seen.want(t, 13, "true false")
				seen.want(t, 1, "false false")
				wantDecided(t, w, errs, 13)
			})
		})
	}
}

// A middleware may hold a lock until Next returns, though several deliveries are handled together: each is folded when
// its turn comes. Others that wait for nothing are folded together.
func TestMiddlewareHoldsALock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var seen results
		writes, lock := 0, make(chan struct{}, 1)
		w := decideWithin(t, onCommit(func(_ storagetest.Op, do func() error) error {
			writes++
			return do()
		}), failOn(103), around(func(ctx context.Context, amount int, next func(context.Context) error) error {
			if amount > 100 {
				lock <- struct{}{}
				defer func() { <-lock }()
			}
			return next(ctx)
		}), seen.note())
		began := time.Now()
		errs := decideAll(w, 1, 101, 2, 102, 103)
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %v, want less than a second", took)
		}
		wantDecided(t, w, errs, 103)
		for n := range errs {
			result := "begin, <nil>"
			if n == 103 {
				result = "begin, broken"
			}
			seen.want(t, n, result)
		}
		if writes > 3 {
			t.Errorf("got %d writes, want one for 1 and 2 together, and one for each of the others", writes)
		}
	})
}

// A middleware that returns while its Next still waits doesn't end the message: the fold decides.
func TestMiddlewareReturnsBeforeItsNext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var calls sync.WaitGroup
		w := decideWithin(t, nil, failOn(102), around(func(ctx context.Context, amount int, next func(context.Context) error) error {
			if amount > 100 {
				calls.Go(func() { _ = next(ctx) })
				time.Sleep(time.Millisecond) // until Next waits
				return nil
			}
			time.Sleep(time.Second)
			return next(ctx)
		}))
		errs := decideAll(w, 101, 1, 102)
		calls.Wait()
		wantDecided(t, w, errs, 102)
	})
}
