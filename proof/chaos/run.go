package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/azure"
	"github.com/millrace-go/millrace/storage/redis"
	"github.com/millrace-go/millrace/storage/sqlite"
)

const (
	mayAnswer = 2 * time.Minute // how long the client may need after the last disturbance
	mayEmpty  = 4 * time.Minute // how long the workers may need: a visibility, a poll, a mail that is retried
)

// A world is everything that runs on one store.
type world struct {
	settings
	j        *journal
	orders   []*order
	seats    int
	disk     *disk
	server   server // Azurite or Redis; nil on SQLite
	wires    []*wire
	storage  []*wire // those between the programs and the store
	programs []*program
	webURL   string // without a proxy
	storeURL string // likewise
}

// runOn makes a world, disturbs it, waits until it is calm, and audits it. An error means that there is no verdict.
func runOn(ctx context.Context, s settings) (v verdict, err error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, err
	}
	w := &world{settings: s}
	if w.j, err = newJournal(filepath.Join(s.dir, "journal.log")); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	if err := w.open(ctx); err != nil {
		return nil, err
	}
	w.j.begin()
	c := newClient("http://"+w.wires[0].proxy.Listen, w.j)
	atATime := 16
	if s.store == azureStore {
		atATime = 4 // see open
	}
	var posting sync.WaitGroup
	calm, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	posting.Go(func() { c.postAll(calm, w.orders, atATime) })
	w.disturb(ctx, s.plan(), w.one)
	w.j.say("calm from here on")
	calmed := time.Now()
	timer := time.AfterFunc(max(0, time.Until(w.j.begun.Add(s.lasts)))+mayAnswer, func() { cancel(errTimeout) })
	posting.Wait()
	timer.Stop()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	w.j.say("all is sent")
	return w.judge(ctx, c, calmed)
}

// open starts everything, in order.
func (w *world) open(ctx context.Context) (err error) {
	w.orders, w.seats = newOrders(w.n, w.lasts, time.Now())
	// A reservation takes some 10 KiB on the disk: a mail, and on SQLite also its share of the file and of the log.
	// A process that stands still in the middle of a read keeps all that is written meanwhile in SQLite's log.
	size := int64(64<<20) + int64(w.n)*(16<<10) + min(int64(w.n)*(128<<10), 1<<30)
	var why error
	if w.disk, why = newDisk(filepath.Join(w.dir, "disk"), size); w.disk == nil {
		return why
	}
	if why != nil {
		w.j.say("no disk of its own: %v", why)
	}
	port, err := freePort(w.store)
	if err != nil {
		return err
	}
	web := fmt.Sprintf("127.0.0.1:%d", port)
	w.webURL = "http://" + web
	if err := w.wire("web", web); err != nil {
		return err
	}
	seenByPrograms := "sqlite:" + filepath.Join(w.disk.dir, "data", "reservations.db")
	w.storeURL = seenByPrograms
	if w.store != sqliteStore {
		if seenByPrograms, err = w.openServer(ctx); err != nil {
			return err
		}
	}
	worker := []string{"-admin", "off", "-log", "debug"}
	if w.store == azureStore {
		// Azurite serves one request at a time, and each takes longer the more messages there are. With many handlers
		// the requests would take longer than the clients wait for an answer, and the workers would make no progress
		// at all.
		worker = append(worker, "-concurrency", "2")
	}
	w.program("web", "web", "Serving at ", seenByPrograms, "-addr", web, "-worker=false")
	for i := range w.workers {
		w.program("worker", fmt.Sprintf("worker-%d", i+1), `"worker starts"`, seenByPrograms, worker...)
	}
	for _, p := range w.programs {
		if err := p.start(); err != nil {
			return err
		}
		if err := w.ready(ctx); err != nil {
			return err
		}
	}
	return nil
}

// A server is the store of a run.
type server interface {
	start(ctx context.Context) error
	kill(ctx context.Context) error
	close()
	trouble() string // what it has said
}

