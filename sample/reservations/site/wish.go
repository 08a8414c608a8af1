package site

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/millrace-go/millrace/files/valet"
	"github.com/millrace-go/millrace/sample/reservations"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/throttle"
)

// filesPath is where keys of files lead to.
const filesPath = "/files/"

// mayWish reports whether a reservation takes a menu wish, now or once it is accepted.
func (s *site) mayWish(status reservations.Status) bool {
	return s.cfg.Files != nil && !status.Status.Final() && !over(status, s.cfg.Now())
}

// allowFiles lets a page send files to the store and show them from there. Where the store can't say its origin now,
// the page goes without files.
func (s *site) allowFiles(w http.ResponseWriter, r *http.Request) bool {
	origins, err := s.cfg.Files.Sources(r.Context())
	if err != nil {
		s.note(r, &problem{Status: http.StatusServiceUnavailable, Err: err})
		return false
	}
	w.Header()["Content-Security-Policy"] = policy(s.cfg.Assets.Sources(), origins...)
	return true
}

// wish answers with a key that uploads one file, for a reservation that was accepted. The reservation's ID is the right
// to do so. The body is JSON, so a form of another origin can't send it, whatever else refuses such a form.
func (s *site) wish(ctx context.Context, w http.ResponseWriter, r *http.Request) error {
	u, err := readWish(w, r)
	if err != nil {
		return err
	}
	status, err := s.lookup(ctx, r.PathValue("id"))
	switch {
	case err != nil:
		return err
	case status.Status != reservations.Accepted || !s.mayWish(status):
		return &problem{Status: http.StatusConflict, Detail: "We take wishes for a table that is booked, until its day is over."}
	}
	pass, err := s.limiters.wishes.Admit(ctx, throttle.Call{Tenant: reservations.Key(status.ID)})
	if err != nil {
		if x, ok := errors.AsType[*refused](refuse(err, "Many files have come for this reservation.")); ok {
			x.limiter.SetFields(w.Header())
			return x.problem
		}
		return err
	}
	defer pass.End(throttle.Spent)
	key, err := s.cfg.Files.Upload(ctx, reservations.UploadOf(status, u))
	switch {
	case errors.Is(err, storage.ErrTooLarge):
		return &problem{Status: http.StatusRequestEntityTooLarge, Detail: fmt.Sprintf("The file is too large: at most %d MB.", reservations.MaxWish>>20)}
	case errors.Is(err, storage.ErrInvalid):
		return &problem{Status: http.StatusUnprocessableEntity, Detail: "Choose a picture (PNG, JPEG or WebP) or a PDF that isn't empty."}
	case err != nil:
		return err
	}
	w.Header().Set("Cache-Control", "no-store")
	writeJSON(w, "application/json", http.StatusCreated, key)
	return nil
}

// readWish reads what a guest wants to upload.
func readWish(w http.ResponseWriter, r *http.Request) (valet.Upload, error) {
	if !isJSON(mediaType(r)) {
		return valet.Upload{}, &problem{Status: http.StatusUnsupportedMediaType, Detail: "Adding a wish needs JavaScript. A program sends application/json."}
	}
	var in struct {
		Name   string `json:"name"`
		Type   string `json:"type"`
		Size   int64  `json:"size"`
		SHA256 string `json:"sha256"` // may be left out
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err == nil {
		err = json.Unmarshal(body, &in)
	}
	if err != nil {
		return valet.Upload{}, &problem{Status: http.StatusBadRequest, Detail: "Send the file's name, type and size."}
	}
	return valet.Upload{Name: in.Name, Type: in.Type, Size: in.Size, SHA256: in.SHA256}, nil
}
