package azure

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/azure/azuretest"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// secure is an Azurite that takes identities.
var secure = sync.OnceValues(azuretest.LaunchOAuth)

// anybody is an identity at that Azurite.
type anybody struct{}

func (anybody) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
	token, end, err := azuretest.Token()
	return azcore.AccessToken{Token: token, ExpiresOn: end}, err
}

// filing is a store whose files are under test, and a client that its URLs work with.
type filing struct {
	*opened
	http *http.Client
}

// eachFiling runs a test with the key of an account, and with an identity.
func eachFiling(t *testing.T, f func(t *testing.T, s filing)) {
	t.Run("key", func(t *testing.T) {
		t.Parallel()
		f(t, filing{openStore(t, testURL(t)), http.DefaultClient})
	})
	t.Run("identity", func(t *testing.T) {
		t.Parallel()
		f(t, openIdentity(t, nil))
	})
}

// identityAt is the place of an account, with an identity.
func identityAt(a azuretest.Account) place {
	return place{prefix: "shop", account: a.Name, who: anybody{}, blob: a.Blob + "/", queue: a.Queue + "/", table: a.Table + "/"}
}

// openIdentity opens a store with an identity at an Azurite.
func openIdentity(t *testing.T, wrap func(policy.Transporter) policy.Transporter) filing {
	t.Helper()
	server := azuretest.Shared(t, secure)
	client := server.Client()
	t.Cleanup(client.CloseIdleConnections)
	d := must[*store](t)(identityAt(server.Account(t)).open(func(policy.Transporter) policy.Transporter {
		if wrap != nil {
			return wrap(client)
		}
		return client
	}))
	t.Cleanup(func() { d.Close() })
	return filing{&opened{storage.New(d), d}, client}
}

// A store with an identity keeps the promises of the port, too. This Azurite plays no batches of rows, so the test is
// of files alone.
func TestConformanceOfFilesWithAnIdentity(t *testing.T) {
	t.Parallel()
	server := azuretest.Shared(t, secure)
	client := server.Client()
	t.Cleanup(client.CloseIdleConnections)
	var accounts sync.Map // by name
	cfg := storagetest.Driver(func(_ context.Context, name string) (*storage.Store, error) {
		a, _ := accounts.Load(name)
		d, err := identityAt(a.(azuretest.Account)).open(func(policy.Transporter) policy.Transporter { return client })
		if err != nil {
			return nil, err
		}
		return storage.New(d), nil
	}, func(t *testing.T) string {
		a := server.Account(t)
		accounts.Store(a.Name, a)
		return a.Name
	})
	cfg.Precision, cfg.Short, cfg.Repeats, cfg.Parallel, cfg.Patience = time.Second, true, true, 8, 30*time.Second
	cfg.Files, cfg.Client, cfg.Only = true, client, "files"
	storagetest.Run(t, cfg)
}

// do makes a request with a URL alone, as a client does, and returns the answer's status, body and header.
func (s filing) do(t *testing.T, method, url string, body []byte, header ...string) (int, string, http.Header) {
	t.Helper()
	req := must[*http.Request](t)(http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(body)))
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp := must[*http.Response](t)(s.http.Do(req))
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	noError(t, err)
	return resp.StatusCode, string(got), resp.Header
}

// key makes the URL for a part, or for a reader.
func (s filing) key(t *testing.T, f *storage.Files, key string, part int) string {
	t.Helper()
	return must[string](t)(f.Key(t.Context(), key, storage.FileKey{Part: part, For: time.Minute}))
}

// put puts a part.
func (s filing) put(t *testing.T, f *storage.Files, key string, part int, body string) {
	t.Helper()
	if status, text, _ := s.do(t, http.MethodPut, s.key(t, f, key, part), []byte(body)); status != http.StatusCreated {
		t.Fatalf("part %d: got %d, %s", part, status, text)
	}
}

// file makes a file of parts.
func (s filing) file(t *testing.T, f *storage.Files, key string, parts ...string) storage.FileInfo {
	t.Helper()
	var sizes []int64
	for i, body := range parts {
		s.put(t, f, key, i+1, body)
		sizes = append(sizes, int64(len(body)))
	}
	return must[storage.FileInfo](t)(f.Commit(t.Context(), key, sizes))
}

