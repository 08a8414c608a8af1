package mail

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	gomail "github.com/wneessen/go-mail"

	"github.com/millrace-go/millrace/sample/reservations"
)

const (
	connectTimeout = 30 * time.Second // to connect, greet, and log in
	sendTimeout    = 2 * time.Minute  // to hand one mail over; servers may scan it for viruses meanwhile
	quitTimeout    = 2 * time.Second  // the mail is delivered by then; QUIT is only polite
)

// SMTP hands mails to an SMTP server, each on a connection of its own.
type SMTP struct {
	host     string
	port     int
	user     string
	password string
	from     string
	tls      *tls.Config
	direct   bool // TLS from the first byte
}

// SMTPConfig has the settings that don't fit into a URL. The zero SMTPConfig works.
type SMTPConfig struct {
	// TLS is the base of the TLS settings; the server's name is filled in. Defaults to those of crypto/tls.
	TLS *tls.Config
}

// NewSMTP returns a mailer for a URL:
//
//	smtp://HOST:PORT                  TLS when the server offers STARTTLS, its certificate not verified
//	smtp://USER:PASSWORD@HOST:PORT    STARTTLS and a valid certificate required
//	smtps://[USER:PASSWORD@]HOST:PORT TLS from the first byte, a valid certificate required
//
// The port defaults to 25, 587 and 465. The parameter from is the sender's address and defaults to [DefaultFrom]:
// smtp://localhost?from=tables@example.org. NewSMTP doesn't connect. Its errors don't repeat the URL, which may hold
// a password.
func NewSMTP(address string, cfg SMTPConfig) (*SMTP, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, badAddress("this is not a URL; want one like smtp://localhost:25, special characters in a password percent-encoded")
	}
	s := &SMTP{host: u.Hostname(), from: DefaultFrom, tls: &tls.Config{}}
	if cfg.TLS != nil {
		s.tls = cfg.TLS.Clone()
	}
	s.tls.ServerName = s.host
	s.tls.MinVersion = max(s.tls.MinVersion, tls.VersionTLS12)
	if u.User != nil {
		s.user = u.User.Username()
		s.password, _ = u.User.Password()
		if s.user == "" || s.password == "" {
			return nil, badAddress("want both a user name and a password, or none")
		}
	}
	if err := s.setServer(u); err != nil {
		return nil, err
	}
	if err := s.setSender(u.RawQuery); err != nil {
		return nil, err
	}
	return s, nil
}

func badAddress(format string, args ...any) error {
	return fmt.Errorf("mail: SMTP address: "+format, args...)
}

// setServer sets the security, the host and the port that a URL asks for.
func (s *SMTP) setServer(u *url.URL) (err error) {
	switch {
	case u.Scheme == "smtps":
		s.direct, s.port = true, 465
	case u.Scheme == "smtp" && s.user != "":
		s.port = 587
	case u.Scheme == "smtp":
		// An attacker with a false certificate could as well hide that the server offers TLS. So a check would only
		// break local servers with a self-signed certificate.
		s.tls.InsecureSkipVerify = true
		s.port = 25
	default:
		return badAddress("want one that begins with smtp:// or smtps://")
	}
	switch {
	case s.host == "":
		return badAddress("the host is missing")
	case strings.Count(u.Host, ":") > 1 && u.Host[0] != '[':
		return badAddress("want HOST or HOST:PORT; an IPv6 address stands in brackets, as in smtp://[::1]:25")
	}
	if p := u.Port(); p != "" {
		if s.port, err = strconv.Atoi(p); err != nil || s.port < 1 || s.port > 65535 {
			return badAddress("want a port from 1 to 65535")
		}
	}
	if u.Path != "" && u.Path != "/" || u.Fragment != "" || u.Opaque != "" {
		return badAddress("nothing but ?from=… may follow the port")
	}
	return nil
}

// setSender sets the sender's address by the parameters of a URL.
func (s *SMTP) setSender(parameters string) error {
	query, err := url.ParseQuery(parameters)
	if err != nil {
		return badAddress("the parameters can't be read")
	}
	for k, v := range query {
		if k != "from" || len(v) != 1 {
			return badAddress("want no parameter but from, once")
		}
		if err := checkAddress(v[0]); err != nil {
			return badAddress("parameter from: %w", err)
		}
		s.from = v[0]
	}
	return nil
}

// String describes the mailer without its password.
func (s *SMTP) String() string {
	scheme := "smtp"
	if s.direct {
		scheme = "smtps"
	}
	return scheme + "://" + s.addr()
}

func (s *SMTP) addr() string { return net.JoinHostPort(s.host, strconv.Itoa(s.port)) }

