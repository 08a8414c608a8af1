package doorbell

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	random "math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/millrace-go/millrace/storage"
)

const (
	leftAlone    = time.Hour       // an invalid row is removed after this time
	withdrawTime = 2 * time.Second // the longest time that Close spends on removing the row
	checkAge     = 5 * time.Second // how often the row's age is compared with the wall clock; it costs no request
)

// rowMayBeGone makes publish write the row again after a sign that the row is gone. It makes no request itself.
func (s *store) rowMayBeGone() {
	select {
	case s.gone <- struct{}{}:
	default:
	}
}

// missRow notes that this process's row was missing in a read that began at that time. So publications of others may
// have been lost.
func (s *store) missRow(began time.Duration) {
	s.mu.Lock()
	published, there := s.published, s.rowSince > 0 && s.rowSince < began
	if there {
		s.rowSince = 0
	}
	s.mu.Unlock()
	if published {
		s.rowMayBeGone() // before a call of Subscribe that follows the loss
	}
	if there {
		s.receivers.Lose()
	}
}

// A publisher keeps this process's row.
type publisher struct {
	s   *store
	key []byte
	at  netip.AddrPort

	timer      *time.Timer
	check      *time.Ticker   // of the row's age; it runs while there is a row
	queues     []string       // in the row
	received   []string       // likewise
	tried      time.Duration  // when the last write began
	wrote      time.Duration  // when the last one began that succeeded
	dated      time.Time      // likewise by the wall clock, which goes on while the machine is suspended
	gone       bool           // there has been a sign since that the row is gone
	failing    bool           // the last write failed
	lost       bool           // the Registrations were lost since the last write that succeeded
	tidied     bool           // the rows of others were looked at
	subscribes []chan<- error // the calls of Subscribe that wait for the row
}

// publish keeps the row until the store is closed. It writes the row soon after a queue is added or after a sign that
// the row is gone, at once for a call of Subscribe, and renews it.
func (s *store) publish(key []byte, at netip.AddrPort) {
	p := newPublisher(s, key, at)
	defer p.timer.Stop()
	defer p.check.Stop()
	for p.wait() {
		p.update()
	}
}

func newPublisher(s *store, key []byte, at netip.AddrPort) *publisher {
	p := &publisher{s: s, key: key, at: at, timer: time.NewTimer(s.pace.renew), check: time.NewTicker(checkAge)}
	p.check.Stop()
	return p
}

// wait returns when the row is to be written. It returns false when the store is closed.
func (p *publisher) wait() bool {
	s := p.s
	for {
		select {
		case <-s.ctx.Done():
			return false
		case <-p.timer.C:
			return true
		case <-p.check.C:
			if !p.failing && p.age() >= s.pace.renew*5/4 { // the timer stood still
				return true
			}
		case <-s.gone:
			p.gone = true
			wait := p.tried + s.pace.retry - s.bells.now()
			if wait <= 0 {
				return true
			}
			p.timer.Reset(wait)
		case h := <-s.subscribes:
			p.subscribes = append(p.subscribes, h)
			if !p.isInRow() {
				return true
			}
			p.answer(nil)
		case <-s.more:
			if isSubset(s.bells.watched(), p.queues) {
				continue
			}
			select {
			case <-s.ctx.Done():
				return false
			case <-time.After(s.pace.settle):
			case h := <-s.subscribes: // it doesn't wait for more queues
				p.subscribes = append(p.subscribes, h)
			}
			return true
		}
	}
}

// isInRow reports whether others read in the row all topics of this store's receivers.
func (p *publisher) isInRow() bool {
	select {
	case <-p.s.gone:
		p.gone = true
	default:
	}
	return !p.gone && !p.failing && isSubset(p.s.receivers.Topics(), p.received)
}

// answer ends the calls of Subscribe that wait.
func (p *publisher) answer(err error) {
	for _, h := range p.subscribes {
		h <- err
	}
	p.subscribes = nil
}

