package catalog

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"time"

	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/storage"
)

const (
	container = "programs"

	touchAfter    = 24 * time.Hour      // a document that says the same is written again
	removeAfter   = 31 * 24 * time.Hour // a document that was not written is removed
	mostDocuments = 200
	mostLeft      = 100             // queues that earlier builds of a version had
	mostRaces     = 10              // that a publication loses before it gives up; each is a write of another worker
	publishWithin = 2 * time.Minute // for Keep
	keepAgain     = 10 * time.Minute
)

// key is the key of a program's document. Neither part has a slash of its own.
func (p Program) key() string { return url.PathEscape(p.Name) + "/" + url.PathEscape(p.Version) }

// Publish publishes what a registry and its routes know. All handlers must be registered by then.
func Publish(ctx context.Context, r *handlers.Registry, p Program) error {
	if err := publish(ctx, r, p); err != nil {
		return fmt.Errorf("catalog: publish %s: %w", storage.Quote(p.Name), err)
	}
	return nil
}

func publish(ctx context.Context, r *handlers.Registry, p Program) error {
	p.Version = cmp.Or(p.Version, "unknown")
	if p.Name == "" {
		return errors.New("the program has no name: set Program.Name")
	}
	if err := storage.CheckKey(p.key()); err != nil {
		return fmt.Errorf("the program's name and version: %w", err)
	}
	blobs := r.Channels().Store().Blobs(container)
	if err := write(ctx, blobs, Describe(r, p)); err != nil {
		return err
	}
	return sweep(ctx, blobs, p.key())
}

// write writes a description unless the store has the same already, from less than a day ago.
func write(ctx context.Context, blobs *storage.Blobs, d Description) error {
	key := d.key()
	for race := 0; ; race++ {
		cond := storage.Condition{IfAbsent: true}
		d.First, d.Last = time.Now().UTC(), time.Now().UTC()
		blob, err := blobs.Get(ctx, key, "")
		switch {
		case err == nil:
			cond = storage.Condition{IfMatch: blob.ETag}
			if d, err = d.after(blob.Body); err != nil || d.Program == (Program{}) {
				return err
			}
		case !errors.Is(err, storage.ErrNotFound):
			return err
		}
		body, err := d.encode()
		if err != nil {
			return err
		}
		if _, err = blobs.Put(ctx, key, body, cond); !storage.LostRace(err) || race == mostRaces {
			return err
		}
	}
}

// after returns the description that follows the stored one, or none if that will do.
func (d Description) after(stored []byte) (Description, error) {
	var old Description
	if json.Unmarshal(stored, &old) != nil {
		return d, nil
	}
	now := d.Last
	d.Left = left(old, d)
	if !old.First.IsZero() {
		d.First = old.First
	}
	d.Last = old.Last
	same, err := d.encode()
	if age := now.Sub(old.Last); err != nil || bytes.Equal(same, stored) && age < touchAfter && age > -touchAfter {
		return Description{}, err
	}
	d.Last = now
	return d, nil
}

// left returns the queues that a new description leaves, after those that the old one has left within a month. A queue
// that is routed again is none.
func left(old, d Description) []Left {
	all := slices.Clone(old.Left)
	for _, q := range old.Queues {
		all = append(all, Left{q.Name, d.Last, q.Lanes, q.Priorities})
	}
	all = slices.DeleteFunc(all, func(x Left) bool {
		return d.Last.Sub(x.At) >= removeAfter || slices.ContainsFunc(d.Queues, func(q Queue) bool { return q.Name == x.Name })
	})
	return all[max(len(all)-mostLeft, 0):]
}

// sweep removes the documents that nobody has written for long, except one. It goes by the store's clock: the newest
// document was written a day ago at most.
func sweep(ctx context.Context, blobs *storage.Blobs, except string) error {
	var all []storage.BlobInfo
	for info, err := range blobs.List(ctx, "") {
		if err != nil {
			return err
		}
		all = append(all, info)
	}
	slices.SortFunc(all, func(a, b storage.BlobInfo) int { return b.Modified.Compare(a.Modified) })
	for i, info := range all {
		if info.Key == except || i < mostDocuments && all[0].Modified.Sub(info.Modified) < removeAfter {
			continue
		}
		err := blobs.Delete(ctx, info.Key, storage.Condition{IfMatch: info.ETag})
		if err != nil && !storage.LostRace(err) && !errors.Is(err, storage.ErrNotFound) {
			return err
		}
	}
	return nil
}

// Keep publishes at once, and then once a day, until ctx ends. A failure is a warning in the registry's log, and is
// repeated after ten minutes.
func Keep(ctx context.Context, r *handlers.Registry, p Program) {
	for {
		again := touchAfter
		attempt, cancel := context.WithTimeout(ctx, publishWithin)
		err := Publish(attempt, r, p)
		cancel()
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			again = keepAgain
			r.Inside().Logger.LogAttrs(ctx, slog.LevelWarn, "can't publish what this program knows of its queues; the operator's tools show less", slog.Any("error", err))
		}
		timer := time.NewTimer(again)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
}

// Read returns what all programs have published, by name and then by the time of their last publication. It returns
// at most the 200 that law 2 allows.
func Read(ctx context.Context, s *storage.Store) ([]Description, error) {
	blobs := s.Blobs(container)
	var all []Description
	for info, err := range blobs.List(ctx, "") {
		if err != nil {
			return nil, fmt.Errorf("catalog: read: %w", err)
		}
		if len(all) == mostDocuments {
			break
		}
		d, err := read(ctx, blobs, info)
		if errors.Is(err, storage.ErrNotFound) {
			continue // removed meanwhile
		}
		if err != nil {
			return nil, fmt.Errorf("catalog: read: %w", err)
		}
		all = append(all, d)
	}
	slices.SortStableFunc(all, func(a, b Description) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), a.Last.Compare(b.Last), cmp.Compare(a.Version, b.Version))
	})
	return all, nil
}

func read(ctx context.Context, blobs *storage.Blobs, info storage.BlobInfo) (d Description, err error) {
	name, version, _ := bytes.Cut([]byte(info.Key), []byte("/"))
	unescaped := func(part []byte) string {
		if s, err := url.PathUnescape(string(part)); err == nil {
			return s
		}
		return string(part)
	}
	faulty := Description{Program: Program{unescaped(name), unescaped(version)}}
	if info.Size > maxDocument {
		faulty.Fault = fmt.Sprintf("it has %d bytes, more than %d", info.Size, maxDocument)
		return faulty, nil
	}
	blob, err := blobs.Get(ctx, info.Key, "")
	if err != nil {
		return d, err
	}
	if json.Unmarshal(blob.Body, &d) != nil || d.key() != info.Key {
		faulty.Fault = "it is not the description of a program"
		return faulty, nil
	}
	d.Stored = info.Modified
	return d, nil
}
