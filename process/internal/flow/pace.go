package flow

import (
	"hash/fnv"
	"strconv"
	"time"

	"github.com/millrace-go/millrace/channel"
)

// pace says when the attempts at a step follow each other.
type pace struct{ s step }

// again reports that another attempt follows after so many that have failed, and after which delay. None is made that
// would begin after the step's end.
func (p pace) again(m Done, failed int) (delay time.Duration, ok bool) {
	delay = p.delay(m, failed)
	switch most := p.s.n.Attempts; {
	case m.Outcome != Failed:
		return 0, false
	case p.s.stays():
		return delay, true
	default:
		return delay, (most == 0 || failed < most) && before(p.s.fold.now.Add(delay), p.s.until())
	}
}

// delay returns how long to wait after a failed attempt. It grows, and differs from instance to instance.
func (p pace) delay(m Done, failed int) time.Duration {
	if m.After > 0 {
		return min(m.After, channel.MaxDelay)
	}
	d := min(times(1<<min(max(failed-1, 0), 20), p.s.n.Backoff), max(maxBackoff, p.s.n.Backoff), channel.MaxDelay)
	h := fnv.New32a()
	_, _ = h.Write([]byte(p.s.fold.id + "\x00" + m.Path + "\x00" + strconv.Itoa(failed)))
	return min(d/5*4+time.Duration(h.Sum32()%1000)*(d/2500), channel.MaxDelay)
}

func noteFailure(all []Failure, f Failure) []Failure {
	if len(all) == maxFailures {
		all = append(all[:1:1], all[2:]...) // the first one stays
	}
	return append(all, f)
}
