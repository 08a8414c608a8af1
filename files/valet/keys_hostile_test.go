package valet_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/files/valet"
	"github.com/millrace-go/millrace/millracetest"
	"github.com/millrace-go/millrace/storage"
)

// text is what the URL of a key has behind the path.
func text(url string) string { return strings.TrimPrefix(url, "/files/") }

// wantText fails unless a request with this text for a key has this status.
func (w *town) wantText(code int, text string) {
	w.t.Helper()
	w.wantOf(code, request{http.MethodGet, "/files/", nil, func(r *http.Request) { r.URL.Path = "/files/" + text }})
}

// A text that isn't the very text of a key is unknown, and the log has no row of it.
func TestAForgedKeyIsUnknown(t *testing.T) {
	t.Parallel()
	inTown(t, valet.Config{}, func(w *town) {
		id := w.accepted()
		good, other := text(w.read(id, valet.Download{Owner: "cook"}).URL), text(w.read(id, valet.Download{Owner: "waiter"}).URL)
		w.wantText(http.StatusOK, good)
		before := fmt.Sprint(w.log(id))
		for i := range len(good) {
			for _, bit := range []byte{1, 4, 32, 128} {
				forged := []byte(good)
				forged[i] ^= bit
				w.wantText(http.StatusNotFound, string(forged))
			}
		}
		a, b := strings.Split(good, "."), strings.Split(other, ".")
		last := a[3][:len(a[3])-1]
		for _, forged := range []string{
			"", ".", "...", "v1", "upload.js.", "v2." + strings.Join(a[1:], "."), "v1.00000000." + a[2] + "." + a[3], "v1.." + a[2] + "." + a[3],
			strings.Join(a[:3], ".") + "." + b[3], strings.Join(a[:2], ".") + "." + b[2] + "." + a[3], strings.Join(a[:3], "."), strings.Join(a[:3], ".") + ".",
			good + "=", good + "==", good + "\n", good + "\r", good + " ", good + ".", good + ".." + a[3], good + "%", strings.ToUpper(good), strings.Replace(good, ".", "\n.", 3),
			strings.Join(a[:3], ".") + "." + last + "\n" + a[3][len(last):], strings.Repeat("v1.", 1<<16), strings.Repeat("A", 1<<20), good + strings.Repeat("A", 4000), "\x00", "\xff\xfe", "..%2f" + good, "../" + good,
		} {
			w.wantText(http.StatusNotFound, forged)
		}
		for tail := range 64 { // the last letter has bits of which none says anything
			if c := "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"[tail]; c != good[len(good)-1] {
				w.wantText(http.StatusNotFound, good[:len(good)-1]+string(c))
			}
		}
		if after := fmt.Sprint(w.log(id)); after != before {
			w.t.Errorf("the log had %v, and has %v", before, after)
		}
	})
}

// A key ends with its time, whatever is asked of it. That of an upload tells for a day what became of the file.
func TestAnEndedKeyDoesNothing(t *testing.T) {
	t.Parallel()
	inTown(t, valet.Config{}, func(w *town) {
		key := w.upload(valet.Upload{Rule: "picture", Type: "image/png", Size: int64(len(png)), TTL: time.Minute})
		id := w.accepted()
		read := w.read(id, valet.Download{Owner: "cook", TTL: time.Minute})
		folder, err := w.v.Folder(w.t.Context(), valet.Folder{Path: "menu", Rule: "any", Owner: "cook", TTL: time.Minute})
		w.must(err)
		w.want(http.StatusOK, http.MethodGet, read.URL, nil)
		w.app.Advance(time.Minute + time.Second)
		w.want(http.StatusGone, http.MethodGet, read.URL, nil)
		w.want(http.StatusGone, http.MethodHead, read.URL, nil)
		w.want(http.StatusGone, http.MethodGet, folder.URL, nil)
		w.want(http.StatusGone, http.MethodPost, folder.URL, []byte(`{"name":"a","type":"text/plain","size":1}`))
		w.want(http.StatusGone, http.MethodPost, key.URL+"/parts?n=1", nil)
		w.want(http.StatusGone, http.MethodPut, key.URL+"/1", png)
		w.want(http.StatusGone, http.MethodPost, key.URL+"/complete", nil)
		w.want(http.StatusGone, http.MethodDelete, key.URL, nil)
		if s := w.want(http.StatusOK, http.MethodGet, key.URL, nil); !strings.Contains(s, `"state":"expired"`) || strings.Contains(s, "/files/v1.") {
			w.t.Errorf("got %s", s)
		}
		w.app.Advance(25 * time.Hour)
		w.want(http.StatusGone, http.MethodGet, key.URL, nil)
	})
}

