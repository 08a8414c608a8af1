package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/process"
)

const (
	mayEnd    = 2 * time.Minute  // how long the instances may take after the last disturbance
	maySpeak  = 20 * time.Second // how long a stopped agent's charge may take to be refunded
	lookAgain = 30 * time.Second // how long the index may be behind when all is quiet
	plentiful = 2                // one in so many customers may have the same item, which is enough
)

// A shopWorld is a run of processes. The workers of a shop, its bank and its carrier are processes of their own; its
// customers are in this one.
type shopWorld struct {
	world
	spec     shopSpec
	counter  *counter
	services []*program        // the bank and the carrier
	staff    []*program        // the workers
	channels *channel.Channels // without a proxy
	looker   *process.Looker
	calmed   time.Duration // from the end of the disturbances to the end of all
	took     time.Duration // from the first start to the end of all
	still    sync.Mutex    // held while an agent stands still: it may hold SQLite's lock, and two would hold it twice as long

	mu        sync.Mutex
	customers []*customer
	refunded  int // charges of stopped agents
}

// runProcesses makes such a world, disturbs it, waits until all instances have ended, and audits it.
func runProcesses(ctx context.Context, s settings) (v verdict, err error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, err
	}
	w := &shopWorld{world: world{settings: s}, customers: newCustomers(s.n, s.lasts, s.seed)}
	if w.j, err = newJournal(filepath.Join(s.dir, "journal.log")); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	front, err := w.openShop(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = errors.Join(front.Store().Close(), w.channels.Store().Close()) }() // all that counts was answered
	w.j.begin()
	w.counter = &counter{orders: process.Open[purchase](front, fulfilment), j: w.j, begun: w.j.begun}
	calm, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var serving sync.WaitGroup
	customers := slices.Clone(w.customers) // there will be more
	serving.Go(func() { w.counter.serveAll(calm, customers) })
	w.disturb(ctx, s.plan(), w.disturbShop)
	w.j.say("calm from here on")
	calmed := time.Now()
	timer := time.AfterFunc(max(0, time.Until(w.j.begun.Add(s.lasts)))+mayAnswer, func() { cancel(errTimeout) })
	serving.Wait()
	timer.Stop()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	w.j.say("all customers are served")
	return w.judgeShop(ctx, calmed)
}

// openShop starts the services and the workers. It returns the channels for the customers.
func (w *shopWorld) openShop(ctx context.Context) (front *channel.Channels, err error) {
	w.spec = shopSpec{
		Role: roleWorker, Store: "sqlite:" + filepath.Join(w.dir, "shop.db?sync=normal"), Dir: w.dir,
		Stock: max(1, w.n/plentiful), Hurry: 5 * time.Second, Picked: 6 * time.Second, Backoff: 300 * time.Millisecond,
	}
	w.storeURL = w.spec.Store
	if w.store != sqliteStore {
		if w.spec.Store, err = w.openServer(ctx); err != nil {
			return nil, err
		}
	}
	if w.store == azureStore {
		// Azurite serves one request at a time.
		w.spec.Hurry, w.spec.Picked, w.spec.Concurrency = 12*time.Second, 12*time.Second, 6
	}
	if w.channels, err = openChannels(ctx, w.storeURL); err != nil {
		return nil, err
	}
	if w.looker, err = process.Look(w.channels.Store(), fulfilment, "/audit"); err != nil {
		return nil, err
	}
	for i, url := range []*string{&w.spec.Bank, &w.spec.Carrier} {
		name := []string{bankName, carrierName}[i]
		port, err := freePort(w.store)
		if err != nil {
			return nil, err
		}
		spec := serviceSpec{Role: roleService, Name: name, Listen: fmt.Sprintf("127.0.0.1:%d", port), Dir: w.dir}
		*url = "http://" + spec.Listen
		p, err := w.childOf(name, childSays, spec)
		if err != nil {
			return nil, err
		}
		w.services = append(w.services, p)
	}
	for i := range w.workers {
		spec := w.spec
		spec.Name = fmt.Sprintf("worker-%d", i+1)
		p, err := w.childOf(spec.Name, workerSays, spec)
		if err != nil {
			return nil, err
		}
		w.staff = append(w.staff, p)
	}
	for _, p := range w.programs {
		if err := p.start(); err != nil {
			return nil, err
		}
	}
	return openChannels(ctx, w.spec.Store)
}

