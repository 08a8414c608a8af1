package spool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/storage"
)

// Config has the settings of a spool. The zero Config works.
type Config struct {
	// MaxBytes is how many bytes of messages the file takes. The file itself is somewhat larger. Defaults to 256 MiB.
	MaxBytes int64

	// MaxAge is how long the oldest message may wait before no further one is taken, at most 7 days: a message can't be
	// judged 30 days after its ID was made. Defaults to a day.
	MaxAge time.Duration

	// Logger gets the beginning and the end of an outage, and what was set aside. Defaults to slog.Default().
	Logger *slog.Logger

	// Metrics gets the metrics of the spool until Close, which begin with millrace_spool_: those of one spool at a
	// time. Defaults to none.
	Metrics prometheus.Registerer
}

const (
	defaultBytes = 256 << 20
	mostAge      = 7 * 24 * time.Hour
	drainTime    = 5 * time.Second // how long Run goes on sending after its context has ended
)

// check reports all faults, and fills in what is not set.
func (c *Config) check() error {
	var faults []error
	if c.MaxBytes < 0 || c.MaxAge < 0 {
		faults = append(faults, fmt.Errorf("%w: MaxBytes is %d, MaxAge %v; want none of them negative", storage.ErrInvalid, c.MaxBytes, c.MaxAge))
	}
	if c.MaxAge > mostAge {
		faults = append(faults, fmt.Errorf("%w: MaxAge is %v; want at most %v", storage.ErrInvalid, c.MaxAge, mostAge))
	}
	if c.MaxBytes == 0 {
		c.MaxBytes = defaultBytes
	}
	if c.MaxAge == 0 {
		c.MaxAge = 24 * time.Hour
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return errors.Join(faults...)
}

// A Spool is an open file. All methods may be called concurrently, Run once.
type Spool struct {
	channels *channel.Channels
	outbox   *wire.Outbox
	file     *file
	index    *index
	health   *health
	store    *storeState
	metrics  *metrics
	log      *slog.Logger
	wake     bell // Run has something to do

	kept      atomic.Int64 // messages
	forwarded atomic.Int64 // likewise

	closeOne sync.Once
	closeErr error
}

// Open opens the spool in a file, and makes the file and its folder where they are missing. Run forwards the messages
// in it through the given channels, by their routes. The error matches [ErrInUse] if another program has the file open
// as its spool.
func Open(ctx context.Context, path string, channels *channel.Channels, cfg Config) (*Spool, error) {
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	if channels == nil {
		return nil, fmt.Errorf("spool: %w: there are no channels: check the error of channel.New", storage.ErrInvalid)
	}
	f, err := openFile(ctx, path, cfg.Logger)
	if err != nil {
		return nil, err
	}
	s, err := open(ctx, f, channels, cfg)
	if err != nil {
		return nil, errors.Join(err, f.close())
	}
	return s, nil
}

// open is Open with an open file.
func open(ctx context.Context, f *file, channels *channel.Channels, cfg Config) (*Spool, error) {
	x, err := newIndex(ctx, f, cfg.MaxBytes, cfg.MaxAge)
	if err != nil {
		return nil, err
	}
	outbox, waiting := channels.Outbox(), x.waits.Load()
	if err := f.claim(ctx, owner{outbox.Source, channels.Store().Props().Place}, waiting > 0); err != nil {
		return nil, err
	}
	if err := f.remarks.settle(ctx); err != nil {
		return nil, err
	}
	wake := newBell()
	s := &Spool{
		channels: channels, outbox: outbox, file: f, index: x, log: f.log, wake: wake,
		health: &health{file: f, index: x, log: f.log, wake: wake}, store: &storeState{log: f.log},
	}
	if waiting > 0 {
		s.log.InfoContext(ctx, "the spool holds messages of an earlier run, which are forwarded now", "messages", waiting)
		s.wake.ring()
	}
	s.metrics, err = newMetrics(cfg.Metrics, s.State, s.kept.Load, s.forwarded.Load)
	return s, err
}

// Channels returns the channels of Open with this spool: what they send is kept here while the store is away.
func (s *Spool) Channels() *channel.Channels { return s.channels.SpoolTo(s) }

// Run forwards what is in the spool until ctx ends. Then it goes on for 5 seconds, as long as the store takes
// something, and returns nil.
func (s *Spool) Run(ctx context.Context) error {
	work, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() {
		time.AfterFunc(drainTime, func() { cancel(errStopped) })
	})()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		s.health.watch(ctx)
	}()
	s.newForwarder().run(ctx, work)
	<-watched
	s.log.InfoContext(ctx, "the spool stops", "messages", s.Waiting())
	return nil
}

func (s *Spool) newForwarder() *forwarder {
	return &forwarder{
		outbox: s.outbox, index: s.index, health: s.health, store: s.store, log: s.log, wake: s.wake,
		report: newReporter(s.channels.Store().Table(reports), s.outbox.Source, s.file.path, s.log),
		state:  s.State, forwarded: &s.forwarded, failedAt: map[string]int{},
	}
}

// Close closes the file, and leaves the messages in it. Call it after Run has returned.
func (s *Spool) Close() error {
	s.closeOne.Do(func() {
		s.metrics.unregister()
		_ = s.index.resolve(context.Background()) // or the next start sends what is left
		s.closeErr = s.file.close()
	})
	return s.closeErr
}

// Away implements wire.Spool: it returns an error while the store is known to be away.
func (s *Spool) Away() error { return s.store.err() }

// Waiting implements wire.Spool: it is the number of messages that wait for the store.
func (s *Spool) Waiting() int64 { return s.index.waits.Load() }

// Unsent implements wire.Spool: it is the number of messages that wait for the store, or that were set aside.
func (s *Spool) Unsent() int64 {
	st := s.index.count()
	return st.Waiting + st.Refused
}

// Takes returns why the spool takes no further message, or nil. Everybody may read its text.
func (s *Spool) Takes() error { return s.health.takes() }

// A State is what is in a spool.
type State struct {
	Waiting int64     // messages that wait for the store
	Oldest  time.Time // when the oldest of them was kept; zero for none
	Refused int64     // messages that were set aside; see the package's laws
	Reason  string    // of the last one
	Bytes   int64     // of both
	Away    time.Time // since when the store is known to be away; zero if it is not
	Failed  error     // why the file can't be used; nil if it can, as far as a running program knows

	// Program is the source of the messages in the file, and Store the place of the store for which they are; see
	// storage.Props. They are empty for a file that belongs to nobody, and known to Look alone.
	Program, Store string
}

// State returns what is in the spool.
func (s *Spool) State() State {
	st := s.index.count()
	st.Away, st.Failed = s.store.since(), s.health.failure()
	return st
}
