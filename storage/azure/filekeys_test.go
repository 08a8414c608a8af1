package azure

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"
	blobservice "github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/azure/azuretest"
)

// foreignRules sets rules of another program.
func foreignRules(t *testing.T, s filing, n int) {
	t.Helper()
	var rules []*blobservice.CORSRule
	for range n {
		rules = append(rules, &blobservice.CORSRule{
			AllowedOrigins: to.Ptr("https://other.example"), AllowedMethods: to.Ptr("GET"), AllowedHeaders: to.Ptr("*"),
			ExposedHeaders: to.Ptr("*"), MaxAgeInSeconds: to.Ptr(int32(3600)),
		})
	}
	_, err := s.d.blobs.SetProperties(t.Context(), &blobservice.SetPropertiesOptions{CORS: rules})
	noError(t, err)
}

var otherBlob = regexp.MustCompile(`(inbox/)[^?]*\?`)

// A reader's URL reads one file, with the fields of the key, and does nothing else.
func TestReadKey(t *testing.T) {
	t.Parallel()
	eachFiling(t, func(t *testing.T, s filing) {
		f, key := s.Store.Files("inbox"), "a b/ü.pdf"
		s.file(t, f, key, "bytes")
		s.file(t, f, "other", "secret")
		url := must[string](t)(f.Key(t.Context(), key, storage.FileKey{For: time.Minute, Type: "application/pdf", Disposition: `attachment; filename="x y.pdf"`}))
		status, body, h := s.do(t, http.MethodGet, url, nil)
		if status != http.StatusOK || body != "bytes" || h.Get("Content-Type") != "application/pdf" || h.Get("Content-Disposition") != `attachment; filename="x y.pdf"` || h.Get("Cache-Control") != "no-store" {
			t.Errorf("got %d, %q, %v", status, body, h)
		}
		if status, body, _ := s.do(t, http.MethodGet, url, nil, "Range", "bytes=1-2"); status != http.StatusPartialContent || body != "yt" {
			t.Errorf("a range: got %d, %q", status, body)
		}
		for what, c := range map[string]struct{ method, url string }{
			"write":       {http.MethodPut, url},
			"a part":      {http.MethodPut, url + "&comp=block&blockid=" + partID(1)},
			"delete":      {http.MethodDelete, url},
			"another":     {http.MethodGet, otherBlob.ReplaceAllString(url, "${1}other?")},
			"other field": {http.MethodGet, strings.Replace(url, "application%2Fpdf", "text%2Fhtml", 1)},
		} {
			if c.method == http.MethodGet && c.url == url {
				t.Fatalf("%s: the URL is the same", what)
			}
			if status, body, _ := s.do(t, c.method, c.url, []byte("x"), "x-ms-blob-type", "BlockBlob"); status != http.StatusForbidden {
				t.Errorf("%s: got %d, %s", what, status, body)
			}
		}
	})
}

// A part's URL can't read, delete, list or reach another blob. It can do more than put its part, as the comment of Key
// says: the service has no smaller permission. TestSabotage has the rest of that.
func TestPartKey(t *testing.T) {
	t.Parallel()
	eachFiling(t, func(t *testing.T, s filing) {
		f := s.Store.Files("inbox")
		s.file(t, f, "a", "bytes")
		s.file(t, f, "b", "other")
		part := s.key(t, f, "a", 7)
		if got := query(t, part, "sp") + query(t, part, "st") + query(t, part, "sr"); got != "wb" {
			t.Errorf("permission, begin and kind: %q, want w, none and b", got)
		}
		blob := strings.Replace(part, "comp=block&blockid="+partID(7)+"&", "", 1)
		list := `<?xml version="1.0" encoding="utf-8"?><BlockList><Latest>` + partID(7) + `</Latest></BlockList>`
		for _, c := range []struct {
			what, method, url, body string
			want                    int
		}{
			{"read", http.MethodGet, blob, "", http.StatusForbidden},
			{"head", http.MethodHead, blob, "", http.StatusForbidden},
			{"list of parts", http.MethodGet, blob + "&comp=blocklist&blocklisttype=all", "", http.StatusForbidden},
			{"delete", http.MethodDelete, blob, "", http.StatusForbidden},
			{"list", http.MethodGet, strings.Replace(blob, "/a?", "?restype=container&comp=list&", 1), "", http.StatusForbidden},
			{"another blob", http.MethodPut, strings.Replace(part, "/a?", "/b?", 1), "x", http.StatusForbidden},
			{"its part", http.MethodPut, part, "x", http.StatusCreated},
			{"another part", http.MethodPut, strings.Replace(part, partID(7), partID(8), 1), "x", http.StatusCreated},
			{"commit", http.MethodPut, blob + "&comp=blocklist", list, http.StatusCreated},
			{"whole blob", http.MethodPut, blob, "whole", http.StatusCreated},
		} {
			status, text, _ := s.do(t, c.method, c.url, []byte(c.body), "x-ms-blob-type", "BlockBlob")
			if status != c.want {
				t.Errorf("%s: got %d, want %d: %s", c.what, status, c.want, text)
			}
		}
	})
}

