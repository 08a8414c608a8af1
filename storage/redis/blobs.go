package redis

import (
	"context"
	"iter"
	"strconv"

	"github.com/millrace-go/millrace/storage/driver"
	"github.com/millrace-go/millrace/storage/redis/internal/client"
	"github.com/millrace-go/millrace/storage/redis/internal/engine"
)

// blobs implements driver.Blobs. The state of a document is its ETag (16 bytes), the time of its writing (8), and its
// body.
type blobs struct {
	s    *store
	name string
}

const stateHead = 16 + 8

// Get implements driver.Blobs.
func (b *blobs) Get(ctx context.Context, key string, ifNoneMatch driver.ETag) (driver.Blob, error) {
	b.s.tally.count("get", "blob", b.name)
	name := b.s.e.Key(":D:" + b.name + "\x00" + key)
	if ifNoneMatch != "" { // a body may be large
		head, err := b.s.e.Read(ctx, "GETRANGE", name, "0", "15")
		if err != nil {
			return driver.Blob{}, err
		}
		if id := head.Text(); id != "" && engine.FormatETag(id) == ifNoneMatch {
			return driver.Blob{}, driver.ErrNotModified
		}
	}
	r, err := b.s.e.Read(ctx, "GETRANGE", name, "0", strconv.Itoa(engine.Large-1))
	if err != nil {
		return driver.Blob{}, err
	}
	state := r.Text()
	if len(state) == engine.Large { // there may be more
		if r, err = b.s.e.Read(ctx, "GET", name); err != nil {
			return driver.Blob{}, err
		}
		state = r.Text()
	}
	if len(state) < stateHead {
		return driver.Blob{}, driver.ErrNotFound
	}
	return driver.Blob{Body: []byte(state[stateHead:]), ETag: engine.FormatETag(state[:16])}, nil
}

// Put implements driver.Blobs.
func (b *blobs) Put(ctx context.Context, key string, body []byte, cond driver.Condition) (driver.ETag, error) {
	b.s.tally.count("put", "blob", b.name)
	u := new(engine.Unit)
	etag, err := b.s.write(ctx, u, b.name, key, body, cond)
	if err != nil {
		return "", err
	}
	if err := b.s.one(ctx, u); err != nil {
		return "", err
	}
	return etag, nil
}

// Delete implements driver.Blobs.
func (b *blobs) Delete(ctx context.Context, key string, cond driver.Condition) error {
	b.s.tally.count("delete", "blob", b.name)
	u := new(engine.Unit)
	u.Remove(b.name, key, wantedOfDeletion(cond))
	return b.s.one(ctx, u)
}

// wantedOfDeletion is like wanted, but nothing that is there is told before an ETag that matches nothing.
func wantedOfDeletion(cond driver.Condition) string {
	want, err := wanted(cond)
	if err != nil {
		return "no ETag"
	}
	return want
}

// page is how many documents or rows one call lists.
const page = 100

// List implements driver.Blobs.
func (b *blobs) List(ctx context.Context, prefix, after string) iter.Seq2[driver.BlobInfo, error] {
	from, to := after, endOf(prefix)
	low := "(" + after
	if after < prefix {
		from, low = prefix, "["+prefix
	}
	if to != "" && from >= to {
		return func(func(driver.BlobInfo, error) bool) {}
	}
	ask := func(low string) (client.List, error) {
		b.s.tally.count("list", "blob", b.name)
		return b.s.e.Ask(ctx, engine.List, b.name, low, high(to), strconv.Itoa(page))
	}
	return pages(ctx, low, ask, 3, func(l client.List) (driver.BlobInfo, string, bool) {
		key, head := l.At(0).Text(), l.At(1).Text()
		if len(head) < stateHead {
			return driver.BlobInfo{}, key, false
		}
		return driver.BlobInfo{Key: key, ETag: engine.FormatETag(head[:16]), Size: l.At(2).Int() - stateHead, Modified: readStamp(head[16:])}, key, true
	})
}

// high is an upper bound as the server has it; "" is none.
func high(to string) string {
	if to == "" {
		return "+"
	}
	return "(" + to
}

// pages yields the items of a listing, page after page. ask brings a page from a lower bound on; each item is made of
// n replies, and has a key. An item that isn't there any more is left out.
func pages[T any](ctx context.Context, low string, ask func(low string) (client.List, error), n int,
	item func(client.List) (x T, key string, ok bool)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		low := low
		for {
			reply, err := ask(low)
			if err != nil {
				yield(none, err)
				return
			}
			list := reply.At(3).List()
			for i := 0; i+n <= len(list); i += n {
				if ctx.Err() != nil {
					yield(none, context.Cause(ctx))
					return
				}
				x, key, ok := item(list[i : i+n])
				low = "(" + key
				if ok && !yield(x, nil) {
					return
				}
			}
			if len(list) < n*page {
				return
			}
		}
	}
}

// endOf returns the smallest text above all texts that begin with prefix, or "" when there is none.
func endOf(prefix string) string {
	b := []byte(prefix)
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] < 0xff {
			b[i]++
			return string(b[:i+1])
		}
	}
	return ""
}
