package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/millrace-go/millrace/coord/gate"
	"github.com/millrace-go/millrace/coord/lease"
	"github.com/millrace-go/millrace/storage"
)

const (
	children  = 6
	perRound  = 3 * time.Second // a gate is opened
	maySettle = 90 * time.Second
	byParent  = 20 * time.Second // how long a call of the parent may take
)

// A coordWorld is a run of coordination: children that use all of it, and a parent that disturbs them and opens gates.
type coordWorld struct {
	world
	store  *storage.Store
	rounds int64
	calmed time.Duration   // from the end of the disturbances until all work again
	still  sync.Mutex      // held while a child stands still: it may hold SQLite's lock, and two would hold it twice as long
	opened map[int64]int64 // see history
}

// runCoordination makes such a world, disturbs it, waits until all get on again, and audits it.
func runCoordination(ctx context.Context, s settings) (v verdict, err error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, err
	}
	w := &coordWorld{world: world{settings: s}, rounds: int64(s.lasts/perRound) + 1, opened: map[int64]int64{}}
	if w.j, err = newJournal(filepath.Join(s.dir, "journal.log")); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	if err := w.openCoordination(ctx); err != nil {
		return nil, err
	}
	defer func() { _ = w.store.Close() }() // gates only
	w.j.begin()
	var gates sync.WaitGroup
	gates.Go(func() { w.openGates(ctx) })
	w.disturb(ctx, s.plan(), w.disturbChildren)
	w.j.say("calm from here on")
	calm := clock()
	gates.Wait()
	if err := w.settle(ctx, calm); err != nil {
		return nil, err
	}
	w.calmed = time.Duration(clock() - calm)
	var stopping sync.WaitGroup
	for _, p := range w.programs {
		stopping.Go(p.stop)
	}
	stopping.Wait()
	w.lostByServer()
	return w.judgeCoordination(ctx)
}

// openCoordination starts the children.
func (w *coordWorld) openCoordination(ctx context.Context) (err error) {
	url, pace := "sqlite:"+filepath.Join(w.dir, "coordination.db?sync=normal"), 60*time.Millisecond
	w.storeURL = url
	if w.settings.store != sqliteStore {
		if url, err = w.openServer(ctx); err != nil {
			return err
		}
	}
	if w.settings.store == azureStore {
		pace = 200 * time.Millisecond // Azurite serves one request at a time
	}
	if w.store, err = openPatiently(ctx, w.storeURL); err != nil {
		return err
	}
	for i := range children {
		spec := childSpec{Name: fmt.Sprintf("child-%d", i+1), Store: url, Dir: w.dir, Pace: pace, Rounds: w.rounds}
		for _, file := range []string{"second", "third"} {
			spec.More = append(spec.More, "sqlite:"+filepath.Join(w.dir, file+".db?sync=normal"))
		}
		p, err := w.childOf(spec.Name, childSays, spec)
		if err != nil {
			return err
		}
		if err := p.start(); err != nil {
			return err
		}
	}
	return nil
}

// openGates opens the gates of all rounds, half of them at an announced moment.
func (w *coordWorld) openGates(ctx context.Context) {
	for round := int64(1); round <= w.rounds; round++ {
		if !wait(ctx, time.Until(w.j.begun.Add(time.Duration(round)*perRound))) {
			return
		}
		g := gate.At(w.store, gateName(round))
		w.opened[round] = clock()
		w.patiently(ctx, func(ctx context.Context) error {
			if round%2 == 1 {
				return g.Open(ctx, gate.Note{By: "chaos"})
			}
			err := g.OpenAt(ctx, time.Now().Add(perRound/10), gate.Note{By: "chaos"})
			if errors.Is(err, gate.ErrOpen) { // by a try whose answer was lost
				return nil
			}
			return err
		})
	}
}

