package site_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/coord/ids"
	"github.com/millrace-go/millrace/sample/reservations"
	"github.com/millrace-go/millrace/sample/reservations/site"
)

// A reservation is found by its number. The answer tells nothing that only its owner may know.
func TestFindByNumber(t *testing.T) { onEachStore(t, findByNumber) }

func findByNumber(t *testing.T, s *stack) {
	s.work()
	id := channel.NewID()
	path := "/reservations/" + id
	s.postJSON(body(id, in(3), 4)).want(t, http.StatusAccepted)
	number := s.becomes(path, reservations.Accepted).Number
	s.get(path).want(t, http.StatusOK).has(t, "No. <strong>"+number+"</strong>")
	eventually(t, "a mail", func() bool { return len(s.mails.subjects()) == 1 })
	if text := s.mails.mails[0].Text; !strings.Contains(text, "No. "+number+".") {
		t.Errorf("the mail doesn't tell No. %s:\n%s", number, text)
	}

	find := func(number string, header ...string) answer {
		t.Helper()
		return s.get("/reservations?number="+url.QueryEscape(number), header...).want(t, http.StatusOK, "Cache-Control", "no-store")
	}
	want := `{"number":"` + number + `","date":"` + in(3) + `","quantity":4,"status":"accepted"}` + "\n"
	for _, asked := range []string{number, " " + number + " ", "No. " + number, "no." + number, strings.Replace(number, "-", "\u2013", 1)} {
		if got := find(asked, "Accept", "application/json").body; got != want {
			t.Errorf("%q: got %s, want %s", asked, got, want)
		}
	}
	page := find(number).has(t, "This table is booked", number, reservations.DateInWords(in(3)), "4 people").body
	for _, secret := range []string{"Ada", "ada@", id, reservations.Key(id)} {
		if strings.Contains(page, secret) {
			t.Errorf("the page tells %q:\n%s", secret, page)
		}
	}
	s.do("POST", path+"/cancel", nil).want(t, http.StatusAccepted)
	if got := s.becomes(path, reservations.Cancelled).Number; got != number {
		t.Errorf("cancelled: got No. %q, want that it stays %s", got, number)
	}
	find(number).has(t, "This reservation is cancelled")
	find(number, "Accept", "application/json").has(t, `"status":"cancelled"`)
}

func TestFindNothing(t *testing.T) {
	t.Parallel()
	s := newStack(t, site.Config{})
	s.get("/").has(t, `href="/reservations"`)
	s.get("/reservations").want(t, http.StatusOK, "Content-Type", "text/html; charset=utf-8").has(t, `name="number"`)
	for number, status := range map[string]int{
		"1042-9": 404, ids.Format(9_007_199_254_740_993): 404,
		"1042-8": 422, "1024-9": 422, "1042": 422, "-9": 422, "0-0": 422, "-1-7": 422, "99999999999999999999-1": 422, "1042-99": 422, "No.": 422,
		"../x": 422, "<b>1042-9": 422, "\xff": 422, strings.Repeat("1", 2000) + "-1": 422, channel.NewID(): 422,
	} {
		path := "/reservations?number=" + url.QueryEscape(number)
		page := s.get(path).want(t, status, "Content-Type", "text/html; charset=utf-8", "Cache-Control", "no-store").has(t, `id="number-fault"`, "number")
		if strings.Contains(page.body, "<b>") || strings.Contains(page.body, "ids:") {
			t.Errorf("%q: got the page\n%s", number, page.body)
		}
		a := s.get(path, "Accept", "application/json").want(t, status, "Content-Type", "application/problem+json", "Cache-Control", "no-store")
		if p := decode[problem](t, a); p.Status != status || p.Detail == "" {
			t.Errorf("%q: got %+v, want advice", number, p)
		}
	}
	s.get("/reservations", "Accept", "application/json").want(t, http.StatusUnprocessableEntity).has(t, "1042-9")
	s.down.Store(true)
	s.get("/reservations?number=1042-9").want(t, http.StatusServiceUnavailable, "Retry-After", "5")
	s.get("/reservations").want(t, http.StatusOK) // needs nothing from the store
}
