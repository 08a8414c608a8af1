package azure

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/millrace-go/millrace/storage"
)

// A client that changes a part, or the whole file, between the requests of a Commit makes that Commit fail, unless the
// file has the size that was asked for. What Commit returns is what Open and Copy then find.
func TestCommitWhileAClientWrites(t *testing.T) {
	t.Parallel()
	afterList := func(req *http.Request) bool {
		return req.Method == http.MethodGet && strings.Contains(req.URL.RawQuery, "comp=blocklist")
	}
	afterCommit := func(req *http.Request) bool {
		return req.Method == http.MethodPut && strings.Contains(req.URL.RawQuery, "comp=blocklist")
	}
	for name, c := range map[string]struct {
		after      func(*http.Request) bool
		whole      bool
		body, want string
	}{
		"a longer part":           {afterList, false, "good!EVIL", ""},
		"a shorter part":          {afterList, false, "good", ""},
		"a part of the same size": {afterList, false, "EVIL!", "EVIL!"},
		"a longer file":           {afterCommit, true, "good!EVIL", ""},
		"a file of the same size": {afterCommit, true, "EVIL!", "EVIL!"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			act := func() {}
			s := openIdentity(t, func(next policy.Transporter) policy.Transporter {
				return transport(func(req *http.Request) (*http.Response, error) {
					resp, err := next.Do(req)
					if c.after(req) {
						act()
					}
					return resp, err
				})
			})
			f, to := s.Store.Files("inbox"), s.Store.Files("files")
			s.put(t, f, "a", 1, "good!")
			url := s.key(t, f, "a", 1)
			if c.whole {
				url = wholeBlob(url)
			}
			act = func() {
				act = func() {}
				if status, text, _ := s.do(t, http.MethodPut, url, []byte(c.body), "x-ms-blob-type", "BlockBlob"); status != http.StatusCreated {
					t.Errorf("the client: got %d, %s", status, text)
				}
			}
			info, err := f.Commit(t.Context(), "a", []int64{5})
			if c.want == "" {
				wantErr(t, "commit", err, storage.ErrPrecondition)
				return
			}
			noError(t, err)
			if now := must[storage.FileInfo](t)(f.Stat(t.Context(), "a")); now != info || info.Size != 5 {
				t.Errorf("the commit returned %+v, and the file is %+v", info, now)
			}
			copied := must[storage.FileInfo](t)(f.Copy(t.Context(), "a", info.ETag, to, "a"))
			if got := readFile(t, f, "a", info, 0, 5) + readFile(t, to, "a", copied, 0, copied.Size); got != c.want+c.want {
				t.Errorf("read %q, want %q twice", got, c.want)
			}
		})
	}
}

// wholeBlob makes the URL of the blob of one for a part.
func wholeBlob(part string) string {
	address, rest, _ := strings.Cut(part, "?comp=block&blockid=")
	_, signature, _ := strings.Cut(rest, "&")
	return address + "?" + signature
}

// sabotage is what a client can do to its blob by the URL of a part.
var sabotage = []struct {
	name   string
	query  string
	header []string
	want   int
	commit error // afterwards
}{
	{"snapshot", "comp=snapshot", nil, http.StatusCreated, nil},
	{"lease", "comp=lease", []string{"x-ms-lease-action", "acquire", "x-ms-lease-duration", "-1"}, http.StatusCreated, nil},
	{"metadata", "comp=metadata", []string{"x-ms-meta-" + clearedName, "1"}, http.StatusOK, nil},
	{"properties", "comp=properties", []string{"x-ms-blob-content-type", "text/html", "x-ms-blob-content-encoding", "gzip"}, http.StatusOK, nil},
	{"pages", "", []string{"x-ms-blob-type", "PageBlob", "x-ms-blob-content-length", "512"}, http.StatusCreated, storage.ErrPrecondition},
	{"log", "", []string{"x-ms-blob-type", "AppendBlob"}, http.StatusCreated, storage.ErrPrecondition},
}

// harm does something to a blob by the URL of a part.
func (s filing) harm(t *testing.T, f *storage.Files, key, query string, want int, header ...string) {
	t.Helper()
	url := strings.Replace(wholeBlob(s.key(t, f, key, 1)), "?", "?"+query+"&", 1)
	if status, text, _ := s.do(t, http.MethodPut, url, nil, append(slices.Clone(header), "x-ms-version", "2021-06-08")...); status != want {
		t.Fatalf("the client: got %d, %s", status, text)
	}
}

