package azure

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"

	"github.com/millrace-go/millrace/storage/driver"
)

const (
	copyBlock   = 32 << 20 // bytes; at a bad time, the service copies a block in less than tryTime
	maxBlocks   = 50_000   // of a blob, by the service
	copiers     = 4        // requests at once
	copyKeyTime = 15 * time.Minute

	// Whenever a copy is swept, another one has come through.
	sweptTries = 16
	sweptDelay = 5 * time.Millisecond
)

// errSwept says that another commit or deletion has dropped the blocks of a copy.
var errSwept = fmt.Errorf("%w: others change the target all the time", driver.ErrUnavailable)

// Copy implements driver.Files. The service has one request that copies a blob of any size. But that one may go on
// after its answer, and shows the target half done till then. So the target is made of blocks, which the service copies
// from the source one by one, each only from the ETag, and the commit shows all of them at once.
func (f *files) Copy(ctx context.Context, name, key string, tag driver.ETag, toName, toKey string) (driver.FileInfo, error) {
	for try := 1; ; try++ {
		info, err := f.copyOnce(ctx, name, key, tag, toName, toKey)
		if !errors.Is(err, errSwept) || try == sweptTries {
			return info, err
		}
		wait := time.NewTimer(rand.N(sweptDelay << min(try, 6)))
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return driver.FileInfo{}, context.Cause(ctx)
		}
	}
}

func (f *files) copyOnce(ctx context.Context, name, key string, tag driver.ETag, toName, toKey string) (driver.FileInfo, error) {
	from, to := f.in(name), f.in(toName)
	info, err := f.Stat(ctx, name, key)
	switch {
	case errors.Is(err, driver.ErrNotFound):
		return driver.FileInfo{}, fmt.Errorf("%w: the source is missing", driver.ErrPrecondition)
	case err != nil:
		return driver.FileInfo{}, err
	case info.ETag != tag:
		return driver.FileInfo{}, changed()
	}
	ids, size := copyIDs(from, key, info)
	if err := f.copyBlocks(ctx, from, key, to, toKey, info, ids, size); err != nil {
		return driver.FileInfo{}, err
	}
	c := to.call("copy", always)
	err = to.do(ctx, c, func(ctx context.Context) (err error) {
		info.ETag, err = to.commit(ctx, c, toKey, ids, &blockblob.CommitBlockListOptions{})
		if is(err, http.StatusBadRequest, "InvalidBlockList") {
			return errSwept
		}
		return err
	})
	if err != nil {
		return driver.FileInfo{}, err
	}
	return info, nil
}

func changed() error {
	return fmt.Errorf("%w: the source has another ETag", driver.ErrPrecondition)
}

// copyIDs returns the IDs of the blocks of a copy, and the size of each but the last. The IDs tell the source and its
// ETag, so blocks of two copies are never taken for one another, and those of one source are alike.
func copyIDs(from *box, key string, info driver.FileInfo) (ids []string, size int64) {
	size = max(copyBlock, (info.Size+maxBlocks-1)/maxBlocks)
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s/%s/%d", from.name, key, info.ETag, size))
	mark := base32.StdEncoding.EncodeToString(sum[:10])
	for i := int64(0); i*size < info.Size; i++ {
		ids = append(ids, base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%s%0*d", mark, idLength-len(mark), i)))
	}
	return ids, size
}

// copyBlocks has the service copy all blocks, some at once. It returns the first error, when all requests have ended.
func (f *files) copyBlocks(ctx context.Context, from *box, key string, to *box, toKey string, info driver.FileInfo, ids []string, size int64) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var (
		all  sync.WaitGroup
		next atomic.Int64
	)
	for range min(copiers, len(ids)) {
		all.Go(func() {
			for ctx.Err() == nil {
				i := next.Add(1) - 1
				if i >= int64(len(ids)) {
					return
				}
				rest := blob.HTTPRange{Offset: i * size, Count: min(size, info.Size-i*size)}
				if err := f.copyBlock(ctx, from, key, to, toKey, info.ETag, ids[i], rest); err != nil {
					stop(err)
				}
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// copyBlock has the service copy one block. The service reads the source by a URL, which needs a signature of its own,
// even within an account. An administrator may have revoked what signs the URL, so a refusal of the URL has a new one
// made, once.
func (f *files) copyBlock(ctx context.Context, from *box, key string, to *box, toKey string, tag driver.ETag, id string, part blob.HTTPRange) error {
	for try := 1; ; try++ {
		asked := time.Now()
		source, err := f.sourceURL(ctx, from, key)
		if err == nil {
			err = to.stage(ctx, toKey, id, source, tag, part)
		}
		if !is(err, http.StatusForbidden, "CannotVerifyCopySource") || try == 2 || !f.keys.forget(asked) {
			return err
		}
	}
}

func (b *box) stage(ctx context.Context, key, id, source string, tag driver.ETag, part blob.HTTPRange) error {
	c := b.call("copy", always)
	c.size = int(part.Count)
	return b.do(ctx, c, func(ctx context.Context) error {
		stage := func() error {
			_, err := b.blob(key).StageBlockFromURL(ctx, id, source, &blockblob.StageBlockFromURLOptions{
				Range:                          part,
				SourceModifiedAccessConditions: &blob.SourceModifiedAccessConditions{SourceIfMatch: etag(tag)},
			})
			return err
		}
		err := creating(stage(), "ContainerNotFound", func() error { return b.create(c.beside(ctx, "create")) }, stage)
		if is(err, http.StatusPreconditionFailed) && !isLeased(err) ||
			is(err, http.StatusNotFound, "CannotVerifyCopySource") || is(err, http.StatusConflict, "CannotVerifyCopySource") {
			return changed()
		}
		return err
	})
}
