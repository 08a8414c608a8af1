package storagetest

import (
	"context"
	"fmt"

	"github.com/millrace-go/millrace/storage"
)

// A docCall is a call on a blob or a row.
type docCall struct {
	op   string // "get", "put" or "delete"
	body string // of a put; no two are the same
	cond storage.Condition
	not  storage.ETag // of a get: ifNoneMatch
}

type docAnswer struct {
	kind string // as player.call returns it
	body string
	etag storage.ETag
}

// access is a player's access to the documents of a play.
type access struct {
	get    func(ctx context.Context, key string, not storage.ETag) (string, storage.ETag, error)
	put    func(ctx context.Context, key, body string, cond storage.Condition) (storage.ETag, error)
	delete func(ctx context.Context, key string, cond storage.Condition) error
}

func playBlobs(ctx context.Context, stores []*storage.Store, seed uint64, folder string) error {
	return playDocs(ctx, stores, seed, folder, func(s *storage.Store) access { return blobAccess(s, "history") })
}

func blobAccess(s *storage.Store, container string) access {
	b := s.Blobs(container)
	return access{
		get: func(ctx context.Context, key string, not storage.ETag) (string, storage.ETag, error) {
			x, err := b.Get(ctx, key, not)
			return string(x.Body), x.ETag, err
		},
		put: func(ctx context.Context, key, body string, cond storage.Condition) (storage.ETag, error) {
			return b.Put(ctx, key, []byte(body), cond)
		},
		delete: b.Delete,
	}
}

// playCommits is playBlobs with units of work.
func playCommits(ctx context.Context, stores []*storage.Store, seed uint64, folder string) error {
	return playDocs(ctx, stores, seed, folder, func(s *storage.Store) access {
		a := blobAccess(s, "history-of-commits")
		a.put = func(ctx context.Context, key, body string, cond storage.Condition) (storage.ETag, error) {
			done, err := s.Commit(ctx, storage.Work{Write: &storage.Write{Container: "history-of-commits", Key: key, Body: []byte(body), If: cond}})
			return done.ETag, err
		}
		return a
	})
}

func playRows(ctx context.Context, stores []*storage.Store, seed uint64, folder string) error {
	return playDocs(ctx, stores, seed, folder, func(s *storage.Store) access {
		table := s.Table("history")
		return access{
			get: func(ctx context.Context, key string, not storage.ETag) (string, storage.ETag, error) {
				x, err := table.Get(ctx, "partition", key)
				if err == nil && x.ETag == not {
					err = storage.ErrNotModified // as a blob would answer
				}
				return string(x.Data), x.ETag, err
			},
			put: func(ctx context.Context, key, body string, cond storage.Condition) (storage.ETag, error) {
				return table.Put(ctx, "partition", key, []byte(body), cond)
			},
			delete: func(ctx context.Context, key string, cond storage.Condition) error {
				return table.Delete(ctx, "partition", key, cond)
			},
		}
	})
}

func playDocs(ctx context.Context, stores []*storage.Store, seed uint64, folder string, open func(*storage.Store) access) error {
	h := new(History[docCall, docAnswer])
	together(stores, seed, func(p *player) {
		docs, keys, seen := open(p.store), []string{"a", "b", "c"}, map[string]storage.ETag{}
		for i := range turns + len(keys) {
			key := keys[i%len(keys)]
			in := p.docCall(i, seen[key])
			if i >= turns {
				in = docCall{op: "get"} // the final state
			}
			h.Record(p.n, func() []Answer[docCall, docAnswer] {
				out := p.docAnswer(ctx, docs, key, in)
				if out.kind == "ok" {
					seen[key] = out.etag
				}
				if out.kind == "" && in.op == "get" {
					return nil
				}
				return []Answer[docCall, docAnswer]{{Key: key, In: in, Out: out, Unknown: out.kind == ""}}
			})
		}
	})
	bodies, err := bodiesOf(h)
	if err != nil {
		return err
	}
	return CheckHistory(h, func(s string, a Answer[docCall, docAnswer]) []string { return docStep(bodies, s, a) }, folder)
}

