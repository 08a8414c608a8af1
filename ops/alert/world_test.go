package alert_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops/alert"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// virtual runs a test in virtual time.
func virtual(t *testing.T, test func(t *testing.T, s *storage.Store)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := worldtest.OpenStore(t, worldtest.Virtual)
		test(t, s)
	})
}

// A process is one process of the program: it looks and tells whenever it leads.
type process struct {
	log   *worldtest.Log
	calls storagetest.Calls
	fails atomic.Pointer[func(storagetest.Op) bool] // calls of the store that fail without effect; nil for none
	stop  context.CancelFunc
	ended chan error

	mu    sync.Mutex
	tried []alert.Alert // calls of the hook; under mu
	told  []alert.Alert // those that have succeeded; under mu
}

// start starts a process. do is called for each call of the hook, with the number of the call. It may be nil.
func start(t *testing.T, s *storage.Store, do func(ctx context.Context, a alert.Alert, n int) error) *process {
	t.Helper()
	p := &process{log: worldtest.NewLog(), ended: make(chan error, 1)}
	var ctx context.Context
	ctx, p.stop = context.WithCancel(t.Context())
	own := storagetest.Intercept(s, func(ctx context.Context, op storagetest.Op, run func() error) error {
		if fails := p.fails.Load(); fails != nil && (*fails)(op) {
			return op.Fail(storage.ErrUnavailable)
		}
		return p.calls.Hook(ctx, op, run)
	})
	hook := func(ctx context.Context, a alert.Alert) error {
		p.mu.Lock()
		p.tried = append(p.tried, a)
		n := len(p.tried)
		p.mu.Unlock()
		if do != nil {
			if err := do(ctx, a, n); err != nil {
				return err
			}
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.told = append(p.told, a)
		return nil
	}
	go func() {
		p.ended <- alert.Run(ctx, alert.Config{Store: own, Name: "shop", Hook: hook, Logger: slog.New(p.log)})
	}()
	t.Cleanup(p.stop)
	time.Sleep(time.Second) // it leads, or stands by; so each round is a second after the minute
	return p
}

// fail lets calls of the store fail; nil: none.
func (p *process) fail(which func(storagetest.Op) bool) {
	if which == nil {
		p.fails.Store(nil)
		return
	}
	p.fails.Store(&which)
}

// kill cuts a process off from the store for good, as its death does.
func (p *process) kill() {
	p.fail(func(storagetest.Op) bool { return true })
	p.stop()
}

// quit stops a process in order.
func (p *process) quit(t *testing.T) {
	t.Helper()
	p.stop()
	worldtest.WantErr(t, <-p.ended, nil)
}

// texts says what was told, or tried.
func (p *process) texts(of *[]alert.Alert) (all []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range *of {
		word := "wrong"
		if a.Over {
			word = "over"
		}
		name := a.Finding.About
		if a.More > 0 {
			name += fmt.Sprintf(" +%d", a.More)
		}
		all = append(all, word+" "+name)
	}
	return all
}

func (p *process) want(t *testing.T, when string, want ...string) {
	t.Helper()
	if got := p.texts(&p.told); !slices.Equal(got, want) {
		t.Errorf("%s: told %q, want %q", when, got, want)
	}
}

// all returns what was told.
func (p *process) all() []alert.Alert {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.told)
}

// attempts returns the calls of the hook.
func (p *process) attempts() []alert.Alert {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.tried)
}

// minutes lets rounds go by.
func minutes(n int) { time.Sleep(time.Duration(n) * time.Minute) }

// damage makes something wrong: gates that can't be read.
func damage(t *testing.T, s *storage.Store, gates ...string) {
	t.Helper()
	for _, name := range gates {
		if _, err := s.Blobs("gates").Put(t.Context(), name, []byte("junk"), storage.Condition{}); err != nil {
			t.Fatal(err)
		}
	}
}

// mend makes gates right.
func mend(t *testing.T, s *storage.Store, gates ...string) {
	t.Helper()
	for _, name := range gates {
		if err := s.Blobs("gates").Delete(t.Context(), name, storage.Condition{}); err != nil {
			t.Fatal(err)
		}
	}
}

// many are names of so many gates.
func many(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("gate-%03d", i))
	}
	return all
}

// of reports that a call is about a container or its blobs.
func of(container string) func(storagetest.Op) bool {
	return func(op storagetest.Op) bool {
		return op.Resource == "container "+container || strings.HasPrefix(op.Resource, "blob "+container+"/")
	}
}

var errNoServer = errors.New("no mail server")
