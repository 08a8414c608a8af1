package doorbell

import (
	"context"
	"fmt"
	"log/slog"
	random "math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/millrace-go/millrace/storage/driver"
	"github.com/millrace-go/millrace/storage/internal/pubsub"
)

const checkAge = 5 * time.Second // how often the row's age is compared with the wall clock; it costs no request

// A publisher keeps this process's row. enter and wantMore may be called concurrently. The rest belongs to the
// goroutine of run.
type publisher struct {
	dir        *directory
	bells      *bells
	receivers  *pubsub.Receivers
	cfg        Config
	ctx        context.Context   // until Close
	more       chan struct{}     // of capacity 1: a consumer waits for a queue that isn't in the row yet
	subscribes chan chan<- error // calls of Subscribe that wait for the row

	key      []byte
	at       netip.AddrPort
	timer    *time.Timer
	check    *time.Ticker   // of the row's age; it runs while there is a row
	queues   []string       // in the row
	received []string       // likewise
	tried    time.Duration  // when the last write began
	wrote    time.Duration  // when the last one began that succeeded
	dated    time.Time      // likewise by the wall clock, which goes on while the machine is suspended
	gone     bool           // there has been a sign since that the row is gone
	failing  bool           // the last write failed
	lost     bool           // the Registrations were lost since the last write that succeeded
	tidied   bool           // the rows of others were looked at
	waiting  []chan<- error // the calls of Subscribe that wait for the row
}

func newPublisher(ctx context.Context, dir *directory, b *bells, cfg Config) *publisher {
	p := &publisher{
		dir: dir, bells: b, receivers: dir.receivers, cfg: cfg, ctx: ctx,
		more: make(chan struct{}, 1), subscribes: make(chan chan<- error),
		timer: time.NewTimer(dir.pace.renew), check: time.NewTicker(checkAge),
	}
	p.timer.Stop()
	p.check.Stop()
	return p
}

// wantMore notes that a consumer waits for a queue that may not be in the row yet.
func (p *publisher) wantMore() {
	select {
	case p.more <- struct{}{}:
	default:
	}
}

