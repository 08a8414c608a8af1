package sqlite

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite/internal/engine"
	"github.com/millrace-go/millrace/storage/sqlite/internal/peers"
)

// statements returns the SQL in this package's source that reads or writes the tables, and its place in the source.
func statements(t *testing.T) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	fset := token.NewFileSet()
	sql := regexp.MustCompile(`^(SELECT|INSERT|UPDATE|DELETE) `)
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") || e.Name() == "schema.go" { // migrations read all there is
			continue
		}
		f, err := parser.ParseFile(fset, e.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if s, err := strconv.Unquote(lit.Value); err == nil && sql.MatchString(s) && !strings.Contains(s, "sqlite_schema") {
					found[s] = fset.Position(lit.Pos()).String()
				}
			}
			return true
		})
	}
	return found
}

// slowPlan says what is wrong with SQLite's plan for a statement. It says nothing when an index leads to the rows, in
// the order in which the statement wants them.
func slowPlan(c *engine.Conn, sql string) (string, error) {
	s := c.Stmt("EXPLAIN QUERY PLAN " + sql)
	defer s.Reset()
	for {
		row, err := s.Step()
		if !row {
			return "", err
		}
		step := s.ColText(3)
		// A scan of a subquery's result is fine.
		if strings.HasPrefix(step, "SCAN (subquery") || step == "SCAN CONSTANT ROW" || step == "SCAN ready" || step == "SCAN hidden" || step == "SCAN some" {
			continue
		}
		// A look at a whole queue is fine for its first messages, or to see whether there is one.
		wholeQueue := strings.HasSuffix(step, "(queue=?)") && !strings.HasPrefix(step, "SEARCH due EXISTS ") && !strings.HasSuffix(sql, "ORDER BY visible LIMIT 1")
		slow := func(what string) bool { return strings.Contains(step, what) }
		if wholeQueue || slices.ContainsFunc([]string{"SCAN", "TEMP B-TREE", "ANY("}, slow) {
			return step, nil
		}
	}
}