// A URL ends, and is good by https alone where the account has https.
func TestKeyEnds(t *testing.T) {
	t.Parallel()
	eachFiling(t, func(t *testing.T, s filing) {
		f := s.Store.Files("inbox")
		s.file(t, f, "a", "bytes")
		url := must[string](t)(f.Key(t.Context(), "a", storage.FileKey{For: time.Millisecond}))
		asked := time.Now()
		far := must[string](t)(f.Key(t.Context(), "a", storage.FileKey{For: time.Hour}))
		if end := must[time.Time](t)(time.Parse(time.RFC3339, query(t, far, "se"))); end.Before(asked.Add(time.Hour)) || end.After(time.Now().Add(time.Hour+time.Second)) {
			t.Errorf("a URL for an hour, made after %v, ends at %v", asked, end)
		}
		want := "https"
		if strings.HasPrefix(url, "http:") {
			want = "https,http"
		}
		if got := query(t, url, "spr"); got != want {
			t.Errorf("protocols %q, want %q", got, want)
		}
		for end := time.Now().Add(time.Minute); ; {
			status, _, _ := s.do(t, http.MethodGet, url, nil)
			if status == http.StatusForbidden {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("got %d after a minute", status)
			}
		}
	})
}

// A key makes no request, but the first in a store: one that makes the container, and for an identity one that fetches
// the delegation key. Many callers at once make one request together.
func TestKeyRequests(t *testing.T) {
	t.Parallel()
	var fetched atomic.Int64
	s := openIdentity(t, func(next policy.Transporter) policy.Transporter {
		return transport(func(req *http.Request) (*http.Response, error) {
			if req.URL.Query().Get("comp") == "userdelegationkey" {
				fetched.Add(1)
			}
			return next.Do(req)
		})
	})
	f := s.Store.Files("inbox")
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			if _, err := f.Key(t.Context(), fmt.Sprint(i), storage.FileKey{For: time.Minute}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got := fetched.Load(); got != 1 {
		t.Errorf("%d delegation keys were fetched, want 1", got)
	}
	s.key(t, f, "a", 1)
	before := total(s)
	for range 100 {
		s.key(t, f, "a", 1)
		s.key(t, f, "a", 0)
	}
	if got := total(s) - before; got != 0 {
		t.Errorf("200 keys made %d requests", got)
	}
}

func total(s filing) (n uint64) {
	for _, r := range s.Requests() {
		n += uint64(r.Count)
	}
	return n
}

// A delegation key that isn't fresh is fetched again. Where that fails, the one that is still good is used.
func TestDelegationRenewal(t *testing.T) {
	t.Parallel()
	fails := false
	n := 0
	s := openIdentity(t, func(next policy.Transporter) policy.Transporter {
		return transport(func(req *http.Request) (*http.Response, error) {
			if req.URL.Query().Get("comp") == "userdelegationkey" {
				n++
				if fails {
					return respond(req, http.StatusForbidden, "AuthorizationPermissionMismatch"), nil
				}
			}
			return next.Do(req)
		})
	})
	f, keys := s.Store.Files("inbox"), &s.d.files.keys
	age := func(d time.Duration) {
		keys.mu.Lock()
		defer keys.mu.Unlock()
		keys.fetched, keys.end = keys.fetched.Add(-d), keys.end.Add(-d)
	}
	for _, c := range []struct {
		age   time.Duration
		fails bool
		want  int
		ok    bool
	}{
		{0, false, 1, true},
		{delegationFresh / 2, false, 1, true},
		{delegationFresh, false, 2, true},
		{delegationFresh, true, 3, true},
		{delegationTime, true, 4, false},
		{0, false, 5, true},
	} {
		age(c.age)
		fails = c.fails
		_, err := f.Key(t.Context(), "a", storage.FileKey{For: time.Minute})
		if n != c.want || (err == nil) != c.ok || err != nil && !strings.Contains(err.Error(), "Storage Blob Delegator") {
			t.Errorf("after %v, failing %v: %d requests and %v; want %d and success %v", c.age, c.fails, n, err, c.want, c.ok)
		}
	}
}

// A store that itself has only a signature makes none for others, but copies. No error shows a signature.
func TestKeyWithASignature(t *testing.T) {
	t.Parallel()
	s := openStore(t, "BlobEndpoint=http://127.0.0.1:1/b;QueueEndpoint=http://127.0.0.1:1/q;TableEndpoint=http://127.0.0.1:1/t;SharedAccessSignature=sv=1&sig=SECRET")
	f := s.Store.Files("inbox")
	_, err := f.Key(t.Context(), "a", storage.FileKey{For: time.Minute})
	wantErr(t, "a store with a signature", err, storage.ErrUnsupported)
	takes, put := f.Takes(), f.PutPart(t.Context(), "a", 1, 1, strings.NewReader("x"))
	for what, err := range map[string]error{"takes": takes, "put part": put} {
		wantErr(t, what, err, storage.ErrUnsupported)
		if err == nil || !strings.Contains(err.Error(), "open the account with an identity") {
			t.Errorf("%s: got %v, want what to change", what, err)
		}
	}
	_, err2 := f.Copy(t.Context(), "a", `"0x1"`, s.Store.Files("files"), "a")
	_, err3 := f.Stat(t.Context(), "a")
	_, err4 := s.Store.Files("origins").Origins(t.Context(), nil)
	for _, err := range []error{err, err2, err3, err4, takes, put} {
		if err == nil || strings.Contains(err.Error(), "SECRET") || strings.Contains(err.Error(), "http:") {
			t.Errorf("got %v; want an error without a signature", err)
		}
	}
	plain := openStore(t, "DefaultEndpointsProtocol=http;AccountName=acct;AccountKey=bm9uZQ==")
	_, err = plain.Store.Files("inbox").Key(t.Context(), "a", storage.FileKey{For: time.Minute})
	wantErr(t, "plain http", err, storage.ErrUnsupported)
	wantErr(t, "takes, by plain http", plain.Store.Files("inbox").Takes(), storage.ErrUnsupported)
	secured := openStore(t, "AccountName=acct;AccountKey=bm9uZQ==")
	noError(t, secured.Store.Files("inbox").Takes())
}

// A copy whose source is refused to the service has a new delegation key fetched. It gives up if that doesn't help.
func TestCopyAfterARevocation(t *testing.T) {
	t.Parallel()
	fetched, refusals := 0, 0
	s := openIdentity(t, func(next policy.Transporter) policy.Transporter {
		return transport(func(req *http.Request) (*http.Response, error) {
			switch {
			case req.URL.Query().Get("comp") == "userdelegationkey":
				fetched++
			case hasField(req, "x-ms-copy-source") && refusals > 0:
				refusals--
				return respond(req, http.StatusForbidden, "CannotVerifyCopySource"), nil
			}
			return next.Do(req)
		})
	})
	f, to := s.Store.Files("inbox"), s.Store.Files("files")
	info := s.file(t, f, "a", "body")
	for _, c := range []struct{ refusals, fetched int }{{1, 2}, {2, 3}, {0, 3}} {
		refusals = c.refusals
		copied, err := f.Copy(t.Context(), "a", info.ETag, to, "a")
		if fetched != c.fetched || (err == nil) != (c.refusals < 2) {
			t.Errorf("after %d refusals: %v, and %d keys fetched, want %d", c.refusals, err, fetched, c.fetched)
		}
		if err == nil && readFile(t, to, "a", copied, 0, 4) != "body" {
			t.Error("the copy has other bytes")
		}
	}
}

// A reader goes on when no byte comes for a while, and ends when none comes at all.
func TestSilentFileReader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, silent := 0, 1
		s := answeredBy(t, transport(func(req *http.Request) (*http.Response, error) {
			n++
			resp := respond(req, http.StatusPartialContent, "", "ETag", `"0x1"`, "Content-Length", "4", "Content-Range", "bytes 0-3/4")
			resp.ContentLength = 4
			resp.Body = io.NopCloser(strings.NewReader("body"))
			if n <= silent {
				resp.Body = &stalled{f: &faults{bubble: true}, ctx: req.Context(), real: resp.Body, closed: make(chan struct{})}
			}
			return resp, nil
		}))
		f := s.Store.Files("inbox")
		for _, c := range []struct {
			silent, requests int
			want             error
		}{{1, 2, nil}, {100, maxTries, storage.ErrUnavailable}} {
			n, silent = 0, c.silent
			r := must[io.ReadCloser](t)(f.Open(t.Context(), "a", `"0x1"`, 0, 4))
			got, err := io.ReadAll(r)
			if n != c.requests || !errors.Is(err, c.want) || err == nil && string(got) != "body" {
				t.Errorf("%d silent answers: %d requests, %q, %v; want %d and %v", c.silent, n, got, err, c.requests, c.want)
			}
			noError(t, r.Close())
		}
	})
}

