package azure

import (
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

// A fault is what happens to one request.
type fault struct {
	name      string
	do        func(f *faults, req *http.Request) (*http.Response, error)
	refused   bool // the service says that it has done nothing
	throttled bool // and, or, that there is too much to do
	stalls    bool // nothing comes any more
}

var errReset = errors.New("read: connection reset by peer")

func allFaults() []fault {
	answered := func(status int, code string, header ...string) func(*faults, *http.Request) (*http.Response, error) {
		return func(_ *faults, req *http.Request) (*http.Response, error) {
			return respond(req, status, code, header...), nil
		}
	}
	return []fault{
		{name: "answer lost", do: func(f *faults, req *http.Request) (*http.Response, error) {
			resp, err := f.next.Do(req)
			if err != nil {
				return nil, err
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			return nil, errReset
		}},
		{name: "reset before", do: func(*faults, *http.Request) (*http.Response, error) { return nil, errReset }},
		{name: "500", do: answered(500, "InternalError")},
		{name: "500 after", throttled: true, do: func(f *faults, req *http.Request) (*http.Response, error) {
			resp, err := f.next.Do(req)
			if err == nil {
				resp.Body.Close()
				resp = respond(req, 500, "OperationTimedOut")
			}
			return resp, err
		}},
		{name: "503", refused: true, throttled: true, do: answered(503, "ServerBusy", "Retry-After", "1")},
		{name: "429", refused: true, throttled: true, do: answered(429, "TooManyRequests")},
		{name: "hangs", stalls: true, do: func(_ *faults, req *http.Request) (*http.Response, error) {
			<-req.Context().Done()
			return nil, req.Context().Err()
		}},
		{name: "slow body", stalls: true, do: func(f *faults, req *http.Request) (*http.Response, error) {
			resp, err := f.next.Do(req)
			if err == nil {
				resp.Body = &stalled{real: resp.Body, req: req, closed: make(chan struct{})}
			}
			return resp, err
		}},
	}
}

// stalled is a body that never comes.
type stalled struct {
	real   io.Closer
	req    *http.Request
	once   sync.Once
	closed chan struct{}
}

func (s *stalled) Read([]byte) (int, error) {
	select {
	case <-s.req.Context().Done():
		return 0, s.req.Context().Err()
	case <-s.closed:
		return 0, net.ErrClosed
	}
}

func (s *stalled) Close() error {
	s.once.Do(func() { close(s.closed) })
	return s.real.Close()
}

func respond(req *http.Request, status int, code string, header ...string) *http.Response {
	h := http.Header{"X-Ms-Error-Code": {code}, "X-Ms-Request-Id": {"scripted"}, "Content-Type": {"application/xml"}}
	for i := 0; i < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	body := "<?xml version=\"1.0\"?><Error><Code>" + code + "</Code><Message>scripted</Message></Error>"
	return &http.Response{StatusCode: status, Status: http.StatusText(status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: h,
		Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)), Request: req}
}

// faults is a transport that disturbs the next request, once.
type faults struct {
	next policy.Transporter

	mu     sync.Mutex
	armed  *fault
	choose func(*http.Request) bool // nil: any request
	log    []string
	times  []time.Time
}

func (f *faults) Do(req *http.Request) (*http.Response, error) {
	f.mu.Lock()
	f.log = append(f.log, req.Method+" "+req.URL.Path)
	f.times = append(f.times, time.Now())
	armed := f.armed
	if armed != nil && (f.choose == nil || f.choose(req)) {
		f.armed = nil
	} else {
		armed = nil
	}
	f.mu.Unlock()
	if armed != nil {
		return armed.do(f, req)
	}
	return f.next.Do(req)
}

func (f *faults) arm(x fault, choose func(*http.Request) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed, f.choose, f.log, f.times = &x, choose, nil, nil
}

// made returns the requests since arm, and the longest pause between two of them.
func (f *faults) made() (log []string, pause time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := 1; i < len(f.times); i++ {
		pause = max(pause, f.times[i].Sub(f.times[i-1]))
	}
	return slices.Clone(f.log), pause
}

type transport func(*http.Request) (*http.Response, error)

func (t transport) Do(req *http.Request) (*http.Response, error) { return t(req) }