// enter returns when all topics of this store's receivers are in the row.
func (p *publisher) enter(ctx context.Context) error {
	done := make(chan error, 1)
	select {
	case p.subscribes <- done:
	case <-p.ctx.Done():
		return errClosed()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	var err error
	select {
	case err = <-done:
	case <-p.ctx.Done():
		return errClosed()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("can't write the row by which others find this process: %w", err)
	}
	return nil
}

func errClosed() error { return fmt.Errorf("%w: it is closed", driver.ErrUnavailable) }

// run keeps the row until the store is closed. It writes the row soon after a queue is added or after a sign that
// the row is gone, at once for a call of Subscribe, and renews it.
func (p *publisher) run(key []byte, at netip.AddrPort) {
	p.key, p.at = key, at
	p.timer.Reset(p.dir.pace.renew)
	defer p.timer.Stop()
	defer p.check.Stop()
	for p.wait() {
		p.update()
	}
}

// wait returns when the row is to be written. It returns false when the store is closed.
func (p *publisher) wait() bool {
	for {
		select {
		case <-p.ctx.Done():
			return false
		case <-p.timer.C:
			return true
		case <-p.check.C:
			if !p.failing && p.age() >= p.dir.pace.renew*5/4 { // the timer stood still
				return true
			}
		case <-p.dir.gone:
			p.gone = true
			wait := p.tried + p.dir.pace.retry - p.bells.now()
			if wait <= 0 {
				return true
			}
			p.timer.Reset(wait)
		case h := <-p.subscribes:
			p.waiting = append(p.waiting, h)
			if !p.isInRow() {
				return true
			}
			p.answer(nil)
		case <-p.more:
			if isSubset(p.bells.watched(), p.queues) {
				continue
			}
			select {
			case <-p.ctx.Done():
				return false
			case <-time.After(p.dir.pace.settle):
			case h := <-p.subscribes: // it doesn't wait for more queues
				p.waiting = append(p.waiting, h)
			}
			return true
		}
	}
}

// isInRow reports whether others read in the row all topics of this store's receivers.
func (p *publisher) isInRow() bool {
	select {
	case <-p.dir.gone:
		p.gone = true
	default:
	}
	return !p.gone && !p.failing && isSubset(p.receivers.Topics(), p.received)
}

// answer ends the calls of Subscribe that wait.
func (p *publisher) answer(err error) {
	for _, h := range p.waiting {
		h <- err
	}
	p.waiting = nil
}

// update writes the row, and sets the time of the next write.
func (p *publisher) update() {
	for more := true; more; { // one write for all that wait
		select {
		case h := <-p.subscribes:
			p.waiting = append(p.waiting, h)
		default:
			more = false
		}
	}
	queues, received := p.bells.watched(), p.receivers.Topics()
	p.loseIfLate() // this process stood still, or its machine, say
	p.tried, p.gone = p.bells.now(), false
	dated := p.dir.wall()
	err := p.dir.write(p.ctx, p.row(queues, received))
	p.answer(err)
	if err != nil {
		p.fail(err)
		return
	}
	p.loseIfLate()
	p.queues, p.received, p.wrote, p.dated, p.failing, p.lost = queues, received, p.tried, dated, false, false
	if len(queues)+len(received) > 0 {
		p.check.Reset(checkAge)
	} else {
		p.check.Stop()
	}
	if !p.tidied && len(queues)+len(received) > 0 {
		p.cfg.Logger.LogAttrs(p.ctx, slog.LevelInfo, "doorbell: listening for rings", slog.Any("addresses", addresses(p.cfg.Advertise, p.at)))
		p.dir.tidy(p.ctx)
		p.tidied = true
	}
	p.timer.Reset(p.dir.pace.renew*9/10 + random.N(p.dir.pace.renew/5))
}

// age returns the time since the row was written. Other machines see the greater of the two times: the monotonic clock
// stands still while this machine is suspended, and the wall clock may be set back.
func (p *publisher) age() time.Duration {
	return max(p.bells.now()-p.wrote, p.dir.wall().Sub(p.dated))
}

// loseIfLate loses the Registrations if the row was not renewed for so long that others took this process for dead.
func (p *publisher) loseIfLate() {
	if len(p.received) > 0 && !p.lost && p.age() >= p.dir.pace.trust() {
		p.lost = true
		p.receivers.Lose()
	}
}

// fail notes that a write failed.
func (p *publisher) fail(err error) {
	if !p.failing && p.ctx.Err() == nil {
		p.cfg.Logger.LogAttrs(p.ctx, slog.LevelWarn, "doorbell: can't write this process's row, so others don't ring it; idle workers find messages by polling", slog.Any("error", err))
	}
	p.queues, p.failing = nil, true
	p.loseIfLate()
	p.timer.Reset(p.dir.pace.retry)
}

// row is the row as it is to be written.
func (p *publisher) row(queues, received []string) row {
	r := row{Queues: queues, Received: received, Key: p.key}
	for _, a := range addresses(p.cfg.Advertise, p.at) {
		r.Addresses = append(r.Addresses, a.String())
	}
	return r
}

func isSubset(a, b []string) bool {
	return !slices.ContainsFunc(a, func(x string) bool { return !slices.Contains(b, x) })
}

// addresses returns the addresses by which others reach a socket that is bound to at: those to advertise, if there are
// any.
func addresses(advertise []string, at netip.AddrPort) []netip.AddrPort {
	var list []netip.AddrPort
	add := func(text string) {
		if a, ok := parseAddress(text, at.Port()); ok && len(list) < maxAddresses && !slices.Contains(list, a) {
			list = append(list, a)
		}
	}
	for _, text := range advertise {
		add(text)
	}
	if len(list) > 0 {
		return list
	}
	if ip := at.Addr().Unmap(); !ip.IsUnspecified() {
		return []netip.AddrPort{netip.AddrPortFrom(ip, at.Port())}
	}
	for _, ip := range outward() {
		add(ip.String())
	}
	if len(list) == 0 {
		add("127.0.0.1") // a machine without a network
	}
	return list
}

// outward lists this machine's global unicast addresses, version 4 first.
func outward() []netip.Addr {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	var list []netip.Addr
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().IsGlobalUnicast() {
			list = append(list, p.Addr())
		}
	}
	slices.SortStableFunc(list, func(a, b netip.Addr) int { return a.BitLen() - b.BitLen() })
	return list
}
