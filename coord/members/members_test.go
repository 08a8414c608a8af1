package members_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/coord/members"
	"github.com/millrace-go/millrace/internal/agreetest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/azure"
	"github.com/millrace-go/millrace/storage/azure/azuretest"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// Members join, leave, die and lose the store for a while, while calls fail. Afterwards as many are active as asked
// for.
func TestAsManyAsWanted(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
				r := rand.New(rand.NewPCG(seed, 1))
				want := 1 + r.IntN(3)
				var fair atomic.Bool
				type process struct {
					*members.Member
					link *storagetest.Link
					back *time.Timer // restores the link
				}
				var alive, dead []process
				for i := range 30 {
					switch x := r.IntN(6); {
					case x < 3 || len(alive) == 0:
						p := process{link: storagetest.NewLink(weather(s, rand.New(rand.NewPCG(seed, uint64(i))), &fair))}
						p.Member = join(t, p.link.Store, group, members.Config{Active: want})
						alive = append(alive, p)
					default:
						i := r.IntN(len(alive))
						p := alive[i]
						if p.back != nil {
							p.back.Stop()
						}
						switch x {
						case 3:
							p.link.Restore()
							_ = p.Leave(t.Context())
						case 4:
							p.link.Cut()
							dead = append(dead, p)
						case 5: // loses the store, and gets it back later
							p.link.Cut()
							alive[i].back = time.AfterFunc(time.Duration(r.IntN(100))*time.Second, p.link.Restore)
							continue
						}
						alive = slices.Delete(alive, i, i+1)
					}
					time.Sleep(time.Duration(r.IntN(40)) * time.Second)
				}
				fair.Store(true)
				alive = append(alive, process{Member: join(t, s, group, members.Config{Active: want})})
				time.Sleep(5 * time.Minute)
				var all []*members.Member
				for _, p := range alive {
					all = append(all, p.Member)
				}
				for range 20 { // it stays like that
					if got := actives(all); got != min(want, len(all)) {
						t.Errorf("%d of %d members are active, want %d", got, len(all), want)
						break
					}
					time.Sleep(beat)
				}
				leave(t, all...)
				for _, p := range dead {
					_ = p.Leave(t.Context())
				}
			})
		})
	}
}

// line joins some members, and returns them by rank, with their links.
func line(t *testing.T, s *storage.Store, n int) (all []*members.Member, links []*storagetest.Link) {
	t.Helper()
	fit := make(map[*members.Member]*storagetest.Link)
	for range n {
		l := storagetest.NewLink(s)
		fit[join(t, l.Store, group, members.Config{})] = l
	}
	time.Sleep(2 * beat)
	for len(fit) > 0 { // an active member's link is cut, so that the next one becomes active; restored below
		for m, l := range fit {
			if active(m) && len(all) == n-len(fit) {
				all, links = append(all, m), append(links, l)
				l.Cut()
				delete(fit, m)
			}
		}
		time.Sleep(beat)
	}
	for _, l := range links {
		l.Restore()
	}
	time.Sleep(20 * beat)
	for i, m := range all {
		if active(m) != (i == 0) {
			t.Fatalf("member %d of %d is active: %v", i, n, active(m))
		}
	}
	return all, links
}

