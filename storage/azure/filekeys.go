package azure

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"
	blobservice "github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"

	"github.com/millrace-go/millrace/storage/driver"
)

// A user delegation key signs URLs for an identity. The service allows a week.
const (
	delegationTime = 7 * 24 * time.Hour
	clockSkew      = 15 * time.Minute // the service's clock may be behind by so much

	// delegationFresh is the age at which a key is fetched again. An administrator may revoke all keys of an account.
	// Only clients see that, as 403. So the next key after this time heals that, for four requests an hour at most.
	delegationFresh = 15 * time.Minute
	renewalPatience = 5 * time.Second // while the old key is still good
)

// urlKeys signs URLs.
type urlKeys struct {
	shared *azblob.SharedKeyCredential // nil without an account key
	own    bool                        // the store itself has only a shared access signature
	plain  bool                        // the account's address is plain http
	local  bool                        // the account is an Azurite

	turn chan struct{} // held by who fetches a delegation key

	mu      sync.Mutex
	now     *blobservice.UserDelegationCredential
	end     time.Time // of now
	fetched time.Time // or tried
}

func newURLKeys(p place, shared *azblob.SharedKeyCredential) urlKeys {
	return urlKeys{shared: shared, own: p.sas != "", plain: strings.HasPrefix(p.blob, "http:"), local: p.local(), turn: make(chan struct{}, 1)}
}

// fault says why there are no URLs for others.
func (k *urlKeys) fault() error {
	switch {
	case k.own:
		return fmt.Errorf("%w: a store with a shared access signature can't make URLs for others; open the account with an identity (azure://ACCOUNT) or its key", driver.ErrUnsupported)
	case k.plain && !k.local:
		return fmt.Errorf("%w: the account's address is plain http, where anybody could read the URL; want https", driver.ErrUnsupported)
	}
	return nil
}

// Takes implements driver.Files. Bytes come by Key alone.
func (f *files) Takes() error { return f.keys.fault() }

// PutPart implements driver.Files. Bytes go to the account directly.
func (f *files) PutPart(context.Context, string, string, int, int64, io.Reader) error {
	if err := f.Takes(); err != nil {
		return err
	}
	return fmt.Errorf("%w: no bytes of a part go through the program; make a key, whose URL takes them with PUT", driver.ErrUnsupported)
}

// Key implements driver.Files. The URL is one for exactly one blob. One that reads allows no more. One for a part has
// the permission w, the least one that the service demands for a block. That permission isn't bound to the part. Till
// the URL ends, whoever has the URL can also do this to the blob:
//
//   - put other blocks, commit a list of blocks, and write the whole blob, as one of any kind, or have the service copy
//     a blob from elsewhere over it;
//   - write its properties and metadata, and move it to another tier, also to the archive;
//   - make snapshots, which the account pays for, till Delete removes them with the blob;
//   - take a lease, also one without an end. Commit and Delete break it.
//
// The URL can't read, delete or list, nor reach another blob. So what a client has put counts only by its ETag, after
// a check. Clients that abuse their URLs make their own uploads fail, and nobody else's.
//
// The URL has no time of its beginning. With one, a service whose clock is behind would refuse it.
func (f *files) Key(ctx context.Context, name, key string, k driver.FileKey) (string, error) {
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case f.s.closed.Load():
		return "", errClosed
	case f.keys.fault() != nil:
		return "", f.keys.fault()
	}
	b := f.in(name)
	v := f.keys.values(plainName(f.s.prefix, name), key, k.For)
	query := ""
	if k.Part == 0 {
		v.Permissions = (&sas.BlobPermissions{Read: true}).String()
		v.ContentType, v.ContentDisposition, v.CacheControl = k.Type, k.Disposition, "no-store"
	} else {
		v.Permissions = (&sas.BlobPermissions{Write: true}).String()
		query = "comp=block&blockid=" + url.QueryEscape(partID(k.Part)) + "&"
		if err := f.ready(ctx, b); err != nil {
			return "", err
		}
	}
	signed, err := f.sign(ctx, v)
	if err != nil {
		return "", err
	}
	return b.blob(key).URL() + "?" + query + signed, nil
}

// values are what all URLs have in common. Their times are whole seconds.
func (k *urlKeys) values(container, key string, good time.Duration) sas.BlobSignatureValues {
	v := sas.BlobSignatureValues{
		Protocol:      sas.ProtocolHTTPS,
		ExpiryTime:    time.Now().Add(good + time.Second - 1).UTC().Truncate(time.Second),
		ContainerName: container,
		BlobName:      blobKey(key),
	}
	if k.plain {
		v.Protocol = sas.ProtocolHTTPSandHTTP
	}
	return v
}

