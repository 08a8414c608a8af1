package lease

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage"
)

// Raise makes the fences of a lease go on past a number: for the day after its blob was deleted, damaged or restored
// from a backup, when fences that are smaller than those of documents would be refused. It makes a blob that isn't
// there, and replaces one that is no lease.
//
// Somebody may hold the lease and not know yet. So Raise leaves it as if a holder with the fence past had just died:
// cfg.Holder, which the list shows, and cfg.TTL, which must be the largest that programs use for this lease. Others get
// the lease 7/6 of that time after they saw it, with larger fences. A lease whose fence is past already stays as it is,
// with an error that is storage.ErrInvalid. After another error the lease may be raised.
func Raise(ctx context.Context, store *storage.Store, name string, past int64, cfg Config) error {
	cfg, err := cfg.withDefaults(store, name)
	if err == nil && (past < 1 || past >= math.MaxInt64-1) {
		err = fmt.Errorf("lease: %w: fence %d; want a positive one below %d", storage.ErrInvalid, past, int64(math.MaxInt64-1))
	}
	if err != nil {
		return err
	}
	d := document{Holder: cfg.Holder, ID: rand.Text(), Fence: past, TTL: cfg.TTL.Milliseconds(), Since: time.Now().UTC()}
	for tries := 1; ; tries++ {
		err := blobOf(store, name, cfg.TTL).raise(ctx, d)
		switch {
		case err == nil:
			return nil
		case storage.LostRace(err):
			tries-- // another write came first
		case ctx.Err() != nil, storecall.Permanent(err), tries >= 3:
			return fmt.Errorf("lease: raise %s: %w", storage.Quote(name), err)
		default:
			_ = storecall.Sleep(ctx, time.Duration(tries)*100*time.Millisecond) // the next try sees the end of ctx
		}
	}
}

// raise writes d if its fence is larger than the one that is there.
func (b leaseBlob) raise(ctx context.Context, d document) error {
	there, etag, err := b.get(ctx, "")
	switch {
	case errors.Is(err, storage.ErrNotFound):
		etag = ""
	case etag != "" && errors.Is(err, storage.ErrInvalid): // no lease
	case err != nil:
		return err
	case there.ID == d.ID:
		return nil // a try before this one has written it
	case there.Fence >= d.Fence:
		return fmt.Errorf("%w: its fence is %d already", storage.ErrInvalid, there.Fence)
	default:
		d.TTL = max(d.TTL, there.TTL)
	}
	_, err = b.put(ctx, d, storage.Condition{IfMatch: etag, IfAbsent: etag == ""})
	return err
}
