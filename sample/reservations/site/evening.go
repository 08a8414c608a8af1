package site

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/millrace-go/millrace/files/valet"
	"github.com/millrace-go/millrace/sample/reservations"
)

// kitchen is the user's name on the restaurant's pages, and who reads wishes in the log of keys.
const kitchen = "kitchen"

// CheckKitchenKey says what is wrong with a password of the restaurant's pages. Without a password there are no such
// pages.
func CheckKitchenKey(key string) error {
	if key != "" && len(key) < 16 {
		return errors.New("want 16 bytes or more, because anybody may guess")
	}
	return nil
}

type eveningPage struct {
	Title          string  `json:"-"`
	Date           string  `json:"date"`
	People         int     `json:"people"`
	Guests         []guest `json:"guests"`
	Previous, Next string  `json:"-"` // dates
}

// A guest is a reservation as the kitchen sees it.
type guest struct {
	Number   string `json:"number"`
	Name     string `json:"name"`
	Quantity int    `json:"quantity"`
	Wish     string `json:"wish,omitempty"` // URL of a key that reads the file, for an hour
	WishName string `json:"wishName,omitempty"`
	Picture  bool   `json:"picture,omitempty"`
}

// evening shows the kitchen who comes on a date. The sample has no users, so everybody in the kitchen has one password,
// by HTTP Basic: that needs no page, no cookie and no script, and the browser asks for it.
func (s *site) evening(ctx context.Context, w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Cache-Control", "no-store")
	if !s.isKitchen(r) {
		w.Header().Set("WWW-Authenticate", `Basic realm="kitchen", charset="UTF-8"`)
		return &problem{Status: http.StatusUnauthorized, Detail: "This page is for the kitchen."}
	}
	date, err := time.Parse(time.DateOnly, r.PathValue("date"))
	if err != nil {
		return &problem{Status: http.StatusNotFound, Detail: "A date looks like 2026-12-24."}
	}
	p := eveningPage{Date: date.Format(time.DateOnly), Guests: []guest{}, Previous: date.AddDate(0, 0, -1).Format(time.DateOnly), Next: date.AddDate(0, 0, 1).Format(time.DateOnly)}
	p.Title = reservations.DateInWords(p.Date)
	for e, err := range reservations.Guests(ctx, s.guests, p.Date) {
		if err != nil {
			return err
		}
		g := guest{Number: e.Number, Name: e.Name, Quantity: e.Quantity}
		if err := s.addWish(ctx, &g, reservations.Key(e.ID)); err != nil {
			return err
		}
		p.People += g.Quantity
		p.Guests = append(p.Guests, g)
	}
	if wantsJSON(r) {
		writeJSON(w, "application/json", http.StatusOK, p)
		return nil
	}
	if s.cfg.Files != nil {
		s.allowFiles(w, r)
	}
	s.page(w, r, "evening", http.StatusOK, p)
	return nil
}

// isKitchen compares digests, whose length and time tell nothing.
func (s *site) isKitchen(r *http.Request) bool {
	user, key, _ := r.BasicAuth()
	got, want := sha256.Sum256([]byte(key)), sha256.Sum256([]byte(s.cfg.KitchenKey))
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1 && user == kitchen
}

// addWish adds a key for the wish of a reservation, if there is one. Pictures may be shown in the page; a PDF is saved.
func (s *site) addWish(ctx context.Context, g *guest, key string) error {
	if s.cfg.Files == nil {
		return nil
	}
	status, err := s.statuses.Get(ctx, key)
	if err != nil || status.Wish.File == "" {
		return err
	}
	read, err := s.cfg.Files.Download(ctx, status.Wish.File, valet.Download{Owner: kitchen, Inline: true})
	if err != nil {
		return err
	}
	g.Wish, g.WishName, g.Picture = read.URL, status.Wish.Name, strings.HasPrefix(status.Wish.Type, "image/")
	return nil
}
