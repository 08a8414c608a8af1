package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/boottest"
	envelopes "github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/sample/reservations"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/azure"
	"github.com/millrace-go/millrace/storage/azure/azuretest"
)

// A wire leads to a service, and can be cut in two ways.
type wire struct {
	to   string
	addr string

	mu    sync.Mutex
	ln    net.Listener // nil while nobody listens
	mute  bool         // connections are taken, and nothing passes
	conns map[net.Conn]bool
}

// newWire returns a wire to the service at an URL, and the URL of its other end.
func newWire(t *testing.T, service string) (*wire, string) {
	t.Helper()
	u, err := url.Parse(service)
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{to: u.Host, addr: "127.0.0.1:0", conns: map[net.Conn]bool{}}
	w.mend(t)
	t.Cleanup(w.refuse)
	u.Host = w.addr
	return w, u.String()
}

// mend lets everything pass.
func (w *wire) mend(t *testing.T) {
	t.Helper()
	w.drop()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mute = false
	if w.ln != nil {
		return
	}
	var ln net.Listener
	worldtest.Eventually(t, func() (err error) { // while nobody listens, a connection to elsewhere may have the port
		ln, err = net.Listen("tcp", w.addr)
		return err
	})
	w.ln, w.addr = ln, ln.Addr().String()
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go w.pass(c)
		}
	}()
}

// refuse has connections refused.
func (w *wire) refuse() {
	w.mu.Lock()
	if w.ln != nil {
		_ = w.ln.Close()
		w.ln = nil
	}
	w.mu.Unlock()
	w.drop()
}

// silence has connections taken and not answered.
func (w *wire) silence() {
	w.mu.Lock()
	w.mute = true
	w.mu.Unlock()
	w.drop()
}

// drop closes all connections.
func (w *wire) drop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.conns {
		_ = c.Close()
	}
	clear(w.conns)
}

func (w *wire) pass(c net.Conn) {
	w.mu.Lock()
	mute := w.mute
	w.conns[c] = true
	w.mu.Unlock()
	defer func() {
		_ = c.Close()
		w.mu.Lock()
		delete(w.conns, c)
		w.mu.Unlock()
	}()
	if mute {
		_, _ = io.Copy(io.Discard, c) // until it is dropped
		return
	}
	to, err := net.Dial("tcp", w.to)
	if err != nil {
		return
	}
	defer func() { _ = to.Close() }()
	go func() {
		_, _ = io.Copy(to, c)
		_ = to.Close()
	}()
	_, _ = io.Copy(c, to)
}

// queue takes the commands.
const queue = "reservations"

// A kept is a web with a spool on Azurite, behind wires, and a client that notes what was accepted.
type kept struct {
	t     *testing.T
	wires []*wire
	env   []string
	dir   string

	mu  sync.Mutex
	web *boottest.Program
	url string

	next, spooled atomic.Int64
	accepted      sync.Map // by ID
}

// start starts the web, in the place of one that was killed.
func (k *kept) start() {
	p := boottest.Start(k.t, bin, k.dir, k.env, "-addr", "127.0.0.1:0", "-worker=false", "-doorbell", "off", "-spool", filepath.Join("data", "web.spool"))
	address := p.URL(k.t)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.web, k.url = p, address
}

func (k *kept) kill() {
	k.mu.Lock()
	p := k.web
	k.mu.Unlock()
	p.Signal(k.t, syscall.SIGKILL)
	p.Wait(k.t)
}

// ask asks for a reservation until it is accepted.
func (k *kept) ask(ctx context.Context, id string) {
	body := fmt.Sprintf(`{"id":%q,"date":%q,"name":"Ada","email":"ada@example.org","quantity":1}`, id, bookable())
	for ctx.Err() == nil {
		k.mu.Lock()
		address := k.url
		k.mu.Unlock()
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, address+"/reservations", strings.NewReader(body))
		if err != nil {
			k.t.Error(err)
			return
		}
		req.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(req)
		if err != nil { // it was killed
			_ = worldtest.Pause(ctx, 20*time.Millisecond)
			continue
		}
		text, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if res.StatusCode == http.StatusAccepted { // the status is the promise, even if the body is cut off
			k.accepted.Store(id, true)
			if strings.Contains(string(text), `"kept":true`) {
				k.spooled.Add(1)
			}
			return
		}
		k.t.Errorf("got %d (%v): %s; want 202 with a spool", res.StatusCode, err, text)
		return
	}
}

// reach waits until so many commands were begun.
func (k *kept) reach(ctx context.Context, n int64) {
	for k.next.Load() < n && ctx.Err() == nil {
		_ = worldtest.Pause(ctx, 5*time.Millisecond)
	}
}