// patiently repeats a call while the store is away.
func (w *coordWorld) patiently(ctx context.Context, call func(context.Context) error) {
	err := until(ctx, maySettle, func() (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, byParent)
		defer cancel()
		err := call(ctx)
		if errors.Is(err, storage.ErrUnavailable) || errors.Is(err, storage.ErrNotFound) || errors.Is(err, context.DeadlineExceeded) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil && ctx.Err() == nil {
		w.j.fault(nothingFails, "the parent: %v", err)
	}
}

// disturbChildren carries out one disturbance.
func (w *coordWorld) disturbChildren(ctx context.Context, e event) error {
	kill := func(p *program) error {
		p.kill()
		wait(ctx, time.Duration(e.amount)*10*time.Millisecond)
		return p.start()
	}
	switch e.kind {
	case killChild:
		return w.withProgram(e, w.programs, kill)
	case killLeader:
		some, _ := w.holder(ctx, e, leaderLease)
		return w.withProgram(e, some, kill)
	case stopChild:
		return w.stop(ctx, e)
	case stopLeader:
		return w.stopHolder(ctx, e, leaderLease)
	case stopHolder:
		return w.stopHolder(ctx, e, logName)
	case stopLock:
		return w.stopWhoHolds(ctx, e, quorumName)
	case stopTurn:
		return w.stopWhoHolds(ctx, e, turnName)
	case restartChild:
		return w.withProgram(e, w.programs, func(p *program) error {
			p.stop()
			return p.start()
		})
	case breakLease:
		w.j.did(e.kind)
		name := []string{leaderLease, logName}[e.target%2]
		w.j.say("%s: %s", e.kind, name)
		w.patiently(ctx, func(ctx context.Context) error { return lease.Break(ctx, w.store, name, lease.Note{By: "chaos"}) })
		return nil
	}
	return w.disturbStore(ctx, e)
}

// holder returns the program that holds a lease at this moment and has written its document, with its fence. If there is
// none, it waits for one if the event must take place, and else returns all.
func (w *coordWorld) holder(ctx context.Context, e event, name string) (some []*program, fence int64) {
	some = w.programs
	w.patiently(ctx, func(ctx context.Context) error {
		info, err := lease.State(ctx, w.store, name)
		if err != nil {
			return err
		}
		doc, err := lease.Read(ctx, w.store.Blobs(documents), documentOf(name))
		if err != nil {
			return err
		}
		i := slices.IndexFunc(w.programs, func(p *program) bool { return p.name == info.Holder })
		switch {
		case info.Held && i >= 0 && doc.Fence == info.Fence:
			some, fence = w.programs[i:i+1], info.Fence
		case e.must:
			return storage.ErrNotFound // look again
		}
		return nil
	})
	return some, fence
}

func documentOf(lease string) string { return strings.TrimPrefix(lease, leaderPrefix) }

// stop stops a process for longer than its leases last, and lets it go on.
func (w *coordWorld) stop(ctx context.Context, e event) error {
	if !free(&w.still, e.must) {
		w.j.say("not now: %s", e.kind)
		return nil
	}
	defer w.still.Unlock()
	return w.withProgram(e, w.programs, func(p *program) error {
		p.stall(ctx, e.lasts)
		return nil
	})
}

// stopWhoHolds is stop for the process that holds something by its journal. When the process goes on, somebody else has
// it, and the audit compares what both saw of their contexts.
func (w *coordWorld) stopWhoHolds(ctx context.Context, e event, name string) error {
	if !free(&w.still, e.must) {
		w.j.say("not now: %s", e.kind)
		return nil
	}
	defer w.still.Unlock()
	some := w.programs
	_ = until(ctx, byParent, func() (bool, error) { // else it stops any
		for _, p := range w.programs {
			lines, err := readJournal(w.dir, p.lifeNow())
			if err != nil {
				return false, err
			}
			holds := false
			for _, l := range lines {
				if l.Name == name && (l.What == begun || l.What == over) {
					holds = l.What == begun
				}
			}
			if holds {
				some = []*program{p}
				return true, nil
			}
		}
		return !e.must, nil
	})
	return w.withProgram(e, some, func(p *program) error {
		p.stall(ctx, e.lasts)
		return nil
	})
}

// stopHolder stops the holder of a lease until another has written the lease's document, so that its next write is late
// and must be refused. If that doesn't come about, it tries again: the lease was free already, or nobody could follow
// because the process stopped in a transaction of SQLite. Others get on between the tries.
func (w *coordWorld) stopHolder(ctx context.Context, e event, name string) (err error) {
	if !free(&w.still, e.must) {
		w.j.say("not now: %s", e.kind)
		return nil
	}
	defer w.still.Unlock()
	followed := false
	for tries := 0; err == nil && !followed && tries < 3 && (tries == 0 || e.must && wait(ctx, childTTL)); tries++ {
		some, fence := w.holder(ctx, e, name)
		err = w.withProgram(e, some, func(p *program) error {
			on, goOn := context.WithTimeout(ctx, 2*e.lasts)
			watched := make(chan bool)
			go func() {
				defer goOn()
				watched <- w.isFollowed(on, e.lasts, name, p.name, fence)
			}()
			p.stall(on, 2*e.lasts)
			if followed = <-watched; followed {
				followed = w.isRefused(ctx, p, fence)
			}
			return nil
		})
	}
	return err
}

// isFollowed waits until another holder has written the document of a lease, but not if the lease has another holder
// already.
func (w *coordWorld) isFollowed(ctx context.Context, least time.Duration, name, holder string, fence int64) (followed bool) {
	wait(ctx, 100*time.Millisecond) // the signal arrives
	if info, err := lease.State(ctx, w.store, name); err == nil && (!info.Held || info.Holder != holder) {
		return false
	}
	wait(ctx, least)
	_ = until(ctx, maySettle, func() (bool, error) { // it ends with ctx
		doc, err := lease.Read(ctx, w.store.Blobs(documents), documentOf(name))
		followed = err == nil && doc.Fence > fence
		return followed, nil
	})
	return followed
}

// isRefused waits until the fence has refused a write of a process that goes on.
func (w *coordWorld) isRefused(ctx context.Context, p *program, fence int64) bool {
	err := until(ctx, byParent/2, func() (bool, error) {
		lines, err := readJournal(w.dir, p.lifeNow())
		return slices.ContainsFunc(lines, func(l line) bool { return l.What == refused && l.N == fence }), err
	})
	if err != nil {
		w.j.say("%s: no late write was refused: %v", p.name, err)
	}
	return err == nil
}

// lifeNow names the newest process of a child.
func (p *program) lifeNow() string {
	all := p.all()
	return lifeOf(p.name, all[len(all)-1].cmd.Process.Pid)
}

// settle waits until all children work again, after the disturbances.
func (w *coordWorld) settle(ctx context.Context, calm int64) error {
	var missing []string
	err := until(ctx, maySettle, func() (bool, error) {
		h, err := w.history()
		if err != nil {
			return false, err
		}
		missing = h.missing(calm)
		wait(ctx, 200*time.Millisecond) // the journals are long
		return len(missing) == 0, nil
	})
	if errors.Is(err, errTimeout) {
		w.j.fault(workGoesOn, "%v after the disturbances: %s", maySettle, strings.Join(missing, ", "))
		return nil
	}
	w.j.say("all get on")
	return err
}

// missing names what has not been seen since a moment, and should be.
func (h *history) missing(since int64) (all []string) {
	names := map[string]bool{}
	h.each(alive, func(_ string, l line) {
		if l.At > since {
			names[l.Name] = true
		}
	})
	for _, name := range []string{logName, leaderName, quorumName, turnName} {
		if !names[name] {
			all = append(all, "nobody holds "+name)
		}
	}
	for _, life := range h.final {
		done, round := map[what]bool{}, int64(0)
		for _, l := range h.lives[life] {
			done[l.What] = done[l.What] || l.At > since
			if l.What == passed {
				round = l.N
			}
		}
		for _, kind := range []what{stored, added, heard} {
			if !done[kind] {
				all = append(all, fmt.Sprintf("%s has no %s", life, kind))
			}
		}
		if round < h.rounds {
			all = append(all, fmt.Sprintf("%s waits at %s", life, gateName(round+1)))
		}
	}
	return all
}

// history reads the journals.
func (w *coordWorld) history() (h *history, err error) {
	h = &history{opened: w.opened, rounds: w.rounds}
	for _, p := range w.programs {
		h.final = append(h.final, p.lifeNow())
	}
	h.lives, err = readJournals(w.dir)
	return h, err
}

// judgeCoordination audits when all children have stopped.
func (w *coordWorld) judgeCoordination(ctx context.Context) (verdict, error) {
	h, err := w.history()
	if err != nil {
		return nil, err
	}
	if err := h.collect(ctx, w.store); err != nil {
		return nil, err
	}
	found := h.audit()
	for _, f := range found {
		w.j.say("FOUND %v", f)
	}
	if h.count(refused, "") == 0 && len(w.only) == 0 {
		w.j.fault(wasDisturbed, "no late write was refused by its fence")
	}
	for _, rate := range w.rates() {
		if w.j.done[rate.kind] == 0 {
			w.j.fault(wasDisturbed, "there was no %s", rate.kind)
		}
	}
	return &coordReport{settings: w.settings, history: h, calmed: w.calmed, disturbed: w.j.done, notes: w.j.notes, found: append(w.j.found, found...)}, nil
}