func openChannels(ctx context.Context, url string) (*channel.Channels, error) {
	store, err := openPatiently(ctx, url)
	if err != nil {
		return nil, err
	}
	routes, err := shopRoutes()
	if err != nil {
		return nil, err
	}
	return channel.New(store, routes, "/customers")
}

// disturbShop carries out one disturbance.
func (w *shopWorld) disturbShop(ctx context.Context, e event) error {
	kill := func(p *program) error {
		p.kill()
		wait(ctx, max(e.lasts, time.Duration(e.amount)*20*time.Millisecond))
		return p.start()
	}
	switch e.kind {
	case killWorker:
		return w.withProgram(e, w.staff, kill)
	case killService:
		return w.withProgram(e, w.services, kill)
	case stopService:
		return w.withProgram(e, w.services, func(p *program) error {
			p.stall(ctx, e.lasts)
			return nil
		})
	case restartWorker:
		return w.withProgram(e, w.staff, func(p *program) error {
			p.stop()
			return p.start()
		})
	case stopAgent, killStopped:
		return w.stopAgent(ctx, e)
	}
	return w.disturbStore(ctx, e)
}

// stopAgent stops a worker when the bank has charged for it and it doesn't know yet, until the step's time is over.
// Then the worker goes on, and the charge must be refunded; or it dies, and whoever gets its message finds out. If that
// doesn't come about, stopAgent tries again where it must: the alarm may have waited for the stopped process, which
// held SQLite's lock.
func (w *shopWorld) stopAgent(ctx context.Context, e event) (err error) {
	if w.store == sqliteStore {
		if !free(&w.still, e.must) {
			w.j.say("not now: %s", e.kind)
			return nil
		}
		defer w.still.Unlock()
	}
	for tries := 0; err == nil && tries < 4 && (tries == 0 || e.must) && ctx.Err() == nil; tries++ {
		c := w.hurried(ctx)
		p := w.charging(ctx, c)
		if p == nil {
			w.j.say("not now: %s: nobody charges for %s", e.kind, c.ID)
			continue
		}
		stood := false
		err = w.withProgram(e, []*program{p}, func(p *program) error {
			defer w.j.hardship()() // for the others, which may wait for the lock
			w.j.say("%s: it charges for %s", p.name, c.ID)
			stood = true
			return w.stand(ctx, p, w.spec.Hurry+e.lasts, e.kind == killStopped)
		})
		if err == nil && stood && (e.kind == killStopped || w.isRefunded(ctx, c)) {
			return nil
		}
	}
	return err
}

// stand stops a program for a while. In the end the program goes on, or is killed and started again.
func (w *shopWorld) stand(ctx context.Context, p *program, d time.Duration, killed bool) error {
	if !killed {
		p.stall(ctx, d)
		return nil
	}
	standing, end := context.WithCancel(ctx)
	var over sync.WaitGroup
	over.Go(func() { p.stall(standing, 2*d) })
	wait(ctx, d)
	p.kill()
	end()
	over.Wait()
	return p.start()
}

// hurried starts a purchase in a hurry, for which the bank's answer is late.
func (w *shopWorld) hurried(ctx context.Context) *customer {
	now := max(1, time.Since(w.counter.begun))
	c := &customer{starts: now, picks: now}
	w.mu.Lock()
	c.purchase = purchase{ID: orderID(len(w.customers)), Item: "item-0", Lines: []string{"pot"}, Price: 7, Fate: fate{Hurry: true, Slow: 4 * time.Second}}
	w.customers = append(w.customers, c)
	w.mu.Unlock()
	w.counter.serve(ctx, c)
	return c
}

// charging waits until the bank has charged for a customer in a hurry and its answer is on its way, and returns the
// worker that waits for it; nil if there is none.
func (w *shopWorld) charging(ctx context.Context, c *customer) (p *program) {
	_ = until(ctx, maySpeak, func() (bool, error) { // then nobody charges
		for _, x := range w.slowOnes(ctx) {
			i := slices.IndexFunc(w.staff, func(p *program) bool { return p.lifeNow() == x.By })
			if i >= 0 && x.Order == c.ID {
				p = w.staff[i]
			}
		}
		return p != nil, nil
	})
	return p
}

