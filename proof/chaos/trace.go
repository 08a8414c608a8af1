package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"time"
)

// Log lines of a worker at the debug level: it has received a message, and it has released it.
const (
	messageTaken    = "message taken"
	messageReleased = "message released"
)

// A messageKey identifies a message of a queue. A sender that doesn't know whether its first attempt succeeded sends
// a second message with the same ID.
type messageKey struct {
	queue, id string
	sent      int64 // Unix nanoseconds, by the store
}

// A delivery is one delivery of a message, according to a worker's log.
type delivery struct {
	life     *life
	number   int       // among the deliveries of the message
	taken    time.Time // zero if the worker died before it could log it
	released time.Time // zero if the worker died before it could log it
	made     time.Time // when the sender made the message
}

// A trace is all deliveries of a run.
type trace map[messageKey][]*delivery

type logLine struct {
	Time       time.Time `json:"time"`
	Msg        string    `json:"msg"`
	Queue      string    `json:"queue"`
	ID         string    `json:"id"`
	Deliveries int       `json:"deliveries"`
	Sent       time.Time `json:"sent"`
	Made       time.Time `json:"made"`
}

// add reads the log of one process.
func (t trace) add(l *life) error {
	file, err := os.Open(l.log)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if !bytes.Contains(lines.Bytes(), []byte(`"message `)) {
			continue
		}
		var line logLine
		if json.Unmarshal(lines.Bytes(), &line) != nil || line.Msg != messageTaken && line.Msg != messageReleased {
			continue // the last line of a killed process may be incomplete
		}
		d := t.delivery(l, line)
		if line.Msg == messageTaken {
			d.taken = line.Time
		} else {
			d.released = line.Time
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s: %w", l.log, err)
	}
	return nil
}

func (t trace) delivery(l *life, line logLine) *delivery {
	key := messageKey{line.Queue, line.ID, line.Sent.UnixNano()}
	for _, d := range t[key] {
		if d.life == l && d.number == line.Deliveries {
			return d
		}
	}
	d := &delivery{life: l, number: line.Deliveries, made: line.Made}
	t[key] = append(t[key], d)
	return d
}

// sort puts the deliveries of each message in order.
func (t trace) sort() {
	for _, ds := range t {
		slices.SortFunc(ds, func(a, b *delivery) int { return a.number - b.number })
	}
}

// count returns the number of deliveries, and how many of them were not a message's first.
func (t trace) count() (all, again int) {
	for _, ds := range t {
		for _, d := range ds {
			all++
			if d.number > 1 {
				again++
			}
		}
	}
	return all, again
}

// afterKills returns, for each message that a worker held when it was killed, the time from the kill to the next
// delivery. A message that ended just before the kill has no next delivery, and doesn't count.
func (t trace) afterKills() times {
	return t.again(func(d *delivery) (held bool, since time.Time) {
		since = d.life.killed
		return !since.IsZero() && d.released.IsZero(), since
	})
}

// afterStalls is the same for stalled workers, from the beginning of the stall.
func (t trace) afterStalls() times {
	return t.again(func(d *delivery) (held bool, since time.Time) {
		for _, s := range d.life.stalls {
			if !d.taken.After(s.from) && (d.released.IsZero() || !d.released.Before(s.to)) {
				return true, s.from
			}
		}
		return false, since
	})
}

// again returns the time to the next delivery, for deliveries that held reports as cut short. If the next delivery is
// missing in the logs because its worker died first, neither that one nor a later one counts.
func (t trace) again(held func(*delivery) (bool, time.Time)) (all times) {
	for _, ds := range t {
		for i, d := range ds[:max(0, len(ds)-1)] {
			is, since := held(d)
			if next := ds[i+1]; is && next.number == d.number+1 && next.taken.After(since) {
				all = append(all, next.taken.Sub(since))
			}
		}
	}
	slices.Sort(all)
	return all
}

// lags returns, by queue, the longest time from the making of a message to the end of its last delivery. For a view's
// queue that is the greatest lag of the view. Of messages with the same ID the one that ended first counts, because
// the others change nothing.
func (t trace) lags() map[string]time.Duration {
	type message struct{ queue, id string }
	first := map[message]time.Duration{}
	for key, ds := range t {
		last := ds[len(ds)-1]
		end := last.released
		if end.IsZero() {
			end = last.taken
		}
		m, lag := message{key.queue, key.id}, end.Sub(last.made)
		if before, ok := first[m]; !ok || lag < before {
			first[m] = lag
		}
	}
	worst := map[string]time.Duration{}
	for m, lag := range first {
		worst[m.queue] = max(worst[m.queue], lag)
	}
	return worst
}

// times are sorted durations.
type times []time.Duration

// at returns a quantile, in hundredths: 50 is the median.
func (t times) at(hundredths int) time.Duration {
	if len(t) == 0 {
		return 0
	}
	return t[min(len(t)*hundredths/100, len(t)-1)]
}
