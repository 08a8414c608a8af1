package keylock_test

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/millrace-go/millrace/coord/keylock"
	"github.com/millrace-go/millrace/internal/agreetest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// behind returns a store for a process whose clock is wrong: its rows of turns are dated so long ago.
func behind(t *testing.T, s *storage.Store, by time.Duration) *storage.Store {
	at := regexp.MustCompile(`"at":\d+`)
	return storagetest.Intercept(s, func(ctx context.Context, op storagetest.Op, do func() error) error {
		if err := do(); err != nil || op.Name != "put row" {
			return err
		}
		table, key := s.Table("turns"), "a"
		row, err := table.Get(ctx, group, key)
		if err == nil {
			data := at.ReplaceAllStringFunc(string(row.Data), func(text string) string {
				n, _ := strconv.ParseInt(text[len(`"at":`):], 10, 64) // its digits
				return fmt.Sprintf(`"at":%d`, n-by.Milliseconds())
			})
			_, err = table.Put(ctx, group, key, []byte(data), storage.Condition{IfMatch: row.ETag})
		}
		if err != nil {
			t.Error(err)
		}
		return nil
	})
}

// Law 1: no clock that is wrong lets two processes have one turn. The holder's clock is a year behind that of a process
// that sweeps.
func TestLaw1NoClockEndsATurnThatIsHeld(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		holder, others := newTurns(t, behind(t, s, 365*24*time.Hour)), newTurns(t, s)
		x := take(t, holder, "a")
		for range 10 * ttl / time.Second {
			for range 20 { // 128 turns are followed by a sweep
				end(t, take(t, others, "b"), keylock.State{})
			}
			time.Sleep(time.Second)
			if _, err := others.Take(t.Context(), "a", nil); err == nil && x.Context().Err() == nil {
				t.Fatal("two processes have the turn")
			}
		}
		if x.Context().Err() != nil {
			t.Error("the turn is lost")
		}
		end(t, x, keylock.State{})
	})
}

// A free row is deleted by the time that the group's messages tell, not by this machine's clock alone.
func TestAFreeRowIsJudgedByConfigNow(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		told := time.Now()
		ts, err := keylock.New(s, group, keylock.Config{TTL: ttl, Now: func() time.Time { return told }})
		if err != nil {
			t.Fatal(err)
		}
		end(t, take(t, ts, "a"), keylock.State{})
		time.Sleep(40 * 24 * time.Hour)
		for _, want := range []bool{true, false} {
			for range 3 * 128 {
				end(t, take(t, ts, "b"), keylock.State{})
			}
			if _, there := row(t, s, "a"); there != want {
				t.Errorf("messages tell %v: the row is there: %v, want %v", told, there, want)
			}
			told = time.Now()
		}
	})
}

// Law 6: the row of a process that died with its turn is deleted in the end, when it has been watched like any other.
func TestLaw6ADeadTurnLeavesNothing(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		dead := fmt.Sprintf(`{"version":1,"id":"x","fence":1,"ttl":30000,"at":%d}`, time.Now().Add(-70*24*time.Hour).UnixMilli())
		if _, err := s.Table("turns").Put(t.Context(), group, "a", []byte(dead), storage.Condition{}); err != nil {
			t.Fatal(err)
		}
		ts := newTurns(t, s)
		sweep := func() (there bool) {
			for range 3 * 128 {
				end(t, take(t, ts, "b"), keylock.State{})
			}
			_, there = row(t, s, "a")
			return there
		}
		if sweep(); !sweep() {
			t.Error("a turn is gone that nobody has watched")
		}
		if time.Sleep(ttl * 7 / 6); sweep() {
			t.Error("a dead turn stays")
		}
	})
}
