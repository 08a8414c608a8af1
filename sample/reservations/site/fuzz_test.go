package site

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/sample/reservations"
	"github.com/millrace-go/millrace/storage"
)

// FuzzJSON checks that no body breaks the parser, and that every body it accepts is a valid reservation.
func FuzzJSON(f *testing.F) {
	f.Add([]byte(`{"id":"reservation-a","date":"2026-12-24","name":"Ada","email":"ada@example.org","quantity":4}`))
	f.Add([]byte(`{"id":7,"date":null,"name":["Ada"],"email":{},"quantity":1e3}`))
	f.Add([]byte(`{"name":"\u0000\ud800","email":"a@b\r\n","quantity":-0}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, body []byte) { fuzzInput(t, "application/json", body) })
}

// FuzzForm is FuzzJSON for forms.
func FuzzForm(f *testing.F) {
	f.Add([]byte("id=reservation-a&date=2026-12-24&name=Ada&email=ada%40example.org&quantity=4"))
	f.Add([]byte("id=&id=x&date=%ff&name=%3Cscript%3E&email=%0d%0a&quantity=99999999999999999999"))
	f.Add([]byte("date=2026-12-24T&name="))
	f.Fuzz(func(t *testing.T, body []byte) { fuzzInput(t, "application/x-www-form-urlencoded", body) })
}

func fuzzInput(t *testing.T, contentType string, body []byte) {
	static, err := Assets("", nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &site{cfg: Config{Now: time.Now}, answers: answers{log: slog.New(slog.DiscardHandler), pages: loadPages(static)}}
	r := httptest.NewRequest("POST", "/reservations", bytes.NewReader(body))
	r.Header.Set("Content-Type", contentType)
	w := httptest.NewRecorder()
	in, faults, err := readInput(w, r)
	if err != nil {
		if p := asProblem(err); p.Status >= 500 {
			t.Fatalf("the client's mistake is ours: %v", err)
		}
		return
	}
	m := in.reservation()
	if len(faults) > 0 || len(m.Faults()) > 0 {
		// A person gets any input back in a form.
		r = httptest.NewRequest("POST", "/reservations", strings.NewReader(url.Values{}.Encode()))
		if err := s.refuse(w, r, in, &problem{Status: http.StatusUnprocessableEntity, Faults: m.Faults()}); err != nil || w.Code != http.StatusUnprocessableEntity {
			t.Fatalf("refused with %d, %v", w.Code, err)
		}
		return
	}
	if err := storage.CheckKey(m.ID); err != nil {
		t.Errorf("an ID that is no key: %v", err)
	}
	encoded, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var again reservations.MakeReservation
	if err := json.Unmarshal(encoded, &again); err != nil || again != m {
		t.Errorf("not the same after a round trip: %+v, %+v, %v", m, again, err)
	}
}
