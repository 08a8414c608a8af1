package key

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/millrace-go/millrace/storage"
)

const (
	ringContainer = "file-keys"
	ringKey       = "ring"

	newEvery   = 30 * 24 * time.Hour // a secret signs new keys so long
	mostKept   = 24                  // secrets; the oldest go first
	readAgain  = time.Minute         // a secret that was taken out of the ring counts no more after that
	askAgain   = time.Second         // for a secret that isn't known
	settled    = 3 * time.Second     // a new secret signs once all processes that meet it would ask for it
	secretSize = 32                  // bytes
)

// A secret signs keys.
type secret struct {
	ID     string    `json:"id"`
	Secret []byte    `json:"secret"`
	Made   time.Time `json:"made"`
}

// bad reports that anybody could sign with the secret.
func (s secret) bad() bool { return s.ID == "" || len(s.Secret) != secretSize }

// A Ring has the secrets of a store, the newest last. A secret that somebody takes out of the document ends all keys
// that it has signed.
type Ring struct {
	blobs *storage.Blobs

	turn    chan struct{} // of capacity 1: held by who looks
	secrets []secret
	etag    storage.ETag
	read    time.Time
}

// NewRing returns the ring of a store.
func NewRing(s *storage.Store) *Ring {
	return &Ring{blobs: s.Blobs(ringContainer), turn: make(chan struct{}, 1)}
}

// take waits for the turn to look. While the store hangs, who waits may leave.
func (r *Ring) take(ctx context.Context) error {
	select {
	case r.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (r *Ring) give() { <-r.turn }

// newest returns the secret for new keys, and makes a secret if the newest one is older than a month, or there is no
// secret.
func (r *Ring) newest(ctx context.Context) (secret, error) {
	if err := r.take(ctx); err != nil {
		return secret{}, err
	}
	defer r.give()
	for range 10 {
		if err := r.load(ctx, readAgain); err != nil {
			return secret{}, err
		}
		if n := len(r.secrets); n > 0 && time.Since(r.secrets[n-1].Made) < newEvery {
			if n > 1 && time.Since(r.secrets[n-1].Made) < settled {
				n--
			}
			return r.secrets[n-1], nil
		}
		err := r.add(ctx)
		if err != nil && !storage.LostRace(err) {
			return secret{}, err
		}
		r.read = time.Time{} // what is there now
	}
	return secret{}, errors.New("valet: the ring of keys changes again and again")
}

// by returns the secret of an ID, or false if there is none.
func (r *Ring) by(ctx context.Context, id string) (secret, bool, error) {
	if err := r.take(ctx); err != nil {
		return secret{}, false, err
	}
	defer r.give()
	for _, age := range []time.Duration{readAgain, askAgain} {
		if err := r.load(ctx, age); err != nil {
			return secret{}, false, err
		}
		for _, s := range r.secrets {
			if s.ID == id {
				return s, true, nil
			}
		}
	}
	return secret{}, false, nil
}

// load reads the document, unless it was read a short time ago.
func (r *Ring) load(ctx context.Context, age time.Duration) error {
	if !r.read.IsZero() && time.Since(r.read) < age {
		return nil
	}
	now := time.Now()
	blob, err := r.blobs.Get(ctx, ringKey, r.etag)
	switch {
	case errors.Is(err, storage.ErrNotModified):
	case errors.Is(err, storage.ErrNotFound):
		r.secrets, r.etag = nil, ""
	case err != nil:
		return err
	default:
		var doc struct{ Secrets []secret }
		if err := json.Unmarshal(blob.Body, &doc); err != nil || slices.ContainsFunc(doc.Secrets, secret.bad) {
			return fmt.Errorf("valet: the ring of keys, blob %s/%s, can't be read; delete it to begin a new one, which ends all keys", ringContainer, ringKey)
		}
		r.secrets, r.etag = doc.Secrets, blob.ETag
	}
	r.read = now
	return nil
}

// add puts one more secret into the document.
func (r *Ring) add(ctx context.Context) error {
	s := secret{Secret: make([]byte, secretSize), Made: time.Now().UTC().Truncate(time.Second)}
	_, _ = rand.Read(s.Secret) // never fails
	id := make([]byte, 4)
	_, _ = rand.Read(id)
	s.ID = hex.EncodeToString(id)
	all := append(r.secrets[:len(r.secrets):len(r.secrets)], s)
	all = all[max(0, len(all)-mostKept):]
	body, err := json.Marshal(struct{ Secrets []secret }{all})
	if err != nil {
		return err
	}
	_, err = r.blobs.Put(ctx, ringKey, body, storage.Condition{IfMatch: r.etag, IfAbsent: r.etag == ""})
	return err
}

// Read returns the token that a text stands for. The error is [ErrForged] for a text that no secret of the ring has
// signed.
func (r *Ring) Read(ctx context.Context, text string) (Token, error) {
	id, _, _, _, ok := split(text)
	if !ok {
		return Token{}, ErrForged
	}
	s, ok, err := r.by(ctx, id)
	if err != nil {
		return Token{}, err
	}
	if !ok {
		return Token{}, ErrForged
	}
	return verify(text, s)
}

// Sign returns the text of a token.
func (r *Ring) Sign(ctx context.Context, t Token) (string, error) {
	s, err := r.newest(ctx)
	if err != nil {
		return "", err
	}
	return t.text(s), nil
}

// Forget deletes all secrets. Other processes know that within a minute.
func (r *Ring) Forget(ctx context.Context) error {
	if err := r.take(ctx); err != nil {
		return err
	}
	defer r.give()
	r.read = time.Time{}
	err := r.blobs.Delete(ctx, ringKey, storage.Condition{})
	if errors.Is(err, storage.ErrNotFound) {
		return nil
	}
	return err
}
