package simulation

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/values"
)

// plan is everything in a run that the seed decides.
type plan struct {
	seed       uint64
	plain      bool // the store takes the steps of a unit of work one by one
	wrapped    bool // there is middleware, so a unit of work doesn't end deliveries
	workers    int
	consumers  int // workers that consume a queue at a time; 0 is all
	visibility time.Duration
	delay      time.Duration // of late calls
	noting     time.Duration // how long the effect outside takes
	days       values.Config[day]
	chances    map[storagetest.Fault]float64
	schedule   func(storagetest.Op) storagetest.Fault // instead of chances, for the first worker alone
	upgrades   bool
	stops      bool          // processes are stopped now and then
	late       time.Duration // until the first worker starts: a backlog waits for it
	commands   []command
	orders     []open
}

type command struct {
	book
	after  time.Duration // since the previous command
	later  bool          // it is of the kind that older processes don't know
	with   int           // how many earlier commands are sent again with it
	insist bool          // the client sends until it is acknowledged
}

func fresh(string) day { return day{Left: seats} }

// draw makes the plan of a seed. epoch is the beginning of the run.
func draw(seed uint64, epoch time.Time) plan {
	r := rand.New(rand.NewPCG(seed, 1))
	maybe := func(chance float64) bool { return r.Float64() < chance }
	p := plan{
		seed: seed, plain: seed%2 == 0, wrapped: seed%4 >= 2, workers: 1 + r.IntN(3), upgrades: maybe(0.3), stops: maybe(0.5),
		visibility: []time.Duration{30 * time.Second, 15 * time.Second}[r.IntN(2)],
		delay:      time.Duration(1+r.IntN(60)) * time.Second,
		days:       values.Config[day]{Initial: fresh, Window: 2 + r.IntN(4), Cache: 1 + r.IntN(3), PendingAfter: time.Minute},
		chances:    map[storagetest.Fault]float64{},
	}
	if maybe(0.2) {
		p.late = time.Duration(r.IntN(300)) * time.Second
	}
	p.noting = p.visibility * time.Duration(r.IntN(3)) // in twice the visibility, it is renewed half a dozen times
	for _, f := range storagetest.Faults() {
		if !maybe(0.4) {
			continue
		}
		p.chances[f] = r.Float64() * 0.05
		if f == storagetest.CrashBefore || f == storagetest.CrashAfter {
			p.chances[f] /= 10 // otherwise no process lives long enough to do anything
		}
	}
	days := []string{"2030-01-01", "2030-01-02", "2030-01-03"}[:1+r.IntN(3)]
	at := epoch
	for i := range 6 + r.IntN(20) {
		c := command{after: time.Duration(r.IntN(20)) * time.Second, later: p.upgrades && maybe(0.3), insist: maybe(0.8)}
		if maybe(0.3) {
			c.after = 0 // a burst
		}
		at = at.Add(c.after)
		c.book = book{ID: worldtest.IDAt(at, i), Day: days[r.IntN(len(days))], Seats: 1 + r.IntN(4), Sort: ordinary}
		switch {
		case maybe(0.1): // a wrong clock
			c.ID = worldtest.IDAt(at.Add(time.Duration(r.IntN(41)-20)*24*time.Hour), i)
		case maybe(0.1): // a key without a time
			c.ID = fmt.Sprintf("order-%d", i)
		}
		switch x := r.Float64(); {
		case x < 0.05:
			c.Sort = slow
		case x < 0.15:
			c.Sort = flaky
		case x < 0.2:
			c.Sort = stubborn
		case x < 0.25:
			c.Sort = bad
		case x < 0.27:
			c.Sort = deadly
		case x < 0.35 && i > 0:
			before := p.commands[r.IntN(i)]
			if before.Sort == ordinary {
				c.book, c.later = before.book, before.later
				c.Sort, c.Seats, c.insist = twin, 5, true
				c.after += 10 * time.Minute // the earlier command is decided by then, or nearly always
			}
		}
		if maybe(0.05) {
			c.Pad = strings.Repeat("x", 60<<10)
		}
		if maybe(0.2) {
			c.with = r.IntN(3)
		}
		p.commands = append(p.commands, c)
	}
	if maybe(0.3) {
		p.consumers = 1 + r.IntN(2)
	}
	p.drawOrders(epoch)
	return p
}
