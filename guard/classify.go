package guard

import (
	"context"
	"crypto/tls"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"syscall"
	"time"

	"github.com/millrace-go/millrace/guard/internal/fleet"
)

// Usual classifies the errors that [HTTP], [SMTP] and [SQL] know. An error that none of them knows is [Transient],
// and NotInPlace.
func Usual(err error) Fault {
	for _, known := range []func(error) (Fault, bool){httpFault, smtpFault, sqlFault, netFault} {
		if f, ok := known(err); ok {
			return f
		}
	}
	return unclassified(err)
}

// HTTP classifies the errors of a client with a guard's [Guard.Transport], and those of [CheckStatus]:
//
//	connection not made, or nothing sent          Transient
//	sent, and no answer; 408, 500, other 5xx      Unknown; Transient if the method is safe or a key was sent
//	429; 503 with Retry-After                     Throttled
//	401, 403, 407: the program's own credentials  Transient
//	425, 503                                      Transient
//	409 to a key that was sent before             Transient, and an attempt: the first request may be under way
//	307, 308, 501, 505 and other 4xx              Permanent
//	any after a redirect of what was done         Unknown
//	an answer that breaks off                     Unknown; Transient if the method is safe or a key was sent
//	a redirect that the client can't follow       Unknown; Transient if the method is safe
//
// Without the transport, a request counts as sent, unless its error says that no connection was made. An error that it
// doesn't know, such as that of an answer that isn't JSON, is Transient and NotInPlace; [Fault] says more.
func HTTP(err error) Fault {
	if f, ok := httpFault(err); ok {
		return f
	}
	return network(err)
}

// SMTP classifies the errors of a mail client that are a *textproto.Error, or have a method ErrorCode() int:
//
//	connection not made                         Transient
//	sent, and no answer                         Unknown
//	421: the server closes                      Throttled
//	other 4yz: this mailbox is busy, greylists  Throttled, alone
//	530, 534, 535, 538: the program's login     Transient
//	other 5yz                                   Permanent
func SMTP(err error) Fault {
	if f, ok := smtpFault(err); ok {
		return f
	}
	return network(err)
}

// SQL classifies the errors of a database whose driver has SQLSTATEs, by a method SQLState() string, and those of
// database/sql:
//
//	driver.ErrBadConn; 08001, 08004: no connection     Transient
//	other 08, 40003: the connection broke              Unknown
//	22, 23, 42, 44: the data, or the statement         Permanent
//	others, such as 40001, 40P01, 53, 57: rolled back  Transient
func SQL(err error) Fault {
	if f, ok := sqlFault(err); ok {
		return f
	}
	return network(err)
}

// network classifies an error that is known by none but the network, if at all.
func network(err error) Fault {
	if f, ok := netFault(err); ok {
		return f
	}
	return unclassified(err)
}

// unclassified classifies an error that is known by none. If it is an HTTP client's own, as of a redirect that it can't
// follow, a request before it was sent.
func unclassified(err error) Fault {
	var own *url.Error
	if errors.As(err, &own) {
		switch own.Op { // the method of the first request, in the form of net/http
		case "parse", "Get", "Head", "Options", "Trace":
		default:
			return Fault{Kind: Unknown}
		}
	}
	return Fault{Kind: Transient, NotInPlace: true}
}

func httpFault(err error) (Fault, bool) {
	var (
		status   *StatusError
		exchange *exchangeError
	)
	switch {
	case errors.As(err, &status):
		return status.fault(), true
	case errors.As(err, &exchange):
		if exchange.sent && !exchange.repeatable {
			return Fault{Kind: Unknown}, true
		}
		return Fault{Kind: Transient}, true
	}
	return Fault{}, false
}

func (e *StatusError) fault() Fault {
	unanswered := Fault{Kind: Unknown}
	if e.repeatable {
		unanswered.Kind = Transient
	}
	switch {
	case e.done: // a repeat would do it again
		return Fault{Kind: Unknown}
	case e.Code == http.StatusTooManyRequests, e.Code == http.StatusServiceUnavailable && e.After > 0:
		return Fault{Kind: Throttled, After: e.After}
	case e.Code == http.StatusUnauthorized, e.Code == http.StatusForbidden, e.Code == http.StatusProxyAuthRequired, e.Code == http.StatusTooEarly,
		e.Code == http.StatusServiceUnavailable:
		return Fault{Kind: Transient}
	case e.Code == http.StatusConflict && e.again: // by the key's draft, the first request is still under way
		return Fault{Kind: Transient, NotInPlace: true, After: max(e.After, busyFor), busy: true}
	case e.Code == http.StatusNotImplemented, e.Code == http.StatusHTTPVersionNotSupported:
		return Fault{Kind: Permanent}
	case e.Code == http.StatusRequestTimeout, e.Code >= 500: // it may have failed after it had done it
		return unanswered
	}
	return Fault{Kind: Permanent}
}

func smtpFault(err error) (Fault, bool) {
	var (
		answer *textproto.Error
		coded  interface{ ErrorCode() int }
		code   int
	)
	switch {
	case errors.As(err, &answer):
		code = answer.Code
	case errors.As(err, &coded):
		code = coded.ErrorCode()
	}
	switch {
	case code == 421:
		return Fault{Kind: Throttled}, true
	case code >= 400 && code < 500:
		return Fault{Kind: Throttled, Alone: true}, true
	case code == 530, code == 534, code == 535, code == 538:
		return Fault{Kind: Transient}, true
	case code >= 500 && code < 600:
		return Fault{Kind: Permanent}, true
	}
	return Fault{}, false
}

func sqlFault(err error) (Fault, bool) {
	var stated interface{ SQLState() string }
	if errors.Is(err, driver.ErrBadConn) {
		return Fault{Kind: Transient}, true
	}
	if !errors.As(err, &stated) {
		return Fault{}, false
	}
	state := stated.SQLState()
	if len(state) != 5 {
		return Fault{}, false
	}
	switch class := state[:2]; {
	case state == "08001", state == "08004":
		return Fault{Kind: Transient}, true
	case class == "08", state == "40003":
		return Fault{Kind: Unknown}, true
	case class == "22", class == "23", class == "42", class == "44":
		return Fault{Kind: Permanent}, true
	}
	return Fault{Kind: Transient}, true
}

// netFault classifies what can happen to any connection.
func netFault(err error) (Fault, bool) {
	var (
		lookup      *net.DNSError
		op          *net.OpError
		certificate *tls.CertificateVerificationError
		timed       interface{ Timeout() bool }
	)
	switch {
	case errors.As(err, &lookup), errors.As(err, &op) && op.Op == "dial", errors.As(err, &certificate), errors.Is(err, syscall.ECONNREFUSED):
		return Fault{Kind: Transient}, true // nothing was sent
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timed) && timed.Timeout():
		return Fault{Kind: Unknown}, true
	case errors.Is(err, context.Canceled): // the call's own context goes on, so the handler has cancelled one of its own
		return Fault{Kind: Mine}, true
	}
	for _, broken := range []error{io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, syscall.ECONNRESET, syscall.ECONNABORTED, syscall.EPIPE} {
		if errors.Is(err, broken) {
			return Fault{Kind: Unknown}, true
		}
	}
	return Fault{}, false
}

// busyFor is how long a message waits whose first request may still be under way.
const busyFor = 30 * time.Second

// longestWait bounds what a service may ask for.
const longestWait = fleet.LongestPause