// A store that has only a signature commits, reads and deletes files, and has the service read the source of a copy by
// that signature. Azurite itself fails at a copy for such a store.
func TestFilesWithASignature(t *testing.T) {
	t.Parallel()
	a := azuretest.Shared(t, azurite).Account(t)
	w := filing{openStore(t, a.ConnectionString()), http.DefaultClient}
	shared := must[*sas.SharedKeyCredential](t)(azblob.NewSharedKeyCredential(a.Name, a.Key))
	signed := must[sas.QueryParameters](t)(sas.AccountSignatureValues{
		ExpiryTime:    time.Now().Add(time.Hour).UTC(),
		Permissions:   (&sas.AccountPermissions{Read: true, Write: true, Create: true, Delete: true, List: true}).String(),
		ResourceTypes: (&sas.AccountResourceTypes{Service: true, Container: true, Object: true}).String(),
	}.SignWithSharedKey(shared))
	source := ""
	place := fmt.Sprintf("BlobEndpoint=%s;QueueEndpoint=%s;TableEndpoint=%s;SharedAccessSignature=%s", a.Blob, a.Queue, a.Table, signed.Encode())
	s := openBy(t, place, func(next policy.Transporter) policy.Transporter {
		return transport(func(req *http.Request) (*http.Response, error) {
			for name, values := range req.Header {
				if strings.EqualFold(name, "x-ms-copy-source") {
					source = values[0]
					return respond(req, http.StatusPreconditionFailed, "SourceConditionNotMet"), nil
				}
			}
			return next.Do(req)
		})
	})
	f, to := s.Store.Files("inbox"), s.Store.Files("files")
	w.put(t, w.Store.Files("inbox"), "a b/c", 1, "body")
	info := must[storage.FileInfo](t)(f.Commit(t.Context(), "a b/c", []int64{4}))
	if got := readFile(t, f, "a b/c", info, 0, 4); got != "body" {
		t.Errorf("the file holds %q", got)
	}
	_, err := f.Copy(t.Context(), "a b/c", info.ETag, to, "d e")
	wantErr(t, "a copy that the service refuses", err, storage.ErrPrecondition)
	if status, body, _ := w.do(t, http.MethodGet, source, nil); status != http.StatusOK || body != "body" {
		t.Errorf("the source of the copy: got %d, %s", status, body)
	}
	noError(t, f.Delete(t.Context(), "a b/c"))
	_, err = f.Stat(t.Context(), "a b/c")
	wantErr(t, "after the deletion", err, storage.ErrNotFound)
}

// A part that goes between the two requests of a commit is a broken condition, as the service documents its answer.
func TestServiceCommitOfAPartThatHasGone(t *testing.T) {
	t.Parallel()
	list := `<?xml version="1.0" encoding="utf-8"?><BlockList><CommittedBlocks/><UncommittedBlocks><Block><Name>` + partID(1) +
		`</Name><Size>4</Size></Block></UncommittedBlocks></BlockList>`
	s, script := service(t, plain(http.StatusOK, "application/xml", list), says(http.StatusBadRequest, "InvalidBlockList"))
	_, err := s.Store.Files("inbox").Commit(t.Context(), "a", []int64{4})
	wantErr(t, "a part that has gone", err, storage.ErrPrecondition)
	if got := script.bodies[1]; !strings.Contains(got, "<Latest>"+partID(1)+"</Latest>") {
		t.Errorf("the commit is %s", got)
	}
}
