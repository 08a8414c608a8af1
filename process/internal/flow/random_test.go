package flow

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/wire"
)

// TestRandomPlans runs plans made at random, under random delivery, agents and operators, and audits what the agents
// have done. A failing seed is run again with its history; MILLRACE_SEED runs one, MILLRACE_SEEDS says how many.
func TestRandomPlans(t *testing.T) {
	t.Parallel()
	from, to := uint64(1), uint64(seedsOr(t, 300))
	if one := os.Getenv("MILLRACE_SEED"); one != "" {
		n, err := strconv.ParseUint(one, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		from, to = n, n
	}
	for seed := from; seed <= to; seed++ {
		if faults := simulate(seed, nil); len(faults) > 0 || from == to {
			var history []string
			simulate(seed, func(line string) { history = append(history, line) })
			t.Logf("seed %d:\n%s", seed, strings.Join(history, "\n"))
			for _, f := range faults {
				t.Errorf("seed %d: %s", seed, f)
			}
			if len(faults) > 0 {
				t.Fatalf("again: MILLRACE_SEED=%d go test -run '^%s$' ./process/internal/flow", seed, t.Name())
			}
		}
	}
}

func seedsOr(t *testing.T, ordinarily int) int {
	switch many := os.Getenv("MILLRACE_SEEDS"); {
	case many != "":
		n, err := strconv.Atoi(many)
		if err != nil {
			t.Fatal(err)
		}
		return n
	case testing.Short():
		return ordinarily / 10
	}
	return ordinarily
}

// reply is a Reply for a document.
type reply struct {
	id string
	r  Reply
}

// letter is a message on its way. at is when it is delivered, sent the time of the message.
type letter struct {
	m        any
	address  string // of a command
	sent, at time.Time
	number   int
	copies   bool // another copy was folded
}

type mailbag []*letter

func (b mailbag) Len() int { return len(b) }
func (b mailbag) Less(i, j int) bool {
	return b[i].at.Before(b[j].at) || b[i].at.Equal(b[j].at) && b[i].number < b[j].number
}
func (b mailbag) Swap(i, j int) { b[i], b[j] = b[j], b[i] }
func (b *mailbag) Push(x any)   { *b = append(*b, x.(*letter)) }
func (b *mailbag) Pop() any {
	x := (*b)[len(*b)-1]
	*b = (*b)[:len(*b)-1]
	return x
}

// sim is one run.
type sim struct {
	rng     *rand.Rand
	plan    *Plan
	grown   *grower
	keeper  *keeper
	out     *outside
	bag     mailbag
	now     time.Time
	count   int // messages folded
	folded  map[any]bool
	purges  []Alarm
	brief   bool            // retentions are short, and agents that hang may succeed after all
	gone    map[string]bool // documents that would be purged
	acts    map[string]bool
	skips   map[place]bool
	reruns  int
	kind    bool // all agents work from now on
	broken  bool
	faults  []string
	history func(string)
}

func simulate(seed uint64, history func(string)) (faults []string) {
	s := &sim{rng: rand.New(rand.NewPCG(seed, 1)), now: time.Date(2026, 11, 27, 8, 0, 0, 0, time.UTC), broken: true, history: history}
	s.folded, s.acts, s.skips, s.gone = map[any]bool{}, map[string]bool{}, map[place]bool{}, map[string]bool{}
	defer func() {
		if v := recover(); v != nil {
			if history != nil {
				panic(v)
			}
			faults = append(s.faults, fmt.Sprint("panic: ", v))
		}
	}()
	s.plan, s.grown = grow(s.rng, &s.broken)
	if s.brief = seed%3 == 0; s.brief {
		s.plan.Retention = time.Minute
	}
	s.keeper = newKeeper(s.plan, s.fault)
	s.keeper.quick = seed%4 > 0
	s.out = &outside{
		sim: s, byKey: map[string]*effect{}, byID: map[string]*effect{}, undone: map[string]bool{}, owners: map[string]string{},
		begun: map[string]bool{}, bad: map[string]bool{},
	}
	s.log("%s", s.grown.text.String())
	s.script()
	for round := 0; len(s.faults) == 0; round++ {
		s.deliver()
		if !s.operate(round) {
			break
		}
		if round > 60 {
			s.fault("it does not end: %s", s.keeper.docs["o1"])
		}
	}
	if len(s.faults) == 0 {
		audit{s}.run()
	}
	if len(s.faults) == 0 {
		s.afterwards()
	}
	if history != nil {
		for _, id := range s.ids() {
			s.log("%s: %s", id, s.keeper.docs[id])
		}
	}
	return s.faults
}

func (s *sim) fault(format string, args ...any) {
	s.faults = append(s.faults, fmt.Sprintf(format, args...))
	s.log("FAULT "+format, args...)
}

func (s *sim) log(format string, args ...any) {
	if s.history != nil {
		s.history(s.now.Format("02 15:04:05 ") + fmt.Sprintf(format, args...))
	}
}

func (s *sim) chance(percent int) bool { return s.rng.IntN(100) < percent }

func (s *sim) soon(most time.Duration) time.Time {
	return s.now.Add(time.Duration(s.rng.Int64N(int64(most))))
}

// latency is how long a message takes.
func (s *sim) latency() time.Duration {
	most := 2 * time.Second
	switch n := s.rng.IntN(100); {
	case n < 2:
		most = 15 * time.Minute
	case n < 10:
		most = time.Minute
	}
	return time.Duration(s.rng.Int64N(int64(most)))
}

func (s *sim) ids() []string {
	ids := []string{}
	for id := range s.keeper.docs {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// enqueue sends a message; sometimes it comes twice.
func (s *sim) enqueue(m any, sent time.Time) {
	address := ""
	if x, ok := m.(wire.Wrapped); ok {
		address = x.ReplyTo
		var inner channel.Message
		inner, sent = due(x, sent)
		m = inner
	}
	if p, ok := m.(Alarm); ok && p.Purge {
		s.purges = append(s.purges, p)
		if s.brief {
			heap.Push(&s.bag, &letter{m: purge(p), at: p.At, number: s.count*1000 + len(s.bag)})
		}
		return
	}
	l := &letter{m: m, address: address, sent: sent, at: sent.Add(s.latency()), number: s.count*1000 + len(s.bag)}
	heap.Push(&s.bag, l)
	switch m.(type) {
	case Start, Done, Alarm, Begin:
		if s.chance(10) {
			again := *l
			again.at = again.at.Add(time.Duration(s.rng.Int64N(int64(10 * time.Minute))))
			again.copies = true
			if s.chance(10) {
				again.at = again.at.Add(48 * time.Hour)
			}
			heap.Push(&s.bag, &again)
		}
	}
}

// script decides what comes from outside.
func (s *sim) script() {
	start := Start{Plan: "plan", ID: "o1", State: jsontext.Value("[]")}
	s.enqueue(start, s.soon(time.Minute))
	s.plan.Nodes(func(p *Plan, n *Node) {
		if n.Verb == Wait && p.Part == "" && s.chance(75) {
			x := s.signal("o1", n)
			if s.chance(30) { // an event of the program, which the routes lead to the plan
				s.enqueue(reply{"o1", Reply{Sort: x.Sort, Body: x.Body}}, s.soon(15*time.Minute))
				return
			}
			s.enqueue(x, s.soon(15*time.Minute))
		}
	})
	if s.chance(30) {
		s.enqueue(Act{Plan: "plan", ID: "o1", Do: ActCancel, By: "ada"}, s.soon(15*time.Minute))
	}
	for s.chance(30) {
		s.enqueue(Act{Plan: "plan", ID: "o1", Do: ActNudge, By: "sweep"}, s.soon(time.Hour))
	}
	for s.chance(20) {
		do := []string{ActRetry, ActSkip, ActRerun, ActGo, ActUndo, "nonsense"}[s.rng.IntN(6)]
		s.enqueue(Act{Plan: "plan", ID: "o1", Do: do, Path: []string{"01", "02", "03", "01.01.01", "99"}[s.rng.IntN(5)], By: "eve"}, s.soon(time.Hour))
	}
}

func (s *sim) signal(id string, n *Node) Signal {
	return Signal{Plan: "plan", ID: id, Sort: n.Sort, Body: jsontext.Value(`"heard ` + n.Name + `"`)}
}

// deliver delivers all that is under way.
func (s *sim) deliver() {
	for len(s.bag) > 0 && len(s.faults) == 0 {
		if s.count > 20000 {
			s.fault("it never comes to rest")
			return
		}
		l := heap.Pop(&s.bag).(*letter)
		if l.at.After(s.now) {
			s.now = l.at
		}
		switch m := l.m.(type) {
		case Begin:
			s.out.agent(m, s.brief && (l.copies || s.now.Sub(l.sent) > time.Minute))
		case woken:
			s.out.succeed(Begin(m))
		case purge:
			s.wouldPurge(Alarm(m))
		case Record:
		case asked:
			s.out.decide(m, l.address)
		case takenBack:
			s.out.takeBack(m, fmt.Sprint(l.number))
		default:
			s.fold(l)
		}
	}
}

// purge is an alarm of a short retention. The document stays for the audit.
type purge Alarm

// woken is an agent that hung, and succeeds after all.
type woken Begin

// wouldPurge purges a copy of a document.
func (s *sim) wouldPurge(m Alarm) {
	d := decoded(s.keeper.docs[m.ID])
	out, _, err := s.plan.Advance(m.ID, d, m, s.now)
	if err != nil {
		s.fault("%s: %v", m.ID, err)
	}
	if s.gone[m.ID] = d.Purged; d.Purged {
		s.log("%s would be purged", m.ID)
		return
	}
	others := slices.ContainsFunc(s.bag, func(l *letter) bool { _, is := l.m.(purge); return !is })
	for _, x := range out {
		if again, at := due(x, s.now); again != nil && others { // else it waits for an operator
			if p, ok := again.(Alarm); ok && p.Purge {
				heap.Push(&s.bag, &letter{m: purge(p), at: at, number: s.count*1000 + len(s.bag)})
			}
		}
	}
}

// afterPurge: no success comes that the document hasn't known. Copies may come.
func (s *sim) afterPurge(id string, m any, sent time.Time) {
	done, ok := m.(Done)
	if !ok || done.Outcome != OK {
		return
	}
	d := decoded(s.keeper.docs[id])
	if _, changed, err := s.keeper.partOf(d, m).Advance(id, d, m, sent); changed || err != nil {
		s.fault("%s: a success comes after the purge: %s %v", id, encoded(m), err)
	}
}

// fold folds a message, sometimes twice.
func (s *sim) fold(l *letter) {
	id, m := "", l.m
	switch x := m.(type) {
	case Start:
		id = x.ID
	case Done:
		id = x.ID
	case Alarm:
		id = x.ID
	case Act:
		id = x.ID
	case Signal:
		id = x.ID
	case reply:
		id, m = x.id, x.r
	}
	if s.gone[TopID(id)] {
		s.afterPurge(id, m, l.sent)
		return
	}
	s.count++
	var before *Instance
	if _, act := m.(Act); act || s.history != nil {
		before = s.keeper.get(id)
	}
	out, changed, err := s.keeper.fold(id, m, l.sent)
	if err != nil {
		s.fault("%s: %T: %v", id, m, err)
	}
	s.trace(id, l, m, changed, before)
	s.out.notice(l.m, out)
	s.notice(l.m, before)
	for _, x := range out {
		s.enqueue(x, s.now)
	}
	name := fmt.Sprintf("%T %s", m, encoded(m))
	switch m.(type) {
	case Start, Done:
		if changed && s.folded[name] {
			s.fault("%s: %s came again, and has changed the document", id, name)
		}
		s.folded[name] = true
		if s.chance(20) {
			s.again(id, m, l.sent)
		}
	case Alarm:
		if s.chance(20) {
			s.again(id, m, l.sent)
		}
	}
}

// again folds a message that was folded just before.
func (s *sim) again(id string, m any, sent time.Time) {
	if _, changed, err := s.keeper.fold(id, m, sent); changed || err != nil {
		s.fault("%s: %T comes twice, and changes the document the second time: %s %v", id, m, encoded(m), err)
	}
}

func (s *sim) trace(id string, l *letter, m any, changed bool, before *Instance) {
	if s.history == nil {
		return
	}
	d := s.keeper.get(id)
	what := fmt.Sprint(s.count, " ", id, " ", strings.TrimPrefix(fmt.Sprintf("%T", m), "flow."), " ", string(encoded(m)))
	if !changed {
		s.log("%s: no change", what)
		return
	}
	s.log("%s: %s -> %s", what, before.Status, d.Status)
	old := map[string]string{}
	for _, ev := range before.Events {
		old[PathRun(ev.ID, ev.Run)] = describe(ev)
	}
	for _, ev := range d.Events {
		if now := describe(ev); old[PathRun(ev.ID, ev.Run)] != now {
			s.log("    %s", now)
		}
	}
	if a, b := fmt.Sprint(before.Unwinds), fmt.Sprint(d.Unwinds); a != b {
		s.log("    unwinds %s -> %s", a, b)
	}
}

func describe(ev *Event) string {
	x := fmt.Sprintf("%s %s %s %s ending %q halt %q attempt %d order %d armed %v left %d %s", PathRun(ev.ID, ev.Run), ev.Verb, ev.Name, ev.Status, ev.Ending, ev.Halt, ev.Attempt, ev.Order, ev.Armed, ev.Left, ev.Msg)
	if f := ev.Fan; f != nil {
		x += fmt.Sprintf(" fan n %d next %d left %d ok %d failed %d listing %v asked %v", f.N, f.Next, f.Left, f.OK, ev.Failed, f.Listing, f.Asked)
	}
	for _, u := range ev.Undos {
		x += fmt.Sprintf(" undo %d/%d %s", u.N, item(u.Item), u.Status)
	}
	return x
}
