package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/coord/ids"
	"github.com/millrace-go/millrace/internal/boottest"
	"github.com/millrace-go/millrace/internal/parttest"
	"github.com/millrace-go/millrace/sample/reservations"
	"github.com/millrace-go/millrace/schedule"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/azure"
	"github.com/millrace-go/millrace/storage/azure/azuretest"
	"github.com/millrace-go/millrace/storage/redis"
	"github.com/millrace-go/millrace/storage/redis/redistest"
	"github.com/millrace-go/millrace/storage/sqlite"
)

const (
	crashSeats   = 300
	crashDates   = 10
	crashWorkers = 3
)

// place is where the processes of a test work: a folder and a store.
type place struct {
	dir     string
	env     []string // with the store's URL
	many    int      // reservations that come in while workers are killed
	backlog int      // reservations that wait for workers that share them
}

// onEachPlace runs a test on a file, on a Redis server, and on Azurite. Azurite is slow, so a tenth of the work takes
// as long there. The runs of CI take turns with both servers.
func onEachPlace(t *testing.T, test func(t *testing.T, at place)) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, place{dir: t.TempDir(), env: []string{"MILLRACE_STORE=sqlite:r.db"}, many: 600, backlog: 2000})
	})
	t.Run("redis", func(t *testing.T) {
		parttest.InTurn(t)
		t.Parallel()
		test(t, place{dir: t.TempDir(), env: []string{"MILLRACE_STORE=" + redistest.Place(t, redisServer)}, many: 600, backlog: 2000})
	})
	t.Run("azure", func(t *testing.T) {
		parttest.InTurn(t)
		t.Parallel()
		// The name of a store that holds a secret stays off the command line.
		test(t, place{dir: t.TempDir(), env: []string{"MILLRACE_STORE=azure:" + azuretest.Place(t, azurite, azure.Wipe)}, many: 60, backlog: 100})
	})
}

var (
	azurite     = sync.OnceValues(azuretest.Launch)
	redisServer = sync.OnceValues(redistest.Launch)
)

// Workers are killed at random moments while hundreds of reservations for 10 dates come in through the web. Afterwards
// everything is as if nothing had happened: each command is decided once, and no number is given twice.
func TestWorkersAreKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("waits until the messages of killed workers are visible again, half a minute")
	}
	onEachPlace(t, killWorkers)
}

func killWorkers(t *testing.T, at place) {
	url := startWeb(t, at).URL(t)

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var killing sync.WaitGroup
	var kills atomic.Int64
	for i := range crashWorkers {
		killing.Go(func() { killAgainAndAgain(ctx, t, at, uint64(i), &kills) })
	}
	sent := postAll(t, url, at.many)
	stop()
	killing.Wait()
	if kills.Load() < crashWorkers {
		t.Errorf("got %d kills; the test must kill more to prove anything", kills.Load())
	}
	t.Logf("%d reservations sent, %d workers killed", len(sent), kills.Load())

	startWorker(t, at)
	store, channels := openSample(t, at)
	waitDrained(t, store, channels)
	audit(t, store, channels, url, at.dir, sent)
}

// killAgainAndAgain runs a worker, kills it after a random time, and starts the next one.
func killAgainAndAgain(ctx context.Context, t *testing.T, at place, seed uint64, kills *atomic.Int64) {
	random := rand.New(rand.NewPCG(seed, 0))
	for ctx.Err() == nil {
		p := startWorker(t, at)
		select {
		case <-time.After(50*time.Millisecond + time.Duration(random.IntN(400))*time.Millisecond):
		case <-ctx.Done():
		}
		p.Signal(t, syscall.SIGKILL)
		p.Wait(t)
		kills.Add(1)
	}
}

func startWeb(t *testing.T, at place, args ...string) *boottest.Program {
	t.Helper()
	return boottest.Start(t, boottest.Other(t, bin, "../web"), at.dir, at.env, append([]string{"-addr", "127.0.0.1:0", "-worker=false", "-seats", fmt.Sprint(crashSeats)}, args...)...)
}