// arrivals takes commands out of the queue until ctx ends and the queue is empty.
func arrivals(t *testing.T, ctx context.Context, s *storage.Store) (got map[string]int) {
	got = map[string]int{}
	for {
		ending := ctx.Err() != nil
		ds, err := s.Queue(queue).Receive(context.Background(), 32, time.Minute)
		if err != nil {
			t.Errorf("receive: %v", err)
			return got
		}
		var done []storage.Receipt
		for _, d := range ds {
			e, err := envelopes.Decode(d.Body)
			if err != nil {
				t.Error(err)
				continue
			}
			got[e.ID]++
			done = append(done, d.Receipt)
		}
		if len(done) > 0 {
			if err := s.Queue(queue).Delete(context.Background(), done); err != nil {
				t.Errorf("delete: %v", err)
			}
			continue
		}
		if ending {
			return got
		}
		_ = worldtest.Pause(ctx, 50*time.Millisecond)
	}
}

// The web accepts reservations while Azure Storage is away in one way or another, and is killed meanwhile and while the
// spool drains. No accepted command is lost.
//
// MILLRACE_OUTAGES=20 runs so many outages, with 500 commands each, in place of three with 100.
func TestSpoolLosesNothing(t *testing.T) {
	t.Parallel()
	outages, each := 3, int64(100)
	if text := os.Getenv("MILLRACE_OUTAGES"); text != "" {
		var err error
		if outages, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
		each = 500
	}
	account := azuretest.Start(t).Account(t)
	k := &kept{t: t, dir: t.TempDir()}
	direct, err := azure.Open(t.Context(), account.ConnectionString())
	if err != nil {
		t.Fatal(err)
	}
	behind := account
	for _, service := range []*string{&behind.Blob, &behind.Queue, &behind.Table} {
		w, other := newWire(t, *service)
		k.wires, *service = append(k.wires, w), other
	}
	k.env = []string{"MILLRACE_STORE=azure:" + behind.ConnectionString()}
	k.start()

	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(outages)*time.Minute+5*time.Minute)
	defer cancel()
	consuming, consumed := context.WithCancel(ctx)
	defer consumed()
	arrived := make(chan map[string]int, 1)
	go func() { arrived <- arrivals(t, consuming, direct) }()
	total := int64(outages) * each
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			for k.next.Add(1) <= total && ctx.Err() == nil {
				k.ask(ctx, channel.NewID())
			}
		})
	}
	kills := k.disturb(ctx, outages, each)
	clients.Wait()

	for code, body := 0, ""; body != "ready\n" && ctx.Err() == nil; _ = worldtest.Pause(ctx, 50*time.Millisecond) {
		if code, body = boottest.Get(t, k.url+"/readyz"); code != http.StatusOK {
			t.Errorf("readyz: got %d %s", code, body)
			break
		}
	}
	k.web.Signal(t, syscall.SIGTERM)
	if code := k.web.Wait(t); code != 0 {
		t.Errorf("got exit code %d, want 0", code)
	}
	consumed()
	k.audit(<-arrived, total, kills)
}

// disturb makes the outages, and returns how often it has killed the web.
func (k *kept) disturb(ctx context.Context, outages int, each int64) (kills int) {
	for n := range int64(outages) {
		k.reach(ctx, n*each+each/5)
		for _, w := range k.wires {
			if n%2 == 0 {
				w.refuse()
			} else {
				w.silence()
			}
		}
		k.reach(ctx, n*each+each*3/5)
		k.kill()
		k.start() // while the store is away
		k.reach(ctx, n*each+each*4/5)
		for _, w := range k.wires {
			w.mend(k.t)
		}
		if kills++; n%3 == 0 {
			_ = worldtest.Pause(ctx, time.Duration(n*37%500)*time.Millisecond) // somewhere in the draining
			k.kill()
			k.start()
			kills++
		}
	}
	return kills
}

// audit fails the test if an accepted command has not arrived.
func (k *kept) audit(got map[string]int, total int64, kills int) {
	accepted, lost, repeated := int64(0), 0, 0
	k.accepted.Range(func(id, _ any) bool {
		accepted++
		switch got[reservations.Key(id.(string))] {
		case 0:
			lost++
		case 1:
		default:
			repeated++
		}
		return true
	})
	if lost > 0 || accepted != total {
		k.t.Errorf("%d commands of %d were accepted, and %d of these are lost", accepted, total, lost)
	}
	if k.spooled.Load() == 0 {
		k.t.Error("no command was in the spool")
	}
	k.t.Logf("%d of %d accepted commands lost; %d were in the spool, %d came more than once; %d kills", lost, accepted, k.spooled.Load(), repeated, kills)
}
