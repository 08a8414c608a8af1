package azure

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/millrace-go/millrace/storage"
)

// These tests script answers as the service documents them, where Azurite gives others or none. A transport answers
// each request with the next one, and repeats the last for ever.

type scripted struct {
	answers []*http.Response
	asked   []*http.Request
	bodies  []string
}

func (s *scripted) Do(req *http.Request) (*http.Response, error) {
	body := ""
	if req.Body != nil {
		b, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		body = string(b)
	}
	s.asked, s.bodies = append(s.asked, req), append(s.bodies, body)
	a := *s.answers[0]
	if len(s.answers) > 1 {
		s.answers = s.answers[1:]
	} else { // its body is read again
		b, err := io.ReadAll(a.Body)
		if err != nil {
			return nil, err
		}
		s.answers[0].Body, a.Body = io.NopCloser(bytes.NewReader(b)), io.NopCloser(bytes.NewReader(b))
	}
	a.Request = req
	return &a, nil
}

// service opens a store whose requests the script answers.
func service(t *testing.T, answers ...*http.Response) (*opened, *scripted) {
	t.Helper()
	script := &scripted{answers: answers}
	return answeredBy(t, script), script
}

// answeredBy opens a store with a transport in place of its service.
func answeredBy(t *testing.T, service policy.Transporter) *opened {
	t.Helper()
	s := openBy(t, "AccountName=acct;AccountKey=a2V5", func(policy.Transporter) policy.Transporter { return service })
	s.d.timing = timing{tryTime, time.Millisecond, slowest}
	return s
}

func says(status int, code string, header ...string) *http.Response {
	return respond(&http.Request{}, status, code, header...)
}

// odata is an answer of the table service.
func odata(status int, code string) *http.Response {
	return plain(status, "application/json;odata=minimalmetadata", `{"odata.error":{"code":"`+code+`","message":{"lang":"en-US","value":"scripted"}}}`)
}

// plain is an answer of any service. If it is an error, only its body says so.
func plain(status int, contentType, body string) *http.Response {
	r := says(status, "", "Content-Type", contentType)
	r.Header.Del("X-Ms-Error-Code")
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	return r
}

const someReceipt = storage.Receipt("7b8ee5c6-0b3e-4f0e-9c62-0a9ff4cf9c0e AgAAAAMAAAAAAAAA")

// The service says 404 for every dead receipt; Azurite says 400 while the message is there.
func TestServiceDeadReceipts(t *testing.T) {
	t.Parallel()
	for _, dead := range []*http.Response{says(404, "MessageNotFound"), says(404, "QueueNotFound"), says(400, "PopReceiptMismatch"), says(400, "InvalidQueryParameterValue")} {
		s, _ := service(t, dead)
		q := s.Queue("jobs")
		if _, err := q.Extend(t.Context(), someReceipt, time.Minute); !errors.Is(err, storage.ErrReceiptStale) {
			t.Errorf("extend: %v", err)
		}
		if err := q.Rewrite(t.Context(), someReceipt, []byte("x"), 0); !errors.Is(err, storage.ErrReceiptStale) {
			t.Errorf("rewrite: %v", err)
		}
		var stale *storage.StaleError
		if err := q.Delete(t.Context(), []storage.Receipt{someReceipt}); !errors.As(err, &stale) || !slices.Equal(stale.Receipts, []storage.Receipt{someReceipt}) {
			t.Errorf("delete: %v", err)
		}
	}
}

// The service may answer 404 to a guarded deletion of nothing; Azurite answers 412.
func TestServiceDeletesOfNothing(t *testing.T) {
	t.Parallel()
	s, _ := service(t, says(404, "BlobNotFound"))
	if err := s.Blobs("docs").Delete(t.Context(), "doc", storage.Condition{IfMatch: `"0x1"`}); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("blob: %v", err)
	}
	s, _ = service(t, odata(404, "ResourceNotFound"))
	if err := s.Table("rows").Delete(t.Context(), "p", "k", storage.Condition{IfMatch: `W/"1"`}); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("row: %v", err)
	}
}