func startWorker(t *testing.T, at place, args ...string) *boottest.Program {
	return boottest.Start(t, bin, at.dir, at.env, append([]string{"-admin", "127.0.0.1:0", "-seats", fmt.Sprint(crashSeats)}, args...)...)
}

// postAll posts the reservations from several clients, each again after an error, some twice.
func postAll(t *testing.T, url string, n int) []reservations.MakeReservation {
	t.Helper()
	first := time.Now().AddDate(0, 1, 0)
	sent := make([]reservations.MakeReservation, n)
	for i := range sent {
		sent[i] = reservations.MakeReservation{
			ID: channel.NewID(), Date: first.AddDate(0, 0, i%crashDates).Format(time.DateOnly),
			Name: fmt.Sprintf("Guest %d", i), Email: fmt.Sprintf("guest-%d@example.org", i), Quantity: 1 + i%4,
		}
	}
	var next atomic.Int64
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(sent) {
					return
				}
				for again := true; again && t.Context().Err() == nil; {
					again = post(t, url, sent[i]) != http.StatusAccepted
				}
				if i%50 == 0 {
					post(t, url, sent[i])
				}
			}
		})
	}
	clients.Wait()
	return sent
}

func post(t *testing.T, url string, m reservations.MakeReservation) int {
	body, err := json.Marshal(map[string]any{"id": m.ID, "date": m.Date, "name": m.Name, "email": m.Email, "quantity": m.Quantity})
	if err != nil {
		t.Error(err)
		return 0
	}
	res, err := http.Post(url+"/reservations", "application/json", bytes.NewReader(body))
	if err != nil {
		return 0
	}
	defer func() { _ = res.Body.Close() }()
	answer, _ := io.ReadAll(res.Body) // for the error only
	if res.StatusCode >= 400 && res.StatusCode < 500 {
		t.Errorf("POST %s: got %d: %s", m.ID, res.StatusCode, answer)
		return http.StatusAccepted // a repeat won't help
	}
	return res.StatusCode
}

