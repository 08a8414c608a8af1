package azure

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/millrace-go/millrace/storage/driver"
)

// All IDs of a blob's blocks have one length. A part's is its number behind partMark, and a copy's begins otherwise.
const (
	partMark = "part"
	idLength = 24
)

// clearedName is the metadata key of a blob that Delete writes for a moment, to drop the blocks that nobody committed.
const clearedName = "cleared"

// bytesType is the type of every file. The URL of a reader may name another one.
const bytesType = "application/octet-stream"

// files implements driver.Files. A file is a block blob, and a part is a block. A part that has come, and that no
// Commit has taken, ends by itself after a week without a request for the file.
type files struct {
	s    *store
	keys urlKeys
	made sync.Map // names of containers that are known to be there
}

// box is a container of files.
type box struct {
	part
	c *container.Client
}

func (f *files) in(name string) *box {
	return &box{part{f.s, "file", name}, f.s.blobs.NewContainerClient(plainName(f.s.prefix, name))}
}

func (b *box) blob(key string) *blockblob.Client { return b.c.NewBlockBlobClient(blobKey(key)) }

// partID is the ID of a part's block.
func partID(number int) string {
	return base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%s%0*d", partMark, idLength-len(partMark), number))
}

// partNumber is the part that a block holds, or 0 for a block of another program or of a copy.
func partNumber(id string) int {
	raw, _ := base64.StdEncoding.DecodeString(id)
	digits, ok := strings.CutPrefix(string(raw), partMark)
	number, err := strconv.Atoi(digits)
	if !ok || err != nil || number < 1 || number > driver.MaxParts || partID(number) != id {
		return 0
	}
	return number
}

func (f *files) Parts(ctx context.Context, name, key string) ([]driver.FilePart, error) {
	var parts []driver.FilePart
	b := f.in(name)
	err := b.do(ctx, b.call("list parts", always), func(ctx context.Context) error {
		sizes, _, err := b.blocks(ctx, key)
		for number := range driver.MaxParts {
			if size, ok := sizes[number+1]; ok {
				parts = append(parts, driver.FilePart{Number: number + 1, Size: size})
			}
		}
		return err
	})
	return parts, err
}

// blocks returns the sizes of the parts that a commit would take, and the number of all blocks that nobody committed.
// A blob that no commit may change has none.
func (b *box) blocks(ctx context.Context, key string) (sizes map[int]int64, loose int, err error) {
	list, err := b.blob(key).GetBlockList(ctx, blockblob.BlockListTypeAll, nil)
	if isMissing(err) || isSpoiled(err) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	sizes = map[int]int64{}
	for _, blocks := range [][]*blockblob.Block{list.CommittedBlocks, list.UncommittedBlocks} { // the later one counts
		for _, block := range blocks {
			if block.Name == nil || block.Size == nil {
				return nil, 0, fmt.Errorf("%w: the service's answer has a block without a name or a size", driver.ErrUnavailable)
			}
			if number := partNumber(*block.Name); number > 0 {
				sizes[number] = *block.Size
			}
		}
	}
	return sizes, len(list.UncommittedBlocks), nil
}

// Commit implements driver.Files. The list of parts and the commit are two requests. A part that comes between them,
// with another size, is taken: only whoever has a Key, still good, for a part can do that. So Commit looks at the blob
// that it has made, and fails unless the blob has the size that was asked for. The blob may come from another Commit,
// or from a holder of a Key: bytes of the same size may come before the look, too. Callers go by the ETag that Commit
// returns.
func (f *files) Commit(ctx context.Context, name, key string, sizes []int64) (driver.FileInfo, error) {
	var info driver.FileInfo
	b := f.in(name)
	c := b.call("commit", always)
	err := b.do(ctx, c, func(ctx context.Context) error {
		there, _, err := b.blocks(c.beside(ctx, "list parts"), key)
		if err != nil {
			return err
		}
		ids, err := take(there, sizes)
		if err != nil {
			return err
		}
		err = c.freeing(ctx, b.blob(key), func() error {
			_, err := b.commit(ctx, c, key, ids, &blockblob.CommitBlockListOptions{})
			return err
		})
		switch {
		case is(err, http.StatusBadRequest, "InvalidBlockList"):
			return fmt.Errorf("%w: a part has gone meanwhile", driver.ErrPrecondition)
		case err != nil:
			return spoiled(err)
		}
		info, err = b.made(c.beside(ctx, "stat"), key, sizes)
		return err
	})
	if err != nil {
		return driver.FileInfo{}, err
	}
	return info, nil
}