// TestPlans checks how SQLite will run each statement, and checks again after another tool has run ANALYZE.
func TestPlans(t *testing.T) {
	t.Parallel()
	s := openTest(t, "?wake=off")
	all := statements(t)
	if len(all) < 20 {
		t.Fatalf("found only %d statements: %q", len(all), slices.Sorted(maps.Keys(all)))
	}
	plans := func(when string) {
		t.Helper()
		err := s.write(&engine.Op{Ctx: t.Context()}, func(w *tx) error {
			for sql, where := range all {
				if slow, err := slowPlan(w.c, sql); slow != "" || err != nil {
					t.Errorf("%s: %s: %s %v\n%s", when, where, slow, err, sql)
				}
			}
			for _, sql := range []string{
				"SELECT id FROM due WHERE visible < 1",
				"DELETE FROM due WHERE queue = 1 AND gen = 1",
				"DELETE FROM messages WHERE queue = 1",
				"SELECT id FROM due WHERE queue = 1 AND visible <= 1 ORDER BY sent LIMIT 5",
			} {
				if slow, err := slowPlan(w.c, sql); slow == "" || err != nil {
					t.Errorf("%s: nothing is found wrong with %s (%v)", when, sql, err)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	plans("before")
	for q := range 3 { // one large queue, two small ones
		for range 1 + 8*(q&1) {
			if err := s.Queue(fmt.Sprintf("queue-%d", q)).Send(t.Context(), slices.Repeat(text("body"), 100)); err != nil {
				t.Fatal(err)
			}
		}
		receive(t, s, fmt.Sprintf("queue-%d", q), 50)
	}
	writeEach(t, s, "body")
	pragma(t, s, "ANALYZE")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openAt(t, s.path, "?wake=off")
	plans("after ANALYZE")
}

// A queues is what the queues of a store must hold, by the message's body, which is unique.
type queues map[string]*message

type message struct {
	queue      string
	visible    time.Time
	deliveries int
	receipt    storage.Receipt // the newest; "" when it has none
}

func (q queues) owner(queue string, r storage.Receipt) (body string, ok bool) {
	for body, m := range q {
		if r != "" && m.receipt == r && m.queue == queue {
			return body, true
		}
	}
	return "", false
}

// TestQueueByChance does random calls on two queues whose messages alternate, and compares the outcome with a plain
// account. Above all it deletes batches in which live receipts, dead ones, repeated ones, those of the other queue
// and garbage stand side by side.
func TestQueueByChance(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "test.db")
			synctest.Test(t, func(t *testing.T) {
				byChance(t, openAt(t, path, "?wake=off&sync=normal"), rand.New(rand.NewPCG(seed, 7)))
			})
		})
	}
}

func byChance(t *testing.T, s *store, r *rand.Rand) {
	ctx := t.Context()
	names := []string{"queue-a", "queue-b"}
	want := queues{}
	var seen []storage.Receipt // all that there ever were
	sent := 0
	receiveSome := func(name string, n int) int {
		t.Helper()
		ready := 0
		for _, m := range want {
			if m.queue == name && !m.visible.After(time.Now()) {
				ready++
			}
		}
		got := receive(t, s, name, n)
		if len(got) != min(n, ready) {
			t.Fatalf("received %d of %s; want %d of %d ready", len(got), name, n, ready)
		}
		for _, d := range got {
			m := want[string(d.Body)]
			if m == nil || m.queue != name || m.visible.After(time.Now()) || d.Deliveries != m.deliveries+1 {
				t.Fatalf("received %s, delivery %d; want %+v", d.Body, d.Deliveries, m)
			}
			if slices.Contains(seen, d.Receipt) {
				t.Fatalf("receipt %s was given out before", d.Receipt)
			}
			m.visible, m.deliveries, m.receipt = time.Now().Add(time.Minute), d.Deliveries, d.Receipt
			seen = append(seen, d.Receipt)
		}
		return len(got)
	}
	for range 60 {
		name := names[r.IntN(2)]
		switch r.IntN(8) {
		case 0, 1: // neighbours of one queue, or strangers
			for range 1 + r.IntN(3) {
				var batch []storage.Message
				for range 1 + r.IntN(24) {
					sent++
					body := fmt.Sprintf("message-%d", sent)
					delay := time.Duration(max(0, r.IntN(4)-2)) * time.Minute
					batch = append(batch, storage.Message{Body: []byte(body), Delay: delay})
					want[body] = &message{queue: name, visible: time.Now().Add(delay)}
				}
				if err := s.Queue(name).Send(ctx, batch); err != nil {
					t.Fatal(err)
				}
				name = names[r.IntN(2)]
			}
		case 2, 3:
			receiveSome(name, 1+r.IntN(20))
		case 4: // one changes in the middle of a run
			if len(seen) == 0 {
				continue
			}
			old := seen[r.IntN(len(seen))]
			body, live := want.owner(name, old)
			next, err := storage.Receipt(""), error(nil)
			delay := time.Duration(r.IntN(3)) * time.Minute
			if extend := r.IntN(2) == 0; extend {
				if next, err = s.Queue(name).Extend(ctx, old, delay); err == nil {
					seen = append(seen, next)
				}
			} else {
				err = s.Queue(name).Rewrite(ctx, old, []byte(body), delay)
			}
			if live != (err == nil) || !live && !errors.Is(err, storage.ErrReceiptStale) {
				t.Fatalf("receipt %s, live %v: got error %v", old, live, err)
			}
			if live {
				want[body].visible, want[body].receipt = time.Now().Add(delay), next
			}
		case 5:
			time.Sleep(time.Duration(r.IntN(90)) * time.Second)
		default:
			batch := []storage.Receipt{}
			if len(seen) > 0 {
				from := r.IntN(len(seen))
				batch = append(batch, seen[from:from+r.IntN(len(seen)-from+1)]...) // in the order of receiving
				for range r.IntN(4) {
					batch = append(batch, seen[r.IntN(len(seen))]) // some twice
				}
			}
			garbage := []storage.Receipt{"", "garbage", "1.1", entry{id: 1<<63 - 1, gen: 1, visible: 1}.receipt(), entry{id: int64(sent), gen: peers.AnonymousGeneration(), visible: micros(time.Now())}.receipt()}
			batch = append(batch, garbage[:r.IntN(len(garbage)+1)]...)
			if r.IntN(2) == 0 {
				r.Shuffle(len(batch), func(i, j int) { batch[i], batch[j] = batch[j], batch[i] })
			}
			deleteBatch(t, s, want, name, batch)
		}
	}
	for _, name := range names {
		n := 0
		for _, m := range want {
			if m.queue == name {
				n++
			}
		}
		if st, err := s.Queue(name).Stats(ctx); err != nil || st.Ready+st.InFlight+st.Delayed != int64(n) {
			t.Errorf("%s has %+v, %v; want %d", name, st, err, n)
		}
		time.Sleep(time.Hour)
		if got := receiveSome(name, maxReceive); got != n {
			t.Errorf("%s had %d messages; want %d", name, got, n)
		}
	}
}

func deleteBatch(t *testing.T, s *store, want queues, name string, batch []storage.Receipt) {
	t.Helper()
	var stale []storage.Receipt
	for _, r := range batch {
		if body, ok := want.owner(name, r); ok {
			delete(want, body)
		} else {
			stale = append(stale, r)
		}
	}
	given := slices.Clone(batch)
	err := s.Queue(name).Delete(t.Context(), batch)
	var got []storage.Receipt
	if e, ok := errors.AsType[*storage.StaleError](err); ok && e.Queue == name {
		got = slices.Clone(e.Receipts)
	} else if err != nil {
		t.Fatal(err)
	}
	slices.Sort(got)
	slices.Sort(stale)
	if !slices.Equal(got, stale) {
		t.Fatalf("delete %q: got %q stale; want %q", batch, got, stale)
	}
	if !slices.Equal(given, batch) {
		t.Fatal("the caller's receipts were changed")
	}
}

// beside is the receipt that a message with another id would have if it had been claimed together with r's.
func beside(r storage.Receipt, id int64) storage.Receipt {
	e, _ := parseReceipt(r)
	e.id = id
	return e.receipt()
}

// elsewhere is the receipt of a message that was at another time.
func elsewhere(r storage.Receipt) storage.Receipt {
	e, _ := parseReceipt(r)
	e.visible++
	return e.receipt()
}

// TestDeleteBatches deletes mixed batches that are worth a name.
func TestDeleteBatches(t *testing.T) {
	t.Parallel()
	type receipts = []storage.Receipt
	tests := []struct {
		name  string
		batch func(a, b receipts) receipts // of five messages each, ids 1 to 5 and 6 to 10, received together
		stale func(a, b receipts) receipts
		left  string // of queue-a
	}{
		{"all", func(a, _ receipts) receipts { return a }, nil, "[]"},
		{"backwards", func(a, _ receipts) receipts { slices.Reverse(a); return a }, nil, "[]"},
		{"a gap", func(a, _ receipts) receipts { return receipts{a[0], a[1], a[3], a[4]} }, nil, "[3]"},
		{"one twice at the beginning of a run", func(a, _ receipts) receipts { return receipts{a[0], a[0], a[1], a[2]} },
			func(a, _ receipts) receipts { return receipts{a[0]} }, "[4 5]"},
		{"one twice at the end of a run", func(a, _ receipts) receipts { return receipts{a[0], a[1], a[2], a[2]} },
			func(a, _ receipts) receipts { return receipts{a[2]} }, "[4 5]"},
		{"a run twice", func(a, _ receipts) receipts { return slices.Concat(a[:3], a[:3]) },
			func(a, _ receipts) receipts { return a[:3] }, "[4 5]"},
		{"another queue's neighbour", func(a, b receipts) receipts { return receipts{a[3], a[4], b[0], b[1]} },
			func(_, b receipts) receipts { return b[:2] }, "[1 2 3]"},
		{"another queue's alone", func(_, b receipts) receipts { return b },
			func(_, b receipts) receipts { return b }, "[1 2 3 4 5]"},
		{"malformed ones between", func(a, _ receipts) receipts { return receipts{"", a[0], a[1] + "x", a[2], "1.1"} },
			func(a, _ receipts) receipts { return receipts{"", "1.1", a[1] + "x"} }, "[2 4 5]"},
		{"one of a neighbour with another's generation", func(a, _ receipts) receipts {
			return receipts{a[0], beside(a[0], 2), beside(a[0], 99)}
		}, func(a, _ receipts) receipts { return receipts{beside(a[0], 99)} }, "[3 4 5]"},
		{"one that was elsewhere in a run", func(a, _ receipts) receipts { return receipts{a[0], elsewhere(a[1]), a[2]} },
			func(a, _ receipts) receipts { return receipts{elsewhere(a[1])} }, "[2 4 5]"},
		{"a run that was elsewhere", func(a, _ receipts) receipts { return receipts{elsewhere(a[0]), elsewhere(a[1]), a[2], a[3]} },
			func(a, _ receipts) receipts { return receipts{elsewhere(a[0]), elsewhere(a[1])} }, "[1 2 5]"},
		{"a dead one beside a live one", func(a, _ receipts) receipts { return receipts{a[0], "2.dead.1", a[2]} },
			func(_, _ receipts) receipts { return receipts{"2.dead.1"} }, "[2 4 5]"},
		{"a run of dead ones", func(a, _ receipts) receipts { return receipts{"1.dead.1", "2.dead.1", a[2], a[3]} },
			func(_, _ receipts) receipts { return receipts{"1.dead.1", "2.dead.1"} }, "[1 2 5]"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := openTest(t, "?wake=off&sync=normal")
			held := func(queue string) (rs receipts) {
				send(t, s, queue, "1", "2", "3", "4", "5")
				for _, d := range receive(t, s, queue, 5) {
					rs = append(rs, d.Receipt)
				}
				return rs
			}
			a, b := held("queue-a"), held("queue-b")
			batch := test.batch(slices.Clone(a), slices.Clone(b))
			var stale receipts
			if test.stale != nil {
				stale = slices.Sorted(slices.Values(test.stale(a, b)))
			}
			err := s.Queue("queue-a").Delete(t.Context(), batch)
			var got receipts
			if e, ok := errors.AsType[*storage.StaleError](err); ok {
				got = slices.Sorted(slices.Values(e.Receipts))
			} else if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, stale) {
				t.Errorf("got %q stale; want %q", got, stale)
			}
			bodies := func(queue string, rs receipts) string {
				for _, r := range rs {
					if _, err := s.Queue(queue).Extend(t.Context(), r, 0); err != nil && !errors.Is(err, storage.ErrReceiptStale) {
						t.Fatal(err)
					}
				}
				return fmt.Sprint(all(t, s, queue))
			}
			if got := bodies("queue-a", a); got != test.left {
				t.Errorf("queue-a has %s; want %s", got, test.left)
			}
			if got := bodies("queue-b", b); got != "[1 2 3 4 5]" {
				t.Errorf("queue-b has %s; want all", got)
			}
		})
	}
}

// A file whose ids are used up gives messages random ids. None is lost.
func TestIdsThatDoNotFollowEachOther(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	s := openAt(t, path, "")
	send(t, s, "queue", "first")
	scratch(t, path, "UPDATE messages SET id = 9223372036854775807", "UPDATE due SET id = 9223372036854775807")
	if err := s.Queue("queue").Send(t.Context(), slices.Repeat(text("one of many"), 20)); err != nil {
		t.Fatal(err)
	}
	if got := receive(t, s, "queue", 30); len(got) != 21 {
		t.Errorf("received %d; want the 21 that were sent", len(got))
	}
}
