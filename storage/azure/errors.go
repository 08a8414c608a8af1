package azure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"github.com/millrace-go/millrace/storage/driver"
)

// ServiceError is an answer of the service that reports a failure. It is the cause in this driver's errors; reach
// it, or the SDK's own error behind it, with errors.As. Unlike the SDK's, its text holds no address, which may
// carry a signature.
type ServiceError struct {
	Status    int    // of HTTP
	Code      string // the service's, such as "ServerBusy"; may be empty
	RequestID string // the service's; its support asks for it

	cause     error
	host      string // where the answer comes from
	noAccount string // an account that this host doesn't have
}

func (e *ServiceError) Error() string {
	code := e.Code
	if code == "" {
		code = http.StatusText(e.Status)
	}
	if e.RequestID == "" {
		return fmt.Sprintf("azure: %d %s", e.Status, code)
	}
	return fmt.Sprintf("azure: %d %s (request %s)", e.Status, code, e.RequestID)
}

func (e *ServiceError) Unwrap() error { return e.cause }

// Public implements driver.PublicError.
func (e *ServiceError) Public() string {
	return fmt.Sprintf("%d %s", e.Status, cmp.Or(e.Code, http.StatusText(e.Status)))
}

// kind returns the port's kind for an answer. Operations that know it better don't use it.
func (e *ServiceError) kind() error {
	switch {
	case e.throttled():
		return driver.ErrThrottled
	case e.missing():
		return driver.ErrNotFound
	case e.leased():
		return driver.ErrLeased
	case e.Status == http.StatusRequestEntityTooLarge, e.Code == "PropertyValueTooLarge", e.Code == "EntityTooLarge":
		return driver.ErrTooLarge
	case e.Status == http.StatusBadRequest && (e.Code == "InvalidResourceName" || e.Code == "OutOfRangeInput" || e.Code == "InvalidInput" || e.Code == "KeyValueTooLarge"):
		return driver.ErrInvalid // any other code is about the request, which the driver made, not the caller
	case e.Status == http.StatusNotImplemented:
		return driver.ErrUnsupported
	}
	return driver.ErrUnavailable
}

// missing reports that the service says that something isn't there. A 404 without one of its codes comes from
// elsewhere.
func (e *ServiceError) missing() bool {
	if e.noAccount != "" {
		return false
	}
	switch e.Code {
	case "BlobNotFound", "ContainerNotFound", "ResourceNotFound", "TableNotFound", "EntityNotFound", "QueueNotFound", "MessageNotFound":
		return e.Status == http.StatusNotFound
	}
	return false
}

// leased reports that somebody has a lease of Azure's on the blob. This driver never takes one.
func (e *ServiceError) leased() bool {
	switch e.Code {
	case "LeaseIdMissing", "LeaseIdMismatchWithBlobOperation", "LeaseLost", "LeaseAlreadyPresent":
		return e.Status == http.StatusPreconditionFailed || e.Status == http.StatusConflict
	}
	return false
}

// isLeased is leased for any error.
func isLeased(err error) bool {
	e, ok := answer(err)
	return ok && e.leased()
}

// isMissing is missing for any error.
func isMissing(err error) bool {
	e, ok := answer(err)
	return ok && e.missing()
}

// throttled reports that the service asks for fewer requests.
func (e *ServiceError) throttled() bool { return throttled(e.Status, e.Code) }

func throttled(status int, code string) bool {
	return status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable ||
		status == http.StatusInternalServerError && code == "OperationTimedOut"
}

// advice tells an operator how to fix the cause of an answer, where that is possible.
func (e *ServiceError) advice() string {
	switch {
	case e.Status == http.StatusUnauthorized:
		return "; the credential was not accepted: check that the key belongs to the account, or that the identity is signed in"
	case e.Status == http.StatusForbidden:
		return "; check the key or signature, or that the identity has the roles Storage Blob, Queue and Table Data Contributor; check the account's network rules and this machine's clock"
	case e.Code == "QueueBeingDeleted", e.Code == "ContainerBeingDeleted", e.Code == "TableBeingDeleted":
		return "; it is being deleted, and can't be created again before that is done"
	case e.leased():
		return "; break that lease (az storage blob lease break), and keep other programs from leasing blobs of these containers"
	case e.noAccount != "":
		return fmt.Sprintf("; %s has no account %s: check its name and the endpoint", e.host, driver.Quote(e.noAccount))
	case e.host != "" && (e.Status == http.StatusNotFound && !e.missing() || e.Status < 500 && e.Code == "" && !e.throttled()):
		return fmt.Sprintf("; check the account's name and the endpoint %s", e.host)
	}
	return ""
}