// The caller of a refused request must not see a lost race, or nothing there. Its error tells an operator what to
// do.
func TestServiceRefusals(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		answer *http.Response
		kind   error
		says   string
	}{
		{says(403, "AuthorizationPermissionMismatch"), storage.ErrUnavailable, "Data Contributor"},
		{says(403, "AuthenticationFailed"), storage.ErrUnavailable, "clock"},
		{says(401, "NoAuthenticationInformation"), storage.ErrUnavailable, "credential"},
		{says(409, "ContainerBeingDeleted"), storage.ErrUnavailable, "it is being deleted"},
		{says(503, "ServerBusy"), storage.ErrThrottled, "ServerBusy"},
		{says(429, "TooManyRequests"), storage.ErrThrottled, "429"},
		{says(500, "OperationTimedOut"), storage.ErrThrottled, "OperationTimedOut"},
		{says(500, "InternalError"), storage.ErrUnavailable, "500"},
		{says(413, "RequestBodyTooLarge"), storage.ErrTooLarge, "413"},
		{says(400, "InvalidResourceName"), storage.ErrInvalid, "InvalidResourceName"},
	} {
		s, script := service(t, c.answer)
		_, err := s.Blobs("docs").Put(t.Context(), "doc", []byte("x"), storage.Condition{})
		if !errors.Is(err, c.kind) || storage.LostRace(err) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "scripted") {
			t.Errorf("%v: got %v; want %v that says %q and the request's ID", c.answer.Status, err, c.kind, c.says)
		}
		if strings.Contains(err.Error(), "https://") || strings.Contains(err.Error(), "a2V5") {
			t.Errorf("the error tells too much: %v", err)
		}
		if want := c.answer.StatusCode == 500 || c.kind == storage.ErrThrottled; (len(script.asked) > 1) != want {
			t.Errorf("%s: %d requests", c.answer.Status, len(script.asked))
		}
	}
}

// The counts show each throttled request.
func TestServiceThrottlingIsCounted(t *testing.T) {
	t.Parallel()
	s, _ := service(t, says(503, "ServerBusy"), says(500, "OperationTimedOut"), says(201, ""))
	noError(t, s.Queue("jobs").Send(t.Context(), []storage.Message{{Body: []byte("x")}}))
	if got := s.Requests(); len(got) != 1 || got[0].Count != 3 || got[0].Throttled != 2 || got[0].Op != "send" || got[0].Target != "jobs" || got[0].Class != "queue write" {
		t.Errorf("%+v", got)
	}
}

// The driver waits as long as the service asks, up to the longest wait.
func TestServiceRetryAfter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inAnHour := time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)
		for header, waits := range map[[2]string]time.Duration{
			{"Retry-After", "2"}:               2 * time.Second,
			{"Retry-After", "3600"}:            longestWait,
			{"Retry-After", inAnHour}:          longestWait,
			{"retry-after-ms", "2000"}:         2 * time.Second,
			{"retry-after-ms", "3600000"}:      longestWait,
			{"x-ms-retry-after-ms", "3600000"}: longestWait,
		} {
			s, script := service(t, says(503, "ServerBusy", header[0], header[1]), says(201, ""))
			began := time.Now()
			noError(t, s.Queue("jobs").Send(t.Context(), []storage.Message{{Body: []byte("x")}}))
			if took := time.Since(began); len(script.asked) != 2 || took != waits {
				t.Errorf("%v: %d requests in %v; want two in %v", header, len(script.asked), took, waits)
			}
		}
	})
}