// A key does what its verb says, and nothing else. Nothing in a URL or a body changes of which file or part it is.
func TestAKeyHasOneVerb(t *testing.T) {
	t.Parallel()
	inTown(t, valet.Config{}, func(w *town) {
		id := w.accepted()
		key := w.upload(valet.Upload{Rule: "any", Type: "application/octet-stream", Size: 9 << 20})
		put, read := w.part(key, 2), w.read(id, valet.Download{Owner: "cook"})
		folder, err := w.v.Folder(w.t.Context(), valet.Folder{Path: "menu", Owner: "cook"})
		w.must(err)
		all := []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch, http.MethodOptions, "COPY"}
		ops := []string{"", "/parts?n=1", "/complete", "/1", "/2", "/parts/1", "/complete/", "/..", "/menu", "/" + id, "?n=2&file=" + id}
		may := map[string]map[string]bool{
			key.URL:    {"GET": true, "HEAD": true, "DELETE": true, "POST/parts?n=1": true, "POST/complete": true, "PUT/1": true, "PUT/2": true, "GET?n=2&file=" + id: true, "HEAD?n=2&file=" + id: true, "DELETE?n=2&file=" + id: true},
			put.URL:    {"PUT": true, "PUT?n=2&file=" + id: true},
			read.URL:   {"GET": true, "HEAD": true, "GET?n=2&file=" + id: true, "HEAD?n=2&file=" + id: true},
			folder.URL: {"GET": true, "GET?n=2&file=" + id: true},
		}
		for url, may := range may {
			for _, method := range all {
				for _, op := range ops {
					if may[method+op] {
						continue
					}
					if got := w.ask(method, url+op, []byte("x")).StatusCode; got != http.StatusMethodNotAllowed && got != http.StatusNotFound {
						w.t.Errorf("%s %s: got %d", method, op, got)
					}
				}
			}
		}
		w.want(http.StatusCreated, http.MethodPut, put.URL+"?n=1&part=1&file="+id, make([]byte, 1<<20)) // part 2 has so many bytes
		if s := w.want(http.StatusOK, http.MethodGet, key.URL, nil); !strings.Contains(s, `"have":"2"`) {
			w.t.Errorf("got %s", s)
		}
		w.want(http.StatusBadRequest, http.MethodPut, put.URL, make([]byte, 1<<10))
		w.wantState(id, valet.StateClean)
	})
}

// A request that comes twice is done once.
func TestRepeatsChangeNothing(t *testing.T) {
	t.Parallel()
	inTown(t, valet.Config{}, func(w *town) {
		key := w.picture()
		put := w.part(key, 1)
		other := append([]byte{}, png...)
		other[len(other)-1] ^= 1
		w.want(http.StatusCreated, http.MethodPut, put.URL, other)
		w.want(http.StatusCreated, http.MethodPut, put.URL, png) // the last one counts
		for range 3 {                                            // the worker is as fast as the client
			if got := w.ask(http.MethodPost, key.URL+"/complete", nil).StatusCode; got != http.StatusAccepted && got != http.StatusOK {
				w.t.Errorf("got %d", got)
			}
		}
		w.app.Drain()
		for range 3 {
			w.want(http.StatusOK, http.MethodPost, key.URL+"/complete", nil)
		}
		w.want(http.StatusCreated, http.MethodPut, put.URL, other) // too late
		w.want(http.StatusConflict, http.MethodPost, key.URL+"/parts?n=1", nil)
		w.want(http.StatusConflict, http.MethodDelete, key.URL, nil)
		w.app.Advance(time.Hour)
		w.wantTold("uploaded " + key.ID)
		if f := w.wantState(key.ID, valet.StateClean); f.SHA256 != sumOf(png) {
			w.t.Errorf("got %+v", f)
		}
		if got := w.want(http.StatusOK, http.MethodGet, w.read(key.ID, valet.Download{Owner: "cook"}).URL, nil); got != string(png) {
			w.t.Errorf("got %q", got)
		}
	})
}

