package azure

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

const (
	maxTries    = 4
	firstDelay  = 200 * time.Millisecond // then three and seven times as long, by the SDK's rule
	longestWait = 10 * time.Second       // the longest Retry-After that is obeyed
	tryTime     = 15 * time.Second
	slowest     = 1 << 20 // bytes a second, for large bodies
)

// A repeat says when a request is made again.
type repeat int

const (
	always repeat = iota // also when the outcome is unknown: a repeat is harmless, or its outcome is found out
	undone               // only when the request certainly had no effect
	neverTry
)

// A call is one method of the driver on its way. It travels in the context of its requests.
type call struct {
	op, kind, target string // as in driver.Request

	repeat   repeat
	size     int // of the body, in bytes, either way
	timing   timing
	doubtful bool                   // a request failed and may have taken effect; set by the policy below repeats
	met      *atomic.Pointer[error] // the error of the last failed try; shared by the requests of one method
}

type callKey struct{}

// timing holds the times that tests shorten.
type timing struct {
	tryTime, firstDelay time.Duration
	slowest             int
}

// part is what a queue, a container and a table have in common.
type part struct {
	s    *store
	kind string // as in driver.Request
	name string
}

func (p *part) call(op string, r repeat) *call {
	return &call{op: op, kind: p.kind, target: p.name, repeat: r, timing: p.s.timing, met: new(atomic.Pointer[error])}
}

// do runs f as one method of the driver, or as one page of it. f makes its requests with the context it is given.
func (p *part) do(ctx context.Context, c *call, f func(ctx context.Context) error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case p.s.closed.Load():
		return errClosed
	}
	return c.explain(ctx, f(c.options(ctx)))
}

// options is a context that makes the SDK repeat as the call says.
func (c *call) options(ctx context.Context) context.Context {
	if whole, ok := ctx.Value(callKey{}).(*call); ok {
		c.met = whole.met
	}
	o := policy.RetryOptions{
		MaxRetries:    maxTries - 1,
		TryTimeout:    c.timing.tryTime + time.Duration(c.size)*time.Second/time.Duration(c.timing.slowest),
		RetryDelay:    c.timing.firstDelay,
		MaxRetryDelay: longestWait,
	}
	switch c.repeat {
	case always:
	case undone:
		o.ShouldRetry = surelyUndone
	case neverTry:
		o.MaxRetries = -1
	}
	return policy.WithRetryOptions(context.WithValue(ctx, callKey{}, c), o)
}

// beside is the context of a further request that the call needs, such as creating a missing queue.
func (c *call) beside(ctx context.Context, op string) context.Context {
	return (&call{op: op, kind: c.kind, target: c.target, size: c.size, timing: c.timing, met: c.met}).options(ctx)
}

// meet notes a failure that is worth another try. A call that runs out of time reports it.
func (c *call) meet(resp *http.Response, err error) {
	switch {
	case err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled):
		err = silent{err}
	case err == nil && (resp.StatusCode == http.StatusRequestTimeout || resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= 500):
		err = &ServiceError{Status: resp.StatusCode, Code: resp.Header.Get("x-ms-error-code"), RequestID: resp.Header.Get("x-ms-request-id")}
	default:
		return
	}
	c.met.Store(&err)
}

// surelyUndone reports that a request certainly had no effect, so that a repeat may have one.
func surelyUndone(r *http.Response, err error) bool {
	if err != nil {
		var (
			dial *net.OpError
			who  *noToken
		)
		return errors.As(err, &dial) && dial.Op == "dial" || errors.As(err, &who)
	}
	return r.StatusCode == http.StatusTooManyRequests || r.StatusCode == http.StatusServiceUnavailable
}

// creating creates what a request did not find, and repeats the request.
func creating(err error, missing string, create, f func() error) error {
	if !is(err, http.StatusNotFound, missing) {
		return err
	}
	if err := create(); err != nil && !is(err, http.StatusConflict, "QueueAlreadyExists", "ContainerAlreadyExists", "TableAlreadyExists") {
		return err
	}
	return f()
}
