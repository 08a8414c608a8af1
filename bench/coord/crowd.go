package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/bench/stats"
	"github.com/millrace-go/millrace/coord/gate"
	"github.com/millrace-go/millrace/coord/signal"
)

const crowd = 8 // processes

// A placing returns the place of a new store.
type placing func(r *round) (string, error)

func openFile(r *round) (string, error)    { return filepath.Join(r.dir, "store"), nil }
func openAzurite(r *round) (string, error) { return r.account() }

// wait is the child that waits for the gate of each line, and says when it went.
func (s spec) wait(ctx context.Context, lines <-chan string, say func(saying)) error {
	store, err := openStore(ctx, s.Places[0])
	if err != nil {
		return err
	}
	say(saying{Ready: true})
	for name := range lines {
		if err = gate.At(store, name).Wait(ctx); err != nil {
			break
		}
		say(saying{At: time.Now().UnixNano()})
	}
	return errors.Join(err, store.Close())
}

// gates measures how soon eight processes go when a gate opens: at most fifty openings, each of a gate of its own.
func gates(place placing) measure {
	return func(ctx context.Context, r *round) (values []float64, err error) {
		url, err := place(r)
		if err != nil {
			return nil, err
		}
		store, err := openStore(ctx, url)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, store.Close()) }()
		all, err := r.startAll(ctx, crowd, spec{Role: "waits", Places: []string{url}})
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, endAll(all)) }()
		var each, last, spread, returned []float64
		for began := time.Now(); len(last) < 2 || len(last) < 50 && time.Since(began) < 6*r.spell; {
			name := "gate-" + strconv.Itoa(len(last))
			for _, c := range all {
				if err := c.Tell(name); err != nil {
					return nil, err
				}
			}
			for heard := 0; heard < crowd; pause(ctx, 20*time.Millisecond) { // a publication that says nothing new
				if heard, err = store.Publish(ctx, "gates", []byte(name), false); err != nil {
					return nil, err
				}
			}
			opened := time.Now()
			if err := gate.At(store, name).Open(ctx, gate.Note{By: "bench"}); err != nil {
				return nil, err
			}
			told := milli(time.Since(opened))
			went, _, err := arrivals(ctx, all, opened, "")
			if err != nil {
				return nil, err
			}
			first, end := slices.Min(went), slices.Max(went)
			each = append(each, went...)
			last, spread, returned = append(last, end), append(spread, end-first), append(returned, end-told)
		}
		half := func(v []float64) float64 { return stats.Percentile(v, 50) }
		return []float64{half(each), half(last), stats.Percentile(last, 99), half(spread), half(returned), float64(len(last))}, nil
	}
}

// arrivals collects a saying of each child, in milliseconds after began, and counts those without one.
func arrivals(ctx context.Context, all []*child, began time.Time, text string) (times []float64, missing int, err error) {
	for _, c := range all {
		x, err := c.listen(ctx, 10*time.Second)
		for err == nil && x.Text != text { // of one before that came late
			x, err = c.listen(ctx, 10*time.Second)
		}
		switch {
		case errors.Is(err, errSilent) && text != "":
			missing++
		case err != nil:
			return nil, 0, err
		default:
			times = append(times, milli(time.Duration(x.At-began.UnixNano())))
		}
	}
	return times, missing, nil
}

const topic = "ticks"

// hear is the child that says when it heard a signal.
func (s spec) hear(ctx context.Context, _ <-chan string, say func(saying)) error {
	if s.Kind == "subscribe" {
		return s.subscribe(ctx, say)
	}
	store, err := openStore(ctx, s.Places[0])
	if err != nil {
		return err
	}
	l, err := signal.Listen(ctx, store, topic)
	if err != nil {
		return errors.Join(err, store.Close())
	}
	defer l.Close()
	say(saying{Ready: true})
	for {
		x, err := l.Any(ctx)
		if err != nil {
			return errors.Join(err, store.Close())
		}
		say(saying{At: time.Now().UnixNano(), Text: string(x.Data)})
	}
}

func (s spec) subscribe(ctx context.Context, say func(saying)) error {
	c := redis.NewClient(&redis.Options{Network: "unix", Addr: s.Places[0]})
	all := c.Subscribe(ctx, topic)
	context.AfterFunc(ctx, func() { _ = all.Close() }) // a Receive doesn't see the end of ctx
	if _, err := all.Receive(ctx); err != nil {        // the confirmation
		return errors.Join(err, c.Close())
	}
	say(saying{Ready: true})
	for {
		m, err := all.ReceiveMessage(ctx)
		if err != nil {
			return errors.Join(err, c.Close())
		}
		say(saying{At: time.Now().UnixNano(), Text: m.Payload})
	}
}

func signals(place placing) measure {
	return func(ctx context.Context, r *round) (values []float64, err error) {
		url, err := place(r)
		if err != nil {
			return nil, err
		}
		store, err := openStore(ctx, url)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, store.Close()) }()
		return r.broadcast(ctx, spec{Role: "hears", Kind: "signal", Places: []string{url}}, func(text string) error {
			_, err := signal.Broadcast(ctx, store, topic, []byte(text))
			return err
		})
	}
}

func redisSignals(ctx context.Context, r *round) (values []float64, err error) {
	started, err := r.redis(ctx, "everysec", 1)
	if err != nil {
		return nil, err
	}
	c := redis.NewClient(&redis.Options{Network: "unix", Addr: started[0].Socket})
	defer func() { err = errors.Join(err, c.Close()) }()
	return r.broadcast(ctx, spec{Role: "hears", Kind: "subscribe", Places: []string{started[0].Socket}}, func(text string) error {
		return c.Publish(ctx, topic, text).Err()
	})
}

// broadcast sends signals to eight processes, each 5 ms after all have heard the one before.
func (r *round) broadcast(ctx context.Context, s spec, send func(text string) error) (values []float64, err error) {
	all, err := r.startAll(ctx, crowd, s)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, endAll(all)) }()
	var each, last []float64
	missing := 0
	for began := time.Now(); len(last)+missing < 2 || time.Since(began) < r.spell; pause(ctx, 5*time.Millisecond) {
		text, at := fmt.Sprint("t", len(last)), time.Now()
		if err := send(text); err != nil {
			return nil, err
		}
		heard, lost, err := arrivals(ctx, all, at, text)
		if err != nil {
			return nil, err
		}
		missing += lost
		each = append(each, heard...)
		if last = append(last, 0); len(heard) > 0 {
			last[len(last)-1] = slices.Max(heard)
		}
	}
	return []float64{stats.Percentile(each, 50), stats.Percentile(last, 50), stats.Percentile(last, 99), float64(len(last)), float64(missing)}, nil
}
