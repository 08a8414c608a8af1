package flow

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Laws 15 and 16: items up to a document's bound lie in it, more of them in pages, of which a few work at a time.
func TestEach(t *testing.T) {
	t.Parallel()
	for _, items := range []int{0, 1, 7, 8, 9, 16, 100} {
		w := newWorld(t, func(p *Plan) { p.bounds.page = 8; each(p, p.Root, "each", items).AtOnce = 12; do(p, p.Root, "last") })
		w.start()
		w.run(time.Minute)
		if got := len(w.journal); w.doc().Status != Completed || got != items+1 {
			t.Errorf("%d items: %s, %d agents", items, w.doc().Status, got)
		}
		if state := string(w.doc().State); items > 0 && !strings.HasPrefix(state, fmt.Sprintf(`["%d",`, items)) {
			t.Errorf("%d items: state %s", items, state)
		}
		pages := 0
		for id := range w.keeper.docs {
			if id != "o1" {
				pages++
			}
		}
		if want := (items + 7) / 8; pages != want && !(pages == 0 && want <= 1) {
			t.Errorf("%d items: %d pages", items, pages)
		}
	}
}

// Law 15: a full document of items, and pages of that size.
func TestThousandsOfItems(t *testing.T) {
	t.Parallel()
	for _, items := range []int{MaxPage, 2*MaxPage + 1} {
		w := newWorld(t, func(p *Plan) { each(p, p.Root, "each", items); do(p, p.Root, "last") })
		w.keeper.live = map[string]*Instance{}
		w.start()
		w.run(time.Minute)
		if w.doc().Status != Completed || len(w.journal) != items+1 || w.keeper.sizes > MaxSize {
			t.Errorf("%d items: %s, %d agents, %d bytes", items, w.doc().Status, len(w.journal), w.keeper.sizes)
		}
	}
}

// Law 15: no more items, children or pages are at work than the step allows.
func TestAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(p *Plan) { each(p, p.Root, "each", 10).AtOnce = 3 })
	for i := range 10 {
		w.agents[fmt.Sprint("each ", i)] = hang
	}
	w.start()
	w.run(time.Second)
	w.want(InProcess, "each 0", "each 1", "each 2")
	w.give("o1", answering(w.begins[1], did("it")))
	w.give("o1", answering(w.begins[0], did("it")))
	w.run(time.Second)
	w.want(InProcess, "each 0", "each 1", "each 2", "each 3", "each 4")

	w = newWorld(t, func(p *Plan) { undoable(each(p, p.Root, "each", 10)).AtOnce = 3; do(p, p.Root, "last") })
	w.agents["last"], w.agents["undo each 9"] = fails(9, Refused), hang
	for i := range 7 {
		w.agents[fmt.Sprint("undo each ", i)] = hang
	}
	w.start()
	w.run(time.Second)
	if undos := w.journal[11:]; !slices.Equal(undos, []string{"undo each 9", "undo each 8", "undo each 7", "undo each 6", "undo each 5"}) {
		t.Errorf("three undos hang, and asked were %v", undos)
	}
}

// Law 15: pages share what the step allows.
func TestAtOnceInPages(t *testing.T) {
	t.Parallel()
	for most, want := range map[int]int{1: 1, 3: 3, 4: 4, 9: 8, 12: 12, 100: 32} {
		w := newWorld(t, func(p *Plan) { p.bounds.page = 8; each(p, p.Root, "each", 80).AtOnce = most })
		for i := range 80 {
			w.agents[fmt.Sprint("each ", i)] = hang
		}
		w.start()
		w.run(time.Second)
		if got := len(w.begins); got != want {
			t.Errorf("at once %d: %d agents were asked, want %d", most, got, want)
		}
		for i := 0; i < len(w.begins); i++ {
			w.give(w.begins[i].ID, answering(w.begins[i], did("it")))
			w.run(0)
			if got := len(w.begins) - i - 1; got > most {
				t.Fatalf("at once %d: %d agents are at work after %d answers", most, got, i+1)
			}
		}
		if got := w.doc().Status; got != Completed {
			t.Errorf("at once %d: %s", most, got)
		}
	}
}

