package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"math/rand/v2"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// A wire is a proxy on loopback that can be disturbed.
type wire struct {
	name  string
	proxy *toxiproxy.Proxy
	busy  sync.Mutex // held during a disturbance
}

func newWire(name, listen, upstream string) (*wire, error) {
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	w := &wire{name: name, proxy: toxiproxy.NewProxy(server, name, listen, upstream)}
	return w, w.up()
}

// down closes all connections, and refuses new ones until up.
func (w *wire) down() { w.proxy.Stop() }

// up listens. A child process that was forked while another listener had the port keeps it until the child runs its
// program, a few milliseconds later.
func (w *wire) up() error {
	var err error
	for range 50 {
		if err = w.proxy.Start(); err == nil {
			return nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
		wait(context.Background(), 20*time.Millisecond)
	}
	return fmt.Errorf("proxy for %s: %w", w.name, err)
}

// disturb makes a disturbance last until its time is over or ctx ends. amount is from 0 to 99.
func (w *wire) disturb(ctx context.Context, k kind, lasts time.Duration, amount int) error {
	type attributes = map[string]any
	var toxic string
	var with attributes
	stream := "downstream" // towards the client
	switch k {
	case cut:
		w.down()
		wait(ctx, lasts)
		return w.up()
	case reset:
		toxic, stream, with = "reset_peer", "upstream", attributes{"timeout": 0}
	case delay:
		toxic, with = "latency", attributes{"latency": 20 + 5*amount, "jitter": 20 + 5*amount}
	case oneWay:
		toxic, with = "timeout", attributes{"timeout": 0}
	case torn:
		toxic, with = "limit_data", attributes{"bytes": 1 + 6*amount}
	default:
		return fmt.Errorf("proxy for %s: no such disturbance: %s", w.name, k)
	}
	over, err := w.add(toxic, stream, with)
	if err != nil {
		return err
	}
	wait(ctx, lasts)
	return over(context.WithoutCancel(ctx))
}

// add adds a disturbance of toxiproxy's to all connections, until over is called.
func (w *wire) add(toxic, stream string, with map[string]any) (over func(context.Context) error, err error) {
	spec, err := json.Marshal(map[string]any{"name": toxic + " " + stream, "type": toxic, "stream": stream, "attributes": with})
	if err != nil {
		return nil, err
	}
	added, err := w.proxy.Toxics.AddToxicJson(bytes.NewReader(spec))
	if err != nil {
		return nil, fmt.Errorf("proxy for %s: %w", w.name, err)
	}
	return func(ctx context.Context) error {
		if err := w.proxy.Toxics.RemoveToxic(ctx, added.Name); err != nil {
			return fmt.Errorf("proxy for %s: %w", w.name, err)
		}
		return nil
	}, nil
}

// given are the ports that freePort has returned. A port is free while its listener is killed, or not begun yet.
var given sync.Map

// portsOfAStore is how many ports the range of a store has. Outgoing connections have ports from 32768 on.
const portsOfAStore = 2700

// freePort finds a free port for a run on a store, another one at each call. It is below the range of outgoing
// connections, because it must be free again after its listener was killed. Each store has a range of its own, because
// the runs may be together.
func freePort(store string) (int, error) {
	first := 20000
	switch store {
	case azureStore:
		first = 25000
	case redisStore:
		first = 30000
	}
	for range 100 {
		port := first + rand.IntN(portsOfAStore)
		ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		if err := ln.Close(); err != nil {
			return 0, err
		}
		if _, twice := given.LoadOrStore(port, true); !twice {
			return port, nil
		}
	}
	return 0, fmt.Errorf("no free port from %d to %d", first, first+portsOfAStore-1)
}
