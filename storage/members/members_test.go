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

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/azure"
	"github.com/millrace-go/millrace/storage/azure/azuretest"
	"github.com/millrace-go/millrace/storage/members"
)

// Members come, leave, die and are cut off for a while, in foul weather. When it is over, as many are active as should be.
func TestAsManyAsWanted(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			virtual(t, func(t *testing.T, s storage.Store) {
				r := rand.New(rand.NewPCG(seed, 1))
				want := 1 + r.IntN(3)
				var fair atomic.Bool
				type process struct {
					*members.Member
					link *link
					back *time.Timer // ends a cut
				}
				var alive, dead []process
				for i := range 30 {
					switch x := r.IntN(6); {
					case x < 3 || len(alive) == 0:
						p := process{link: newLink(weather(s, rand.New(rand.NewPCG(seed, uint64(i))), &fair))}
						var err error
						p.Member, err = members.Join(t.Context(), p.link, group, members.Config{Name: fmt.Sprintf("m%d", i), Active: want, Beat: beat})
						if err == nil {
							alive = append(alive, p)
						} else if !strings.Contains(err.Error(), storage.ErrUnavailable.Error()) {
							t.Errorf("Join: %v", err)
						}
					default:
						i := r.IntN(len(alive))
						p := alive[i]
						if p.back != nil {
							p.back.Stop()
						}
						p.link.cut.Store(x > 3)
						switch x {
						case 3:
							_ = p.Leave(t.Context())
						case 4:
							dead = append(dead, p)
						case 5: // cut off, and back later
							alive[i].back = time.AfterFunc(time.Duration(r.IntN(100))*time.Second, func() { p.link.cut.Store(false) })
							continue
						}
						alive = slices.Delete(alive, i, i+1)
					}
					time.Sleep(time.Duration(r.IntN(40)) * time.Second)
				}
				fair.Store(true)
				alive = append(alive, process{Member: join(t, s, group, "last", want)})
				time.Sleep(100*time.Second + 8*beat)
				var all []*members.Member
				for _, p := range alive {
					all = append(all, p.Member)
				}
				for range 20 { // and it stays so
					if got := actives(all); got != min(want, len(all)) {
						t.Errorf("%d of %d members are active, want %d", got, len(all), want)
						break
					}
					time.Sleep(beat)
				}
				if got := all[0].Live(); got != len(all) {
					t.Errorf("%d live, want %d", got, len(all))
				}
				leave(t, all...)
				for _, p := range dead {
					_ = p.Leave(t.Context())
				}
				for row, err := range s.Table("members").Query(t.Context(), group, storage.RowRange{}) {
					t.Errorf("left in the store: %s (%v)", row.Key, err)
				}
			})
		})
	}
}

// pair joins two members, and returns the active one first.
func pair(t *testing.T, s storage.Store) (x, y *members.Member, toX *link) {
	t.Helper()
	links := []*link{newLink(s), newLink(s)}
	all := []*members.Member{join(t, links[0], group, "a", 1), join(t, links[1], group, "b", 1)}
	time.Sleep(beat)
	if n := actives(all); n != 1 {
		t.Fatalf("%d are active, want 1", n)
	}
	if active(all[0]) {
		return all[0], all[1], links[0]
	}
	return all[1], all[0], links[1]
}

func TestTakeOver(t *testing.T) {
	t.Parallel()
	t.Run("left", func(t *testing.T) {
		t.Parallel()
		virtual(t, func(t *testing.T, s storage.Store) {
			x, y, _ := pair(t, s)
			leave(t, x)
			if d := await(t, y, true); d > beat {
				t.Errorf("taken over after %v, want a beat at most", d)
			}
			leave(t, y)
		})
	})
	t.Run("dead", func(t *testing.T) {
		t.Parallel()
		virtual(t, func(t *testing.T, s storage.Store) {
			x, y, toX := pair(t, s)
			toX.cut.Store(true)
			if d := await(t, y, true); d < 2*beat || d > 5*beat {
				t.Errorf("taken over after %v, want 2 to 5 beats", d)
			}
			if !active(x) {
				t.Error("who hears nothing has given up")
			}
			toX.cut.Store(false)
			await(t, y, false)
			if !active(x) {
				t.Error("back, it isn't active")
			}
			leave(t, x, y)
		})
	})
	t.Run("under its name", func(t *testing.T) {
		t.Parallel()
		virtual(t, func(t *testing.T, s storage.Store) {
			for _, name := range []string{"a", "b"} {
				dead := newLink(s)
				m := join(t, dead, name, "m", 1)
				dead.cut.Store(true)
				_ = m.Leave(t.Context())
				again := join(t, s, name, "m", 1)
				if !active(again) || again.Live() != 1 {
					t.Error("who came back waits for itself")
				}
				leave(t, again)
			}
		})
	})
}

