package main

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// disturb carries out a plan by one, and returns when all of it is over. If a program is disturbed already, the next
// disturbance goes to another program, or is left out.
func (w *world) disturb(ctx context.Context, plan []event, one func(context.Context, event) error) {
	var under sync.WaitGroup
	for _, e := range plan {
		if !wait(ctx, time.Until(w.j.begun.Add(e.at))) {
			break
		}
		under.Go(func() {
			if err := one(ctx, e); err != nil {
				w.j.fault(nothingFails, "%s: %v", e.kind, err)
			}
		})
	}
	under.Wait()
}

// one carries out one disturbance.
func (w *world) one(ctx context.Context, e event) error {
	switch e.kind {
	case killWeb:
		return w.withProgram(e, w.programs[:1], func(p *program) error {
			p.kill()
			return p.start()
		})
	case killWorker:
		return w.withProgram(e, w.programs[1:], func(p *program) error {
			p.kill()
			wait(ctx, time.Duration(e.amount)*20*time.Millisecond)
			return p.start()
		})
	case stall:
		return w.withProgram(e, w.programs[1:], func(p *program) error {
			if w.store == sqliteStore { // it may have stopped in a transaction, and hold the file's lock
				defer w.j.hardship()()
			}
			p.stall(ctx, e.lasts)
			return nil
		})
	case rolling:
		return w.roll(ctx, e)
	case fullDisk:
		return w.fillDisk(ctx, e)
	}
	return w.disturbStore(ctx, e)
}

// disturbStore carries out a disturbance of the store's server, or of a connection.
func (w *world) disturbStore(ctx context.Context, e event) error {
	switch e.kind {
	case killStore:
		return w.restartStore(ctx, e)
	case stopServer:
		return w.stopStore(ctx, e)
	}
	return w.disturbWire(ctx, e)
}

// withProgram applies do to one of some programs that has no disturbance, if there is one.
func (w *world) withProgram(e event, some []*program, do func(*program) error) error {
	for i := range some {
		p := some[(e.target+i)%len(some)]
		if free(&p.busy, e.must && i == len(some)-1) {
			defer p.busy.Unlock()
			w.j.did(e.kind)
			return do(p)
		}
	}
	w.j.say("not now: %s", e.kind)
	return nil
}

// free locks a program or proxy that has no disturbance. It can wait until there is none.
func free(busy *sync.Mutex, wait bool) bool {
	if wait {
		busy.Lock()
		return true
	}
	return busy.TryLock()
}

// roll restarts all programs, one after the other.
func (w *world) roll(ctx context.Context, e event) error {
	w.j.say("%s", e.kind)
	order := rand.New(rand.NewPCG(uint64(e.target), 2)).Perm(len(w.programs))
	for _, i := range order {
		p := w.programs[i]
		p.busy.Lock() // perhaps for as long as the program is stalled
		if ctx.Err() == nil {
			p.stop()
		}
		err := p.start()
		p.busy.Unlock()
		if err != nil {
			return err
		}
	}
	w.j.did(e.kind)
	return nil
}

func (w *world) fillDisk(ctx context.Context, e event) error {
	if !w.disk.mounted {
		w.j.say("not here: %s", e.kind)
		return nil
	}
	defer w.j.hardship()()
	w.j.did(e.kind)
	w.j.say("%s for %v", e.kind, e.lasts.Round(time.Millisecond))
	err := w.disk.fill(ctx, e.lasts)
	w.j.say("over: %s", e.kind)
	return err
}

// restartStore kills the store's server, and starts it again after a while. Azurite's connections are cut first, because
// it must write what it has acknowledged.
func (w *world) restartStore(ctx context.Context, e event) error {
	defer w.j.hardship()()
	for _, wire := range w.storage {
		wire.busy.Lock()
		defer wire.busy.Unlock()
	}
	w.j.did(e.kind)
	w.j.say("%s for %v", e.kind, e.lasts.Round(time.Millisecond))
	var down []*wire
	if w.store == azureStore {
		down = w.storage
	}
	for _, wire := range down {
		wire.down()
	}
	if err := w.server.kill(ctx); err != nil {
		return err
	}
	wait(ctx, e.lasts)
	if err := w.server.start(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	for _, wire := range down {
		if err := wire.up(); err != nil {
			return err
		}
	}
	w.j.say("over: %s", e.kind)
	return nil
}

// stopStore stops Redis for a while. Its connections stay, and calls wait.
func (w *world) stopStore(ctx context.Context, e event) error {
	defer w.j.hardship()()
	for _, wire := range w.storage {
		wire.busy.Lock()
		defer wire.busy.Unlock()
	}
	w.j.did(e.kind)
	w.j.say("%s for %v", e.kind, e.lasts.Round(time.Millisecond))
	w.server.(*redisServer).stall(ctx, e.lasts)
	w.j.say("over: %s", e.kind)
	return nil
}

func (w *world) disturbWire(ctx context.Context, e event) error {
	wire := w.wires[e.target%len(w.wires)]
	if !free(&wire.busy, e.must) {
		w.j.say("not now: %s", e.kind)
		return nil
	}
	defer wire.busy.Unlock()
	if slices.Contains(w.storage, wire) { // the other one has only the client behind it
		defer w.j.hardship()()
	}
	w.j.did(e.kind)
	w.j.say("%s to %s for %v", e.kind, wire.name, e.lasts.Round(time.Millisecond))
	err := wire.disturb(ctx, e.kind, e.lasts, e.amount)
	w.j.say("over: %s to %s", e.kind, wire.name)
	return err
}
