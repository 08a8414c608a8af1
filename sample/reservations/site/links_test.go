package site_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/sample/reservations/site"
)

func TestReceipts(t *testing.T) {
	t.Parallel()
	for base, want := range map[string]string{
		"https://tables.example.org":  "https://tables.example.org/reservations/",
		"https://tables.example.org/": "https://tables.example.org/reservations/",
		"http://localhost:8080":       "http://localhost:8080/reservations/",
		"http://[::1]:8080":           "http://[::1]:8080/reservations/",
	} {
		receipt, err := site.Receipts(base)
		if err != nil {
			t.Errorf("%s: %v", base, err)
			continue
		}
		if got := receipt("reservation-a"); got != want+"reservation-a" {
			t.Errorf("%s: got %s, want %s", base, got, want+"reservation-a")
		}
		if got := receipt("a/b?c#d\n"); got != want+"a%2Fb%3Fc%23d%0A" {
			t.Errorf("%s: got %s, want an ID to stay one part of the path", base, got)
		}
	}
	for _, base := range []string{
		"", "tables.example.org", "localhost:8080", "/reservations", "//tables.example.org", "ftp://tables.example.org", "https://", "https:///x", "https://:443",
		"https://h:x", "https://h:80:80", "https://ada@h", "https://ada:s3cret@h", "https://h/tables", "https://h?a=b", "https://h?", "https://h#top", "https://s3 cret", "javascript:alert(1)",
	} {
		_, err := site.Receipts(base)
		if err == nil {
			t.Errorf("%q: got nil, want an error", base)
		} else if strings.Contains(err.Error(), "s3") {
			t.Errorf("%q: the error %q repeats what may be a password", base, err)
		}
	}

	// The address leads to the receipt.
	s := newStack(t, site.Config{})
	id := channel.NewID()
	s.postJSON(body(id, in(3), 4)).want(t, http.StatusAccepted)
	receipt, err := site.Receipts(s.url)
	if err != nil {
		t.Fatal(err)
	}
	s.get(strings.TrimPrefix(receipt(id), s.url)).want(t, http.StatusOK).has(t, "Ada Lovelace")
}