// docCall chooses the player's next call on a document, whose last known ETag it gets.
func (p *player) docCall(i int, etag storage.ETag) docCall {
	put := docCall{op: "put", body: fmt.Sprintf("%d-%d", p.n, i)}
	switch dice := p.IntN(20); {
	case dice < 3:
		return docCall{op: "get", not: etag}
	case dice < 8:
		return docCall{op: "get"}
	case dice < 9:
		return docCall{op: "delete"}
	case dice < 11:
		return docCall{op: "delete", cond: storage.Condition{IfMatch: etag}}
	case dice < 13:
		return put
	case dice < 15 || etag == "":
		put.cond.IfAbsent = true
	default:
		put.cond.IfMatch = etag
	}
	return put
}

func (p *player) docAnswer(ctx context.Context, docs access, key string, in docCall) (out docAnswer) {
	out.kind = p.call(ctx, func(ctx context.Context) (err error) {
		switch in.op {
		case "get":
			out.body, out.etag, err = docs.get(ctx, key, in.not)
		case "put":
			out.body = in.body
			out.etag, err = docs.put(ctx, key, in.body, in.cond)
		case "delete":
			err = docs.delete(ctx, key, in.cond)
		}
		return err
	})
	return out
}

// version is an ETag of a document.
type version struct {
	key  string
	etag storage.ETag
}

// bodiesOf returns the body of each ETag. It fails if an ETag has two bodies, or a body two ETags.
func bodiesOf(h *History[docCall, docAnswer]) (map[version]string, error) {
	type state struct{ key, body string }
	bodies, etags := map[version]string{}, map[state]storage.ETag{}
	for _, a := range h.Answers() {
		if a.Out.kind != "ok" || a.In.op == "delete" {
			continue
		}
		v, s := version{a.Key, a.Out.etag}, state{a.Key, a.Out.body}
		if body, ok := bodies[v]; v.etag == "" || ok && body != s.body {
			return nil, fmt.Errorf("history of %q: ETag %q of the body %s, and of %q", v.key, v.etag, s.body, body)
		}
		if etag, ok := etags[s]; ok && etag != v.etag {
			return nil, fmt.Errorf("history of %q: the body %s has the ETags %q and %q", v.key, s.body, v.etag, etag)
		}
		bodies[v], etags[s] = s.body, v.etag
	}
	return bodies, nil
}

// docStep models a document as a register: the state is the body of the last put, or "" while there is no document.
// An ETag stands for its body, so the unknown ETag of a put whose answer was lost isn't needed.
func docStep(bodies map[version]string, s string, a Answer[docCall, docAnswer]) []string {
	is := func(e storage.ETag) bool { return s != "" && bodies[version{a.Key, e}] == s }
	kind, next := "ok", s
	switch cond := a.In.cond; a.In.op {
	case "get":
		if s == "" {
			kind = storage.ErrNotFound.Error()
		} else if is(a.In.not) {
			kind = storage.ErrNotModified.Error()
		}
	case "put":
		if cond.IfAbsent && s != "" {
			kind = storage.ErrExists.Error()
		} else if cond.IfMatch != "" && !is(cond.IfMatch) {
			kind = storage.ErrPrecondition.Error()
		} else {
			next = a.In.body
		}
	case "delete":
		if s == "" {
			kind = storage.ErrNotFound.Error()
		} else if cond.IfMatch != "" && !is(cond.IfMatch) {
			kind = storage.ErrPrecondition.Error()
		} else {
			next = ""
		}
	}
	if !a.Unknown && (a.Out.kind != kind || a.In.op == "get" && kind == "ok" && a.Out.body != s) {
		return nil
	}
	return []string{next}
}