func readFile(t *testing.T, f *storage.Files, key string, info storage.FileInfo, offset, size int64) string {
	t.Helper()
	r := must[io.ReadCloser](t)(f.Open(t.Context(), key, info.ETag, offset, size))
	defer r.Close()
	return string(must[[]byte](t)(io.ReadAll(r)))
}

func wantErr(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got %v, want %v", what, err, want)
	}
}

// Parts come in any order, and again, and a commit makes the file of them.
func TestFiles(t *testing.T) {
	t.Parallel()
	eachFiling(t, func(t *testing.T, s filing) {
		ctx, f, key := t.Context(), s.Store.Files("inbox"), "a b/ü?#%.pdf"
		_, err := f.Stat(ctx, key)
		wantErr(t, "a file that isn't", err, storage.ErrNotFound)
		wantErr(t, "a part through the program", f.PutPart(ctx, key, 1, 1, strings.NewReader("x")), storage.ErrUnsupported)
		for _, part := range []struct {
			n    int
			body string
		}{{3, "c"}, {1, "wrong"}, {10_000, "far"}, {2, "bb"}, {1, "aaa"}} {
			s.put(t, f, key, part.n, part.body)
		}
		_, err = f.Stat(ctx, key)
		wantErr(t, "before the commit", err, storage.ErrNotFound)
		want := []storage.FilePart{{Number: 1, Size: 3}, {Number: 2, Size: 2}, {Number: 3, Size: 1}, {Number: 10_000, Size: 3}}
		if got := must[[]storage.FilePart](t)(f.Parts(ctx, key)); !slices.Equal(got, want) {
			t.Errorf("got parts %v, want %v", got, want)
		}
		_, err = f.Commit(ctx, key, []int64{3, 1, 1})
		wantErr(t, "a wrong size", err, storage.ErrPrecondition)
		_, err = f.Commit(ctx, key, []int64{3, 2, 1, 1})
		wantErr(t, "a missing part", err, storage.ErrPrecondition)
		info := must[storage.FileInfo](t)(f.Commit(ctx, key, []int64{3, 2, 1}))
		if got := must[storage.FileInfo](t)(f.Stat(ctx, key)); got != info || got.Size != 6 || got.ETag == "" {
			t.Errorf("got %+v, want %+v with 6 bytes", got, info)
		}
		if got := must[[]storage.FilePart](t)(f.Parts(ctx, key)); !slices.Equal(got, want[:3]) {
			t.Errorf("after the commit: got parts %v, want %v", got, want[:3])
		}
		if got := readFile(t, f, key, info, 0, 6) + readFile(t, f, key, info, 2, 3) + readFile(t, f, key, info, 6, 0); got != "aaabbcabb" {
			t.Errorf("read %q", got)
		}
		info = must[storage.FileInfo](t)(f.Commit(ctx, key, []int64{3, 2, 1}))
		s.put(t, f, key, 2, "BBBB")
		if got := readFile(t, f, key, info, 0, 6); got != "aaabbc" {
			t.Errorf("a part after the commit: read %q", got)
		}
		next := must[storage.FileInfo](t)(f.Commit(ctx, key, []int64{3, 4}))
		if got := readFile(t, f, key, next, 0, 7); got != "aaaBBBB" {
			t.Errorf("the next commit: read %q", got)
		}
		for _, size := range []int64{0, 1} {
			_, err = f.Open(ctx, key, info.ETag, 0, size)
			wantErr(t, "the old ETag", err, storage.ErrPrecondition)
			_, err = f.Open(ctx, key, "*", 0, size)
			wantErr(t, "an ETag that can't be", err, storage.ErrPrecondition)
			_, err = f.Open(ctx, "other", info.ETag, 0, size)
			wantErr(t, "no file", err, storage.ErrNotFound)
		}
	})
}

// An empty file needs no part: the service refuses an empty one.
func TestEmptyFile(t *testing.T) {
	t.Parallel()
	eachFiling(t, func(t *testing.T, s filing) {
		f := s.Store.Files("inbox")
		info := must[storage.FileInfo](t)(f.Commit(t.Context(), "none", []int64{0}))
		if got := must[storage.FileInfo](t)(f.Stat(t.Context(), "none")); got != info || got.Size != 0 {
			t.Errorf("got %+v, want %+v", got, info)
		}
		to := s.Store.Files("files")
		copied := must[storage.FileInfo](t)(f.Copy(t.Context(), "none", info.ETag, to, "none"))
		if got := readFile(t, to, "none", copied, 0, 0); got != "" || copied.Size != 0 {
			t.Errorf("the copy holds %q", got)
		}
	})
}

