package simulation

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/millrace-go/millrace/internal/faulttest"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/values"
)

// plan is everything in a run that the seed decides.
type plan struct {
	faulttest.Plan
	wrapped  bool          // there is middleware, so a unit of work doesn't end deliveries
	noting   time.Duration // how long the effect outside takes
	days     values.Config[day]
	upgrades bool
	commands []command
	orders   []open
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
	p := plan{Plan: faulttest.Draw(seed, r), wrapped: seed%4 >= 2, upgrades: maybe(0.3)}
	p.days = values.Config[day]{Initial: fresh, Window: 2 + r.IntN(4), Cache: 1 + r.IntN(3), PendingAfter: time.Minute}
	p.noting = p.Visibility * time.Duration(r.IntN(3)) // in twice the visibility, it is renewed half a dozen times
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
	p.drawOrders(epoch)
	return p
}