// slowOnes returns the bank's requests whose answers are slow at this moment; none while the bank is away.
func (w *shopWorld) slowOnes(ctx context.Context) (all []held) {
	ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.spec.Bank+"/waiting", nil)
	if err != nil {
		return nil
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil
	}
	defer func() { _ = res.Body.Close() }() // it has been read
	if json.NewDecoder(res.Body).Decode(&all) != nil {
		return nil
	}
	return all
}

// isRefunded waits until the charge of a purchase that came too late is undone.
func (w *shopWorld) isRefunded(ctx context.Context, c *customer) (refunded bool) {
	err := until(ctx, maySpeak, func() (bool, error) {
		s, err := w.looker.Stream(ctx, c.ID)
		if err != nil {
			return false, nil // the store is away
		}
		for _, l := range s.Lines {
			for _, u := range l.Undos {
				refunded = refunded || u.Late && u.Status == process.Undone
			}
		}
		wait(ctx, 200*time.Millisecond)
		return refunded, nil
	})
	w.j.say("%s was charged late and is refunded: %v (%v)", c.ID, refunded, err)
	if refunded {
		w.mu.Lock()
		w.refunded++
		w.mu.Unlock()
	}
	return refunded
}

// judgeShop waits until nothing moves any more, and audits.
func (w *shopWorld) judgeShop(ctx context.Context, calmed time.Time) (verdict, error) {
	err := until(ctx, mayEnd, func() (bool, error) { return w.isQuiet(ctx), nil })
	if errors.Is(err, errTimeout) {
		w.j.fault(endsAll, "%v after the disturbances not all has ended", mayEnd)
	} else if err != nil {
		return nil, err
	}
	w.calmed, w.took = time.Since(calmed), time.Since(w.j.begun)
	w.j.say("nothing moves (%v); auditing", err)
	h := &shopHistory{customers: w.customers, stock: w.spec.Stock}
	var found []finding
	err = until(ctx, lookAgain, func() (bool, error) {
		err := h.collect(ctx, w.channels, w.looker, w.dir)
		if err == nil {
			found = h.audit()
			wait(ctx, 500*time.Millisecond)
		}
		return len(found) == 0, err
	})
	if err != nil && !errors.Is(err, errTimeout) {
		return nil, err
	}
	w.sayFound(h, found)
	w.auditPoison(ctx)
	var stopping sync.WaitGroup
	for _, p := range w.programs {
		stopping.Go(p.stop)
	}
	stopping.Wait()
	w.lostByServer()
	for _, rate := range w.rates() {
		if w.j.done[rate.kind] == 0 {
			w.j.fault(wasDisturbed, "there was no %s", rate.kind)
		}
	}
	if w.refunded == 0 && w.j.done[stopAgent] > 0 {
		w.j.fault(wasDisturbed, "no charge of a stopped agent came too late and was refunded")
	}
	return w.shopReport(h, found), nil
}

// isQuiet reports that no message is left but those that sleep, and that the index has no open instance.
func (w *shopWorld) isQuiet(ctx context.Context) bool {
	for _, q := range w.channels.Routes().Queues() {
		s, err := w.channels.Store().Queue(q).Stats(ctx)
		if err != nil || s.Ready > 0 || s.InFlight > 0 {
			return false
		}
		sleeps := q == fulfilment+"-alarms" || q == fulfilment+"-record" // alarms, and the next sweep
		if !sleeps && (s.InFlight != 0 || s.Delayed != 0) {
			return false
		}
	}
	for range w.looker.Open(ctx) {
		return false
	}
	return true
}

// sayFound writes the findings, and the streams of the instances that they name.
func (w *shopWorld) sayFound(h *shopHistory, found []finding) {
	for i, f := range found {
		w.j.say("FOUND %v", f)
		if d := h.documents[f.about()]; d != nil && i < 20 {
			text, _ := json.Marshal(d.Stream) // it came from JSON
			w.j.say("%s", text)
		}
	}
}

func (w *shopWorld) auditPoison(ctx context.Context) {
	for _, q := range w.channels.Routes().Queues() {
		for entry, err := range poison.At(w.channels, q).List(ctx) {
			if err != nil {
				w.j.fault(nothingFails, "%v", err)
				break
			}
			w.j.fault(poisonHolds, "queue %s: a %s after %d deliveries and %d attempts: %s: %s", q, entry.Kind, entry.Deliveries, entry.Attempts, entry.Reason, entry.Error)
		}
	}
}