// update writes the row, and sets the time of the next write.
func (p *publisher) update() {
	s := p.s
	for more := true; more; { // one write for all that wait
		select {
		case h := <-s.subscribes:
			p.subscribes = append(p.subscribes, h)
		default:
			more = false
		}
	}
	queues, received := s.bells.watched(), s.receivers.Topics()
	p.loseIfLate() // this process stood still, or its machine, say
	p.tried, p.gone = s.bells.now(), false
	dated := s.wall()
	err := s.write(queues, received, p.key, p.at)
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
		s.cfg.Logger.LogAttrs(s.ctx, slog.LevelInfo, "doorbell: listening for rings", slog.Any("addresses", addresses(s.cfg.Advertise, p.at)))
		p.tidy()
		p.tidied = true
	}
	p.timer.Reset(s.pace.renew*9/10 + random.N(s.pace.renew/5))
}

// age returns the time since the row was written. Other machines see the greater of the two times: the monotonic clock
// stands still while this machine is suspended, and the wall clock may be set back.
func (p *publisher) age() time.Duration {
	return max(p.s.bells.now()-p.wrote, p.s.wall().Sub(p.dated))
}

// loseIfLate loses the Registrations if the row was not renewed for so long that others took this process for dead.
func (p *publisher) loseIfLate() {
	if len(p.received) > 0 && !p.lost && p.age() >= p.s.pace.trust() {
		p.lost = true
		p.s.receivers.Lose()
	}
}

// fail notes that a write failed.
func (p *publisher) fail(err error) {
	s := p.s
	if !p.failing && s.ctx.Err() == nil {
		s.cfg.Logger.LogAttrs(s.ctx, slog.LevelWarn, "doorbell: can't write this process's row, so others don't ring it; idle workers find messages by polling", slog.Any("error", err))
	}
	p.queues, p.failing = nil, true
	p.loseIfLate()
	p.timer.Reset(s.pace.retry)
}

// tidy removes the rows of crashed processes. If it fails, the next process to start removes them.
func (p *publisher) tidy() {
	s := p.s
	ctx, cancel := context.WithTimeout(s.ctx, callTimeout)
	defer cancel()
	list, _, err := s.rows(ctx)
	if err != nil {
		return
	}
	for _, l := range list {
		if time.Since(l.until()) > leftAlone {
			if s.table.Delete(ctx, partition, l.id, storage.Condition{IfMatch: l.etag}) != nil {
				return
			}
		}
	}
}

func isSubset(a, b []string) bool {
	return !slices.ContainsFunc(a, func(x string) bool { return !slices.Contains(b, x) })
}

// write writes the row, or removes it when no consumer waits for a queue and no receiver is there.
func (s *store) write(queues, received []string, key []byte, at netip.AddrPort) error {
	if len(queues)+len(received) == 0 {
		return s.withdraw(s.ctx)
	}
	r := row{Version: version, Queues: queues, Received: received, Key: key, Until: s.wall().Add(s.pace.valid).Unix()}
	for _, a := range addresses(s.cfg.Advertise, at) {
		r.Addresses = append(r.Addresses, a.String())
	}
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.published = true // also after a failure: the row may have been written
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(s.ctx, callTimeout)
	defer cancel()
	_, err = s.table.Put(ctx, partition, s.id, data, storage.Condition{})
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && s.rowSince == 0 {
		s.rowSince = s.bells.now()
	}
	return err
}

// withdraw removes the row, if there may be one.
func (s *store) withdraw(ctx context.Context) error {
	s.mu.Lock()
	published := s.published
	s.published, s.rowSince = false, 0
	s.mu.Unlock()
	if !published {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, withdrawTime)
	defer cancel()
	err := s.table.Delete(ctx, partition, s.id, storage.Condition{})
	if errors.Is(err, storage.ErrNotFound) {
		return nil
	}
	return err
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
