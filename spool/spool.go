package spool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite"
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

	// Metrics gets the metrics of the spool until Close, which begin with millrace_spool_: those of one spool at a time.
	// Defaults to none.
	Metrics prometheus.Registerer
}

const (
	defaultBytes = 256 << 20
	mostAge      = 7 * 24 * time.Hour
	storeTime    = 2 * time.Second  // how long Send tries the store before it keeps the messages
	drainTime    = 5 * time.Second  // how long Run goes on sending after its context has ended
	localTime    = 10 * time.Second // bounds a call of the file
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

// writeTime is how long a Send waits for its write to the file, which another tool may have locked: as long as for the
// store, and a second more for each 8 MiB, within localTime.
func writeTime(size int) time.Duration {
	return min(storeTime+time.Duration(size>>23)*time.Second, localTime)
}

// A Spool is an open file. All methods may be called concurrently, Run once.
type Spool struct {
	cfg      Config
	path     string
	channels *channel.Channels
	outbox   *wire.Outbox
	local    *storage.Store
	blobs    *storage.Blobs
	lock     *lock       // nil in tests
	info     os.FileInfo // of the file
	remarks  remarks
	noAnswer error // the cause of a try that was given up
	metrics  []prometheus.Collector

	index
	away      atomic.Pointer[outage]
	wake      chan struct{}           // of capacity 1: Run has something to do
	failed    atomic.Pointer[failure] // while the file can't be written
	kept      atomic.Int64            // messages
	forwarded atomic.Int64            // likewise

	closeOne sync.Once
	closeErr error
}

// An outage is the time in which the store is known to be away.
type outage struct {
	since time.Time
	cause error
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
	file, err := realPath(path)
	if err != nil {
		return nil, err
	}
	if err := refuseForeign(ctx, file); err != nil {
		return nil, err
	}
	lock, err := lockFile(file)
	if err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	local, err := sqlite.OpenSpool(ctx, "sqlite:"+file+"?wake=off", cfg.Logger, false)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("spool: %w", err), lock.close())
	}
	s, err := open(ctx, file, channels, local, cfg)
	if err != nil {
		return nil, errors.Join(err, local.Close(), lock.close())
	}
	s.lock = lock
	return s, nil
}

// open is Open with a store that keeps the messages.
func open(ctx context.Context, file string, channels *channel.Channels, local *storage.Store, cfg Config) (*Spool, error) {
	s := &Spool{
		cfg: cfg, path: file, channels: channels, outbox: channels.Outbox(), local: local, blobs: local.Blobs(container),
		noAnswer: fmt.Errorf("%w: no answer within %v", storage.ErrUnavailable, storeTime),
		remarks:  remarks{local, file, cfg.Logger},
		index:    index{lanes: map[string][]*entry{}, doubtful: make(chan struct{}, 1)}, wake: make(chan struct{}, 1),
	}
	for b, err := range s.blobs.List(ctx, "") {
		if err != nil {
			return nil, fmt.Errorf("spool: %w", err)
		}
		e, ok := parseKey(b.Key)
		if !ok {
			return nil, notASpool(file, b.Key)
		}
		e.size, e.at = b.Size, b.Modified
		s.load(&e)
	}
	if err := s.claim(ctx); err != nil {
		return nil, err
	}
	err := s.remarks.open(ctx)
	if err != nil {
		return nil, err
	}
	if s.info, err = os.Stat(file); err != nil {
		return nil, fmt.Errorf("spool: %w: %w", storage.ErrUnavailable, err)
	}
	if n := s.waits.Load(); n > 0 {
		cfg.Logger.InfoContext(ctx, "the spool holds messages of an earlier run, which are forwarded now", "spool", file, "messages", n)
		s.ring()
	}
	return s, s.register(cfg.Metrics)
}

// Channels returns the channels of Open with this spool: what they send is kept here while the store is away.
func (s *Spool) Channels() *channel.Channels { return s.channels.SpoolTo(s) }

// Close closes the file, and leaves the messages in it. Call it after Run has returned.
func (s *Spool) Close() error {
	s.closeOne.Do(func() {
		s.unregister()
		_ = s.resolve(context.Background()) // or the next start sends what is left
		s.closeErr = errors.Join(s.local.Close(), s.lock.close())
	})
	return s.closeErr
}

// isAway reports that an error says that the store is away, and nothing about a message.
func isAway(err error) bool {
	return errors.Is(err, storage.ErrUnavailable) || errors.Is(err, storage.ErrThrottled)
}