// Delete leaves no part, neither one that was committed nor one that wasn't.
func TestDeleteFile(t *testing.T) {
	t.Parallel()
	eachFiling(t, func(t *testing.T, s filing) {
		ctx, f := t.Context(), s.Store.Files("inbox")
		noError(t, f.Delete(ctx, "nothing"))
		s.put(t, f, "parts", 1, "a")
		s.file(t, f, "file", "a", "b")
		s.file(t, f, "both", "a", "b")
		s.put(t, f, "both", 2, "c")
		for _, key := range []string{"nothing", "parts", "file", "both"} {
			noError(t, f.Delete(ctx, key))
			if got := must[[]storage.FilePart](t)(f.Parts(ctx, key)); len(got) != 0 {
				t.Errorf("%s: parts %v are left", key, got)
			}
			_, err := f.Stat(ctx, key)
			wantErr(t, key, err, storage.ErrNotFound)
			_, err = f.Commit(ctx, key, []int64{1})
			wantErr(t, key, err, storage.ErrPrecondition)
		}
		s.file(t, f, "both", "again")
	})
}

// A copy is made of the source with the ETag, or not at all, and takes the place of what was there.
func TestCopyFile(t *testing.T) {
	t.Parallel()
	eachFiling(t, func(t *testing.T, s filing) {
		ctx, f, to := t.Context(), s.Store.Files("inbox"), s.Store.Files("files")
		big := strings.Repeat("0123456789abcdef", copyBlock/16) + "end" // of two blocks
		info := s.file(t, f, "a/1", "first", big)
		for range 2 {
			copied := must[storage.FileInfo](t)(f.Copy(ctx, "a/1", info.ETag, to, "b"))
			if got := must[storage.FileInfo](t)(to.Stat(ctx, "b")); got != copied || got.Size != info.Size {
				t.Errorf("got %+v, want %+v", got, copied)
			}
			if got := readFile(t, to, "b", copied, 0, info.Size); got != "first"+big {
				t.Error("the copy has other bytes")
			}
		}
		other := s.file(t, f, "other", "other")
		copied := must[storage.FileInfo](t)(f.Copy(ctx, "other", other.ETag, to, "b"))
		if got := readFile(t, to, "b", copied, 0, 5); got != "other" {
			t.Errorf("the second copy holds %q", got)
		}
		s.file(t, f, "a/1", "FIRST")
		for key, tag := range map[string]storage.ETag{"a/1": info.ETag, "none": info.ETag, "other": "*"} {
			_, err := f.Copy(ctx, key, tag, to, "b")
			wantErr(t, key, err, storage.ErrPrecondition)
		}
		if got := readFile(t, to, "b", copied, 0, 5); got != "other" {
			t.Errorf("after copies that failed: %q", got)
		}
	})
}

// A source that changes while it is copied makes the copy fail, and nobody sees a part of it.
func TestCopyOfAChangedFile(t *testing.T) {
	t.Parallel()
	change := func() {}
	s := openIdentity(t, func(next policy.Transporter) policy.Transporter {
		return transport(func(req *http.Request) (*http.Response, error) {
			if hasField(req, "x-ms-copy-source") {
				change()
			}
			return next.Do(req)
		})
	})
	f, to := s.Store.Files("inbox"), s.Store.Files("files")
	info := s.file(t, f, "a", "one")
	change = func() { change = func() {}; s.file(t, f, "a", "two") }
	_, err := f.Copy(t.Context(), "a", info.ETag, to, "a")
	wantErr(t, "a changed source", err, storage.ErrPrecondition)
	_, err = to.Stat(t.Context(), "a")
	wantErr(t, "the target", err, storage.ErrNotFound)
}

