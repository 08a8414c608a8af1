package assets

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/millrace-go/millrace/internal/lru"
	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage"
)

// Publish puts the files into the container "assets" of a store, where the handlers of other versions find them. A file
// that is there already isn't written again, so a start whose files are all there costs a listing. After an error the
// program can serve its pages all the same, and Publish can be called again: other versions lack some files until then.
func (s *Set) Publish(ctx context.Context, store *storage.Store) error {
	if store == nil {
		return fmt.Errorf("assets: publish: %w", bad("no store"))
	}
	blobs := store.Blobs(container)
	there := map[string]bool{}
	for info, err := range blobs.List(ctx, "") {
		if err != nil {
			return fmt.Errorf("assets: publish: %w", err)
		}
		there[info.Key] = true
	}
	for _, name := range s.Names() {
		if there[name] {
			continue
		}
		_, err := blobs.Put(ctx, name, s.served[name].body, storage.Condition{IfAbsent: true})
		if err != nil && !errors.Is(err, storage.ErrExists) {
			return fmt.Errorf("assets: publish: %w", err)
		}
	}
	return nil
}

// Run publishes the files, and tries again after a failure, at first after a second and later each minute. Then it
// waits until ctx ends. So it is a loop for host.App.Go.
func (s *Set) Run(ctx context.Context, store *storage.Store) error {
	pause := backoff.NewExponentialBackOff(backoff.WithInitialInterval(time.Second), backoff.WithMaxInterval(time.Minute), backoff.WithMaxElapsedTime(0))
	for warned := false; ; warned = true {
		err := s.Publish(ctx, store)
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, storage.ErrInvalid) {
			return err // the program is wrong
		}
		if err == nil {
			<-ctx.Done()
			return nil
		}
		if !warned {
			s.cfg.Logger.Warn("the static files of this version aren't published yet, so other versions lack them", "error", err)
		}
		if storecall.Sleep(ctx, pause.NextBackOff()) != nil {
			return nil
		}
	}
}

const (
	// A shelf keeps so many files, and bytes, of other versions in memory.
	keptFiles, keptBytes = 256, 32 << 20

	// askers is how many requests ask the store at a time. Others wait: anybody can ask for names that don't exist.
	askers = 4
)

// A shelf is what other versions have published.
type shelf struct {
	blobs *storage.Blobs
	kept  *lru.Cache[*file]
	turns chan struct{}
}

func newShelf(store *storage.Store) *shelf {
	return &shelf{blobs: store.Blobs(container), kept: lru.New[*file](keptFiles, keptBytes), turns: make(chan struct{}, askers)}
}

// get returns the file that was published under a name, or nil. plain is the name without its digest.
func (s *shelf) get(ctx context.Context, name, plain string) (*file, error) {
	if f, ok := s.kept.Get(name); ok {
		return f, nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case s.turns <- struct{}{}:
		defer func() { <-s.turns }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	blob, err := s.blobs.Get(ctx, name, "")
	if errors.Is(err, storage.ErrNotFound) || errors.Is(err, storage.ErrInvalid) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	f := newFile(plain, blob.Body)
	if f.name == name {
		s.kept.Add(name, f, len(f.body)+len(f.packed))
	}
	return f, nil
}

// Push puts the files into a container from which browsers read them without the program, and returns the URL for
// Config.Base there. Where browsers take gzip, as all do, a text is there by gzip alone, because such an engine doesn't
// negotiate. The container has to be for such files alone: what else the store keeps there couldn't be listed any more.
// A store that serves no files to browsers returns [storage.ErrUnsupported].
func (s *Set) Push(ctx context.Context, store *storage.Store, public string) (base string, err error) {
	if store == nil {
		return "", fmt.Errorf("assets: push: %w", bad("no store"))
	}
	if public == container {
		return "", fmt.Errorf("assets: push: %w", bad("the container %s is where programs publish; choose one that has nothing but public files, such as web", container))
	}
	if err := hasNoDocuments(ctx, store.Blobs(public)); err != nil {
		return "", fmt.Errorf("assets: push: container %s: %w", public, err)
	}
	for _, name := range s.Names() {
		f := s.served[name]
		body, header := f.body, http.Header{"Content-Type": {f.kind}, "Cache-Control": {forever}}
		if f.packed != nil {
			body = f.packed
			header.Set("Content-Encoding", "gzip")
		}
		url, err := store.PutPublic(ctx, public, name, body, header)
		if err != nil && !errors.Is(err, storage.ErrExists) {
			return "", fmt.Errorf("assets: push: %w", err)
		}
		base = strings.TrimSuffix(url, name)
	}
	return base, nil
}

// publicEnd is how a name ends that is no document's. An engine may take the digest's first digit for its own mark.
var publicEnd = regexp.MustCompile(`[0-9a-f]{15}(\.[^./]*)?$`)

// hasNoDocuments fails if a container has a document of the store: with other files between them, the documents
// couldn't be listed any more.
func hasNoDocuments(ctx context.Context, blobs *storage.Blobs) error {
	for info, err := range blobs.List(ctx, "") {
		if errors.Is(err, storage.ErrUnsupported) { // the name of a public file, which documents never have
			return nil
		}
		if err != nil {
			return err
		}
		if !publicEnd.MatchString(info.Key) {
			return bad("it has the document %s; choose a container that has nothing but public files, such as web", storage.Quote(info.Key))
		}
	}
	return nil
}
