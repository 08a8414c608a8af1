package main

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

func planOf(store string, lasts time.Duration, seed uint64) []event {
	return settings{store: store, lasts: lasts, seed: seed}.plan()
}

func TestPlanFollowsFromItsSeed(t *testing.T) {
	t.Parallel()
	for _, store := range []string{sqliteStore, azureStore, redisStore} {
		one, same, other := planOf(store, time.Minute, 7), planOf(store, time.Minute, 7), planOf(store, time.Minute, 8)
		if !reflect.DeepEqual(one, same) {
			t.Errorf("%s: the same seed gives two plans", store)
		}
		if reflect.DeepEqual(one, other) {
			t.Errorf("%s: two seeds give the same plan", store)
		}
	}
}

// However short a run is, each kind takes place, in order, and begins within the run.
func TestPlanHasEachKind(t *testing.T) {
	t.Parallel()
	for _, store := range []string{sqliteStore, azureStore, redisStore} {
		for part, rates := range map[string][]rate{coordination: coordRates(), processes: shopRates()} {
			got := map[kind]bool{}
			for _, e := range (settings{part: part, store: store, lasts: 10 * time.Second, seed: 1}).plan() {
				got[e.kind] = got[e.kind] || e.must
			}
			for _, r := range rates {
				if want := (store != sqliteStore || !r.remote) && (store == redisStore || !r.redis); got[r.kind] != want {
					t.Errorf("%s on %s: %s must take place: %v, want %v", part, store, r.kind, got[r.kind], want)
				}
			}
		}
		for _, lasts := range []time.Duration{10 * time.Second, time.Minute, 10 * time.Minute} {
			musts := map[kind]int{}
			var before time.Duration
			for _, e := range planOf(store, lasts, 1) {
				if e.at < before || e.at > lasts {
					t.Errorf("%s in %v: %s at %v, after one at %v", store, lasts, e.kind, e.at, before)
				}
				before = e.at
				if e.must {
					musts[e.kind]++
				}
			}
			kinds := 10
			switch store {
			case azureStore:
				kinds++
			case redisStore:
				kinds += 2
			}
			if len(musts) != kinds {
				t.Errorf("%s in %v: got %d kinds, want %d", store, lasts, len(musts), kinds)
			}
			for kind, n := range musts {
				if n != 1 {
					t.Errorf("%s in %v: %s must be %d times, want once", store, lasts, kind, n)
				}
			}
		}
	}
}

func TestOnlySomeKinds(t *testing.T) {
	t.Parallel()
	kinds, err := parseKinds("worker killed,web killed")
	if err != nil {
		t.Fatal(err)
	}
	got := map[kind]bool{}
	for _, e := range (settings{store: sqliteStore, lasts: time.Minute, seed: 1, only: kinds}).plan() {
		got[e.kind] = true
	}
	if len(got) != 2 || !got[killWorker] || !got[killWeb] {
		t.Errorf("got %v, want the two that were named", got)
	}
	if _, err := parseKinds("worker killed, web killed"); err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("got %v, want an error that names the kinds", err)
	}
}

// A stalled worker must lose its messages, whose visibility is 30 seconds, and a stopped child its leases.
func TestStallsOutlastTheVisibility(t *testing.T) {
	t.Parallel()
	for _, e := range planOf(sqliteStore, 10*time.Minute, 3) {
		if e.kind == stall && e.lasts <= 30*time.Second {
			t.Errorf("got a stall of %v", e.lasts)
		}
	}
	for _, e := range (settings{part: coordination, store: sqliteStore, lasts: 10 * time.Minute, seed: 3}).plan() {
		if strings.HasSuffix(string(e.kind), "stopped") && e.lasts <= childTTL {
			t.Errorf("got %s for %v, and a lease lasts %v", e.kind, e.lasts, childTTL)
		}
	}
}

func TestOrdersOversell(t *testing.T) {
	t.Parallel()
	for _, n := range []int{40, 400, 3000, 20000} {
		orders, seats := newOrders(n, time.Minute, time.Now())
		asked := map[string]int{}
		for _, o := range orders {
			asked[o.Date] += o.Quantity
			if o.due < 0 || o.due >= time.Minute {
				t.Errorf("%d: due after %v", n, o.due)
			}
		}
		for date, q := range asked {
			if q <= seats || q > 3*seats {
				t.Errorf("%d: %d of %d seats are asked for on %s; want too many, and not by far", n, q, seats, date)
			}
		}
	}
}

// Runs on several stores may be together, and a port may be asked for while the listener of another is dead. So no port is
// given twice.
func TestNoPortIsGivenTwice(t *testing.T) {
	t.Parallel()
	for store, first := range map[string]int{sqliteStore: 20000, azureStore: 25000, redisStore: 30000} {
		seen := map[int]bool{}
		for range 400 {
			port, err := freePort(store)
			if err != nil {
				t.Fatal(err)
			}
			if port < first || port >= first+portsOfAStore {
				t.Errorf("%s: got port %d, want one from %d to %d", store, port, first, first+portsOfAStore-1)
			}
			if seen[port] {
				t.Errorf("%s: port %d twice", store, port)
			}
			seen[port] = true
		}
	}
}