func TestTakeOver(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name        string
		n           int
		cut         func(l *storagetest.Link) // nil: the member leaves
		least, most time.Duration
	}{
		{"left", 3, nil, 0, beat},
		{"left many", 16, nil, 0, beat},
		{"dead", 3, func(l *storagetest.Link) { l.Cut() }, 2 * beat, 4*beat + time.Second},
		{"dead among many", 16, func(l *storagetest.Link) { l.Cut() }, 2 * beat, 4*beat + time.Second},
		{"can't read", 3, func(l *storagetest.Link) { l.Cut("query") }, 5 * beat, 8*beat + time.Second},
		{"can't write", 3, func(l *storagetest.Link) { l.Cut("put row") }, 2 * beat, 4*beat + time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
				all, links := line(t, s, c.n)
				if c.cut != nil {
					c.cut(links[0])
				} else {
					leave(t, all[0])
				}
				if d := await(t, all[1], true); d < c.least || d > c.most {
					t.Errorf("taken over after %v, want %v to %v", d, c.least, c.most)
				}
				if c.cut != nil {
					if !active(all[0]) {
						t.Error("who is cut off has given up")
					}
					links[0].Restore()
					await(t, all[1], false)
					if !active(all[0]) {
						t.Error("back, it isn't active")
					}
					leave(t, all[0])
				}
				leave(t, all[1:]...)
				if left := rows(t, s); len(left) > 0 {
					t.Errorf("left in the store: %v", left)
				}
			})
		})
	}
}

// An unfit member withdraws its row, and another takes over. When it is fit again, the other makes room for it.
func TestUnfit(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		var unfit atomic.Bool
		first := join(t, s, group, members.Config{Fit: func() bool { return !unfit.Load() }})
		time.Sleep(beat)
		var all []*members.Member
		for active(first) { // until one ranks higher
			all = append(all, join(t, s, group, members.Config{}))
			time.Sleep(2 * beat)
		}
		leave(t, all...)
		await(t, first, true)
		last := join(t, s, group, members.Config{})
		for time.Sleep(2 * beat); active(last); time.Sleep(2 * beat) { // until one ranks lower
			leave(t, last)
			last = join(t, s, group, members.Config{})
		}
		unfit.Store(true)
		if d := await(t, last, true); d > 2*beat {
			t.Errorf("taken over after %v, want two beats at most", d)
		}
		unfit.Store(false)
		await(t, last, false)
		leave(t, first, last)
	})
}

// Members that rank lower than the next one look seldom, but one of them takes over in the end.
func TestMassDeath(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		all, links := line(t, s, 12)
		for _, l := range links[:10] {
			l.Cut()
		}
		if d := await(t, all[10], true); d > 30*beat {
			t.Errorf("taken over after %v", d)
		}
		time.Sleep(20 * beat)
		if active(all[11]) {
			t.Error("so did the next one")
		}
		for _, l := range links {
			l.Restore()
		}
		leave(t, all...)
	})
}

// A member that can't read the others' rows doesn't become active.
func TestNotActiveUnseen(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		link := storagetest.NewLink(s)
		link.Cut()
		m := join(t, link.Store, group, members.Config{})
		for range 20 {
			if active(m) {
				t.Fatal("active without having looked")
			}
			time.Sleep(beat)
		}
		link.Restore()
		await(t, m, true)
		leave(t, m)
	})
}

// A late beat doesn't write the row after Leave.
func TestLateBeat(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		m := join(t, storage.New(lateStore{s.Driver()}), group, members.Config{})
		time.Sleep(beat + beat/4)
		leave(t, m)
		time.Sleep(beat)
		if left := rows(t, s); len(left) > 0 {
			t.Errorf("left in the store: %v", left)
		}
	})
}

// A member that leaves changes only the groups in which it was active. Groups are spread over their members.
func TestOnlyItsOwnPart(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		const groups, each = 24, 4
		all := make([][]*members.Member, groups)
		part := make([]int, each)
		for g := range all {
			for range each {
				all[g] = append(all[g], join(t, s, fmt.Sprintf("g%d", g), members.Config{}))
			}
		}
		time.Sleep(2 * beat)
		had := make([]int, groups)
		for g, ms := range all {
			had[g] = slices.IndexFunc(ms, active)
			if actives(ms) != 1 {
				t.Fatalf("group %d has %d active", g, actives(ms))
			}
			part[had[g]]++
		}
		if slices.Min(part) == 0 {
			t.Errorf("one has nothing to do: %v", part)
		}
		for g := range all {
			leave(t, all[g][0])
			all[g] = all[g][1:]
		}
		time.Sleep(2 * beat)
		for g, ms := range all {
			now := slices.IndexFunc(ms, active) + 1
			if had[g] > 0 && now != had[g] {
				t.Errorf("group %d went from %d to %d, for nothing", g, had[g], now)
			}
			if actives(ms) != 1 {
				t.Errorf("group %d has %d active", g, actives(ms))
			}
			leave(t, ms...)
		}
	})
}

