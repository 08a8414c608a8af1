package quorum

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millrace-go/millrace/internal/agree"
	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage"
)

// A round is one try to get a majority of the grants. First all documents are read. When those that may be taken are
// a majority, the fence is decided, and these are taken. A document that is read later has no part in the round.
type round struct {
	*candidate
	answers chan answer
	over    chan struct{} // closed when the round has failed
	decided chan struct{} // closed when fence, first and read are set
	fence   int64
	first   bool   // no store has a document: the name was never used
	read    []bool // by grant: its document was read before the decision

	looks  []answer    // in the order in which they came
	absent []bool      // by grant: there is no document
	out    []error     // by grant: why it isn't had in this round; nil if it is had, or may be
	proved []time.Time // by grant: since when it is had; zero if it isn't
}

// An answer is what a round learns of a grant: first what was read, and then whether it was taken.
type answer struct {
	index int
	taken bool
	err   error

	// The document as it was read.
	doc    document
	absent bool
	wait   time.Duration

	proved time.Time // when the write began that took it
}

func newRound(c *candidate) *round {
	n := len(c.grants)
	return &round{
		candidate: c, answers: make(chan answer, 2*n), over: make(chan struct{}), decided: make(chan struct{}),
		read: make([]bool, n), absent: make([]bool, n), out: make([]error, n), proved: make([]time.Time, n),
	}
}

// run returns nil when a majority is had for long enough to use it. A grant that is still asked for then belongs to
// the lock, too.
func (r *round) run(ctx context.Context) error {
	err := r.collect(ctx)
	if err != nil {
		close(r.over)
	}
	return err
}

func (r *round) collect(ctx context.Context) error {
	for _, g := range r.grants {
		go r.ask(ctx, g)
	}
	most := majority(len(r.grants))
	limit := time.NewTimer(r.TTL / 4) // that is a read and a write
	defer limit.Stop()
	start, grace := time.Now(), time.NewTimer(time.Hour)
	grace.Stop()
	defer grace.Stop()
	for waiting := false; ; {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-limit.C:
			return r.failed()
		case a := <-r.answers:
			if errors.Is(a.err, errTwice) {
				return a.err
			}
			r.note(a)
		case <-grace.C:
			if r.fence == 0 {
				r.decide()
			}
			continue
		}
		had, out := 0, 0
		for i, p := range r.proved {
			if !p.IsZero() {
				had++
			}
			if r.out[i] != nil {
				out++
			}
		}
		switch {
		case had >= most && time.Now().Before(provedTill(r.proved, r.TTL)):
			return nil
		case had >= most, out > len(r.grants)-most:
			return r.failed()
		case r.fence > 0:
		case len(r.looks) == len(r.grants):
			if !r.enough(most) {
				return r.failed()
			}
			r.decide()
		case !waiting && r.enough(most):
			waiting = true
			grace.Reset(time.Since(start) + time.Millisecond) // the others have as long again
		}
	}
}

// ask reads a grant's document, waits for the decision, and takes the grant.
func (r *round) ask(ctx context.Context, g *grant) {
	a := answer{index: g.index}
	select {
	case <-g.turn:
		defer g.unlock()
	default:
		a.err = errBusy
		r.answers <- a
		return
	}
	g.proved = time.Time{}
	a.err = g.look(ctx)
	a.doc, a.absent, a.wait = g.seen.Doc, g.seen.ETag == "", g.wait()
	r.answers <- a
	if a.err != nil {
		return
	}
	select {
	case <-r.over:
		return
	case <-r.decided:
	}
	a.taken = true
	switch {
	case !r.read[a.index], a.absent && !r.first, !a.absent && a.wait > 0:
		a.err = errLate
	default:
		a.err = g.take(ctx, r.fence)
		a.proved = g.proved
	}
	r.answers <- a
}

func (r *round) note(a answer) {
	switch {
	case a.taken:
		if r.out[a.index] == nil {
			r.out[a.index], r.proved[a.index], r.absent[a.index] = a.err, a.proved, false
		}
		return
	case a.err != nil:
		r.out[a.index] = a.err
	case a.absent:
		r.absent[a.index] = true
	case a.wait > 0:
		r.out[a.index] = a.doc.held()
	}
	r.looks = append(r.looks, a)
}

// foreign reports that an answer's fence is too far ahead of a majority of the stores. A store that hasn't answered
// counts as one with fence 0. So a minority of documents can't make a larger fence count.
func (r *round) foreign(a answer) bool {
	fences := make([]int64, len(r.grants))
	for _, a := range r.looks {
		fences[a.index] = a.doc.Fence
	}
	slices.Sort(fences)
	return a.doc.Fence-fences[len(fences)-majority(len(fences))] > maxAhead
}

// enough reports that a majority may be taken, and that what was read tells the largest fence of a holder.
func (r *round) enough(most int) bool {
	absent, free, know, blank := 0, 0, 0, 0
	for _, a := range r.looks {
		if a.err != nil || r.foreign(a) {
			continue
		}
		switch {
		case a.absent:
			absent++
		case a.wait <= 0:
			free++
		}
		if a.doc.knows() {
			know++
		} else {
			blank++
		}
	}
	r.first = absent == len(r.grants)
	return r.first || free >= most && (know >= most || blank >= most)
}

// decide lets the grants be taken.
func (r *round) decide() {
	for _, a := range r.looks {
		if !r.foreign(a) {
			r.fence = max(r.fence, a.doc.Fence)
			r.read[a.index] = a.err == nil
		}
	}
	r.refuse()
	r.fence++
	close(r.decided)
}

// refuse leaves the stores with a foreign fence out of the round. They count as dead.
func (r *round) refuse() {
	for _, a := range r.looks {
		if a.err == nil && !r.read[a.index] && r.foreign(a) && !errors.Is(r.out[a.index], errAhead) {
			r.out[a.index] = r.grants[a.index].fail(errAhead)
		}
	}
}

// failed is the error of a round without a majority.
func (r *round) failed() error {
	r.refuse()
	most := majority(len(r.grants))
	held, blank, split, hopeless := 0, 0, 0, 0
	var each []string
	var faults []error
	for i, err := range r.out {
		switch {
		case err == nil && r.absent[i]:
			err = document{ID: nobody}.held()
			blank++
		case err == nil:
			continue
		case errors.Is(err, ErrHeld):
			held++
		case errors.Is(err, errSplit), storage.LostRace(err):
			split++
		case storecall.Permanent(err):
			hopeless++
		}
		err = fmt.Errorf("stores[%d]: %w", i, err)
		each, faults = append(each, err.Error()), append(faults, err)
	}
	kind := storage.ErrUnavailable
	switch {
	case hopeless > len(r.grants)-most:
		return errors.Join(faults...)
	case held > len(r.grants)-most, held+blank == len(each):
		kind = ErrHeld
	case split > 0:
		kind = errSplit
	}
	return fmt.Errorf("%w: no majority of %d stores: %s", kind, len(r.grants), strings.Join(each, "; "))
}

// provedTill is until when a majority of grants is proved, if the last writes that took them began at these times. It
// is long past if they are no majority.
func provedTill(proved []time.Time, ttl time.Duration) time.Time {
	sorted := slices.SortedFunc(slices.Values(proved), func(a, b time.Time) int { return b.Compare(a) })
	last := sorted[majority(len(proved))-1]
	if last.IsZero() {
		return last
	}
	return agree.ProvedUntil(last, ttl)
}
