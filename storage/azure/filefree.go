package azure

import (
	"context"
	"fmt"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/lease"

	"github.com/millrace-go/millrace/storage/driver"
)

// freeing changes a blob of files. A client that has a Key for a part may have taken a lease on the blob, or may have
// the service copy something over it, which may take days. Either would keep the driver from its own files. So freeing
// ends what stands in the way, and makes the change again. A lease of an operator ends, too: documents, and not files,
// are what an operator may lease.
func (c *call) freeing(ctx context.Context, one *blockblob.Client, change func() error) error {
	for try := 1; ; try++ {
		err := change()
		end := c.endCopy
		switch {
		case try == maxTries:
			return err
		case isLeased(err):
			end = c.breakLease
		case !is(err, http.StatusConflict, "PendingCopyOperation"):
			return err
		}
		if err := end(ctx, one); err != nil {
			return err
		}
	}
}

// breakLease ends a lease at once.
func (c *call) breakLease(ctx context.Context, one *blockblob.Client) error {
	l, err := lease.NewBlobClient(one, nil)
	if err != nil {
		return err
	}
	_, err = l.BreakLease(c.beside(ctx, "break lease"), &lease.BlobBreakOptions{BreakPeriod: to.Ptr(int32(0))})
	if isMissing(err) || is(err, http.StatusConflict, "LeaseNotPresentWithLeaseOperation") {
		return nil
	}
	return err
}

// endCopy ends a copy of the service's over a blob. The blob is empty then.
func (c *call) endCopy(ctx context.Context, one *blockblob.Client) error {
	p, err := one.GetProperties(c.beside(ctx, "stat"), nil)
	if err == nil && p.CopyID != nil && p.CopyStatus != nil && *p.CopyStatus == blob.CopyStatusTypePending {
		_, err = one.AbortCopyFromURL(c.beside(ctx, "abort copy"), *p.CopyID, nil)
	}
	if isMissing(err) || is(err, http.StatusConflict, "NoPendingCopyOperation") {
		return nil
	}
	return err
}

// remove deletes a blob with its snapshots, if it has the ETag; every blob has the empty one.
func (c *call) remove(ctx context.Context, one *blockblob.Client, tag driver.ETag) error {
	o := &blob.DeleteOptions{
		DeleteSnapshots:  to.Ptr(blob.DeleteSnapshotsOptionTypeInclude),
		AccessConditions: &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfMatch: etag(tag)}},
	}
	err := c.freeing(ctx, one, func() error {
		_, err := one.Delete(ctx, o)
		return err
	})
	if isMissing(err) || tag != "" && is(err, http.StatusPreconditionFailed, "ConditionNotMet") {
		return nil
	}
	return err
}

// isSpoiled reports that a blob is no file any more, since whoever had a Key has changed its kind, its tier or its
// encryption. Only Delete, or a new upload, mends that.
func isSpoiled(err error) bool {
	return is(err, http.StatusConflict, "BlobArchived", "BlobBeingRehydrated", "InvalidBlobType", "BlobUsesCustomerSpecifiedEncryption")
}

// spoiled turns the errors of isSpoiled into a broken condition, which a Commit has for parts that are missing.
func spoiled(err error) error {
	if !isSpoiled(err) {
		return err
	}
	e, _ := answer(err)
	return fmt.Errorf("%w: a client has made another thing of the file: %w", driver.ErrPrecondition, e)
}
