package host_test

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-go/millrace/internal/boottest"
)

// ownPath begins the import paths of this module.
const ownPath = "github.com/millrace-go/millrace/"

// copySample copies the sample and its programs into a module elsewhere.
func copySample(t *testing.T) *boottest.Module {
	t.Helper()
	const to = "example.test/bistro/"
	m := boottest.NewModule(t, "example.test/bistro")
	rename := strings.NewReplacer(ownPath+"sample/reservations", to+"reservations", ownPath+"cmd", to+"cmd")
	m.Copy(t, "sample/reservations", "reservations", true, rename)
	m.Copy(t, "cmd/web", "cmd/web", false, rename)
	m.Copy(t, "cmd/worker", "cmd/worker", false, rename)
	return m
}

// The sample and its programs can be copied into a module elsewhere. With other import paths they build there, and the
// copies take a booking.
func TestCopiedSample(t *testing.T) {
	t.Parallel()
	m := copySample(t)
	bin := t.TempDir()
	m.Go(t, "vet", "./...")
	m.Go(t, "build", "-o", bin, "./cmd/...")
	if deps := m.Go(t, "list", "-deps", "./cmd/..."); strings.Contains(deps, ownPath+"sample") {
		t.Errorf("the copy still imports the sample:\n%s", deps)
	}

	web := boottest.Start(t, filepath.Join(bin, "web"), m.Dir, nil, "-addr", "127.0.0.1:0", "-worker=false")
	worker := boottest.Start(t, filepath.Join(bin, "worker"), m.Dir, nil, "-admin", "127.0.0.1:0")
	url := web.URL(t)
	date := time.Now().AddDate(0, 0, 7).Format(time.DateOnly)
	res, err := http.Post(url+"/reservations", "application/json", strings.NewReader(`{"date":"`+date+`","name":"Ada","email":"ada@example.org","quantity":2}`))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusAccepted {
		t.Fatalf("got %d, want 202", res.StatusCode)
	}
	if status := decided(t, url+res.Header.Get("Location")); status != "accepted" {
		t.Errorf("got status %q, want accepted", status)
	}
	for _, p := range []*boottest.Program{web, worker} {
		p.Signal(t, syscall.SIGTERM)
		if code := p.Wait(t); code != 0 {
			t.Errorf("got exit code %d, want 0", code)
		}
	}
}

// decided waits for the decision of a reservation.
func decided(t *testing.T, receipt string) string {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(time.Minute); ; {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, receipt, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", "application/json")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var answer struct{ Status string }
		err = json.NewDecoder(res.Body).Decode(&answer)
		_ = res.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if answer.Status != "pending" {
			return answer.Status
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatal("no decision")
		}
	}
}
