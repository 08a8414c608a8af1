package tuning

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/settings"
)

// A text in the form of a reference to a secret is one, or is refused: it may be misspelt, and nobody may know better.
func TestTextsInTheFormOfReferences(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"env:SMTP_URL": true, "file:/run/secrets/smtp": true, "evn:SMTP_URL": true, "File:/run/secrets/smtp": true, "vault:smtp": true, "env:": true, "fiel:///run/smtp": true,
		"debug": false, "localhost:25": false, "mail.example.org:25": false, "https://example.org/x": false, "10:30": false, "note: closed": false, `C:\data`: false, "": false, ":": false,
	} {
		if got := likeReference(text); got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}

// The history says in words what has become of each version, and what a change was from.
func TestHistoryExplainsItself(t *testing.T) {
	t.Parallel()
	kept := settings.Current{Epoch: 9, Candidate: 7, Ended: []settings.Ending{{Version: 6}, {Version: 4}}}
	rolling := kept
	rolling.Rollout = &settings.Rollout{Version: 7}
	for _, tt := range []struct {
		version int64
		now     settings.Current
		want    string
	}{
		{7, kept, "checking"}, {7, rolling, "rolling out"}, {8, kept, "not proposed"}, {5, kept, "not proposed"}, {3, kept, "no longer kept"}, {3, settings.Current{}, "unknown"},
	} {
		if got := NoResult(tt.version, tt.now); got != tt.want {
			t.Errorf("version %d of %+v: got %q, want %q", tt.version, tt.now, got, tt.want)
		}
	}
}

// The history has the first reason for a result, and counts the others.
func TestHistoryHasTheFirstReason(t *testing.T) {
	t.Parallel()
	two := []settings.Refusal{{Node: "a", Why: strings.Repeat("x", 200)}, {Node: "b"}}
	worldtest.Want(t, "none", FirstReason(nil), "")
	worldtest.Want(t, "one", FirstReason(two[1:]), "b: no reason given")
	worldtest.Want(t, "two", FirstReason(two), "a: "+strings.Repeat("x", 97)+"… (and 1 more)")
}

// The text says once what becomes of a program that doesn't answer, whether its time is over or not.
func TestWhoIsPassedOverIsSaidOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for after, want := range map[time.Duration]string{
			time.Minute:  "It waits for the answer of far until 00:01:00Z (in 1m0s). One that has not looked again by then is passed over.",
			-time.Minute: "It waits for the answer of far, which should have looked again by 23:59:00Z, and is passed over three polls after others have seen its last look.",
		} {
			worldtest.Want(t, after.String(), WaitsFor([]settings.Wait{{Node: "far", Until: time.Now().Add(after)}}), want)
		}
	})
}