// A call whose deadline passes reports the failures of its tries. A cancelled one returns only its cause.
func TestServiceDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		enough := errors.New("enough")
		short := func(f func(context.Context) (context.Context, context.CancelFunc)) context.Context {
			ctx, cancel := f(t.Context())
			t.Cleanup(cancel)
			return ctx
		}
		deadline := func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Second)
		}
		own := func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeoutCause(ctx, time.Second, enough)
		}
		cancelled := func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(ctx)
			time.AfterFunc(time.Second, func() { cancel(enough) })
			return ctx, func() { cancel(nil) }
		}
		hangs := transport(func(req *http.Request) (*http.Response, error) {
			<-req.Context().Done()
			return nil, req.Context().Err()
		})
		busy := transport(func(req *http.Request) (*http.Response, error) {
			return respond(req, 503, "ServerBusy", "Retry-After", "5"), nil
		})
		const late = "store unavailable: no answer in time: context deadline exceeded"
		for _, c := range []struct {
			name    string
			ctx     func(context.Context) (context.Context, context.CancelFunc)
			service transport
			cause   error
			says    string
		}{
			{"hangs", deadline, hangs, context.DeadlineExceeded, late},
			{"busy", deadline, busy, context.DeadlineExceeded, late + " (last: azure: 503 ServerBusy (request scripted))"},
			{"own cause", own, busy, enough, "enough (last: azure: 503 ServerBusy (request scripted))"},
			{"cancelled", cancelled, busy, enough, "enough"},
		} {
			q := answeredBy(t, c.service).Queue("jobs")
			receive := func(ctx context.Context) error { _, err := q.Receive(ctx, 1, time.Minute); return err }
			send := func(ctx context.Context) error { return q.Send(ctx, []storage.Message{{}, {}}) }
			for op, call := range map[string]func(context.Context) error{"receive": receive, "send": send} {
				err := call(short(c.ctx))
				var whole *storage.Error
				if !errors.Is(err, c.cause) || !errors.As(err, &whole) || whole.Err.Error() != c.says {
					t.Errorf("%s, %s: got %v; want %s", c.name, op, err, c.says)
				}
				if errors.Is(err, storage.ErrUnavailable) != (c.cause == context.DeadlineExceeded) {
					t.Errorf("%s, %s: unavailable is the kind of what has a plain deadline: %v", c.name, op, err)
				}
			}
		}
	})
}

// A 404 or 400 that isn't the service's own says nothing about what is there.
func TestAnswersOfOthers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status int
		code   string
	}{{404, ""}, {404, "NotFound"}, {400, ""}, {400, "InvalidAuthenticationInfo"}, {400, "InvalidHeaderValue"}} {
		s, _ := service(t, says(c.status, c.code))
		_, err := s.Blobs("docs").Get(t.Context(), "doc", "")
		_, err2 := s.Table("rows").Get(t.Context(), "p", "k")
		err3 := s.Queue("jobs").Send(t.Context(), []storage.Message{{Body: []byte("x")}})
		for _, err := range []error{err, err2, err3} {
			if !errors.Is(err, storage.ErrUnavailable) || errors.Is(err, storage.ErrNotFound) || errors.Is(err, storage.ErrInvalid) {
				t.Errorf("%d %s: %v", c.status, c.code, err)
			}
		}
	}
	s, _ := service(t, says(404, "BlobNotFound"))
	if _, err := s.Blobs("docs").Put(t.Context(), "doc", nil, storage.Condition{IfMatch: `"0x1"`}); !storage.LostRace(err) {
		t.Errorf("guarded put of nothing: %v", err)
	}
}