// made tells about the file that a commit of parts has made.
func (b *box) made(ctx context.Context, key string, sizes []int64) (driver.FileInfo, error) {
	info, err := b.stat(ctx, key)
	var want int64
	for _, size := range sizes {
		want += size
	}
	switch {
	case errors.Is(err, driver.ErrNotFound):
		return info, fmt.Errorf("%w: the file has gone meanwhile", driver.ErrPrecondition)
	case err == nil && info.Size != want:
		return info, fmt.Errorf("%w: the file has %d bytes, not %d, since a part has come meanwhile", driver.ErrPrecondition, info.Size, want)
	}
	return info, err
}

// take returns the IDs of the blocks that make a file. The service refuses an empty block, so an empty file may have
// none.
func take(there map[int]int64, sizes []int64) ([]string, error) {
	var ids []string
	for i, want := range sizes {
		number := i + 1
		switch got, ok := there[number]; {
		case !ok && want == 0:
		case !ok:
			return nil, fmt.Errorf("%w: part %d is missing", driver.ErrPrecondition, number)
		case got != want:
			return nil, fmt.Errorf("%w: part %d has %d bytes, not %d", driver.ErrPrecondition, number, got, want)
		default:
			ids = append(ids, partID(number))
		}
	}
	return ids, nil
}

// commit makes the blob of blocks. Of a block that is committed and has come again, the later one is taken.
func (b *box) commit(ctx context.Context, c *call, key string, ids []string, o *blockblob.CommitBlockListOptions) (driver.ETag, error) {
	var tag driver.ETag
	o.HTTPHeaders = &blob.HTTPHeaders{BlobContentType: to.Ptr(bytesType)}
	put := func() error {
		r, err := b.blob(key).CommitBlockList(ctx, ids, o)
		tag = fromETag(r.ETag)
		return err
	}
	return tag, creating(put(), "ContainerNotFound", func() error { return b.create(c.beside(ctx, "create")) }, put)
}

func (b *box) create(ctx context.Context) error {
	_, err := b.c.Create(ctx, nil)
	return err
}

func (f *files) Stat(ctx context.Context, name, key string) (driver.FileInfo, error) {
	var info driver.FileInfo
	b := f.in(name)
	err := b.do(ctx, b.call("stat", always), func(ctx context.Context) (err error) {
		info, err = b.stat(ctx, key)
		return err
	})
	return info, err
}

func (b *box) stat(ctx context.Context, key string) (driver.FileInfo, error) {
	p, err := b.blob(key).GetProperties(ctx, nil)
	if err != nil {
		return driver.FileInfo{}, gone(err)
	}
	for name := range p.Metadata {
		if strings.EqualFold(name, clearedName) {
			return driver.FileInfo{}, driver.ErrNotFound
		}
	}
	if p.ContentLength == nil || fromETag(p.ETag) == "" {
		return driver.FileInfo{}, fmt.Errorf("%w: the service's answer has no size or no ETag", driver.ErrUnavailable)
	}
	return driver.FileInfo{Size: *p.ContentLength, ETag: fromETag(p.ETag)}, nil
}

// Delete implements driver.Files. The service deletes a blob, and says nothing about blocks that nobody committed.
// These would end after a week, and till then a Commit could take them. So Delete drops them: it makes an empty blob,
// with a mark by which Stat takes it for none, and deletes that one.
func (f *files) Delete(ctx context.Context, name, key string) error {
	b := f.in(name)
	c := b.call("delete", always)
	return b.do(ctx, c, func(ctx context.Context) error {
		one := b.blob(key)
		if err := c.remove(ctx, one, ""); err != nil {
			return err
		}
		_, loose, err := b.blocks(c.beside(ctx, "list parts"), key)
		if loose == 0 {
			return err
		}
		tag, err := b.commit(c.beside(ctx, "clear"), c, key, nil, &blockblob.CommitBlockListOptions{
			Metadata:         map[string]*string{clearedName: to.Ptr("1")},
			AccessConditions: &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfNoneMatch: to.Ptr(azcore.ETagAny)}},
		})
		switch {
		case is(err, http.StatusConflict, "BlobAlreadyExists"), is(err, http.StatusPreconditionFailed, "ConditionNotMet"):
			return nil // somebody has made a file meanwhile, or an earlier try has made the empty one, which nobody sees
		case err != nil:
			return err
		}
		return c.remove(ctx, one, tag)
	})
}
