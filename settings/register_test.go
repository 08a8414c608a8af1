package settings_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/settings"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/driver"
	"github.com/millrace-go/millrace/storage/storagetest"
)

type (
	// An access is a call on the current document, by IDs of its contents; "" is no document.
	access struct{ op, base, next string }
	seenBy = storagetest.Answer[access, string] // what a read has found, or whether a write was done
)

const (
	done = "done"
	lost = "lost" // a race
)

// register is the model of the current document: its content changes only by a write on what is there.
func register(content string, a seenBy) (next []string) {
	switch {
	case a.In.op == "read" && a.Out == content, a.In.op == "write" && a.Out == lost && content != a.In.base:
		return []string{content}
	case a.In.op == "write" && a.Out == done && content == a.In.base:
		return []string{a.In.next}
	case a.Unknown && content == a.In.base:
		return []string{content, a.In.next}
	case a.Unknown:
		return []string{content}
	}
	return nil
}

// A recorder notes all calls of all processes on the current document.
type recorder struct {
	h storagetest.History[access, string]

	mu     sync.Mutex
	ids    map[storage.ETag]string // of contents, under mu
	epochs map[int64]string        // contents that were seen in force, by their epochs; under mu
	docs   map[int64]content       // likewise
	twice  []int64                 // epochs of two contents, under mu
}

// content is what a document says of the versions.
type content struct {
	Epoch     int64                   `json:"epoch"`
	Stable    int64                   `json:"stable"`
	Candidate struct{ Version int64 } `json:"candidate"`
}

// note remembers a content that was in the document.
func (x *recorder) note(body []byte, etag storage.ETag) (id string) {
	var c content
	_ = json.Unmarshal(body, &c)
	id = fmt.Sprintf("%d-%x", c.Epoch, sha256.Sum256(body))[:16]
	x.mu.Lock()
	defer x.mu.Unlock()
	if etag != "" {
		x.ids[etag] = id
		if before, ok := x.epochs[c.Epoch]; ok && before != id {
			x.twice = append(x.twice, c.Epoch)
		}
		x.epochs[c.Epoch], x.docs[c.Epoch] = id, c
	}
	return id
}

func (x *recorder) id(e storage.ETag) string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.ids[e]
}

// over returns the store as a process uses it whose calls are recorded.
func (x *recorder) over(s *storage.Store, process int) *storage.Store {
	return storage.New(recordedStore{s.Driver(), x, process})
}

type recordedStore struct {
	driver.Store
	x       *recorder
	process int
}

func (s recordedStore) Blobs(container string) driver.Blobs {
	return recordedBlobs{s.Store.Blobs(container), s}
}

type recordedBlobs struct {
	driver.Blobs
	s recordedStore
}

func (b recordedBlobs) Get(ctx context.Context, key string, not storage.ETag) (blob storage.Blob, err error) {
	if key != name+"/current" {
		return b.Blobs.Get(ctx, key, not)
	}
	b.s.x.h.Record(b.s.process, func() []seenBy {
		blob, err = b.Blobs.Get(ctx, key, not)
		a := seenBy{Key: key, In: access{op: "read"}}
		switch {
		case err == nil:
			a.Out = b.s.x.note(blob.Body, blob.ETag)
		case errors.Is(err, storage.ErrNotModified):
			a.Out = b.s.x.id(not)
		case !errors.Is(err, storage.ErrNotFound):
			return nil
		}
		return []seenBy{a}
	})
	return blob, err
}

func (b recordedBlobs) Put(ctx context.Context, key string, body []byte, cond storage.Condition) (etag storage.ETag, err error) {
	if key != name+"/current" {
		return b.Blobs.Put(ctx, key, body, cond)
	}
	b.s.x.h.Record(b.s.process, func() []seenBy {
		a := seenBy{Key: key, In: access{op: "write", base: b.s.x.id(cond.IfMatch)}, Out: done}
		etag, err = b.Blobs.Put(ctx, key, body, cond)
		a.In.next = b.s.x.note(body, etag)
		switch {
		case storage.LostRace(err):
			a.Out = lost
		case err != nil:
			a.Unknown = true
		}
		return []seenBy{a}
	})
	return etag, err
}

