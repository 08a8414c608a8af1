package leader_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/coord/leader"
	"github.com/millrace-go/millrace/internal/agreetest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

const (
	name = "reports"
	ttl  = 30 * time.Second
)

// virtual runs a test in virtual time, and lets those that tell others of its end finish.
func virtual(t *testing.T, f func(t *testing.T, s *storage.Store)) {
	t.Helper()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		f(t, s)
		time.Sleep(ttl) // a lease may be telling others that its candidate has left
	})
}

// A reign is one call of a leader's function.
type reign struct {
	ctx   context.Context
	term  int64
	by    string
	began time.Time
	end   chan error // makes the function return
}

// A program is a process with one candidate. Its function tells of each reign, and returns as it is told.
type program struct {
	holder string
	link   *storagetest.Link
	stop   context.CancelFunc
	reigns chan *reign
	over   chan error // gets Run's result
}

// begin starts a program.
func begin(t *testing.T, s *storage.Store, holder string, cfg leader.Config) *program {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	p := &program{holder: holder, link: storagetest.NewLink(s), stop: stop, reigns: make(chan *reign, 100), over: make(chan error, 1)}
	cfg.TTL, cfg.Holder = ttl, holder
	go func() {
		p.over <- leader.Run(ctx, p.link.Store, name, cfg, func(ctx context.Context, term leader.Term) error {
			r := &reign{ctx: ctx, term: term.Number, by: holder, began: time.Now(), end: make(chan error, 1)}
			p.reigns <- r
			return <-r.end
		})
	}()
	return p
}

// reign waits until the program leads.
func (p *program) reign(t *testing.T) *reign {
	t.Helper()
	select {
	case r := <-p.reigns:
		return r
	case <-time.After(time.Hour):
		t.Fatalf("%s doesn't lead after an hour", p.holder)
		return nil
	}
}

// idle fails the test when the program leads.
func (p *program) idle(t *testing.T) {
	t.Helper()
	select {
	case r := <-p.reigns:
		t.Errorf("%s leads with term %d, and should not", p.holder, r.term)
		p.reigns <- r
	default:
	}
}

// ended waits for Run's result.
func (p *program) ended(t *testing.T) error {
	t.Helper()
	select {
	case err := <-p.over:
		return err
	case <-time.After(time.Hour):
		t.Fatalf("the candidate %s runs on after an hour", p.holder)
		return nil
	}
}

// quit stops the program, which leads with r unless r is nil.
func (p *program) quit(t *testing.T, r *reign) {
	t.Helper()
	p.stop()
	if r != nil {
		<-r.ctx.Done()
		r.end <- nil
	}
	if err := p.ended(t); err != nil {
		t.Error(err)
	}
}

func wantCause(t *testing.T, r *reign, want error) {
	t.Helper()
	if got := context.Cause(r.ctx); !errors.Is(got, want) {
		t.Errorf("term %d ended with %v, want %v", r.term, got, want)
	}
}

func wantTerm(t *testing.T, r *reign, want int64) {
	t.Helper()
	if r.term != want {
		t.Errorf("%s leads with term %d, want %d", r.by, r.term, want)
	}
}

func wantLeader(t *testing.T, s *storage.Store, holder string, term int64) {
	t.Helper()
	got, err := leader.Current(t.Context(), s, name)
	if err != nil {
		t.Fatal(err)
	}
	if got.Name != name || got.Holder != holder || got.Term != term || (term > 0) == got.Since.IsZero() {
		t.Errorf("the present leader is %+v, want %q with term %d", got, holder, term)
	}
}

// weather is bad for one process. late counts the writes that are still to come.
func weather(s *storage.Store, r *rand.Rand, late *sync.WaitGroup) *storage.Store {
	return agreetest.Weather{Odds: 12, Slow: 2 * time.Second, Late: ttl}.Over(s, r, late)
}

// A watch sees the reigns of all programs. It fails the test when two are alive at once, or terms don't rise.
type watch struct {
	mu   sync.Mutex
	seen []*reign
}

func (w *watch) see(t *testing.T, r *reign) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, old := range w.seen {
		if old.ctx.Err() == nil && r.ctx.Err() == nil {
			t.Errorf("%s leads with term %d while %s leads with term %d", r.by, r.term, old.by, old.term)
		}
		if old.term >= r.term {
			t.Errorf("term %d comes after %d", r.term, old.term)
		}
	}
	w.seen = append(w.seen, r)
}

func holders(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("program-%d", i))
	}
	return all
}