// answer returns the service's answer, if err holds one.
func answer(err error) (*ServiceError, bool) {
	var own *ServiceError
	if errors.As(err, &own) {
		return own, true
	}
	var r *azcore.ResponseError
	if !errors.As(err, &r) {
		return nil, false
	}
	e := &ServiceError{Status: r.StatusCode, Code: r.ErrorCode, cause: err}
	if r.RawResponse != nil {
		e.RequestID = r.RawResponse.Header.Get("x-ms-request-id")
		e.locate(r.RawResponse)
	}
	return e, true
}

// locate notes where an answer comes from. In Azure, an account that doesn't exist has no address. Azurite answers
// for it as the table service does for a missing row, but never in JSON, nor within a transaction's answer.
func (e *ServiceError) locate(r *http.Response) {
	if r.Request == nil || r.Request.URL == nil {
		return
	}
	e.host = r.Request.URL.Host
	form := r.Header.Get("Content-Type")
	if e.Code == "ResourceNotFound" && strings.HasPrefix(r.Header.Get("Server"), "Azurite") && !strings.Contains(form, "json") && !strings.HasPrefix(form, "multipart/") {
		e.noAccount, _, _ = strings.Cut(strings.TrimPrefix(r.Request.URL.Path, "/"), "/")
	}
}

// silent is a failure without an answer. Its text leaves out the address.
type silent struct{ cause error }

func (e silent) Error() string {
	var u *url.Error
	if errors.As(e.cause, &u) {
		return u.Err.Error()
	}
	return e.cause.Error()
}

func (e silent) Unwrap() error { return e.cause }

// advice is as ServiceError's.
func (e silent) advice() string {
	var dns *net.DNSError
	var who *noToken
	switch {
	case errors.As(e.cause, &who):
		return "; on your own machine run az login; in production give the program a managed identity, and name its kind in AZURE_TOKEN_CREDENTIALS"
	case errors.As(e.cause, &dns) && dns.IsNotFound:
		return "; check the account's name"
	case errors.Is(e.cause, syscall.ECONNREFUSED):
		return "; nothing listens there: check the endpoint, or start Azurite"
	}
	return ""
}

// explain turns the SDK's error into one of the port's.
func (c *call) explain(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return c.ended(ctx)
	case hasKind(err):
		return err
	}
	if e, ok := answer(err); ok {
		return fmt.Errorf("%w: %w%s", e.kind(), e, e.advice())
	}
	return fmt.Errorf("%w: %w%s", driver.ErrUnavailable, silent{err}, silent{err}.advice())
}

// ended is the error of a call whose context ended before the answer. After a deadline it reports the last failed
// try.
func (c *call) ended(ctx context.Context) error {
	cause := context.Cause(ctx)
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return cause
	}
	if cause == context.DeadlineExceeded {
		cause = fmt.Errorf("%w: no answer in time: %w", driver.ErrUnavailable, cause)
	}
	if met := c.met.Load(); met != nil {
		return fmt.Errorf("%w (last: %w)", cause, *met)
	}
	return cause
}

// hasKind reports that the error already has one of the port's kinds.
func hasKind(err error) bool {
	for _, kind := range []error{driver.ErrNotFound, driver.ErrNotModified, driver.ErrExists, driver.ErrPrecondition, driver.ErrReceiptStale,
		driver.ErrTooLarge, driver.ErrInvalid, driver.ErrThrottled, driver.ErrUnavailable, driver.ErrUnsupported, driver.ErrLeased} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

// is reports that the service answered with a status and one of the codes, or any code if none is given.
func is(err error, status int, codes ...string) bool {
	e, ok := answer(err)
	if !ok || e.Status != status {
		return false
	}
	for _, c := range codes {
		if e.Code == c {
			return true
		}
	}
	return len(codes) == 0
}

// unknown is the error of a call that can't tell whether it has written: an answer was lost, and the last one, err,
// doesn't help.
func unknown(err error) error {
	kind, cause := driver.ErrUnavailable, error(silent{err})
	if e, ok := answer(err); ok {
		cause = e
		if e.throttled() {
			kind = driver.ErrThrottled
		}
	}
	return fmt.Errorf("%w: an answer was lost, so it is unknown whether this call has written: %w", kind, cause)
}
