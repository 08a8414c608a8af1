package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"syscall"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/process"
	"github.com/millrace-go/millrace/worker"
)

// The lines of the journals of the shop's workers.
const (
	stepBegun what = "step"  // an agent works on the step Text of the purchase Name; N is its attempt
	stepOver  what = "ended" // likewise, it returns
)

const workerSays = `"worker starts"`

// A shopSpec is what a worker of the shop has to know.
type shopSpec struct {
	Role, Name    string
	Store         string
	Bank, Carrier string // URLs
	Dir           string // for its journal
	Stock         int    // of each item
	Hurry         time.Duration
	Picked        time.Duration
	Backoff       time.Duration
	Concurrency   int
}

// A shop is a worker of the shop.
type shop struct {
	shopSpec
	life string
	http *http.Client
	notebook
}

func newShop(spec shopSpec) (*shop, error) {
	s := &shop{shopSpec: spec, life: lifeOf(spec.Name, os.Getpid()), http: &http.Client{Timeout: 3 * time.Second}}
	var err error
	s.file, err = newJournalFile(s.Dir, s.life)
	return s, err
}

// runShopWorker works until ctx ends.
func runShopWorker(ctx context.Context, text string) error {
	var spec shopSpec
	if err := json.Unmarshal([]byte(text), &spec); err != nil {
		return err
	}
	s, err := newShop(spec)
	if err != nil {
		return err
	}
	return errors.Join(s.run(ctx, slog.New(slog.NewJSONHandler(os.Stderr, nil))), s.close())
}

func (s *shop) run(ctx context.Context, log *slog.Logger) error {
	store, err := openPatiently(ctx, s.Store)
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }() // all that counts was answered
	routes, err := shopRoutes()
	if err != nil {
		return err
	}
	channels, err := channel.New(store, routes, "/shop")
	if err != nil {
		return err
	}
	r := handlers.NewRegistry(channels, handlers.Config{Logger: log})
	if err := s.register(r); err != nil {
		return err
	}
	w, err := worker.New(r, worker.Config{Name: s.life, Concurrency: s.Concurrency})
	if err != nil {
		return err
	}
	return w.Run(ctx)
}

// working notes that an agent works, and returns what notes the end.
func (s *shop) working(ctx context.Context, step string) (over func()) {
	l := line{What: stepBegun, Name: process.ID(ctx), Text: step, N: int64(process.Attempt(ctx))}
	s.note(l)
	return func() {
		l.What = stepOver
		s.note(l)
	}
}

var (
	errAway     = errors.New("the service is away, and has done nothing")
	errDeclined = errors.New("declined")
	errOpen     = errors.New("the service may have done it, and its answer is lost")
)

// ask has a service do something. If sure, it returns only when it is known whether that was done. An answer that is
// lost leaves it open, and so does a worker that has died at it. Then the service is asked under the same key until it
// answers, even if the step's time is over: a success that comes late is undone, and one that nobody knows of is not.
func (s *shop) ask(ctx context.Context, service string, r request, sure bool) (receipt string, err error) {
	open := handlers.Deliveries(ctx) > 1
	for {
		if ctx.Err() != nil && !open {
			return "", context.Cause(ctx)
		}
		status, receipt, err := s.post(service, r)
		switch {
		case err == nil && status == http.StatusOK:
			return receipt, nil
		case err == nil && status == http.StatusPaymentRequired:
			return "", process.Refuse(errDeclined)
		case !open && (err == nil || errors.Is(err, syscall.ECONNREFUSED)):
			return "", errAway
		case !sure:
			return "", errOpen
		}
		open = true
		wait(context.Background(), 100*time.Millisecond)
	}
}

// post sends a request. Without an error the service's answer has come.
func (s *shop) post(service string, r request) (status int, receipt string, err error) {
	body, err := json.Marshal(r)
	if err != nil {
		return 0, "", err
	}
	res, err := s.http.Post(service+"/effects", "application/json", bytes.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = res.Body.Close() }() // it has been read
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode >= http.StatusInternalServerError && res.StatusCode != http.StatusServiceUnavailable {
		err = fmt.Errorf("%s: %s", res.Status, text)
	}
	return res.StatusCode, string(text), err
}