// An extension has no body, a message never expires, a body is base64, and a condition is the ETag as it came.
func TestServiceRequests(t *testing.T) {
	t.Parallel()
	s, script := service(t, says(204, "", "x-ms-popreceipt", "next", "x-ms-time-next-visible", "Fri, 21 Nov 2025 12:00:00 GMT"))
	next, err := s.Queue("jobs").Extend(t.Context(), someReceipt, 90*time.Second)
	noError(t, err)
	req := script.asked[0]
	if !strings.HasSuffix(string(next), " next") || script.bodies[0] != "" || req.URL.Query().Get("visibilitytimeout") != "90" || req.Header.Get("Content-Type") != "" {
		t.Errorf("extend: %s %v with %q", next, req.URL, script.bodies[0])
	}

	s, script = service(t, says(201, ""))
	noError(t, s.Queue("jobs").Send(t.Context(), []storage.Message{{Body: []byte("\x00<é>"), Delay: 1500 * time.Millisecond}}))
	req = script.asked[0]
	if q := req.URL.Query(); q.Get("messagettl") != "-1" || q.Get("visibilitytimeout") != "2" || !strings.Contains(script.bodies[0], ">ADzDqT4=<") {
		t.Errorf("send: %v with %q", req.URL, script.bodies[0])
	}

	s, script = service(t, says(201, "", "ETag", `"0x8DC"`))
	tag, err := s.Blobs("docs").Put(t.Context(), "a b", []byte("x"), storage.Condition{IfMatch: `"0x8DB"`})
	noError(t, err)
	req = script.asked[0]
	if tag != `"0x8DC"` || req.Header.Get("If-Match") != `"0x8DB"` || req.URL.Path != "/docs/a!0b" {
		t.Errorf("put: %s %v %v", tag, req.URL, req.Header)
	}
}

// transaction is the answer to a transaction. Its status is 202, whatever its parts say.
func transaction(parts ...string) *http.Response {
	var body strings.Builder
	body.WriteString("--batchresponse_1\r\nContent-Type: multipart/mixed; boundary=changesetresponse_1\r\n\r\n")
	for _, p := range parts {
		body.WriteString("--changesetresponse_1\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n" + p + "\r\n")
	}
	body.WriteString("--changesetresponse_1--\r\n--batchresponse_1--\r\n")
	return plain(202, "multipart/mixed; boundary=batchresponse_1", body.String())
}

func partSays(status int, code string) string {
	const headers = "DataServiceVersion: 3.0;\r\nContent-Type: application/json;odata=minimalmetadata;charset=utf-8\r\n\r\n"
	return fmt.Sprintf("HTTP/1.1 %d %s\r\n", status, http.StatusText(status)) + headers +
		`{"odata.error":{"code":"` + code + `","message":{"lang":"en-US","value":"1:scripted"}}}`
}

// A part's headers may hold any text from the row's key.
const partDone = "HTTP/1.1 204 No Content\r\nX-Content-Type-Options: nosniff\r\nLocation: https://acct/rows(RowKey='HTTP/1.1 500')\r\n\r\n"

// A refused transaction has the status 202; only its part for the failed row tells the failure. It writes its rows
// unconditionally, so a conflict is no lost race, but a reason to repeat.
func TestServiceRefusedTransaction(t *testing.T) {
	t.Parallel()
	dependent := partSays(424, "FailedDependency")
	for name, c := range map[string]struct {
		answer *http.Response
		kind   error
		says   string
	}{
		"alone":            {transaction(partSays(413, "EntityTooLarge")), storage.ErrTooLarge, "413 EntityTooLarge"},
		"conflict":         {transaction(partSays(409, "EntityAlreadyExists")), storage.ErrUnavailable, "409 EntityAlreadyExists"},
		"condition":        {transaction(partSays(412, "UpdateConditionNotSatisfied")), storage.ErrUnavailable, "412 UpdateConditionNotSatisfied"},
		"busy":             {transaction(partSays(503, "ServerBusy")), storage.ErrThrottled, "503 ServerBusy"},
		"timed out":        {transaction(partSays(500, "OperationTimedOut")), storage.ErrThrottled, "500 OperationTimedOut"},
		"forbidden":        {transaction(partSays(403, "AuthorizationPermissionMismatch")), storage.ErrUnavailable, "Data Contributor"},
		"first of three":   {transaction(partSays(409, "EntityAlreadyExists"), dependent, dependent), storage.ErrUnavailable, "409 EntityAlreadyExists"},
		"second of three":  {transaction(dependent, partSays(412, "UpdateConditionNotSatisfied"), dependent), storage.ErrUnavailable, "412 UpdateConditionNotSatisfied"},
		"last of three":    {transaction(dependent, dependent, partSays(503, "ServerBusy")), storage.ErrThrottled, "503 ServerBusy"},
		"behind done ones": {transaction(partDone, partSays(503, "ServerBusy")), storage.ErrThrottled, "503 ServerBusy"},
		"nobody's fault":   {transaction(dependent, dependent), storage.ErrUnavailable, "424 FailedDependency"},
		"no parts":         {plain(202, "application/json", `{"odata.error":{"code":"InvalidInput","message":{"lang":"en-US","value":"scripted"}}}`), storage.ErrInvalid, "InvalidInput"},
	} {
		s, script := service(t, c.answer)
		err := s.Table("rows").PutBatch(t.Context(), "p", []storage.RowPut{{Key: "a"}, {Key: "b"}, {Key: "c"}})
		requests := 1
		if c.kind == storage.ErrThrottled {
			requests = maxTries
		}
		if !errors.Is(err, c.kind) || storage.LostRace(err) || errors.Is(err, storage.ErrNotFound) || !strings.Contains(err.Error(), c.says) || len(script.asked) != requests {
			t.Errorf("%s: got %v after %d requests; want %v that says %q after %d", name, err, len(script.asked), c.kind, c.says, requests)
		}
		if got := s.Requests(); (got[0].Throttled > 0) != (c.kind == storage.ErrThrottled) {
			t.Errorf("%s: counted %+v", name, got)
		}
	}
}

