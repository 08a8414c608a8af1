package azure

import (
	"context"
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
	throttled bool // the service says that it has too much to do
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
		{name: "hangs", do: func(f *faults, req *http.Request) (*http.Response, error) {
			return nil, f.silence(req.Context(), nil)
		}},
		{name: "slow body", do: func(f *faults, req *http.Request) (*http.Response, error) {
			resp, err := f.next.Do(req)
			if err == nil {
				resp.Body = &stalled{f: f, ctx: req.Context(), real: resp.Body, closed: make(chan struct{})}
			}
			return resp, err
		}},
	}
}

// named returns the fault with a name.
func named(name string) fault {
	list := allFaults()
	return list[slices.IndexFunc(list, func(x fault) bool { return x.name == name })]
}

// silence ends a request that is never answered: the request is given up. Only a test in a synctest bubble waits
// for that.
func (f *faults) silence(ctx context.Context, closed <-chan struct{}) error {
	if _, ok := ctx.Deadline(); !ok {
		panic("nothing ends this request")
	}
	if !f.bubble {
		return context.DeadlineExceeded
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-closed:
		return net.ErrClosed
	}
}

// stalled is a body that never comes.
type stalled struct {
	f      *faults
	ctx    context.Context
	real   io.Closer
	once   sync.Once
	closed chan struct{}
}

func (s *stalled) Read([]byte) (int, error) { return 0, s.f.silence(s.ctx, s.closed) }

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

// faults is a transport that disturbs requests. Each fault hits one request.
type faults struct {
	next   policy.Transporter
	bubble bool // the test runs in a bubble, and can wait

	mu    sync.Mutex
	armed []aimed
	log   []string
	times []time.Time
}

// aimed is a fault and the requests that it may hit; nil for all.
type aimed struct {
	fault
	choose func(*http.Request) bool
	always bool // hits all of them, not only the first
}

func (f *faults) Do(req *http.Request) (*http.Response, error) {
	f.mu.Lock()
	f.log = append(f.log, req.Method+" "+req.URL.Path)
	f.times = append(f.times, time.Now())
	i := slices.IndexFunc(f.armed, func(a aimed) bool { return a.choose == nil || a.choose(req) })
	do := func(f *faults, req *http.Request) (*http.Response, error) { return f.next.Do(req) }
	if i >= 0 {
		do = f.armed[i].do
		if !f.armed[i].always {
			f.armed = slices.Delete(f.armed, i, i+1)
		}
	}
	f.mu.Unlock()
	return do(f, req)
}

// arm sets the faults of the next requests. If several may hit a request, the first one does.
func (f *faults) arm(list ...aimed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed, f.log, f.times = list, nil, nil
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
