package valet

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"path"
	"time"

	"github.com/millrace-go/millrace/files/valet/internal/key"
	"github.com/millrace-go/millrace/storage"
)

const (
	mostListed = 200      // files of a folder in one answer
	mostLooked = 5000     // IDs in and below the folder that one answer looks at
	mostAsk    = 64 << 10 // bytes of a request for an upload
)

// A Listing is what is in a folder, the oldest file first.
type Listing struct {
	Files []Status `json:"files"`
	Next  string   `json:"next,omitempty"` // the value of the parameter after, for the rest; "": that is all
}

// folder serves the key of a folder.
func (v *visit) folder(op string) error {
	if reason, err := v.web.book.ended(v.r.Context(), folderKey(name(v.t)), v.t.Made()); err != nil || reason != "" {
		return either(err, errRevoked)
	}
	rule := v.t.Mark
	switch {
	case op != "":
		return errVerb
	case v.r.Method == http.MethodGet:
		return v.list()
	case v.r.Method == http.MethodPost && rule != "":
		return v.uploadInto(rule)
	}
	return errVerb
}

// list answers with what is in the folder. Each file that may be read has a key for some minutes, which ends with the
// folder's key.
func (v *visit) list() error {
	if err := v.usedOften("list"); err != nil {
		return err
	}
	ctx, listing := v.r.Context(), Listing{Files: []Status{}}
	looked := 0
	for id, err := range v.web.book.files.Keys(ctx, v.t.File+"/", v.r.URL.Query().Get("after")) {
		if err != nil {
			return err
		}
		if looked++; len(listing.Files) == mostListed || looked > mostLooked {
			break
		}
		listing.Next = id
		if path.Dir(id) != v.t.File {
			continue // of a folder below
		}
		f, err := v.web.book.file(ctx, id)
		switch {
		case errors.Is(err, storage.ErrNotFound):
			continue // just now
		case ctx.Err() != nil:
			return err
		case err != nil:
			f = File{ID: id, Reason: "what is known of the file can't be read"}
		}
		one, err := v.listed(f)
		if err != nil {
			return err
		}
		listing.Files = append(listing.Files, one)
	}
	if len(listing.Files) < mostListed && looked <= mostLooked {
		listing.Next = ""
	}
	return answer(v.w, http.StatusOK, listing, nil)
}

// listed is a file of the list.
func (v *visit) listed(f File) (Status, error) {
	one := Status{ID: f.ID, State: f.State, Reason: f.Reason, Name: f.Name, Type: f.Type, Size: f.Size, Until: f.Until}
	if f.State != StateClean || f.revokes("", v.t.Made()) {
		return one, nil
	}
	read := key.Token{Verb: key.ToRead, Until: earlier(v.t.Until, time.Now().Add(writeFor)), ID: v.t.ID, Owner: v.t.Owner, File: f.ID, Mark: listedMark, Holder: v.owner()}
	text, err := v.web.issuer.ring.Sign(v.r.Context(), read)
	one.URL, one.Until = v.web.cfg.URL+text, read.Until
	return one, err
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// uploadInto makes an upload for the holder of a folder's key.
func (v *visit) uploadInto(rule string) error {
	var ask struct {
		Name   string `json:"name"`
		Type   string `json:"type"`
		Size   int64  `json:"size"`
		SHA256 string `json:"sha256"`
	}
	v.patience()
	in := json.NewDecoder(http.MaxBytesReader(v.w, v.r.Body, mostAsk))
	in.DisallowUnknownFields()
	err := in.Decode(&ask)
	if _, more := in.Token(); err != nil || more != io.EOF {
		return refusal{http.StatusBadRequest, `want {"name": "plan.pdf", "type": "application/pdf", "size": 12345}`}
	}
	ttl := min(defaultTTL, max(time.Minute, time.Until(v.t.Until)))
	k, err := v.web.issuer.upload(v.r.Context(), Upload{Rule: rule, Owner: v.owner(), Name: ask.Name, Type: ask.Type, Size: ask.Size, SHA256: ask.SHA256, Folder: v.t.File, TTL: ttl})
	return answer(v.w, http.StatusCreated, k, err)
}
