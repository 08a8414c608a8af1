package storagetest_test

import (
	"maps"
	"sync"

	"github.com/millrace-go/millrace/storage"
)

// places notes where each store was opened.
type places struct {
	bug string
	mu  sync.Mutex
	of  map[*storage.Store]*place // under mu
}

func newPlaces(bug string) *places { return &places{bug: bug, of: map[*storage.Store]*place{}} }

func (x *places) add(s *storage.Store, p *place) *storage.Store {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.of[s] = p
	return s
}

// reopened returns s's place for a second opening.
func (x *places) reopened(s *storage.Store) *place {
	x.mu.Lock()
	defer x.mu.Unlock()
	p := x.of[s]
	switch x.bug {
	case "two stores see two places":
		return newPlace(x.bug)
	case "each opening numbers its etags":
		q := newPlace(x.bug)
		p.mu.Lock()
		defer p.mu.Unlock()
		q.queues, q.docs = maps.Clone(p.queues), maps.Clone(p.docs)
		return q
	}
	return p
}