func openSample(t *testing.T, at place) (*storage.Store, *channel.Channels) {
	t.Helper()
	_, url, _ := strings.Cut(at.env[0], "=")
	if file, ok := strings.CutPrefix(url, "sqlite:"); ok {
		url = "sqlite:" + filepath.Join(at.dir, file)
	}
	store, err := storage.Drivers{sqlite.Driver, azure.Driver, redis.Driver}.Open(t.Context(), url, storage.OpenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	routes, err := reservations.Routes()
	if err != nil {
		t.Fatal(err)
	}
	channels, err := channel.New(store, routes, "/audit")
	if err != nil {
		t.Fatal(err)
	}
	return store, channels
}

// waitDrained waits until all queues are empty.
func waitDrained(t *testing.T, store *storage.Store, channels *channel.Channels) {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	late := time.After(3 * time.Minute)
	for {
		var left int64
		for _, q := range channels.Routes().Queues() {
			if q == schedule.QueueName {
				continue // schedules always wait there
			}
			s, err := store.Queue(q).Stats(t.Context())
			if errors.Is(err, storage.ErrUnavailable) && t.Context().Err() == nil {
				left++ // a busy store: count it as not empty
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range []int64{s.Ready, s.InFlight, s.Delayed} {
				if n < 0 {
					n = 1 // unknown: count it as not empty
				}
				left += n
			}
		}
		if left == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("%d messages are left", left)
		}
	}
}

// audit checks the result from outside, knowing only what was sent.
func audit(t *testing.T, store *storage.Store, channels *channel.Channels, url, dir string, sent []reservations.MakeReservation) {
	t.Helper()
	ctx := t.Context()
	capacities, statuses := reservations.Capacities(channels, crashSeats), reservations.Statuses(channels)
	byDate := map[string][]reservations.MakeReservation{}
	for _, m := range sent {
		byDate[m.Date] = append(byDate[m.Date], m)
	}
	mails, numbers := 0, map[string]string{} // numbers by reservation
	for date, asked := range byDate {
		c, err := capacities.Get(ctx, date, "")
		if err != nil {
			t.Fatal(err)
		}
		if int(c.Version) != len(asked) {
			t.Errorf("%s: %d commands applied, want %d: each exactly once", date, c.Version, len(asked))
		}
		seats := c.Value.Remaining
		for _, m := range asked {
			mails++
			b, accepted := c.Value.Accepted[m.ID]
			seats += b.Quantity
			s, _, err := statuses.GetFresh(ctx, reservations.Key(m.ID))
			if err != nil {
				t.Fatal(err)
			}
			want := reservations.Rejected
			if accepted {
				want = reservations.Accepted
			}
			if s.Status != want {
				t.Errorf("status of %s: got %q, want %q", m.ID, s.Status, want)
			}
			row, err := store.Table("reservations").Get(ctx, date, reservations.Key(m.ID))
			if recorded := err == nil; recorded != accepted || err != nil && !errors.Is(err, storage.ErrNotFound) {
				t.Errorf("table row of %s: got %v (%v), want %v", m.ID, recorded, err, accepted)
			}
			if accepted {
				numbers[m.ID] = s.Number
				if !bytes.Contains(row.Data, []byte(`"number":"`+s.Number+`"`)) {
					t.Errorf("table row of %s: got %s, want No. %s of the receipt", m.ID, row.Data, s.Number)
				}
			}
		}
		if seats != crashSeats {
			t.Errorf("%s: remaining + accepted is %d, want %d", date, seats, crashSeats)
		}
		if got, want := disabled(t, url, date), c.Value.Remaining == 0; got != want {
			t.Errorf("%s is disabled in the calendar: got %v, want %v", date, got, want)
		}
	}
	// A mail that was sent twice would have the same name twice. A file that a killed worker was writing isn't an
	// .eml yet.
	files, err := filepath.Glob(filepath.Join(dir, "data", "mail", "*.eml"))
	if err != nil || len(files) != mails {
		t.Errorf("got %d mails (%v), want %d", len(files), err, mails)
	}
	auditNumbers(t, store, numbers, files)
	for info, err := range store.Blobs("poison").List(ctx, "") {
		if err != nil {
			t.Fatal(err)
		}
		t.Errorf("in the poison queue: %s", info.Key)
	}
}

// auditNumbers checks that each accepted reservation has a number of its own, under which it is found, and that the
// mails tell the same numbers.
func auditNumbers(t *testing.T, store *storage.Store, numbers map[string]string, mails []string) {
	t.Helper()
	for id, number := range numbers {
		if _, err := ids.Parse(number); err != nil {
			t.Errorf("%s is accepted: %v", id, err)
			continue
		}
		// A number leads to one key only, so two reservations can't both have it.
		if key, err := reservations.Numbered(t.Context(), store.Table("numbers"), number); err != nil || key != reservations.Key(id) {
			t.Errorf("No. %s: got key %q (%v), want that of %s", number, key, err, id)
		}
	}
	told := map[string]string{}
	mail := regexp.MustCompile(`(?s)No\. (\d+-\d)\..*Reservation (\S+)`)
	for _, file := range mails {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if found := mail.FindSubmatch(text); found != nil {
			told[string(found[2])] = string(found[1])
		}
	}
	if !maps.Equal(told, numbers) {
		t.Errorf("the mails tell %d numbers, want the %d of the receipts: %v, %v", len(told), len(numbers), told, numbers)
	}
}

func disabled(t *testing.T, url, date string) bool {
	t.Helper()
	res, err := http.Get(url + "/views/months/" + reservations.MonthOf(date))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	var month struct{ DisabledDays []string }
	if err := json.NewDecoder(res.Body).Decode(&month); err != nil {
		t.Fatal(err)
	}
	for _, d := range month.DisabledDays {
		if d == date {
			return true
		}
	}
	return false
}