// Send implements reservations.Mailer.
func (s *SMTP) Send(ctx context.Context, m reservations.Mail) error {
	msg, _, err := compose(s.from, m)
	if err != nil {
		return fmt.Errorf("mail: %w", err)
	}
	if err := s.deliver(ctx, msg); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			// The connection was closed in the middle of the protocol. The resulting error tells nothing but when.
			if errors.Is(err, ErrUnanswered) {
				cause = fmt.Errorf("%w: %w", ErrUnanswered, cause)
			}
			err = cause
		}
		return fmt.Errorf("mail: %s: %w", s, err)
	}
	return nil
}

func (s *SMTP) deliver(ctx context.Context, msg *gomail.Msg) error {
	// The library watches the context only while it connects. Closing the connection ends later waits.
	var unwatch func() bool
	dial := func(dialing context.Context, network, addr string) (net.Conn, error) {
		conn, err := s.dial(dialing, network, addr)
		if err == nil {
			unwatch = context.AfterFunc(ctx, func() { _ = conn.Close() })
		}
		return conn, err
	}
	client, err := gomail.NewClient(s.host, s.options(dial)...)
	if err != nil {
		return err
	}
	conn, err := client.DialToSMTPClientWithContext(ctx)
	if unwatch != nil {
		defer unwatch()
	}
	if err != nil {
		return s.connectError(err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.UpdateDeadline(sendTimeout); err != nil {
		return err
	}
	if err := client.SendWithSMTPClient(conn, msg); err != nil {
		return verdict(err)
	}
	// The server has taken the mail. It must not be sent again, even if QUIT fails.
	if conn.UpdateDeadline(quitTimeout) == nil {
		_ = conn.Quit()
	}
	return nil
}

func (s *SMTP) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if s.direct {
		return (&tls.Dialer{Config: s.tls}).DialContext(ctx, network, addr)
	}
	return (&net.Dialer{}).DialContext(ctx, network, addr)
}

func (s *SMTP) options(dial gomail.DialContextFunc) []gomail.Option {
	policy := gomail.TLSOpportunistic
	if s.user != "" && !s.direct {
		policy = gomail.TLSMandatory
	}
	o := []gomail.Option{
		gomail.WithPort(s.port), gomail.WithTimeout(connectTimeout), gomail.WithTLSConfig(s.tls),
		gomail.WithTLSPolicy(policy), gomail.WithDialContextFunc(dial), gomail.WithoutNoop(), gomail.WithoutRset(),
	}
	if s.user != "" {
		o = append(o, gomail.WithSMTPAuth(gomail.SMTPAuthAutoDiscover), gomail.WithUsername(s.user), gomail.WithPassword(s.password))
	}
	return o
}

// verdict tells a refusal for good (5xx about the recipient or the content) from all other failures. For those a
// repeat may help: if a server doesn't accept the sender or wants a login, the operator must act, and the mail is not
// at fault.
func verdict(err error) error {
	var e *gomail.SendError
	if !errors.As(err, &e) {
		return err
	}
	code := e.ErrorCode()
	loginWanted := []int{530, 534, 535, 538}
	about := []gomail.SendErrReason{gomail.ErrSMTPRcptTo, gomail.ErrSMTPData, gomail.ErrSMTPDataClose}
	// The library's own text repeats the address, which is personal and would end up in logs.
	said := &answerError{step: e.Reason.String(), code: code, enhanced: e.EnhancedStatusCode()}
	switch {
	case code == 0 && e.Reason == gomail.ErrSMTPDataClose:
		return ErrUnanswered
	case code == 0:
		return fmt.Errorf("%s: the connection broke", e.Reason)
	case code >= 500 && !slices.Contains(loginWanted, code) && slices.Contains(about, e.Reason):
		return fmt.Errorf("%w: %w", ErrRefused, said)
	}
	return said
}

// connectError hides what a server says during the login, because it may repeat the password.
func (s *SMTP) connectError(err error) error {
	var answer *textproto.Error
	if s.user != "" && errors.As(err, &answer) {
		return &answerError{step: "connect and log in", code: answer.Code}
	}
	return fmt.Errorf("connect: %w", err)
}

// answerError is what a server answered, without its text.
type answerError struct {
	step     string
	code     int
	enhanced string // a code, or empty
}

func (e *answerError) Error() string {
	return e.step + ": the server answered " + strings.TrimSpace(fmt.Sprint(e.code, " ", e.enhanced))
}

// ErrorCode returns the code, by which package guard tells what follows.
func (e *answerError) ErrorCode() int { return e.code }