// sourceURL is a URL by which the service itself reads a file.
func (f *files) sourceURL(ctx context.Context, b *box, key string) (string, error) {
	where := b.blob(key).URL()
	if f.keys.own {
		return where, nil // it has the store's signature
	}
	v := f.keys.values(plainName(f.s.prefix, b.name), key, copyKeyTime)
	v.Permissions = (&sas.BlobPermissions{Read: true}).String()
	signed, err := f.sign(ctx, v)
	return where + "?" + signed, err
}

// sign returns the parameters of a URL.
func (f *files) sign(ctx context.Context, v sas.BlobSignatureValues) (string, error) {
	var (
		p   sas.QueryParameters
		err error
	)
	if f.keys.shared != nil {
		p, err = v.SignWithSharedKey(f.keys.shared)
	} else {
		var d *blobservice.UserDelegationCredential
		if d, err = f.delegation(ctx, v.ExpiryTime); err != nil {
			return "", err
		}
		p, err = v.SignWithUserDelegation(d)
	}
	if err != nil {
		return "", fmt.Errorf("%w: the URL can't be signed", driver.ErrInvalid) // the cause may show the key
	}
	return p.Encode(), nil
}

// ready makes the container of parts, once in a store: a client that puts a part can't.
func (f *files) ready(ctx context.Context, b *box) error {
	if _, ok := f.made.Load(b.name); ok {
		return nil
	}
	c := b.call("stat", always)
	err := b.do(ctx, c, func(ctx context.Context) error {
		look := func() error { _, err := b.c.GetProperties(ctx, nil); return err }
		return creating(look(), "ContainerNotFound", func() error { return b.create(c.beside(ctx, "create")) }, look)
	})
	if err == nil {
		f.made.Store(b.name, true)
	}
	return err
}

// delegation returns a delegation key that is good till a time. One caller fetches a key. Others wait only where there
// is none that is still good.
func (f *files) delegation(ctx context.Context, till time.Time) (*blobservice.UserDelegationCredential, error) {
	k := &f.keys
	now, fresh := k.cached(till)
	if fresh {
		return now, nil
	}
	if now == nil {
		select {
		case k.turn <- struct{}{}:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	} else {
		select {
		case k.turn <- struct{}{}:
		default:
			return now, nil
		}
		var end context.CancelFunc
		ctx, end = context.WithTimeout(ctx, renewalPatience)
		defer end()
	}
	defer func() { <-k.turn }()
	if again, fresh := k.cached(till); fresh {
		return again, nil // fetched meanwhile
	}
	err := f.fetchDelegation(ctx)
	if err != nil && now != nil {
		return now, nil
	}
	now, _ = k.cached(till)
	return now, err
}

// cached returns the delegation key, if there is one that is good till a time, and whether it is fresh.
func (k *urlKeys) cached(till time.Time) (now *blobservice.UserDelegationCredential, fresh bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.now == nil || till.After(k.end) {
		return nil, false
	}
	return k.now, time.Since(k.fetched) < delegationFresh
}

// forget makes the next call fetch a delegation key, if the one in use was fetched before a time. It reports whether a
// new key may help.
func (k *urlKeys) forget(before time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.fetched.Before(before) {
		k.now = nil
	}
	return k.shared == nil && !k.own
}

func (f *files) fetchDelegation(ctx context.Context) error {
	k := &f.keys
	p := part{f.s, "file", "delegation"}
	return p.do(ctx, p.call("key", always), func(ctx context.Context) error {
		asked := time.Now()
		begin := asked.Add(-clockSkew).UTC().Truncate(time.Second) // without it, a service whose clock is behind would refuse
		end := begin.Add(delegationTime)
		got, err := f.s.blobs.GetUserDelegationCredential(ctx, blobservice.KeyInfo{
			Start: to.Ptr(begin.Format(sas.TimeFormat)), Expiry: to.Ptr(end.Format(sas.TimeFormat)),
		}, nil)
		k.mu.Lock()
		defer k.mu.Unlock()
		k.fetched = asked
		if err == nil {
			k.now, k.end = got, end
		}
		if e, ok := answer(err); ok && e.Status == http.StatusForbidden {
			return fmt.Errorf("%w: %w; check that the identity has the role Storage Blob Delegator, or Storage Blob Data Contributor, on the account", driver.ErrUnavailable, e)
		}
		return err
	})
}
