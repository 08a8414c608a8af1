package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/millrace-go/millrace/internal/boottest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite"
)

// holders returns the places in a stopped sample's folder that hold a text: containers, tables, queues, and the
// folder of mails.
func holders(t *testing.T, dir, text string) (places []string) {
	t.Helper()
	store, err := sqlite.Open(t.Context(), filepath.Join(dir, "data", "reservations.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	note := func(place string, body []byte, err error) {
		if err != nil {
			t.Fatalf("%s: %v", place, err)
		}
		if bytes.Contains(body, []byte(text)) && !slices.Contains(places, place) {
			places = append(places, place)
		}
	}
	for _, container := range []string{"capacity", "months", "statuses", "requests", "poison", "claims", "health"} {
		blobs := store.Blobs(container)
		for info, err := range blobs.List(t.Context(), "") {
			if err != nil {
				t.Fatal(err)
			}
			b, err := blobs.Get(t.Context(), info.Key, "")
			note(container, append(b.Body, info.Key...), err)
		}
	}
	for table, partition := range map[string]string{"reservations": bookable(), "cancellations": bookable(), "numbers": "1-3", "once": "mails"} {
		for row, err := range store.Table(table).Query(t.Context(), partition, storage.RowRange{}) {
			note("table "+table, append(row.Data, row.Key...), err)
		}
	}
	err = filepath.WalkDir(filepath.Join(dir, "data", "mail"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			var b []byte
			b, err = os.ReadFile(path)
			note("mail", b, err)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(places)
	return places
}

// erasure returns the commands with which SECURITY.md erases a person.
func erasure(t *testing.T, address string) (commands []string) {
	t.Helper()
	if _, err := exec.LookPath("sqlite3"); err != nil {
		if slices.Contains(strings.Split(os.Getenv("MILLRACE_REQUIRE"), ","), "sqlite3") {
			t.Fatalf("MILLRACE_REQUIRE has sqlite3: %v", err)
		}
		t.Skip("the rest takes sqlite3:", err)
	}
	text, err := os.ReadFile("../../SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ = bytes.Cut(text, []byte("To erase a person"))
	for _, code := range regexp.MustCompile("`((?:sqlite3|grep) [^`]+)`").FindAllSubmatch(text, -1) {
		commands = append(commands, strings.ReplaceAll(strings.Join(strings.Fields(string(code[1])), " "), "ada@example.org", address))
	}
	if len(commands) != 3 {
		t.Fatalf("got %q, want three commands", commands)
	}
	return commands
}

// An address is in the places that SECURITY.md names, and nowhere else; so is a name. The erasure of SECURITY.md
// leaves nothing.
func TestWherePersonalDataIs(t *testing.T) {
	t.Parallel()
	const address, name = "zqerasable@example.org", "Perpetua Zqname"
	dir := t.TempDir()
	run := func(do func(url string)) {
		t.Helper()
		p := boottest.Start(t, bin, dir, nil, "-addr", "127.0.0.1:0")
		do(p.URL(t))
		p.Signal(t, syscall.SIGTERM)
		if code := p.Wait(t); code != 0 {
			t.Fatalf("got exit code %d, want 0", code)
		}
	}
	handled := func(url, queue string, n float64) {
		t.Helper()
		eventually(t, queue+" are handled", func() bool {
			return metric(t, url, fmt.Sprintf("millrace_deliveries_total{outcome=%q,queue=%q}", "done", queue)) == n
		})
	}
	want := func(text string, places ...string) {
		t.Helper()
		if got := holders(t, dir, text); !slices.Equal(got, places) {
			t.Errorf("%s is in %q, want it in %q", text, got, places)
		}
	}
	var receipt string
	run(func(url string) {
		res, err := http.Post(url+"/reservations", "application/json", strings.NewReader(fmt.Sprintf(`{"date":%q,"name":%q,"email":%q,"quantity":2}`, bookable(), name, address)))
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close() // its head says all
		receipt = res.Header.Get("Location")
		for _, queue := range []string{"statuses", "ledger", "mails"} {
			handled(url, queue, 1)
		}
	})
	want(address, "capacity", "mail", "requests", "table reservations")
	want(name, "capacity", "mail", "requests", "statuses", "table reservations")

	run(func(url string) {
		res, err := http.Post(url+receipt+"/cancel", "", nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		for _, queue := range []string{"statuses", "ledger", "mails"} {
			handled(url, queue, 1)
		}
	})
	want(address, "mail", "requests")
	want(name, "mail", "requests", "statuses")

	store, err := sqlite.Open(t.Context(), filepath.Join(dir, "data", "reservations.db"))
	if err != nil {
		t.Fatal(err)
	}
	for _, container := range []string{"requests", "capacity"} { // other blobs there must not stop it
		if _, err := store.Blobs(container).Put(t.Context(), "zq", []byte("{no JSON"), storage.Condition{}); err != nil {
			t.Error(err)
		}
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
	for i, command := range erasure(t, address) {
		cmd := exec.CommandContext(t.Context(), "bash", "-c", command)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if listed := strings.Contains(string(out), strings.TrimPrefix(receipt, "/reservations/")); err != nil || listed != (i == 0) {
			t.Errorf("%s: got %v and %q; only the first one lists the reservation", command, err, out)
		}
	}
	want(address)
	want(name)
}
