package azure

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/millrace-go/millrace/storage/driver"
)

// PutPublic implements driver.PublicFiles. A name stands in the URL as it is.
func (s *store) PutPublic(ctx context.Context, name, key string, body []byte, header http.Header) (string, error) {
	c := s.blobs.NewContainerClient(plainName(s.prefix, name))
	one := c.NewBlockBlobClient(key)
	where, err := address(c.URL(), key)
	if err != nil {
		return "", err
	}
	b := &blobs{part{s, "file", name}, c}
	call := b.call("put public", len(body))
	return where, b.do(ctx, call, func(ctx context.Context) error {
		o := &blockblob.UploadOptions{
			HTTPHeaders:      httpHeaders(header),
			AccessConditions: &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfNoneMatch: to.Ptr(azcore.ETagAny)}},
		}
		put := func() error {
			_, err := one.Upload(ctx, streaming.NopCloser(bytes.NewReader(body)), o)
			return err
		}
		err := creating(put(), "ContainerNotFound", func() error {
			_, err := c.Create(call.beside(ctx, "create"), &container.CreateOptions{Access: to.Ptr(container.PublicAccessTypeBlob)})
			return err
		}, put)
		switch {
		case is(err, http.StatusConflict, "BlobAlreadyExists"), is(err, http.StatusPreconditionFailed, "ConditionNotMet"):
			return driver.ErrExists // also by an earlier try: the name says what the file holds
		case is(err, http.StatusConflict, "PublicAccessNotPermitted"), is(err, http.StatusForbidden, "PublicAccessNotPermitted"):
			return fmt.Errorf("%w: the account lets nobody read without a key; allow public access to blobs, or put a network in front that has one: %w", driver.ErrUnsupported, err)
		}
		return err
	})
}

// address is where anybody finds a file of a container. A slash in the file's name stays one, and no signature is left.
func address(container, key string) (string, error) {
	u, err := url.Parse(container)
	if err != nil {
		return "", errors.New("the account's URL can't be read") // it may hold a signature
	}
	u.RawQuery = ""
	return u.String() + "/" + (&url.URL{Path: key}).EscapedPath(), nil
}

// httpHeaders are the fields with which the service answers.
func httpHeaders(h http.Header) *blob.HTTPHeaders {
	field := func(name string) *string {
		if text := h.Get(name); text != "" {
			return &text
		}
		return nil
	}
	return &blob.HTTPHeaders{BlobContentType: field("Content-Type"), BlobCacheControl: field("Cache-Control"), BlobContentEncoding: field("Content-Encoding")}
}
