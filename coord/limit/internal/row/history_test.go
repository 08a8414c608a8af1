package row

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/coord/limit/internal/bucket"
	"github.com/millrace-go/millrace/internal/agreetest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

const (
	players  = 5
	shortTTL = 6 * time.Second
)

// A move is a change of the share in use: of a player to a number.
type move struct {
	player int
	share  int64
}

// shares are the shares in use.
type shares [players]int64

const divided = 12

// next is the model: a share may be lowered at any time, and be raised while the sum is within the limit.
func (s shares) next(a storagetest.Answer[int, move]) []shares {
	s[a.Out.player] = a.Out.share
	sum := int64(0)
	for _, n := range s {
		sum += n
	}
	if sum > divided {
		return nil
	}
	return []shares{s}
}

// player is a process that looks at the document when it pleases.
type player struct {
	*member
	n int
	h *storagetest.History[int, move]
}

// note records that the share in use changes by what do does.
func (p *player) note(do func()) {
	p.h.Record(p.n, func() []storagetest.Answer[int, move] {
		do()
		return []storagetest.Answer[int, move]{{Key: "shares", Out: move{p.n, p.bucket.Share()}}}
	})
}

// end sees the end of the share at the moment when it comes.
func (p *player) end(ctx context.Context) {
	var seen time.Time
	for ctx.Err() == nil {
		until := p.bucket.Until(time.Now())
		if !seen.Equal(until) && !time.Now().Before(until) {
			seen = until
			p.note(func() {})
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// The shares of processes that want more or less, stand still, and whose writes fail or are late, are an object whose
// sum keeps within the limit.
func TestLaw1TheHistoryOfShares(t *testing.T) {
	t.Parallel()
	for seed := range storagetest.Seeds(t, 0, 4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
				h := &storagetest.History[int, move]{}
				ctx, stop := context.WithCancel(t.Context())
				var ends, all sync.WaitGroup
				for n := range players {
					r := rand.New(rand.NewPCG(seed, uint64(n)))
					p := newPlayer(t, s, h, n, r)
					ends.Go(func() { p.end(ctx) })
					all.Go(func() { p.play(r, 30) })
				}
				all.Wait()
				time.Sleep(2 * maxTTL)
				stop()
				ends.Wait()
				raised := 0
				for _, a := range h.Answers() {
					if a.Out.share > 0 {
						raised++
					}
				}
				if raised < 30 {
					t.Errorf("only %d answers with a share", raised)
				}
				if err := storagetest.CheckHistory(h, shares.next, t.ArtifactDir()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func newPlayer(t *testing.T, s *storage.Store, h *storagetest.History[int, move], n int, r *rand.Rand) *player {
	t.Helper()
	var mu sync.Mutex
	chance := rand.New(rand.NewPCG(r.Uint64(), 1))
	roll := func(n int) int { mu.Lock(); defer mu.Unlock(); return chance.IntN(n) }
	store := storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
		time.Sleep(time.Duration(roll(500)) * time.Millisecond)
		switch roll(12) {
		case 0:
			return op.Fail(storage.ErrUnavailable)
		case 1:
			_ = do()
			return op.Fail(storage.ErrUnavailable)
		case 2:
			time.Sleep(time.Duration(roll(12)) * time.Second) // it stands still, and goes on as if nothing were
		}
		err := do()
		time.Sleep(time.Duration(roll(500)) * time.Millisecond)
		return err
	})
	b := bucket.NewSlots(divided, joined(shortTTL))
	return &player{newMember(store, "slots/bank", b, Config{TTL: shortTTL, Strict: true}), n, h}
}

// play looks again and again, with wishes that change. Sometimes it is away for a while.
func (p *player) play(r *rand.Rand, times int) {
	for range times {
		p.calls(r.IntN(2) == 0, int64(r.IntN(5)))
		p.note(func() { _ = p.step(context.Background()) })
		pause := time.Duration(r.IntN(2000)) * time.Millisecond
		if r.IntN(12) == 0 {
			pause *= 6
		}
		time.Sleep(pause)
	}
}

// calls makes calls at a time: as many as it may and one more if it wants all, else so many, and leaves a slot.
func (p *player) calls(all bool, many int64) {
	taken := 0
	for ; all || int64(taken) < min(many, p.bucket.Share()-1); taken++ {
		if _, ok := p.bucket.Take(); !ok {
			break
		}
	}
	for range taken {
		p.bucket.Give()
	}
}

// A process whose clock runs a tenth too slow has stopped before one whose clock runs a tenth too fast removes its row,
// even if that one has seen the row at the moment when it was written. Of the store's answer only the beginning of the
// write counts.
func TestLaw2ClocksThatDrift(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		h := &storagetest.History[int, move]{}
		slow := newPlayer(t, s, h, 0, rand.New(rand.NewPCG(1, 0)))
		for slow.bucket.Share() == 0 { // its store fails now and then
			_ = slow.step(t.Context())
		}
		fast := newMember(s, "slots/bank", bucket.NewSlots(divided, joined(shortTTL)), slow.cfg)
		began := time.Now()
		slow.doc.Blobs = s.Blobs(container) // answers at once
		slow.renewed = time.Time{}
		if err := errors.Join(slow.step(t.Context()), fast.look(t.Context())); err != nil {
			t.Fatal(err)
		}
		ends, removed := slow.bucket.Until(began).Sub(began), fast.sight.dies(slow.id, fast.seen.Doc.Members[slow.id]).Sub(began)
		if ends*10/9 >= removed*10/11 {
			t.Errorf("a share ends after %v by a slow clock, and others have it after %v by a fast one", ends*10/9, removed*10/11)
		}
	})
}

// The model refuses what must not be.
func TestTheModelOfShares(t *testing.T) {
	t.Parallel()
	if after := (shares{5, 5}).next(storagetest.Answer[int, move]{Out: move{2, 3}}); after != nil {
		t.Errorf("13 of 12 are given: %v", after)
	}
	if after := (shares{5, 5}).next(storagetest.Answer[int, move]{Out: move{2, 2}}); len(after) != 1 {
		t.Error("12 of 12 can't be given")
	}
}

// The targets never exceed the limit, and nobody has more than it wants, or less than another who wants as much.
func TestTargets(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		d := document{Members: map[string]row{}}
		limit := 1 + r.Int64N(100)
		for i := range 1 + r.IntN(8) {
			d.Members[fmt.Sprint(i)] = row{Limit: limit + r.Int64N(5), Wants: r.Int64N(40)}
		}
		sum, wanted := int64(0), int64(0)
		targets := d.targets()
		for id, n := range targets {
			sum += n
			wanted += d.Members[id].Wants
			if n > d.Members[id].Wants || n < 0 {
				t.Fatalf("%s gets %d of %+v", id, n, d)
			}
			for other, m := range targets {
				if n < d.Members[id].Wants && m > n+1 {
					t.Fatalf("%s gets %d, and %s %d, of %+v", id, n, other, m, d)
				}
			}
		}
		if sum != min(wanted, d.limit()) {
			t.Fatalf("%d are given of %+v", sum, d)
		}
	}
}