// Who goes changes nothing for groups in which it had no part, and groups are spread over their members.
func TestOnlyItsOwnPart(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s storage.Store) {
		const groups, each = 24, 4
		all := make([][]*members.Member, groups)
		part := make([]int, each)
		for g := range all {
			for i := range each {
				all[g] = append(all[g], join(t, s, fmt.Sprintf("g%d", g), fmt.Sprintf("m%d", i), 1))
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

// The largest number holds while members name different ones.
func TestDifferentNumbers(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s storage.Store) {
		all := []*members.Member{join(t, s, group, "a", 1), join(t, s, group, "b", 2), join(t, s, group, "c", 0)}
		time.Sleep(beat)
		if got := actives(all); got != 2 {
			t.Errorf("%d are active, want 2", got)
		}
		leave(t, all[1])
		time.Sleep(beat)
		if got := actives([]*members.Member{all[0], all[2]}); got != 1 {
			t.Errorf("%d are active, want 1", got)
		}
		leave(t, all[0], all[2])
	})
}

// Rows that this version can't read are left alone.
func TestStrangeRows(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s storage.Store) {
		rows := map[string]string{
			"text": "hello", "empty": "", "list": "[]", "none": "{}", "quick": `{"active":9,"beat":1}`, "never": `{"active":9,"beat":9000000000000000000}`, "less": `{"active":1,"beat":-5}`,
		}
		for key, data := range rows {
			if _, err := s.Table("members").Put(t.Context(), group, key, []byte(data), storage.Condition{}); err != nil {
				t.Fatal(err)
			}
		}
		m := join(t, s, group, "m", 1)
		time.Sleep(10 * beat)
		if !active(m) || m.Live() != 1 {
			t.Errorf("active: %v, live: %d", active(m), m.Live())
		}
		leave(t, m)
		n := 0
		for _, err := range s.Table("members").Query(t.Context(), group, storage.RowRange{}) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		if n != len(rows) {
			t.Errorf("%d rows are left, want %d", n, len(rows))
		}
	})
}

// A store in trouble changes nothing, and is told of once.
func TestTrouble(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s storage.Store) {
		var log bytes.Buffer
		toStore := newLink(s)
		m, err := members.Join(t.Context(), toStore, group, members.Config{Name: "m", Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		toStore.cut.Store(true)
		time.Sleep(10 * beat)
		if !active(m) {
			t.Error("it has given up")
		}
		toStore.cut.Store(false)
		time.Sleep(3 * beat)
		toStore.cut.Store(true)
		if err := m.Leave(t.Context()); err == nil || !strings.Contains(err.Error(), `members: leave "commands"`) {
			t.Errorf("Leave: %v", err)
		}
		if got := log.String(); strings.Count(got, "level=WARN") != 1 || strings.Count(got, "can reach the other members again") != 1 {
			t.Errorf("log:\n%s", got)
		}
	})
}

func TestBadJoin(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s storage.Store) {
		_, err := members.Join(t.Context(), s, "a\nb", members.Config{Active: -1, Beat: time.Millisecond})
		for _, want := range []string{`key "a\nb"`, `key ""`, "Active is -1", "Beat is 1ms; want 1s to 1h0m0s"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want it to say %s", err, want)
			}
		}
		cut := newLink(s)
		cut.cut.Store(true)
		if m, err := members.Join(t.Context(), cut, group, members.Config{Name: "m"}); err == nil {
			t.Errorf("joined without a store: %v", m)
		}
	})
}

var azurite = sync.OnceValues(azuretest.Launch)

// Real requests and real time: one dies and another takes over, which then leaves.
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
	var links []*link
	for i := range 3 {
		links = append(links, newLink(s))
		m, err := members.Join(t.Context(), links[i], group, members.Config{Name: fmt.Sprintf("host-%d/ü", i), Beat: time.Second})
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
		links[i].cut.Store(len(all) == 3)
		_ = all[i].Leave(t.Context())
		all, links = slices.Delete(all, i, i+1), slices.Delete(links, i, i+1)
	}
}
