package valet

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/millrace-go/millrace/files/valet/internal/key"
	"github.com/millrace-go/millrace/storage"
)

// upload serves the key of an upload.
func (v *visit) upload(op string) error {
	if v.f.revokes("", v.t.Made()) && v.f.State != StateClean {
		return errRevoked
	}
	first, number, _ := strings.Cut(op, "/")
	switch {
	case op == "" && (v.r.Method == http.MethodGet || v.r.Method == http.MethodHead):
		s, err := v.status()
		return answer(v.w, http.StatusOK, s, err)
	case op == "" && v.r.Method == http.MethodDelete:
		return v.abort()
	case op == "complete" && v.r.Method == http.MethodPost:
		return v.complete()
	case op == "parts" && v.r.Method == http.MethodPost:
		return v.partKeys()
	case number == "" && v.r.Method == http.MethodPut:
		return v.partKey(first)
	}
	return errVerb
}

// status returns what a client is told of an upload.
func (v *visit) status() (Status, error) {
	s := Status{ID: v.f.ID, State: v.f.State, Reason: v.f.Reason, Name: v.f.Name, Type: v.f.Type, Size: v.f.Size, Until: v.f.Until}
	if v.f.State != StateGranted {
		return s, nil
	}
	s.PartSize, s.Parts = v.f.PartSize, len(v.f.parts())
	have, _, err := v.there()
	s.Have = ranges(have)
	return s, err
}

// there returns which parts are there, and which are missing, as the store says.
func (v *visit) there() (have, missing []int, err error) {
	parts, err := v.web.inbox.Parts(v.r.Context(), v.f.ID)
	if err != nil {
		return nil, nil, err
	}
	sizes := map[int]int64{}
	for _, p := range parts {
		sizes[p.Number] = p.Size
	}
	for i, want := range v.f.parts() {
		if size, ok := sizes[i+1]; ok && size == want {
			have = append(have, i+1)
		} else {
			missing = append(missing, i+1)
		}
	}
	return have, missing, nil
}

// partKeys answers with a URL for each of some parts.
func (v *visit) partKeys() error {
	numbers, err := parseParts(v.r.URL.Query().Get("n"), len(v.f.parts()))
	if err != nil {
		return err
	}
	if v.f.State != StateGranted { // another tab may have completed it
		s, err := v.status()
		return answer(v.w, http.StatusConflict, s, err)
	}
	keys, err := v.keysOf(numbers)
	return answer(v.w, http.StatusOK, keys, err)
}

// partKey leads to the URL of one part.
func (v *visit) partKey(number string) error {
	numbers, err := parseParts(number, len(v.f.parts()))
	if err != nil || len(numbers) != 1 {
		return refusal{http.StatusNotFound, fmt.Sprintf("the file has the parts 1 to %d", len(v.f.parts()))}
	}
	if v.f.State != StateGranted {
		return refusal{http.StatusConflict, "the file is " + string(v.f.State)}
	}
	keys, err := v.keysOf(numbers)
	if err != nil {
		return err
	}
	v.w.Header().Set("Location", keys.Parts[0].URL)
	v.w.WriteHeader(http.StatusTemporaryRedirect)
	return nil
}

// keysOf makes keys of the store for parts.
func (v *visit) keysOf(numbers []int) (PartKeys, error) {
	now := time.Now()
	last := min(writeFor, v.t.Until.Sub(now)+time.Second)
	if last <= 0 {
		return PartKeys{}, errOver
	}
	if err := v.usedOften("renew"); err != nil {
		return PartKeys{}, err
	}
	sizes, keys := v.f.parts(), PartKeys{Until: now.Add(last).UTC().Truncate(time.Second)}
	for _, n := range numbers {
		url, err := v.web.inbox.Key(v.r.Context(), v.f.ID, storage.FileKey{Part: n, For: last})
		if errors.Is(err, storage.ErrUnsupported) {
			url, err = v.ownKey(n, sizes[n-1], keys.Until)
		}
		if err != nil {
			return PartKeys{}, err
		}
		keys.Parts = append(keys.Parts, PartKey{Number: n, Size: sizes[n-1], URL: url})
	}
	return keys, nil
}

// complete sends the file to its check.
func (v *visit) complete() error {
	if v.f.State != StateGranted { // the answer to the first time was lost
		s, err := v.status()
		return answer(v.w, http.StatusOK, s, err)
	}
	_, missing, err := v.there()
	if err != nil {
		return err
	}
	s := Status{ID: v.f.ID, State: StateGranted, Name: v.f.Name, Type: v.f.Type, Size: v.f.Size, PartSize: v.f.PartSize, Parts: len(v.f.parts()), Missing: ranges(missing), Until: v.f.Until}
	if len(missing) > 0 {
		return answer(v.w, http.StatusConflict, s, nil)
	}
	if err := v.used("complete"); err != nil {
		return err
	}
	s.State, s.PartSize, s.Parts = StateArrived, 0, 0
	return answer(v.w, http.StatusAccepted, s, v.web.book.channels.Send(v.r.Context(), complete{ID: v.f.ID, Round: v.f.Round}))
}

// abort ends an upload for its holder.
func (v *visit) abort() error {
	if v.f.State != StateGranted && v.f.State != StateArrived {
		return refusal{http.StatusConflict, "the file is " + string(v.f.State)}
	}
	if err := v.used("abort"); err != nil {
		return err
	}
	err := v.web.book.channels.Send(v.r.Context(), revoke{ID: v.f.ID, At: time.Now().UTC(), Why: "ended by its owner"})
	return answer(v.w, http.StatusAccepted, Status{ID: v.f.ID, State: StateRevoked, Name: v.f.Name, Type: v.f.Type, Size: v.f.Size, Until: v.f.Until}, err)
}

// ownKey is a key of the store where the store has none: the program takes the bytes itself.
func (v *visit) ownKey(part int, size int64, until time.Time) (string, error) {
	t := v.t
	t.Verb, t.Part, t.Size, t.Until = key.ToPut, uint16(part), uint32(size), until
	text, err := v.web.issuer.ring.Sign(v.r.Context(), t)
	return v.web.cfg.URL + text, err
}
