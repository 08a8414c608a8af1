package ops

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/millrace-go/millrace/internal/chart"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/acts"
	"github.com/millrace-go/millrace/ops/doctor"
	"github.com/millrace-go/millrace/storage"
)

const (
	mostQueues = 50 // that the first page shows. The page of queues shows all
	mostAlike  = 5  // findings of one check and severity that the first page shows. The page of doctor shows all
)

// An overviewPage is the first page. Each part of it stands alone: what can't be read takes nothing else away.
type overviewPage struct {
	view
	Findings []mended // the worst first
	Examined bool     // doctor has looked at everything
	Wrong    bool     // some finding is
	Nobody   bool     // no program has published what it does
	Program  string   // whose command line the page names
	Queues   section
	Hidden   int    // queues that aren't shown
	Oldest   string // what waits longest
	Rates    section
	Cost     costs
}

// overview shows what is wrong, worst first, and the queues.
func (s *server) overview(w http.ResponseWriter, r *http.Request) {
	s.bulk.Look()
	found, err := s.read(r.Context(), s.table.find("doctor", "").Request(), r.URL.Query())
	if wantsJSON(r) {
		s.answer(w, found, err)
		return
	}
	p := overviewPage{view: s.view(r, "Overview", ""), Program: s.reads.desk.Command}
	p.Live = true
	p.show(found, nil)
	status := http.StatusOK
	switch statusOf(err) {
	case http.StatusOK, http.StatusNotFound:
	case http.StatusBadRequest:
		status, p.Error = http.StatusBadRequest, title(err.Error())
	default:
		p.Error = "Not all could be examined: " + err.Error()
	}
	p.Examined = p.Error == ""
	if desk, err := s.reads.current(r.Context()); err == nil {
		p.Nobody, p.Cost = desk.Known.Nobody(), costsOf(desk.Store.Requests())
	}
	if found == nil {
		found = new(told)
	}
	alike := map[string][]int{} // which findings of the page are of one check and severity
	for _, f := range found.Findings() {
		p.Wrong = p.Wrong || f.Severity == doctor.Wrong
		kind := f.Check + " " + f.Severity
		if all := alike[kind]; len(all) == mostAlike {
			p.Findings[all[mostAlike-1]].More++
			continue
		}
		alike[kind] = append(alike[kind], len(p.Findings))
		p.Findings = append(p.Findings, s.table.mends(p.view, p.Program, f))
	}
	p.queues(r, s)
	p.Rates = s.sectionOf(r, "The last 24 hours", s.table.find("rates", ""), nil)
	if statusOf(err) == http.StatusServiceUnavailable { // once is enough
		p.Queues.lost()
		p.Rates.lost()
	}
	s.write(w, r, status, "overview.html", p)
}

// queues fills in the queues, with what comes and goes.
func (p *overviewPage) queues(r *http.Request, s *server) {
	p.Queues.Name = "Queues"
	t, err := s.read(r.Context(), s.table.find("queues", "list").Request(), nil)
	if err != nil {
		p.Queues.Error, p.Queues.Lost = err.Error(), statusOf(err) == http.StatusServiceUnavailable
	}
	if t == nil || len(t.Blocks) == 0 || len(t.Blocks[0].Rows) == 0 {
		return
	}
	all := queuesOf(t)
	rates := s.paces.see(r.Context(), s, t, all)
	rows := make([]queueRow, min(len(all), len(t.Blocks[0].Rows)))
	for i := range rows {
		rows[i] = queueRow{all[i], t.Blocks[0].Rows[i], rates[all[i].Queue]}
	}
	if oldest := slices.MaxFunc(rows, func(a, b queueRow) int { return cmp.Compare(a.oldest(), b.oldest()) }); oldest.oldest() > 0 {
		p.Oldest = fmt.Sprintf("The oldest ready message waits in queue %s, for %s.", oldest.Queue.Queue, act.Age(time.Duration(oldest.oldest()*float64(time.Second))))
		if state := oldest.State(); state != "" {
			p.Oldest += fmt.Sprintf(" The queue %s.", strings.Replace(state, "paused", "is paused", 1))
		}
	}
	if p.Hidden = len(rows) - mostQueues; p.Hidden > 0 { // those that matter least
		slices.SortStableFunc(rows, func(a, b queueRow) int { return cmp.Compare(b.weight(), a.weight()) })
	}
	slices.SortStableFunc(rows, func(a, b queueRow) int { return cmp.Compare(first(a), first(b)) })
	rows = rows[:min(len(rows), mostQueues)]
	b := &block{Head: []string{"Queue", "Ready", "In flight", "Delayed", "Poison", "Oldest", "In a second", "Out a second", "Consumed by", "State"}}
	for _, x := range rows {
		b.Rows = append(b.Rows, x.cells())
	}
	p.Queues.Told = &told{Blocks: []*block{b}, Notes: t.Notes, At: t.At}
}

// queuesOf are the queues that an act has told.
func queuesOf(t *told) (all []acts.Queue) {
	for _, x := range t.Objects {
		if q, ok := x.(acts.Queue); ok {
			all = append(all, q)
		}
	}
	return all
}

// A queueRow is a queue on the first page.
type queueRow struct {
	acts.Queue
	told []cell
	pace pace
}

func (q queueRow) oldest() float64 {
	if q.Oldest == nil {
		return -1
	}
	return *q.Oldest
}

// weight is how much a queue matters to somebody who looks for what is wrong.
func (q queueRow) weight() int64 {
	n := q.Poison
	if q.Ready != nil {
		n += *q.Ready
	}
	return n
}

// first is 0 for the queues that stand first.
func first(q queueRow) int {
	if q.troubled() {
		return 0
	}
	return 1
}

// troubled reports a queue that people look at first: the queue has poison messages, or something keeps it from being
// consumed.
func (q queueRow) troubled() bool { return q.Poison > 0 || q.State() != "" }

func (q queueRow) cells() []cell {
	row := slices.Clone(q.told)
	if q.Poison > 0 {
		row[4].Link = &act.Link{Act: "poison list", With: map[string]string{"queue": q.Queue.Queue}}
	}
	return slices.Insert(row, 6, rateCell(q.pace.in), rateCell(q.pace.out))
}

// rateCell is a number a second.
func rateCell(x *float64) cell {
	c := cell{Text: act.Unknown, Number: true}
	if x != nil {
		c.Text = chart.Number(*x)
	}
	return c
}

// costs are what the process has asked of its store.
type costs struct {
	Total, Throttled int64
	Of               *told
}

func costsOf(all []storage.Requests) costs {
	var c costs
	byClass := map[string]int64{}
	for _, x := range all {
		c.Total, c.Throttled = c.Total+x.Count, c.Throttled+x.Throttled
		byClass[cmp.Or(x.Class, x.Op+" "+x.Kind)] += x.Count
	}
	b := &block{Head: []string{"Requests", "What"}}
	type line struct {
		what string
		n    int64
	}
	var lines []line
	for what, n := range byClass {
		lines = append(lines, line{what, n})
	}
	slices.SortFunc(lines, func(a, b line) int { return cmp.Or(cmp.Compare(b.n, a.n), strings.Compare(a.what, b.what)) })
	for _, x := range lines {
		b.Rows = append(b.Rows, []cell{newCell(x.n), newCell(x.what)})
	}
	c.Of = &told{Blocks: []*block{b}}
	return c
}
