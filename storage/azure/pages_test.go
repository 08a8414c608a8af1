package azure

import (
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/millrace-go/millrace/storage"
)

// twoPages answers listings: first with a and b, then with c and d.
func twoPages(req *http.Request) (*http.Response, error) {
	keys := []string{"a", "b"}
	if secondPage(req) {
		keys = []string{"c", "d"}
	}
	var blobs, rows []string
	for _, k := range keys {
		blobs = append(blobs, fmt.Sprintf(`<Blob><Name>%s</Name><Properties><Etag>0x%s</Etag><Content-Length>1</Content-Length></Properties></Blob>`, k, k))
		rows = append(rows, fmt.Sprintf(`{"odata.etag":"W/\"%s\"","PartitionKey":"p","RowKey":"%s","data":"","op":"x"}`, k, k))
	}
	marker := ""
	if !secondPage(req) {
		marker = "2!c"
	}
	r := plain(200, "application/xml", `<?xml version="1.0" encoding="utf-8"?><EnumerationResults ContainerName="docs"><Blobs>`+strings.Join(blobs, "")+
		`</Blobs><NextMarker>`+marker+`</NextMarker></EnumerationResults>`)
	if strings.Contains(req.URL.Host, ".table.") {
		r = plain(200, "application/json;odata=fullmetadata", `{"value":[`+strings.Join(rows, ",")+`]}`)
		if marker != "" {
			r.Header.Set("x-ms-continuation-NextPartitionKey", "p")
			r.Header.Set("x-ms-continuation-NextRowKey", marker)
		}
	}
	r.Request = req
	return r, nil
}

func secondPage(req *http.Request) bool {
	return req.URL.Query().Has("marker") || req.URL.Query().Has("NextRowKey")
}

// keysOf reads a listing to its end, or to its error.
func keysOf[T any](t *testing.T, items iter.Seq2[T, error], key func(T) string) (keys []string, failed error) {
	for item, err := range items {
		if failed != nil {
			t.Errorf("%q, %v after %v", key(item), err, failed)
		}
		if err != nil {
			failed = err
			continue
		}
		keys = append(keys, key(item))
	}
	return keys, failed
}

// A listing whose second page is disturbed goes on where it was. If it can't get the page, it ends with the error.
func TestDisturbedSecondPage(t *testing.T) {
	t.Parallel()
	rows := func(limit int) func(*testing.T, *opened) ([]string, error) {
		return func(t *testing.T, s *opened) ([]string, error) {
			return keysOf(t, s.Table("rows").Query(t.Context(), "p", storage.RowRange{Limit: limit}), func(r storage.Row) string { return r.Key })
		}
	}
	for _, c := range []struct {
		name string
		list func(*testing.T, *opened) ([]string, error)
		want []string
	}{
		{"blobs", func(t *testing.T, s *opened) ([]string, error) {
			return keysOf(t, s.Blobs("docs").List(t.Context(), ""), func(b storage.BlobInfo) string { return b.Key })
		}, []string{"a", "b", "c", "d"}},
		{"rows", rows(0), []string{"a", "b", "c", "d"}},
		{"three rows", rows(3), []string{"a", "b", "c"}},
	} {
		for _, x := range allFaults() {
			t.Run(c.name+"/"+x.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := &faults{bubble: true, next: transport(twoPages)}
					s := answeredBy(t, f)
					f.arm(aimed{fault: x, choose: secondPage})
					got, err := c.list(t, s)
					if log, _ := f.made(); err != nil || !slices.Equal(got, c.want) || len(log) != 3 {
						t.Errorf("got %q, %v in %d requests; want %q in 3", got, err, len(log), c.want)
					}

					f.arm(aimed{fault: x, choose: secondPage, always: true})
					got, err = c.list(t, s)
					want := storage.ErrUnavailable
					if x.throttled {
						want = storage.ErrThrottled
					}
					if log, _ := f.made(); !errors.Is(err, want) || !slices.Equal(got, c.want[:2]) || len(log) != 1+maxTries {
						t.Errorf("got %q, %v in %d requests; want %q, then %v, in %d", got, err, len(log), c.want[:2], want, 1+maxTries)
					}
				})
			})
		}
	}
}