// A subject is a node whose state is looked at again and again.
type subject struct {
	*settings.Settings[shop]
	last settings.State
}

// look checks what a node runs, by what the document has said.
func (n *subject) look(t *testing.T, x *recorder) {
	st := n.State()
	if st.Epoch < n.last.Epoch {
		t.Errorf("law: a node's epoch only grows: got %d after %d", st.Epoch, n.last.Epoch)
	}
	n.last = st
	x.mu.Lock()
	defer x.mu.Unlock()
	if c, ok := x.docs[st.Epoch]; ok && st.Version != c.Stable && st.Version != c.Candidate.Version {
		t.Errorf("law: a node runs the version in force, or the candidate: got %+v by %+v", st, c)
	}
}

// Nodes whose calls fail, and whose answers are lost, start and stop, change settings, go back and force changes, which
// come in stages or at once. All their calls could be those on one register with guarded writes. Each epoch has one
// content, and each node's epoch only grows.
func TestLawTheCurrentDocumentIsARegisterOfGuardedWrites(t *testing.T) {
	t.Parallel()
	for seed := range storagetest.Seeds(t, rand.Uint64(), 3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			virtual(t, func(t *testing.T, s *storage.Store) {
				x := &recorder{ids: map[storage.ETag]string{}, epochs: map[int64]string{}, docs: map[int64]content{}}
				var all sync.WaitGroup
				for i := range 4 {
					shaky, _ := storagetest.Disturb(s, storagetest.Disturbance{Schedule: storagetest.Seeded(seed+uint64(i), map[storagetest.Fault]float64{
						storagetest.FailBefore: 0.01, storagetest.FailAfter: 0.03,
					})})
					r := rand.New(rand.NewPCG(seed, uint64(i)))
					all.Go(func() { lives(t, x, x.over(shaky, i), r) })
				}
				all.Wait()
				if len(x.twice) > 0 {
					t.Errorf("epochs %v have two contents", x.twice)
				}
				if n := len(x.docs); n < 20 {
					t.Errorf("only %d contents", n)
				}
				if err := storagetest.CheckHistory(&x.h, register, t.ArtifactDir()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// lives is a process that starts a node some times, and changes settings.
func lives(t *testing.T, x *recorder, s *storage.Store, r *rand.Rand) {
	l, err := settings.At(s, name)
	must(t, err)
	for range 2 {
		n, err := settings.Open(t.Context(), s, name, defaults(), settings.Config{Name: "node", Poll: 5 * time.Second, Stages: settings.InStages(4*time.Second, 50, 100)})
		if err != nil {
			continue // the store failed just then
		}
		node := &subject{Settings: n}
		for range 8 {
			for range r.IntN(8) {
				time.Sleep(time.Second)
				node.look(t, x)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			note, rate := ada, 1000+r.IntN(1000)
			switch note.Now = r.IntN(2) == 0; r.IntN(6) {
			case 0:
				_, _ = l.Back(ctx, -1, note)
			case 1:
				_, _ = l.Set(ctx, note, settings.Patch{Set: map[string]jsonText{"seats": jsonText(fmt.Sprint(rate))}, Force: true})
			default:
				_, _ = node.Propose(ctx, note, func(s *shop) { s.Mail.Rate = rate })
			}
			cancel()
			node.look(t, x)
		}
		_ = n.Close(t.Context())
	}
}

// The model refuses what a register must not do.
func TestTheModelOfGuardedWrites(t *testing.T) {
	t.Parallel()
	write := func(base, next, out string) seenBy { return seenBy{In: access{"write", base, next}, Out: out} }
	for what, a := range map[string]seenBy{
		"a read of what was there before": {In: access{op: "read"}, Out: "a"},
		"a write on what is not there":    write("a", "c", done),
		"a race that nobody has won":      write("b", "c", lost),
	} {
		if register("b", a) != nil {
			t.Errorf("%s: not noticed", what)
		}
	}
	if next := register("b", write("b", "c", done)); len(next) != 1 || next[0] != "c" {
		t.Errorf("got %q after a write", next)
	}
}
