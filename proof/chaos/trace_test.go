package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// at is a moment of the invented runs below, in seconds.
func at(s float64) time.Time {
	return time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC).Add(time.Duration(s * float64(time.Second)))
}

// said makes a worker's log: lines like "1.5 taken mails a 1" (second, what, queue, ID, number of the delivery).
func said(t *testing.T, lines string) *life {
	t.Helper()
	var log strings.Builder
	log.WriteString("The worker is running\n" + `{"time":"x","msg":"worker starts"}` + "\n")
	for line := range strings.Lines(lines) {
		var second float64
		var what, queue, id string
		var number int
		if n, _ := fmt.Sscan(line, &second, &what, &queue, &id, &number); n != 5 {
			continue
		}
		_, _ = fmt.Fprintf(&log, `{"time":%q,"level":"DEBUG","msg":"message %s","queue":%q,"id":%q,"deliveries":%d,"sent":%q,"made":%q}`+"\n",
			at(second).Format(time.RFC3339Nano), what, queue, id, number, at(0).Format(time.RFC3339Nano), at(0).Format(time.RFC3339Nano))
	}
	log.WriteString(`{"time":"2026-01-02T03:04:05Z","msg":"message ta`) // cut off by the kill
	file := filepath.Join(t.TempDir(), "worker.log")
	if err := os.WriteFile(file, []byte(log.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return &life{log: file}
}

func read(t *testing.T, lives ...*life) trace {
	t.Helper()
	all := trace{}
	for _, l := range lives {
		if err := all.add(l); err != nil {
			t.Fatal(err)
		}
	}
	all.sort()
	return all
}

func TestTimeFromAKillToTheNextAttempt(t *testing.T) {
	t.Parallel()
	victim := said(t, `
		1 taken mails held 1
		1 taken mails ended 1
		2 released mails ended 1
		3 taken mails vanished 1
		3 taken mails unseen 1
		4 taken ledger held 4`)
	victim.killed = at(5)
	survivor := said(t, `
		30 taken mails held 2
		31 released mails held 2
		40 taken ledger held 5
		60 taken mails unseen 3
		41 taken ledger other 1
		42 released ledger other 1`)
	got := read(t, survivor, victim).afterKills()
	// A message that had ended, or had no later delivery, was not held. A delivery that was not logged in between
	// doesn't count.
	if want := (times{25 * time.Second, 35 * time.Second}); fmt.Sprint([]time.Duration(got)) != fmt.Sprint([]time.Duration(want)) {
		t.Errorf("got %v, want %v", []time.Duration(got), []time.Duration(want))
	}
	if all, again := read(t, survivor, victim).count(); all != 9 || again != 4 {
		t.Errorf("got %d deliveries, %d of them again; want 9 and 4", all, again)
	}
}

func TestTimeFromAStallToTheNextAttempt(t *testing.T) {
	t.Parallel()
	stalled := said(t, `
		1 taken mails held 1
		1 taken mails before 1
		2 released mails before 1
		46 released mails held 1
		47 taken mails after 1`)
	stalled.stalls = []span{{at(5), at(45)}}
	other := said(t, `
		34 taken mails held 2
		35 released mails held 2
		36 taken mails before 2
		50 taken mails after 2`)
	if got := read(t, stalled, other).afterStalls(); len(got) != 1 || got[0] != 29*time.Second {
		t.Errorf("got %v, want 29s for the one message that was in hand", got)
	}
}

// A view's lag counts to the last delivery of a message: if one worker lost the message, another one releases it
// later.
func TestLag(t *testing.T) {
	t.Parallel()
	loser := said(t, `
		1 taken months a 1
		60 released months a 1
		2 taken statuses b 1
		3 released statuses b 1`)
	winner := said(t, `
		30 taken months a 2
		31 released months a 2
		7 taken ledger c 1`)
	all := read(t, loser, winner)
	// A repeat by a sender that didn't know whether the first message was sent.
	all[messageKey{queue: "statuses", id: "b", sent: 1}] = []*delivery{{taken: at(90), released: at(91), made: at(0)}}
	got := all.lags()
	for queue, want := range map[string]time.Duration{"months": 31 * time.Second, "statuses": 3 * time.Second, "ledger": 7 * time.Second} {
		if got[queue] != want {
			t.Errorf("%s: got %v, want %v", queue, got[queue], want)
		}
	}
}

func TestQuantiles(t *testing.T) {
	t.Parallel()
	var all times
	for i := range 200 {
		all = append(all, time.Duration(i)*time.Second)
	}
	if got, want := all.at(50), 100*time.Second; got != want {
		t.Errorf("p50: got %v, want %v", got, want)
	}
	if got, want := all.at(99), 198*time.Second; got != want {
		t.Errorf("p99: got %v, want %v", got, want)
	}
	if got := (times{time.Second}).at(99); got != time.Second {
		t.Errorf("p99 of one: got %v, want it", got)
	}
}