// A page begins what it has when it is told to, also if it was told before its start came, and only once.
func TestPagesWaitToBeTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(p *Plan) { p.bounds.page = 1; each(p, p.Root, "each", 6) })
	for i := range 4 {
		w.agents[fmt.Sprint("each ", i)] = hang
	}
	w.start()
	i := slices.IndexFunc(w.queue, func(x sent) bool { s, ok := x.m.(Start); return ok && s.ID == "o1/01.00004" })
	late := w.queue[i].m
	w.queue = slices.Delete(w.queue, i, i+1)
	w.run(time.Second)
	w.want(InProcess, "each 0", "each 1", "each 2", "each 3")
	w.give(w.begins[0].ID, answering(w.begins[0], did("it")))
	w.run(time.Second)
	w.want(InProcess, "each 0", "each 1", "each 2", "each 3")
	w.deliver(late)
	w.run(time.Second)
	w.want(InProcess, "each 0", "each 1", "each 2", "each 3", "each 4", "each 5")
}

// Law 16: a page tells its parent once that it has ended, with its results and its failures.
func TestPagesAnswerOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(p *Plan) { p.bounds.page = 2; each(p, p.Root, "each", 4).Tolerate = 1 })
	w.agents["each 1"], w.agents["each 3"] = fails(9, Refused), hang
	w.start()
	w.run(time.Second)
	if d := w.doc(); d.find("01").Failed != 1 || string(d.State) != `["1"]` {
		t.Errorf("got %s", encoded(d))
	}
	item := 0
	word := Done{Plan: "plan", ID: "o1", Path: "01", Item: &item, Outcome: OK, Results: []jsontext.Value{jsontext.Value("1")}, Failed: 1}
	if w.give("o1", word) {
		t.Error("a repeated word changes the document")
	}
	w.give("o1/01.00001", answering(w.begin("each"), did("it")))
	w.run(time.Second)
	w.want(Completed, "each 0", "each 1", "each 2", "each 3")
	w.wantState(`["3"]`)
}

// More failures than are tolerated fail the step: what was done is undone, item by item, in all pages.
func TestEachFails(t *testing.T) {
	t.Parallel()
	for _, items := range []int{10, 40} {
		w := newWorld(t, func(p *Plan) {
			p.bounds.page = 12
			undoable(each(p, p.Root, "each", items)).Tolerate = 2
			do(p, p.Root, "last")
		})
		for _, i := range []int{3, 5, 7} {
			w.agents[fmt.Sprint("each ", i)] = fails(9, Refused)
		}
		w.start()
		w.run(time.Hour)
		did, undid := 0, 0
		for _, b := range w.begins {
			if b.Undo > 0 {
				undid++
			} else {
				did++
			}
		}
		if d := w.doc(); d.Status != Aborted || did-3 != undid || !strings.Contains(d.Msg, "at most 2 may: ") {
			t.Errorf("%d items: %s, %d done, %d undone: %s", items, d.Status, did, undid, d.Msg)
		}
	}
}

// Law 8: repeated failures of an item count once, and its next attempt comes after a delay.
func TestItemsHaveAttempts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(p *Plan) { each(p, p.Root, "each", 1) })
	w.agents["each 0"] = hang
	w.start()
	w.run(time.Second)
	failed := answering(w.begin("each"), Done{Outcome: Failed, Error: "503", After: 30 * time.Second})
	for range 9 {
		w.give("o1", failed)
	}
	w.run(29 * time.Second)
	w.want(InProcess, "each 0")
	w.run(time.Second)
	w.want(InProcess, "each 0", "each 0")
}

