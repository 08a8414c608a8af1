package lanes

import (
	"strconv"
	"strings"
	"time"

	"github.com/millrace-go/millrace/storage/driver"
)

// slowLanes is how many lanes noisy tenants have. The first one is all that older versions know.
const slowLanes = 4

// A lane is a queue of the inner store.
type lane struct {
	account
	number  int
	name    string
	q       driver.Queue
	turns   *class
	current bool // messages are sent into it, and not only found there after a change of the number of lanes

	// These fields are under the mutex of the roster.
	hot      bool      // it may have messages
	signs    int       // how often something said so
	fullFrom time.Time // since when it has brought all that was asked for; zero: it has not
	sweeping bool      // it has messages that are to be moved
	moving   bool      // some are being moved
	broken   broken
}

// broken is the trouble of a lane that fails while another one answers.
type broken struct {
	tries  int // that failed in a row; 0: the lane works
	again  time.Time
	asking bool
}

// newLanes returns the lanes of a queue. The last ones are the slow lanes.
func newLanes(d driver.Store, queue string, x Queue) (all []*lane) {
	names := x.Names(queue)
	add := func(c *class, current bool) {
		n := len(all)
		all = append(all, &lane{number: n, name: names[n], q: d.Queue(names[n]), turns: c, current: current, hot: true})
	}
	for _, p := range x.priorities() {
		c := &class{priority: p, weight: Weights{}.of(p)}
		for i := range Most {
			add(c, i < max(1, x.Lanes))
		}
	}
	aside := &class{aside: true, weight: 1}
	for range slowLanes {
		add(aside, x.Lanes > 0)
	}
	return all
}

// Names lists the queues of the store that hold the messages of a queue, or may hold some that were sent while it had
// more lanes. The first one is the queue itself.
func (x Queue) Names(queue string) []string {
	var names []string
	for _, p := range x.priorities() {
		for i := range Most {
			names = append(names, laneName(queue, p, i))
		}
	}
	for i := range slowLanes {
		names = append(names, slowLaneName(queue, i))
	}
	return names
}

func (x Queue) priorities() []Priority {
	if x.Priorities {
		return []Priority{Normal, High, Low}
	}
	return []Priority{Normal}
}

func slowLaneName(queue string, i int) string {
	if i == 0 {
		return queue + "-slow"
	}
	return queue + "-slow-" + strconv.Itoa(i)
}

func laneName(queue string, p Priority, i int) string {
	switch p {
	case High:
		queue += "-high"
	case Low:
		queue += "-low"
	}
	if i > 0 {
		queue += "-lane-" + strconv.Itoa(i)
	}
	return queue
}

// A receipt is the number of a lane, a tilde, and the receipt of the inner store.

func (l *lane) receipt(r driver.Receipt) driver.Receipt {
	return driver.Receipt(strconv.Itoa(l.number) + "~" + string(r))
}

// split returns the lane of a receipt, and what the inner store knows it by. The first lane judges one of no lane.
func split(lanes []*lane, r driver.Receipt) (*lane, driver.Receipt) {
	number, inner, ok := strings.Cut(string(r), "~")
	n, err := strconv.Atoi(number)
	if !ok || err != nil || n < 0 || n >= len(lanes) || strconv.Itoa(n) != number {
		return lanes[0], r
	}
	return lanes[n], driver.Receipt(inner)
}
