package mail_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	netmail "net/mail"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"github.com/millrace-go/millrace/sample/reservations"
	"github.com/millrace-go/millrace/sample/reservations/mail"
)

// server is a real SMTP server on loopback. It keeps the mails that it gets, and refuses what the test tells it to.
type server struct {
	addr  string
	roots *x509.CertPool // of its certificate, if it has one

	mu       sync.Mutex
	received []received
}

type received struct {
	from, to, user, data string
	tls                  bool
}

type behaviour struct {
	startTLS, direct    bool
	login               string // the password that it asks for
	mail, rcpt, content error  // its answers
	echoPassword        bool
}

func serve(t *testing.T, b behaviour) *server {
	t.Helper()
	s, _ := serveAt(t, "127.0.0.1:0", b)
	return s
}

// serveAt starts a server at an address. It ends with the test, or when cut is called.
func serveAt(t *testing.T, addr string, b behaviour) (s *server, cut func()) {
	t.Helper()
	ln, err := net.Listen("tcp", addr)
	for end := time.Now().Add(time.Minute); errors.Is(err, syscall.EADDRINUSE) && time.Now().Before(end); {
		ln, err = net.Listen("tcp", addr) // while nobody listened, a connection to elsewhere may have got the port
	}
	if err != nil {
		t.Fatal(err)
	}
	s = &server{addr: ln.Addr().String()}
	srv := smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) {
		return &session{server: s, b: b, conn: c}, nil
	}))
	srv.Domain = "test.example"
	srv.EnableSMTPUTF8 = true
	srv.AllowInsecureAuth = true // so that a client that logs in without TLS is found out
	srv.ErrorLog = log.New(io.Discard, "", 0)
	if b.startTLS || b.direct {
		cert, roots := certificate(t)
		s.roots = roots
		config := &tls.Config{Certificates: []tls.Certificate{cert}}
		if b.direct {
			ln = tls.NewListener(ln, config)
		} else {
			srv.TLSConfig = config
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(ln) // ends with Close
	}()
	cut = sync.OnceFunc(func() {
		_ = srv.Close()
		<-done
	})
	t.Cleanup(cut)
	return s, cut
}

func (s *server) mails() []received {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]received(nil), s.received...)
}

type session struct {
	server *server
	b      behaviour
	conn   *smtp.Conn
	now    received
}

func (x *session) AuthMechanisms() []string {
	if x.b.login == "" {
		return nil
	}
	return []string{sasl.Plain}
}

func (x *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if password != x.b.login {
			if x.b.echoPassword {
				return &smtp.SMTPError{Code: 535, Message: "no such password: " + password}
			}
			return smtp.ErrAuthFailed
		}
		x.now.user = user
		return nil
	}), nil
}

func (x *session) Mail(from string, _ *smtp.MailOptions) error {
	if x.b.login != "" && x.now.user == "" {
		return smtp.ErrAuthRequired
	}
	_, x.now.tls = x.conn.TLSConnectionState()
	x.now.from = from
	return x.b.mail
}

func (x *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	x.now.to += to
	return x.b.rcpt
}

func (x *session) Data(r io.Reader) error {
	body, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if x.b.content != nil {
		return x.b.content
	}
	x.now.data = string(body)
	x.server.mu.Lock()
	defer x.server.mu.Unlock()
	x.server.received = append(x.server.received, x.now)
	return nil
}

func (x *session) Reset()        {}
func (x *session) Logout() error { return nil }

// certificate makes a certificate for 127.0.0.1 that only the pool returned trusts.
func certificate(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, roots
}

func newSMTP(t *testing.T, url string, roots *x509.CertPool) *mail.SMTP {
	t.Helper()
	m, err := mail.NewSMTP(url, mail.SMTPConfig{TLS: &tls.Config{RootCAs: roots}})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// within is a context that ends a test which would hang; no test waits for it.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func confirmation() reservations.Mail {
	return reservations.Mail{
		To: "ada@example.org", Subject: "Your table is booked", Text: "Dear Ada,\n\nwe look forward to seeing you.\n",
		MessageID: "01935c3e-0000-7000-8000-000000000001",
	}
}

func parse(t *testing.T, data string) *netmail.Message {
	t.Helper()
	m, err := netmail.ReadMessage(strings.NewReader(data))
	if err != nil {
		t.Fatalf("what arrived is no mail: %v\n%s", err, data)
	}
	return m
}
