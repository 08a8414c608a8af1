package sqlite

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite/internal/engine"
)

// thisBoot returns the name of this boot. Where it has none, files go by the wall clock.
func thisBoot(t *testing.T) string {
	t.Helper()
	boot := bootName()
	if boot == "" {
		t.Skip("processes share no monotonic clock here")
	}
	return boot
}

// ahead tells how far a store's time is ahead of the wall clock.
func ahead(s *store) time.Duration {
	now := time.Now()
	return time.Duration(s.clock.at(now)-micros(now)) * time.Microsecond
}

func wantAhead(t *testing.T, s *store, want time.Duration) {
	t.Helper()
	if got := ahead(s); got < want-time.Second || got > want+time.Second {
		t.Errorf("the file's time is %v ahead of the wall clock, want %v", got, want)
	}
}

// boots counts the boots, besides this one, that a file holds.
func boots(t *testing.T, path string) (others int64) {
	t.Helper()
	c, err := engine.Connect(path, engine.ReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	others, err = c.OneInt("SELECT count(*) FROM clocks WHERE boot <> '" + bootName() + "'")
	if err != nil {
		t.Fatal(err)
	}
	return others
}

// All stores of a boot go by the time that the first of them has begun, whatever the wall clock shows to the next.
func TestClockIsTheFiles(t *testing.T) {
	t.Parallel()
	thisBoot(t)
	for _, set := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(fmt.Sprint(set), func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "test.db")
			wantAhead(t, openAt(t, path, ""), 0)
			scratch(t, path, fmt.Sprintf("UPDATE clocks SET ahead = ahead + %d", set.Microseconds())) // as if the wall clock had been set since
			s, other := openAt(t, path, ""), openAt(t, path, "")
			wantAhead(t, s, set)
			send(t, s, "queue", "body")
			if got := receive(t, other, "queue", 10); len(got) != 1 {
				t.Fatalf("received %d messages", len(got))
			}
			if got := receive(t, s, "queue", 10); len(got) != 0 {
				t.Errorf("received what another has claimed")
			}
			if st, err := s.Queue("queue").Stats(t.Context()); err != nil || st != (storage.Stats{InFlight: 1}) {
				t.Errorf("stats %+v, %v", st, err)
			}
		})
	}
}

// A store with wake=off goes by the file's time where it has one, and begins none.
func TestClockOfAStoreAlone(t *testing.T) {
	t.Parallel()
	thisBoot(t)
	path := filepath.Join(t.TempDir(), "test.db")
	wantAhead(t, openAt(t, path, "?wake=off"), 0)
	c, err := engine.Connect(path, engine.ReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if n, err := c.OneInt("SELECT count(*) FROM clocks"); n != 0 || err != nil {
		t.Errorf("the file has %d times, %v; want none", n, err)
	}
	openAt(t, path, "")
	scratch(t, path, fmt.Sprintf("UPDATE clocks SET ahead = ahead + %d", time.Hour.Microseconds()))
	alone := openAt(t, path, "?wake=off")
	wantAhead(t, alone, time.Hour)
	send(t, openAt(t, path, ""), "queue", "body")
	if got := receive(t, alone, "queue", 10); len(got) != 1 {
		t.Errorf("received %d messages; want the one sent by the file's time", len(got))
	}
}

// The next boot begins at its wall clock. A message that was receivable stays so where the wall clock has lost its
// time.
func TestClockOfTheNextBoot(t *testing.T) {
	t.Parallel()
	thisBoot(t)
	for name, c := range map[string]struct{ before, want time.Duration }{
		"right": {-time.Hour, 0},
		"lost":  {3 * time.Hour, 3 * time.Hour}, // the file's time was so far ahead of what the wall clock shows now
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "test.db")
			s := openAt(t, path, "")
			send(t, s, "queue", "body")
			old := time.Now().Add(c.before)
			scratch(t, path,
				fmt.Sprintf("UPDATE clocks SET boot = 'another boot', ahead = 17, seen = %d", micros(old)),
				fmt.Sprintf("UPDATE due SET visible = %d", micros(old)))
			next := openAt(t, path, "")
			wantAhead(t, next, c.want)
			if got := receive(t, next, "queue", 10); len(got) != 1 {
				t.Errorf("received %d messages, want the one from before", len(got))
			}
			if n := boots(t, path); n != 0 {
				t.Errorf("%d boots before this one are kept", n)
			}
		})
	}
}

// A container with a monotonic clock of its own goes on while others begin theirs.
func TestClockOfAnotherNamespace(t *testing.T) {
	t.Parallel()
	boot := thisBoot(t)
	path := filepath.Join(t.TempDir(), "test.db")
	s := openAt(t, path, "")
	scratch(t, path, fmt.Sprintf("UPDATE clocks SET boot = '%s', seen = 0", boot[:36]+" time:[17]"))
	wantAhead(t, openAt(t, path, ""), 0)
	wantAhead(t, s, 0)
	if n := boots(t, path); n != 1 {
		t.Errorf("%d other namespaces are kept; want 1", n)
	}
}

// A store that works writes the file's time down, for the next boot.
func TestClockIsNoted(t *testing.T) {
	t.Parallel()
	thisBoot(t)
	for name, work := range map[string]func(*store){
		"send":    func(s *store) { send(t, s, "other", "body") },
		"receive": func(s *store) { receive(t, s, "queue", 10) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openTest(t, "")
			send(t, s, "queue", "body")
			scratch(t, s.path, "UPDATE clocks SET seen = 0")
			noted := func() (seen int64) {
				t.Helper()
				err := s.write(&engine.Op{Ctx: t.Context()}, func(w *tx) (err error) {
					seen, err = w.c.OneInt("SELECT seen FROM clocks")
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
				return seen
			}
			work(s)
			if got := noted(); got != 0 {
				t.Errorf("it was noted as %d within a minute", got)
			}
			send(t, s, "queue", "body")
			err := s.write(&engine.Op{Ctx: t.Context()}, func(w *tx) error { w.noted -= noteEvery.Microseconds(); return nil })
			if err != nil {
				t.Fatal(err)
			}
			work(s)
			if got := time.Since(time.UnixMicro(noted())); got > time.Minute || got < 0 {
				t.Errorf("what was noted is %v old", got)
			}
		})
	}
}