// Rows that this version can't read stay.
func TestStrangeRows(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		strange := map[string]string{
			"00text": "hello", "00empty": "", "00list": "[]", "00none": "{}", "00quick": `{"active":9,"beat":1}`, "00never": `{"active":9,"beat":9000000000000000000}`, "00less": `{"active":1,"beat":-5}`,
		}
		for key, data := range strange {
			if _, err := s.Table("members").Put(t.Context(), group, key, []byte(data), storage.Condition{}); err != nil {
				t.Fatal(err)
			}
		}
		m := join(t, s, group, members.Config{})
		time.Sleep(10 * beat)
		if !active(m) {
			t.Error("they count")
		}
		leave(t, m)
		if left := rows(t, s); len(left) != len(strange) {
			t.Errorf("%d rows are left, want %d", len(left), len(strange))
		}
	})
}

// A failing store changes nothing, and is logged once.
func TestTrouble(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		for _, c := range []struct {
			calls []string // these fail
			want  [2]int   // log records of the beginning and the end of a failure
		}{{nil, [2]int{2, 2}}, {[]string{"put row"}, [2]int{1, 1}}, {[]string{"query"}, [2]int{1, 1}}} {
			var log bytes.Buffer
			toStore := storagetest.NewLink(s)
			m := join(t, toStore.Store, group, members.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			time.Sleep(beat)
			toStore.Cut(c.calls...)
			time.Sleep(10 * beat)
			if !active(m) {
				t.Error("it has given up")
			}
			toStore.Restore()
			time.Sleep(3 * beat)
			toStore.Cut("delete row")
			if err := m.Leave(t.Context()); err == nil || !strings.Contains(err.Error(), `members: leave "commands"`) {
				t.Errorf("Leave: %v", err)
			}
			got := [2]int{strings.Count(log.String(), "level=WARN"), strings.Count(log.String(), "level=INFO")}
			if got != c.want {
				t.Errorf("%q: %d warnings and %d ends, want %v:\n%s", c.calls, got[0], got[1], c.want, log.String())
			}
			for _, key := range rows(t, s) {
				if err := s.Table("members").Delete(t.Context(), group, key, storage.Condition{}); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

func TestBadJoin(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		_, err := members.Join(s, "a\nb", members.Config{Active: -1, Beat: time.Millisecond})
		for _, want := range []string{`key "a\nb"`, "Active is -1", "Beat is 1ms; want 1s to 1h0m0s"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want it to say %s", err, want)
			}
		}
	})
}

var azurite = sync.OnceValues(azuretest.Launch)

// This test uses real requests and real time: a member dies and another takes over, which then leaves.
func TestOnAzure(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for three beats to pass")
	}
	t.Parallel()
	s, err := azure.Open(t.Context(), azuretest.Place(t, azurite, azure.Wipe))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	var all []*members.Member
	var links []*storagetest.Link
	for i := range 3 {
		links = append(links, storagetest.NewLink(s))
		m, err := members.Join(links[i].Store, "worker/group/ü", members.Config{Name: fmt.Sprintf("host-%d", i), Beat: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for giveUp := time.After(time.Minute); len(all) > 0; {
		i := slices.IndexFunc(all, active)
		if actives(all) != 1 {
			select {
			case <-tick.C:
				continue
			case <-giveUp:
				t.Fatalf("%d of %d are active, want 1", actives(all), len(all))
			}
		}
		if len(all) == 3 {
			links[i].Cut()
		}
		_ = all[i].Leave(t.Context())
		all, links = slices.Delete(all, i, i+1), slices.Delete(links, i, i+1)
	}
}