// A share of the items that may fail is one of all, also where an agent lists them.
func TestTolerateShare(t *testing.T) {
	t.Parallel()
	for failures, want := range map[int]Status{5: Completed, 6: Aborted} {
		for _, listed := range []bool{false, true} {
			w := newWorld(t, func(p *Plan) {
				p.bounds.page = 3
				n := each(p, p.Root, "each", 10)
				n.Share, n.Listed = 0.5, listed
			})
			for i := range failures {
				w.agents[fmt.Sprint("each ", i)] = fails(9, Refused)
			}
			w.agents["each"] = listing4(10)
			w.start()
			w.run(time.Hour)
			if got := w.doc().Status; got != want {
				t.Errorf("%d failures, listed %v: got %s, want %s", failures, listed, got, want)
			}
		}
	}
}

// listing4 lists so many items, four at a time.
func listing4(items int) func(Begin) Done {
	return func(b Begin) Done {
		at := 0
		_, _ = fmt.Sscan(string(b.Input), &at)
		next, end := jsontext.Value(fmt.Sprint(at+4)), at+4
		if end >= items {
			next, end = nil, items
		}
		raw, err := Listing(numbers(items)[at:end], next)
		if err != nil {
			panic(err)
		}
		return Done{Outcome: OK, Result: raw}
	}
}

// An agent lists items page after page, while there is room for them; each list is taken once.
func TestListedItems(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(p *Plan) { each(p, p.Root, "each", 0).Listed = true; do(p, p.Root, "last") })
	w.agents["each"] = listing4(41)
	for i := range 16 {
		w.agents[fmt.Sprint("each ", i)] = hang
	}
	w.start()
	w.run(time.Second)
	lists := 0
	for _, b := range w.begins {
		if b.List {
			lists++
			if w.give("o1", answering(b, listing4(41)(b))) {
				t.Error("a repeated list changes the document")
			}
		}
	}
	if lists != 5 {
		t.Errorf("got %d lists while four pages are at work, want one more than these", lists)
	}
	for _, b := range slices.Clone(w.begins) {
		if !b.List {
			w.give(b.ID, answering(b, did("it")))
		}
	}
	w.run(time.Minute)
	lists = 0
	for _, b := range w.begins {
		if b.List {
			lists++
		}
	}
	if state := string(w.doc().State); w.doc().Status != Completed || !strings.HasPrefix(state, `["41",`) || lists != 11 {
		t.Errorf("got %s %s after %d lists, want 41 items after 11", w.doc().Status, state, lists)
	}
}

// A cancel doesn't wait for a list that never comes.
func TestCancelOfAList(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(p *Plan) { each(p, p.Root, "each", 0).Listed = true })
	w.agents["each"] = hang
	w.start()
	w.run(time.Second)
	w.act(ActCancel, "")
	w.run(time.Second)
	w.want(Canceled, "each")
}

// Split runs a plan for each item, in documents of their own, and Child one.
func TestSplit(t *testing.T) {
	t.Parallel()
	for _, bad := range []bool{false, true} {
		w := newWorld(t, func(p *Plan) {
			split(p, p.Root, "split", 3, func(p *Plan) { undoable(do(p, p.Root, "find")); do(p, p.Root, "rank") })
			do(p, p.Root, "last")
		})
		want := []string{"find", "find", "find", "rank", "rank", "rank", "last"}
		status := Completed
		if bad {
			w.agents["last"] = fails(9, Refused)
			want, status = append(want, "undo find", "undo find", "undo find"), Aborted
		}
		w.start()
		w.run(time.Hour)
		w.want(status, want...)
	}
}

// A child that passed its pivot goes on when it is cancelled, and its success is undone as far as it can be.
func TestChildBeyondItsPivot(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(p *Plan) {
		sub(p, p.Root, "sub", func(p *Plan) {
			undoable(do(p, p.Root, "a"))
			p.Add(p.Root, Pivot, "pivot")
			undoable(do(p, p.Root, "b"))
		})
	})
	w.agents["b"] = hang
	w.start()
	w.run(time.Second)
	w.act(ActCancel, "")
	w.run(time.Minute)
	w.want(Undoing, "a", "b")
	w.give("o1/01.00000", answering(w.begin("b"), did("it")))
	w.run(time.Minute)
	w.want(Canceled, "a", "b", "undo b")
}
