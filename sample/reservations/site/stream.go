package site

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/millrace-go/millrace/sample/reservations"
)

// An event stream looks often at first, because most decisions take milliseconds, and less often later.
const (
	firstLook = 20 * time.Millisecond
	lastLook  = time.Second
	heartbeat = 15 * time.Second // keeps proxies from closing an idle stream, and detects clients that have gone
	oneWrite  = 10 * time.Second
)

// events sends a reservation's state now and whenever it changes, until the state is final or the time is up. Then
// the browser connects again.
func (s *site) events(ctx context.Context, w http.ResponseWriter, r *http.Request) error {
	status, err := s.lookup(ctx, r.PathValue("id"))
	if err != nil {
		return err
	}
	select {
	case s.streams <- struct{}{}:
		defer func() { <-s.streams }()
	default:
		return &problem{Status: http.StatusServiceUnavailable, Detail: "Too many people are waiting. Please load the page again shortly."}
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.cfg.StreamFor) // the stream's own; the request's is too short
	defer cancel()

	control := http.NewResponseController(w)
	// The server's read timeout would end the request's context. Writers in tests and in some middleware have no
	// deadlines; they need no extension.
	_ = control.SetReadDeadline(time.Time{})
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no") // asks proxies to pass events on at once
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}

	write := func(text string) error {
		_ = control.SetWriteDeadline(time.Now().Add(oneWrite)) // replaces the server's own, for this write
		if _, err := w.Write([]byte(text)); err != nil {
			return err
		}
		return control.Flush()
	}
	look := func() (reservations.Status, error) {
		now, version, err := s.statuses.GetFresh(ctx, reservations.Key(status.ID))
		if version == 0 {
			return status, err // the state when the stream began: pending
		}
		return now, err
	}
	// A stream that has begun can't be answered with a problem any more. It ends, and the browser connects again.
	_ = follow(ctx, s.cfg.Stopping, status, look, write)
	return nil
}

// follow writes a state and its changes. It returns when the state is final, when ctx or the server ends, or when a
// read or a write fails.
func follow(ctx context.Context, stopping <-chan struct{}, status reservations.Status,
	look func() (reservations.Status, error), write func(string) error) error {
	if err := write("retry: 2000\n" + event(status)); err != nil {
		return err
	}
	wait := firstLook
	pause := time.NewTimer(wait)
	defer pause.Stop()
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for !status.Status.Final() {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-stopping:
			return nil
		case <-beat.C:
			if err := write(": still here\n\n"); err != nil {
				return err
			}
		case <-pause.C:
			now, err := look()
			if err != nil {
				return err
			}
			wait = min(wait*3/2, lastLook)
			if now != status {
				status, wait = now, firstLook
				if err := write(event(status)); err != nil {
					return err
				}
			}
			pause.Reset(wait)
		}
	}
	return nil
}

func event(s reservations.Status) string {
	data, err := json.Marshal(s)
	if err != nil { // a programmer's mistake: the type is fixed
		panic(err)
	}
	return fmt.Sprintf("event: status\ndata: %s\n\n", data)
}