// openServer starts the store's server and the proxies before it, and returns the store's URL for the programs.
func (w *world) openServer(ctx context.Context) (seenByPrograms string, err error) {
	if w.store == redisStore {
		return w.openRedis(ctx)
	}
	azurite, err := newAzurite(w.root, w.dir)
	if err != nil {
		return "", err
	}
	w.server = azurite
	if err := azurite.start(ctx); err != nil {
		return "", err
	}
	for i, service := range []string{"blob", "queue", "table"} {
		if err := w.wire(service, azurite.addr(i)); err != nil {
			return "", err
		}
	}
	w.storage = w.wires[len(w.wires)-3:]
	w.storeURL = "azure:" + place(azurite.addr(0), azurite.addr(1), azurite.addr(2))
	return "azure:" + place(w.storage[0].proxy.Listen, w.storage[1].proxy.Listen, w.storage[2].proxy.Listen), nil
}

func (w *world) openRedis(ctx context.Context) (seenByPrograms string, err error) {
	redis, err := newRedis(w.dir)
	if err != nil {
		return "", err
	}
	w.server = redis
	if err := redis.start(ctx); err != nil {
		return "", err
	}
	if err := w.wire("redis", redis.addr()); err != nil {
		return "", err
	}
	w.storage = w.wires[len(w.wires)-1:]
	w.storeURL = redisURL(redis.addr())
	return redisURL(w.storage[0].proxy.Listen), nil
}

// lostByServer adds what the store itself knows to be lost to the findings.
func (w *world) lostByServer() {
	if redis, ok := w.server.(*redisServer); ok {
		if lost := redis.lost(); lost != "" {
			w.j.fault(nothingLost, "the server has lost %s", lost)
		}
	}
}

func (w *world) wire(name, upstream string) error {
	port, err := freePort(w.store)
	if err != nil {
		return err
	}
	wire, err := newWire(name, fmt.Sprintf("127.0.0.1:%d", port), upstream)
	if err == nil {
		w.wires = append(w.wires, wire)
	}
	return err
}

func (w *world) program(command, name, says, store string, args ...string) {
	w.programs = append(w.programs, &program{
		name: name, bin: filepath.Join(w.bin, command), args: append(args, "-seats", fmt.Sprint(w.seats)),
		env: []string{"MILLRACE_STORE=" + store}, dir: w.disk.dir, logs: w.dir, says: says, j: w.j,
	})
}

// ready waits until the web can read from the store.
func (w *world) ready(ctx context.Context) error {
	err := until(ctx, time.Minute, func() (bool, error) {
		res, err := http.Get(w.webURL + "/readyz")
		if err != nil {
			return false, nil // not yet
		}
		return res.StatusCode == http.StatusOK, res.Body.Close()
	})
	if err != nil {
		return fmt.Errorf("the web is not ready: %w", err)
	}
	return nil
}

// judge lets the workers empty the queues, audits, and stops everything in order.
func (w *world) judge(ctx context.Context, c *client, calmed time.Time) (verdict, error) {
	if err := w.ready(ctx); err != nil {
		return nil, err
	}
	store, err := storage.Drivers{sqlite.Driver, azure.Driver, redis.Driver}.Open(ctx, w.storeURL, storage.OpenConfig{})
	if err != nil {
		return nil, err
	}
	defer func() { _ = store.Close() }() // nothing was written
	a, err := newAuditor(store, w.webURL, w.seats, filepath.Join(w.disk.dir, "data", "mail"))
	if err != nil {
		return nil, err
	}
	err = until(ctx, mayEmpty, func() (bool, error) {
		n, err := a.left(ctx)
		if errors.Is(err, storage.ErrUnavailable) {
			return false, nil // a busy store: count it as not empty
		}
		return n == 0, err
	})
	if err != nil && !errors.Is(err, errTimeout) {
		return nil, err
	}
	emptied := time.Since(calmed)
	w.j.say("the queues are empty (%v); auditing", err)
	a.audit(ctx, w.orders)
	for _, f := range a.found {
		w.j.say("FOUND %v", f)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	var stopping sync.WaitGroup
	for _, p := range w.programs {
		stopping.Go(p.stop)
	}
	stopping.Wait()
	w.lostByServer()
	t := trace{}
	for _, p := range w.programs[1:] {
		for _, l := range p.all() {
			if err := t.add(l); err != nil {
				return nil, err
			}
		}
	}
	t.sort()
	return w.report(c, a, t, emptied), nil
}

// close ends and removes everything that open has made, except the logs.
func (w *world) close() error {
	for _, p := range w.programs {
		p.close()
	}
	for _, wire := range w.wires {
		wire.down()
	}
	if w.server != nil {
		w.server.close()
	}
	var err error
	if w.disk != nil {
		err = w.disk.close()
	}
	return errors.Join(err, w.j.close())
}
