package azure

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/storage"
)

// A server may answer before it has read a body. net/http then goes on reading the body while the next try runs,
// and even after the call has ended.
func TestTriesShareNoBody(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(ctx context.Context, s *opened, data []byte) error{
		"blob": func(ctx context.Context, s *opened, data []byte) error {
			_, err := s.Blobs("docs").Put(ctx, "doc", data, storage.Condition{})
			return err
		},
		"row": func(ctx context.Context, s *opened, data []byte) error {
			_, err := s.Table("rows").Put(ctx, "p", "k", data, storage.Condition{})
			return err
		},
		"rows": func(ctx context.Context, s *opened, data []byte) error {
			return s.Table("rows").PutBatch(ctx, "p", []storage.RowPut{{Key: "k", Data: data}})
		},
		"message": func(ctx context.Context, s *opened, data []byte) error {
			return s.Queue("jobs").Send(ctx, []storage.Message{{Body: data}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var first, third io.Reader
			var got [3][]byte
			script := func(req *http.Request) (*http.Response, error) {
				if first == nil {
					first = req.Body
					return respond(req, 503, "ServerBusy"), nil
				}
				begin := make([]byte, 10)
				if _, err := io.ReadFull(req.Body, begin); err != nil {
					return nil, err
				}
				got[0] = must[[]byte](t)(io.ReadAll(first))
				got[1] = append(begin, must[[]byte](t)(io.ReadAll(req.Body))...)
				third = must[io.ReadCloser](t)(req.GetBody())
				if int64(len(got[1])) != req.ContentLength {
					t.Errorf("%d bytes, and the request says %d", len(got[1]), req.ContentLength)
				}
				return respond(req, 403, "AuthorizationFailure"), nil
			}
			s := answeredBy(t, transport(script))
			data := bytes.Repeat([]byte("0123456789"), 1000)
			if err := write(t.Context(), s, data); err == nil || third == nil {
				t.Fatalf("the second try was refused; got %v", err)
			}
			clear(data)
			got[2] = must[[]byte](t)(io.ReadAll(third))
			if !bytes.Equal(got[0], got[1]) || !bytes.Equal(got[2], got[1]) {
				t.Errorf("sent %.20q…, %d bytes; then %.20q…, %d bytes; then %.20q…, %d bytes; want the same each time",
					got[0], len(got[0]), got[1], len(got[1]), got[2], len(got[2]))
			}
			if name == "blob" && !bytes.Equal(got[1], bytes.Repeat([]byte("0123456789"), 1000)) {
				t.Errorf("sent %.20q…, %d bytes; want what was put", got[1], len(got[1]))
			}
		})
	}
}

// The time for a whole body depends on its size. The time in which no byte arrives has a fixed bound.
func TestSilentBody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &faults{bubble: true, next: transport(func(req *http.Request) (*http.Response, error) {
			return plain(200, "application/octet-stream", "body"), nil
		})}
		s := answeredBy(t, f)
		f.arm(aimed{fault: named("slow body")})
		began := time.Now()
		got, err := s.Blobs("docs").Get(t.Context(), "doc", "")
		if took := time.Since(began); err != nil || string(got.Body) != "body" || took != tryTime {
			t.Errorf("got %q, %v after %v; want the body after %v", got.Body, err, took, tryTime)
		}
	})
}
