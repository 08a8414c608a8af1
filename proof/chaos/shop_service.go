package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// The services, and their verbs.
const (
	bankName    = "bank"
	carrierName = "carrier"

	charges  = "charge"
	bookings = "booking"
	parcels  = "parcel"
)

// A request asks a service for an effect, or for the undo of one.
type request struct {
	Verb, Key, Order string
	Price            int
	Undo             string // the receipt of the effect that is to be undone
	By               string // life

	// What the service is to do:
	Decline bool
	Away    int           // so many requests with the key are turned away first
	Slow    time.Duration // the answer comes so late
	Lose    bool          // the answer is lost
}

// The sorts of a deed.
const (
	deedDone     what = "done"
	deedUndone   what = "undone"
	deedAgain    what = "again"    // a key that was answered before
	deedDeclined what = "declined" // nothing was done, for good
	deedAway     what = "away"     // nothing was done this time
)

// A deed is a line of a service's journal.
type deed struct {
	At      int64  `json:"at"`
	What    what   `json:"what"`
	Verb    string `json:"verb"`
	Key     string `json:"key"`
	Order   string `json:"order"`
	Price   int    `json:"price"`
	Receipt string `json:"receipt,omitempty"` // of the effect that was done, or undone
	By      string `json:"by"`
}

// A serviceSpec is what a service has to know.
type serviceSpec struct {
	Role, Name string
	Listen     string
	Dir        string // for its journal
}

// A service is the bank, or the carrier: a process with a journal of its own, which it reads when it starts. It answers
// for each key once, and as it did before when the key comes again. It does nothing else to keep its clients from
// mistakes: each key is an effect, and each key of an undo is another undo.
type service struct {
	notebook
	mu       sync.Mutex
	answered map[string]string // receipts by key
	asked    map[string]int    // requests by key that were turned away
	waiting  map[string]held   // by key
}

// held is a request whose answer is slow.
type held struct{ Order, By string }

func journalOfService(dir, name string) string { return filepath.Join(dir, name+".deeds") }

// newService reads the journal.
func newService(dir, name string) (*service, error) {
	v := &service{answered: map[string]string{}, asked: map[string]int{}, waiting: map[string]held{}}
	deeds, whole, err := readDeeds(dir, name)
	if err != nil {
		return nil, err
	}
	for _, d := range deeds {
		v.take(d)
	}
	if v.file, err = os.OpenFile(journalOfService(dir, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
		return nil, err
	}
	return v, v.file.Truncate(whole)
}

// readDeeds reads the journal of a service, and how long it is without a line that a kill has broken off.
func readDeeds(dir, name string) (deeds []deed, whole int64, err error) {
	text, err := os.ReadFile(journalOfService(dir, name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, 0, err
	}
	text = text[:bytes.LastIndexByte(text, '\n')+1]
	if deeds, err = decodeLines[deed](text); err != nil {
		return nil, 0, fmt.Errorf("journal of %s: %w", name, err)
	}
	return deeds, int64(len(text)), nil
}

// take remembers a deed.
func (v *service) take(d deed) {
	switch d.What {
	case deedDone, deedUndone:
		v.answered[d.Key] = d.Receipt
	case deedAway:
		v.asked[d.Key]++
	}
}

// judge decides about a request, and notes that before anybody can know.
func (v *service) judge(r request) (status int, d deed) {
	v.mu.Lock()
	defer v.mu.Unlock()
	d = deed{At: clock(), What: deedDone, Verb: r.Verb, Key: r.Key, Order: r.Order, Price: r.Price, By: r.By}
	status = http.StatusOK
	before, known := v.answered[r.Key]
	switch {
	case known:
		d.What, d.Receipt = deedAgain, before
	case r.Decline:
		d.What, status = deedDeclined, http.StatusPaymentRequired
	case v.asked[r.Key] < r.Away:
		d.What, status = deedAway, http.StatusServiceUnavailable
	case r.Undo != "":
		d.What, d.Receipt = deedUndone, r.Undo
	default:
		d.Receipt = fmt.Sprintf("%s-%d", r.Verb, len(v.answered)+1)
	}
	v.write(d)
	v.take(d)
	return status, d
}

// ServeHTTP answers POST /effects, and GET /waiting by the requests whose answers are slow at this moment.
func (v *service) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if req.Method == http.MethodGet {
		v.mu.Lock()
		all := slices.Collect(maps.Values(v.waiting))
		v.mu.Unlock()
		_ = json.NewEncoder(w).Encode(all) // the client may have gone
		return
	}
	var r request
	if err := json.NewDecoder(req.Body).Decode(&r); err != nil || r.Key == "" {
		http.Error(w, fmt.Sprintf("no such request: %v", err), http.StatusBadRequest)
		return
	}
	status, d := v.judge(r)
	if d.What == deedDone { // whoever asks again gets the answer at once
		v.hold(r, true)
		wait(context.WithoutCancel(req.Context()), r.Slow)
		v.hold(r, false)
	}
	if r.Lose && (d.What == deedDone || d.What == deedUndone) {
		panic(http.ErrAbortHandler) // breaks the connection
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, d.Receipt) // likewise
}

func (v *service) hold(r request, waits bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if waits {
		v.waiting[r.Key] = held{r.Order, r.By}
	} else {
		delete(v.waiting, r.Key)
	}
}

// runService serves until ctx ends.
func runService(ctx context.Context, text string, out io.Writer) error {
	var spec serviceSpec
	if err := json.Unmarshal([]byte(text), &spec); err != nil {
		return err
	}
	v, err := newService(spec.Dir, spec.Name)
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", spec.Listen)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: v, ReadHeaderTimeout: 10 * time.Second}
	stopped := make(chan error, 1)
	context.AfterFunc(ctx, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		stopped <- server.Shutdown(ctx)
	})
	_, _ = fmt.Fprintln(out, childSays) // the parent finds out if it can't be written
	if err := server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return errors.Join(<-stopped, v.close())
}