// A transaction whose part is throttled waits, and is sent again as a whole.
func TestServiceBusyTransaction(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		busy := transaction(partDone, partSays(503, "ServerBusy"))
		busy.Header.Set("Retry-After", "2")
		s, script := service(t, busy, transaction(partDone, partDone))
		began := time.Now()
		// A row's data is never read as an answer.
		noError(t, s.Table("rows").PutBatch(t.Context(), "p", []storage.RowPut{{Key: "a"}, {Key: "HTTP/1.1 500"}}))
		if took := time.Since(began); took != 2*time.Second || len(script.asked) != 2 || script.bodies[0] != script.bodies[1] {
			t.Errorf("%d requests in %v; want the same one again after 2 s", len(script.asked), took)
		}
		if got := s.Requests(); len(got) != 1 || got[0].Count != 2 || got[0].Throttled != 1 || got[0].Class != "table batch" {
			t.Errorf("counted %+v", got)
		}
	})
}

// Any part of a transaction may find its table missing. Then the table is created, and the whole is sent again.
func TestServiceTransactionWithoutTable(t *testing.T) {
	t.Parallel()
	s, script := service(t, transaction(partSays(424, "FailedDependency"), partSays(404, "TableNotFound")), plain(201, "application/json", `{"TableName":"rows"}`), transaction(partDone, partDone))
	noError(t, s.Table("rows").PutBatch(t.Context(), "p", []storage.RowPut{{Key: "a"}, {Key: "b"}}))
	if len(script.asked) != 3 || !strings.HasSuffix(script.asked[1].URL.Path, "/Tables") || len(script.bodies[2]) != len(script.bodies[0]) {
		t.Errorf("%d requests", len(script.asked))
	}
}

// A listing shows a blob's ETag without quotes. It becomes the same ETag as a read's.
func TestServiceListsETags(t *testing.T) {
	t.Parallel()
	const list = `<?xml version="1.0" encoding="utf-8"?><EnumerationResults ServiceEndpoint="https://acct.blob.core.windows.net/" ContainerName="docs"><Blobs><Blob><Name>a!0b</Name>` +
		`<Properties><Last-Modified>Fri, 21 Nov 2025 12:00:00 GMT</Last-Modified><Etag>0x8DB</Etag><Content-Length>3</Content-Length><BlobType>BlockBlob</BlobType></Properties></Blob></Blobs><NextMarker /></EnumerationResults>`
	s, _ := service(t, plain(200, "application/xml", list))
	for info, err := range s.Blobs("docs").List(t.Context(), "") {
		noError(t, err)
		if info.Key != "a b" || info.ETag != `"0x8DB"` || info.Size != 3 {
			t.Errorf("%+v", info)
		}
	}
}