// A reader whose connection breaks goes on at its place, and one whose file has changed meanwhile fails.
func TestBrokenFileReader(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	s, faults := disturbed(t)
	w := filing{s, http.DefaultClient}
	f, body := s.Store.Files("inbox"), strings.Repeat("0123456789abcdef", size/16)
	info := w.file(t, f, "a", body)
	cut := func(req *http.Request) bool { return req.Method == http.MethodGet && hasField(req, "x-ms-range") }
	faults.next = cutting{faults.next, cut}
	if got := readFile(t, f, "a", info, 1, size-2); got != body[1:size-1] {
		t.Errorf("read %d other bytes", len(got))
	}
	r := must[io.ReadCloser](t)(f.Open(t.Context(), "a", info.ETag, 0, size))
	defer r.Close()
	must[int](t)(io.ReadFull(r, make([]byte, 10)))
	w.file(t, f, "a", "new")
	got, err := io.ReadAll(r)
	wantErr(t, "after a change", err, storage.ErrPrecondition)
	if !strings.HasPrefix(body[10:], string(got)) {
		t.Errorf("read %d bytes that aren't the file's", len(got))
	}
	noError(t, r.Close())
	if _, err := r.Read(make([]byte, 1)); err == nil {
		t.Error("a closed reader reads")
	}
}

// hasField reports whether a request has a field of its header. The SDK doesn't write names in Go's form.
func hasField(req *http.Request, name string) bool {
	for field := range req.Header {
		if strings.EqualFold(field, name) {
			return true
		}
	}
	return false
}

// cutting ends the bodies of answers after 300,000 bytes.
type cutting struct {
	next   policy.Transporter
	choose func(*http.Request) bool
}

func (c cutting) Do(req *http.Request) (*http.Response, error) {
	resp, err := c.next.Do(req)
	if err == nil && resp.StatusCode == http.StatusPartialContent && c.choose(req) {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(io.LimitReader(resp.Body, 300_000), failing{}), resp.Body}
	}
	return resp, err
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// Pages of the origins that were set may use the URLs. The rules of others stay.
func TestFileOrigins(t *testing.T) {
	t.Parallel()
	if os.Getenv(azuretest.EnvAccount) != "" {
		return // the rules of an account aren't the test's
	}
	eachFiling(t, func(t *testing.T, s filing) {
		ctx := t.Context()
		if got := must[[]string](t)(s.Store.Files("origins").Origins(ctx, nil)); len(got) != 0 {
			t.Errorf("got origins %q of a new account", got)
		}
		foreignRules(t, s, 4)
		for _, set := range [][]string{{"https://a.example", "http://localhost:8080"}, {"https://b.example"}} {
			for _, got := range [][]string{must[[]string](t)(s.Store.Files("origins").Origins(ctx, set)), must[[]string](t)(s.Files("origins").Origins(ctx, nil))} {
				if !slices.Equal(got, set) {
					t.Errorf("got origins %q, want %q", got, set)
				}
			}
		}
		f := s.Store.Files("inbox")
		for origin, want := range map[string]int{"https://b.example": http.StatusOK, "https://a.example": http.StatusForbidden, "https://other.example": http.StatusOK} {
			method := http.MethodPut
			if origin == "https://other.example" {
				method = http.MethodGet // as its own rule allows
			}
			status, text, _ := s.do(t, http.MethodOptions, s.key(t, f, "a", 1), nil,
				"Origin", origin, "Access-Control-Request-Method", method, "Access-Control-Request-Headers", "content-type,x-ms-blob-type")
			if status != want {
				t.Errorf("%s: got %d, want %d: %s", origin, status, want, text)
			}
		}
		foreignRules(t, s, 5)
		_, err := s.Store.Files("origins").Origins(ctx, []string{"https://b.example"})
		wantErr(t, "a sixth rule", err, storage.ErrUnsupported)
	})
}

// Reads end with their context.
func TestFileReaderEnds(t *testing.T) {
	t.Parallel()
	s := filing{openStore(t, testURL(t)), http.DefaultClient}
	f := s.Store.Files("inbox")
	info := s.file(t, f, "a", strings.Repeat("x", 1<<20))
	ctx, cancel := context.WithCancel(t.Context())
	r := must[io.ReadCloser](t)(f.Open(ctx, "a", info.ETag, 0, info.Size))
	defer r.Close()
	cancel()
	_, err := io.Copy(io.Discard, r)
	wantErr(t, "a cancelled reader", err, context.Canceled)
}

// query returns a parameter of a URL.
func query(t *testing.T, address, name string) string {
	t.Helper()
	return must[*url.URL](t)(url.Parse(address)).Query().Get(name)
}