// Send implements channel.Spool. A spool that takes nothing is as none.
func (s *Spool) Send(ctx context.Context, envelopes []wire.Envelope, try func(ctx context.Context) error) (kept bool, err error) {
	tried := s.Waiting() == 0
	if tried {
		err = s.attempt(ctx, try)
		if err == nil || ctx.Err() != nil || !isAway(err) {
			return false, err
		}
	}
	full := s.keep(ctx, envelopes)
	switch {
	case full == nil:
		if tried {
			s.begin(ctx, err)
		}
		s.ring()
		return true, nil
	case !isAway(full), ctx.Err() != nil:
		return false, full
	case !tried:
		err = s.attempt(ctx, try)
	}
	if err != nil && isAway(err) {
		err = fmt.Errorf("%w; and the spool takes nothing: %w", err, full)
	}
	return false, err
}

// attempt tries the store for a while.
func (s *Spool) attempt(ctx context.Context, try func(ctx context.Context) error) error {
	most := storeTime
	if end, ok := ctx.Deadline(); ok {
		most = min(most, time.Until(end)/2) // the rest is for the file
	}
	ctx, cancel := context.WithTimeoutCause(ctx, most, s.noAnswer)
	defer cancel()
	return try(ctx)
}

// These errors say why a spool takes nothing. Both match storage.ErrUnavailable.
var (
	errFull = fmt.Errorf("%w: the spool is full", storage.ErrUnavailable)
	errOld  = fmt.Errorf("%w: the spool takes nothing more, because its oldest message has waited too long", storage.ErrUnavailable)
)

// keep writes envelopes to the file. On nil they are durable there.
func (s *Spool) keep(ctx context.Context, envelopes []wire.Envelope) error {
	queues, err := s.outbox.QueuesOf(envelopes)
	if err != nil {
		return err
	}
	body, err := encode(envelopes)
	if err != nil {
		return err
	}
	if most := s.local.Props().MaxBlob; len(body) > most {
		return fmt.Errorf("%w: messages of %d bytes in one Send; the spool takes %d at most", storage.ErrUnavailable, len(body), most)
	}
	if err := s.lock.hold(); err != nil {
		return s.fails(ctx, err, len(body))
	}
	now := time.Now()
	if oldest := s.oldest(); !oldest.IsZero() && now.Sub(oldest) > s.cfg.MaxAge {
		return errOld
	}
	if len(s.inDoubt()) >= mostDoubts {
		return s.fails(ctx, errDoubts, len(body))
	}
	e := &entry{lane: laneOf(queues), messages: int64(len(envelopes)), size: int64(len(body)), at: now}
	if !s.reserve(e, s.cfg.MaxBytes) {
		return errFull
	}
	limited, cancel := storecall.Limit(ctx, writeTime(len(body)))
	defer cancel()
	if _, err := s.blobs.Put(limited, e.key(), body, storage.Condition{IfAbsent: true}); err != nil {
		s.disown(e, err)
		if ctx.Err() != nil { // the caller has left
			return fmt.Errorf("spool: %w", err)
		}
		return s.fails(ctx, err, len(body))
	}
	s.add(e)
	s.kept.Add(e.messages)
	s.mended(ctx)
	return nil
}

// begin notes that the store is away.
func (s *Spool) begin(ctx context.Context, cause error) {
	if s.away.CompareAndSwap(nil, &outage{time.Now(), cause}) {
		s.cfg.Logger.WarnContext(ctx, "the store is away: messages are kept in the spool until it is back", "spool", s.path, "error", cause)
	}
}

// ring wakes Run.
func (s *Spool) ring() { knock(s.wake) }

func knock(at chan<- struct{}) {
	select {
	case at <- struct{}{}:
	default:
	}
}

// Away implements channel.Spool: it returns an error while the store is known to be away.
func (s *Spool) Away() error {
	o := s.away.Load()
	if o == nil {
		return nil
	}
	return fmt.Errorf("channel: send: %w: the store is away since %s", storage.ErrUnavailable, o.since.UTC().Format(time.RFC3339))
}

// Waiting implements channel.Spool: it is the number of messages that wait for the store.
func (s *Spool) Waiting() int64 { return s.waits.Load() }

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

	full bool
}

// State returns what is in the spool.
func (s *Spool) State() State {
	st := s.count()
	if o := s.away.Load(); o != nil {
		st.Away = o.since
	}
	if f := s.failed.Load(); f != nil {
		st.Failed = f
	}
	return st
}
