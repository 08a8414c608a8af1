package process_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/millracetest"
	"github.com/millrace-go/millrace/process"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// ticket is a state that refuses itself.
type ticket struct {
	Seat int `json:"seat"`
}

// Check refuses no seat.
func (t ticket) Check() error {
	if t.Seat < 1 {
		return errors.New("want a seat")
	}
	return nil
}

func tickets() millracetest.Program {
	return millracetest.Program{
		Routes: func() (*channel.Routes, error) { return channel.NewRoutes(process.Route("tickets")) },
		Register: func(h *handlers.Registry) error {
			return process.Register(h, "tickets", process.Version(1, func(p *process.Plan[ticket]) {
				process.Do(p, "print", func(context.Context, ticket) (int, error) { return 1, nil }, nil)
			}))
		},
	}
}

// A state that refuses itself, and an ID that can't be used, start nothing. The errors say so.
func TestStartRefuses(t *testing.T) {
	t.Parallel()
	millracetest.Run(t, tickets(), func(t *testing.T, app *millracetest.App) {
		x := process.Open[ticket](app.Channels(), "tickets")
		for id, c := range map[string]struct {
			seat int
			want error
		}{"7": {0, channel.ErrRefused}, "": {1, storage.ErrInvalid}, "a/b": {1, storage.ErrInvalid}, "a#b": {1, storage.ErrInvalid}, " \u00a0": {1, storage.ErrInvalid}, strings.Repeat("x", 201): {1, storage.ErrInvalid}} {
			s := ticket{c.seat}
			for how, err := range map[string]error{
				"Start": x.Start(t.Context(), id, s), "StartNew": x.StartNew(t.Context(), id, s), "Starting": app.Channels().Send(t.Context(), x.Starting(id, s)),
			} {
				if !errors.Is(err, c.want) {
					t.Errorf("%s of %.20q with seat %d: got %v, want %v", how, id, c.seat, err, c.want)
				}
			}
			if _, err := x.Get(t.Context(), id); !errors.Is(err, storage.ErrNotFound) && !errors.Is(err, storage.ErrInvalid) {
				t.Errorf("%.20q: got %v, want no instance", id, err)
			}
		}
	})
}

// A store that can't do all at once may write an instance, and fail before it sends its start. The repeat sends it.
func TestStartNewAgain(t *testing.T) {
	t.Parallel()
	millracetest.Run(t, tickets(), func(t *testing.T, app *millracetest.App) {
		fail := true
		broken, _ := storagetest.Disturb(storagetest.Plain(app.Store()), storagetest.Disturbance{Schedule: func(op storagetest.Op) storagetest.Fault {
			if fail && op.Name == "send" {
				fail = false
				return storagetest.CrashBefore
			}
			return storagetest.NoFault
		}})
		c, err := channel.New(broken, app.Channels().Routes(), "/client")
		if err != nil {
			t.Fatal(err)
		}
		if err := process.Open[ticket](c, "tickets").StartNew(t.Context(), "7", ticket{1}); err == nil {
			t.Fatal("the first start: got no error; want one")
		}
		x := process.Open[ticket](app.Channels(), "tickets")
		app.Drain()
		if s, err := x.Get(t.Context(), "7"); err != nil || s.Status != process.Init || s.State.Seat != 1 {
			t.Fatalf("after it: got %+v, %v; want an instance that is about to start", s, err)
		}
		if err := x.StartNew(t.Context(), "7", ticket{2}); !errors.Is(err, process.ErrStarted) {
			t.Errorf("another start: got %v, want %v", err, process.ErrStarted)
		}
		if err := x.StartNew(t.Context(), "7", ticket{1}); err != nil {
			t.Fatal(err)
		}
		app.Drain()
		if s, err := x.Get(t.Context(), "7"); err != nil || s.Status != process.Completed {
			t.Errorf("in the end: got %+v, %v; want a completed instance", s, err)
		}
	})
}

// A state that no document holds is refused at once, and leaves nothing that waits for a start.
func TestStartRefusesALargeState(t *testing.T) {
	each(t, func(c *crew, p *process.Plan[note]) { c.do(p, "a") }, func(l *lab) {
		ctx, large := l.t.Context(), note{Did: []string{strings.Repeat("x", 256<<10)}}
		for how, err := range map[string]error{
			"Start": l.notes.Start(ctx, "i", large), "StartNew": l.notes.StartNew(ctx, "i", large), "Starting": l.app.Channels().Send(ctx, l.notes.Starting("i", large)),
		} {
			if !errors.Is(err, storage.ErrTooLarge) || !strings.Contains(err.Error(), "a store of your own") {
				l.t.Errorf("%s: got %v", how, err)
			}
		}
		l.app.Drain()
		if _, err := l.notes.Get(ctx, "i"); !errors.Is(err, storage.ErrNotFound) {
			l.t.Errorf("got %v, want no instance", err)
		}
		l.wantPoison()
	})
}