// A key with a number of uses has that many, however many ask at once.
func TestUsesAreCounted(t *testing.T) {
	t.Parallel()
	inTown(t, valet.Config{}, func(w *town) {
		id := w.accepted()
		for _, uses := range []int{1, 5, 20} {
			read := w.read(id, valet.Download{Owner: "cook", Uses: uses})
			var passed, refused atomic.Int64
			var all sync.WaitGroup
			for range 20 {
				all.Go(func() {
					switch r := w.ask(http.MethodGet, read.URL, nil); r.StatusCode {
					case http.StatusOK:
						passed.Add(1)
					case http.StatusGone:
						refused.Add(1)
					default:
						w.t.Errorf("got %d", r.StatusCode)
					}
				})
			}
			all.Wait()
			if passed.Load() != int64(uses) || refused.Load() != int64(20-uses) {
				w.t.Errorf("%d uses: %d have passed, and %d were refused", uses, passed.Load(), refused.Load())
			}
			w.want(http.StatusGone, http.MethodGet, read.URL, nil)
			w.want(http.StatusOK, http.MethodHead, read.URL, nil) // it gives no bytes and no other key
		}
		w.must(w.v.Delete(w.t.Context(), id, "asked for"))
		w.app.Advance(time.Hour)
		for row, err := range w.app.Store().Table("file-uses").Query(w.t.Context(), id, storage.RowRange{}) {
			w.t.Errorf("%s is left (%v)", row.Key, err)
		}
	})
}

// A key works for its owner alone, where the program knows who asks.
func TestAKeyIsForItsOwner(t *testing.T) {
	t.Parallel()
	cfg := valet.Config{Owner: func(r *http.Request) string { return r.Header.Get("Who") }}
	inTown(t, cfg, func(w *town) {
		as := func(code int, who, method, url string, body []byte) string {
			w.t.Helper()
			return w.wantOf(code, request{method, url, body, func(r *http.Request) { r.Header.Set("Who", who) }})
		}
		key := w.picture()
		for _, who := range []string{"", "eve", "Ada", "ada ", "ada\x00"} {
			as(http.StatusForbidden, who, http.MethodGet, key.URL, nil)
			as(http.StatusForbidden, who, http.MethodPost, key.URL+"/parts?n=1", nil)
			as(http.StatusForbidden, who, http.MethodPost, key.URL+"/complete", nil)
		}
		var keys valet.PartKeys
		w.must(json.Unmarshal([]byte(as(http.StatusOK, "ada", http.MethodPost, key.URL+"/parts?n=1", nil)), &keys))
		as(http.StatusCreated, "", http.MethodPut, keys.Parts[0].URL, png) // as with a key of the store, nobody asks who it is
		as(http.StatusAccepted, "ada", http.MethodPost, key.URL+"/complete", nil)
		w.app.Drain()
		w.wantState(key.ID, valet.StateClean)
		read := w.read(key.ID, valet.Download{Owner: "cook"})
		as(http.StatusForbidden, "ada", http.MethodGet, read.URL, nil)
		as(http.StatusOK, "cook", http.MethodGet, read.URL, nil)
		folder, err := w.v.Folder(w.t.Context(), valet.Folder{Path: "menu", Rule: "any", Owner: "cook"})
		w.must(err)
		as(http.StatusForbidden, "ada", http.MethodGet, folder.URL, nil)
		as(http.StatusForbidden, "ada", http.MethodPost, folder.URL, []byte(`{"name":"a","type":"text/plain","size":1}`))
		as(http.StatusOK, "cook", http.MethodGet, folder.URL, nil)
	})
}

// All keys of an owner end in the middle of an upload. Bytes that come later go away with the grant's time.
func TestAnOwnerIsRevokedInTheMiddle(t *testing.T) {
	t.Parallel()
	inTown(t, valet.Config{}, func(w *town) {
		key := w.upload(valet.Upload{Rule: "any", Type: "application/octet-stream", Size: 9 << 20})
		first, second := w.part(key, 1), w.part(key, 2)
		w.want(http.StatusCreated, http.MethodPut, first.URL, make([]byte, 8<<20))
		w.must(w.v.RevokeOwner(w.t.Context(), "ada", "left"))
		w.app.Drain()
		w.want(http.StatusCreated, http.MethodPut, second.URL, make([]byte, 1<<20)) // a key of the store that was given before
		for method, op := range map[string]string{http.MethodGet: "", http.MethodPost: "/complete", http.MethodPut: "/1", http.MethodDelete: ""} {
			w.want(http.StatusGone, method, key.URL+op, nil)
		}
		w.app.Advance(time.Second)
		next := w.picture() // a new key of the same owner
		millracetest.Upload(w.t, w.v, next, png)
		w.app.Advance(2 * time.Hour)
		w.wantState(key.ID, valet.StateRevoked)
		w.wantState(next.ID, valet.StateClean)
		w.wantTold("revoked "+key.ID, "uploaded "+next.ID)
		w.wantNoBytes(key.ID)
	})
}