// Whatever a client does with the URL of a part, Commit makes a file or says that the parts are missing, and Delete
// deletes all.
func TestSabotage(t *testing.T) {
	t.Parallel()
	for _, c := range sabotage {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			eachFiling(t, func(t *testing.T, s filing) {
				ctx, f, to := t.Context(), s.Store.Files("inbox"), s.Store.Files("files")
				s.file(t, f, "a", "bytes")
				harm := func() { s.harm(t, f, "a", c.query, c.want, c.header...) }
				harm()
				info, err := f.Commit(ctx, "a", []int64{5})
				switch {
				case c.commit != nil:
					wantErr(t, "commit", err, c.commit)
				case err != nil:
					t.Errorf("commit: %v", err)
				default:
					copied := must[storage.FileInfo](t)(f.Copy(ctx, "a", info.ETag, to, "a"))
					if got := readFile(t, f, "a", info, 0, 5) + readFile(t, to, "a", copied, 0, 5); got != "bytesbytes" {
						t.Errorf("read %q", got)
					}
					harm()
				}
				if parts, err := f.Parts(ctx, "a"); err != nil {
					t.Errorf("parts: %v, %v", parts, err)
				}
				noError(t, f.Delete(ctx, "a"))
				if parts, err := f.Parts(ctx, "a"); err != nil || len(parts) > 0 {
					t.Errorf("parts after the deletion: %v, %v", parts, err)
				}
				_, err = f.Stat(ctx, "a")
				wantErr(t, "after the deletion", err, storage.ErrNotFound)
				s.file(t, f, "a", "again")
			})
		})
	}
}

// A file that a client has moved to the archive can't be read, so the driver takes it for one that has changed.
func TestArchivedFile(t *testing.T) {
	t.Parallel()
	eachFiling(t, func(t *testing.T, s filing) {
		ctx, f := t.Context(), s.Store.Files("inbox")
		info := s.file(t, f, "a", "bytes")
		s.harm(t, f, "a", "comp=tier", http.StatusOK, "x-ms-access-tier", "Archive")
		_, err := f.Open(ctx, "a", info.ETag, 0, 5)
		wantErr(t, "open", err, storage.ErrPrecondition)
		_, err = f.Copy(ctx, "a", info.ETag, s.Store.Files("files"), "a")
		wantErr(t, "copy", err, storage.ErrPrecondition)
		noError(t, f.Delete(ctx, "a"))
		s.file(t, f, "a", "again")
	})
}

// Azurite commits parts over a blob in the archive, and the service doesn't.
func TestServiceCommitOfAnArchivedFile(t *testing.T) {
	t.Parallel()
	list := `<?xml version="1.0" encoding="utf-8"?><BlockList><CommittedBlocks/><UncommittedBlocks/></BlockList>`
	for name, answers := range map[string][]*http.Response{
		"the list":   {says(409, "BlobArchived")},
		"the commit": {plain(200, "application/xml", list), says(409, "BlobArchived")},
	} {
		s, _ := service(t, answers...)
		_, err := s.Store.Files("inbox").Commit(t.Context(), "a", []int64{0})
		wantErr(t, name, err, storage.ErrPrecondition)
	}
}

// Commit and Delete end a copy of the service's that a client has begun, since that may take days. Azurite copies at
// once, so this is as the service documents its answers.
func TestServiceCopyThatIsPending(t *testing.T) {
	t.Parallel()
	list := `<?xml version="1.0" encoding="utf-8"?><BlockList><CommittedBlocks/><UncommittedBlocks><Block><Name>` + partID(1) +
		`</Name><Size>4</Size></Block></UncommittedBlocks></BlockList>`
	pending := []string{"x-ms-copy-id", "some-id", "x-ms-copy-status", "pending", "ETag", `"0x1"`}
	for name, c := range map[string]struct {
		answers []*http.Response
		do      func(f *storage.Files) error
		want    string
	}{
		"delete": {
			[]*http.Response{says(409, "PendingCopyOperation"), says(200, "", pending...), says(204, ""), says(202, ""), says(404, "BlobNotFound")},
			func(f *storage.Files) error { return f.Delete(t.Context(), "a") },
			"DELETE, HEAD, PUT comp=copy, DELETE, GET comp=blocklist",
		},
		"commit": {
			[]*http.Response{plain(200, "application/xml", list), says(409, "PendingCopyOperation"), says(200, "", pending...), says(409, "NoPendingCopyOperation"), says(400, "InvalidBlockList")},
			func(f *storage.Files) error {
				_, err := f.Commit(t.Context(), "a", []int64{4})
				wantErr(t, "commit", err, storage.ErrPrecondition)
				return nil
			},
			"GET comp=blocklist, PUT comp=blocklist, HEAD, PUT comp=copy, PUT comp=blocklist",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, script := service(t, c.answers...)
			noError(t, c.do(s.Store.Files("inbox")))
			var asked []string
			for _, r := range script.asked {
				line := r.Method
				if comp := r.URL.Query().Get("comp"); comp != "" {
					line += " comp=" + comp
				}
				asked = append(asked, line)
			}
			if got := strings.Join(asked, ", "); got != c.want {
				t.Errorf("got %s; want %s", got, c.want)
			}
		})
	}
}

// A client that takes its lease again and again doesn't keep the driver busy for ever.
func TestServiceLeaseThatComesAgain(t *testing.T) {
	t.Parallel()
	var asked []string
	s := answeredBy(t, transport(func(req *http.Request) (*http.Response, error) {
		asked = append(asked, req.Method)
		if req.Method == http.MethodDelete {
			return respond(req, http.StatusPreconditionFailed, "LeaseIdMissing"), nil
		}
		return respond(req, http.StatusAccepted, ""), nil
	}))
	wantErr(t, "delete", s.Store.Files("inbox").Delete(t.Context(), "a"), storage.ErrLeased)
	if got := strings.Join(asked, " "); got != "DELETE PUT DELETE PUT DELETE PUT DELETE" {
		t.Errorf("got %s", got)
	}
}
