package main

import (
	"context"
	"io"
	"log"
	"maps"
	"net"
	netmail "net/mail"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-smtp"

	"github.com/millrace-go/millrace/guard"
	"github.com/millrace-go/millrace/sample/reservations"
	"github.com/millrace-go/millrace/sample/reservations/mail"
)

// post is an SMTP server, and the sample's mailer. A mail is done when the server has got it whole.
type post struct {
	mailer *mail.SMTP

	mu     sync.Mutex
	got    map[string]int // mails, by message
	held   int            // mails that are whole, and have no answer
	hold   chan struct{}  // nil, or closed when they get one
	closes int            // this many mails are answered 421
}

// newPost starts a server behind a wire.
func newPost(t *testing.T) (*post, *wire) {
	t.Helper()
	p := &post{got: map[string]int{}}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) { return session{p}, nil }))
	server.Domain, server.ErrorLog = "test.example", log.New(io.Discard, "", 0)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(ln) // ends with Close
	}()
	t.Cleanup(func() {
		p.answer()
		_ = server.Close()
		<-ended
	})
	w, err := newWire("post", "127.0.0.1:0", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.down)
	if p.mailer, err = mail.NewSMTP("smtp://"+w.proxy.Listen, mail.SMTPConfig{}); err != nil {
		t.Fatal(err)
	}
	return p, w
}

// A session is a connection to the server.
type session struct{ p *post }

func (s session) Mail(string, *smtp.MailOptions) error {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	if s.p.closes > 0 {
		s.p.closes--
		return &smtp.SMTPError{Code: 421, Message: "closing"}
	}
	return nil
}

func (session) Rcpt(string, *smtp.RcptOptions) error { return nil }

func (s session) Data(r io.Reader) error {
	m, err := netmail.ReadMessage(r)
	if err == nil {
		_, err = io.Copy(io.Discard, m.Body) // an error unless its end has come
	}
	if err != nil {
		return err
	}
	id, _, _ := strings.Cut(strings.TrimPrefix(m.Header.Get("Message-Id"), "<"), "@")
	s.p.mu.Lock()
	s.p.got[id]++
	hold := s.p.hold
	if hold != nil {
		s.p.held++
	}
	s.p.mu.Unlock()
	if hold != nil {
		<-hold
	}
	return nil
}

func (session) Reset()        {}
func (session) Logout() error { return nil }

func (p *post) done() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.got)
}

// keep lets answers to whole mails wait until answer.
func (p *post) keep() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hold = make(chan struct{})
}

func (p *post) answer() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hold != nil {
		close(p.hold)
		p.hold = nil
	}
}

func (p *post) holding() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held
}

func (*post) under(*guard.Guard) {}

func (p *post) call(ctx context.Context, id string, _ *try) error {
	return p.mailer.Send(ctx, reservations.Mail{To: "ada@example.org", Subject: "Your table", Text: "Dear Ada\n", MessageID: id})
}

// onSMTP starts a worker whose messages are mails, as the sample sends them: one whose outcome is unknown is sent again.
func onSMTP(t *testing.T, timeout time.Duration) (*guarded, *post) {
	t.Helper()
	t.Parallel()
	p, w := newPost(t)
	return newGuarded(t, w, p, guard.Config{Fault: mail.Fault, Repeatable: true, Timeout: timeout}), p
}

// sentTwice returns how many mails came more than once.
func (p *post) sentTwice() (n int) {
	for _, times := range p.done() {
		if times > 1 {
			n++
		}
	}
	return n
}

// The server is cut off. Mails that it has got whole, and hasn't answered, are unknown, and sent again: SMTP can't do
// better. All others are sent once.
func TestSMTPCutOff(t *testing.T) {
	l, p := onSMTP(t, 0)
	l.send(some)
	l.until("mails are sent", func() bool { return len(p.done()) == some })
	p.keep()
	l.send(10)
	l.until("mails are under way", func() bool { return p.holding() == 10 })
	l.wire.down()
	l.until("they fail", func() bool { return l.judged(guard.Unknown) == 10 })
	p.answer()
	l.send(some)
	l.untilOpen()
	probes := l.judged(guard.Transient)
	l.until("probes fail", func() bool { return l.judged(guard.Transient) >= probes+3 })
	l.up()
	l.ends(0)
	if n := l.judged(guard.Unknown); n != 10 || p.sentTwice() != 10 {
		t.Errorf("%d mails have an unknown outcome, and %d came twice; want 10 of both", n, p.sentTwice())
	}
}

// A server hasn't got a mail before all of it is sent, so a call that fails earlier is judged as not done.
func TestSMTPWithoutAConversation(t *testing.T) {
	for name, c := range map[string]struct {
		toxic, stream string
		with          map[string]any
		timeout       time.Duration
	}{
		"reset":                  {"reset_peer", "downstream", map[string]any{"timeout": 0}, 0}, // with the greeting
		"slow":                   {"latency", "downstream", map[string]any{"latency": long.Milliseconds()}, quick},
		"half-open, no requests": {"timeout", "upstream", map[string]any{"timeout": 0}, quick},
		"half-open, no answers":  {"timeout", "downstream", map[string]any{"timeout": 0}, quick},
	} {
		t.Run(name, func(t *testing.T) {
			l, p := onSMTP(t, c.timeout)
			over := l.disturb(c.toxic, c.stream, c.with)
			l.send(some)
			l.untilOpen()
			if l.judged(guard.Transient) == 0 || l.judged(guard.Unknown) != 0 || len(p.done()) != 0 {
				t.Errorf("the server has %d mails, want none, and all calls judged as not done; %s", len(p.done()), l.state())
			}
			over() // this may break the connection of a probe, and then its outcome may be unknown
			l.ends(0)
		})
	}
}

// The connection goes half-open when the mail is on its way: the server has it, and its answer is lost.
func TestSMTPAnswerLost(t *testing.T) {
	l, p := onSMTP(t, quick)
	p.keep()
	const lost = 25 // enough to open the breaker
	l.send(lost)
	l.until("mails are under way", func() bool { return p.holding() == lost })
	over := l.disturb("timeout", "downstream", map[string]any{"timeout": 0})
	p.answer()
	l.untilOpen()
	over()
	l.send(some)
	l.ends(0)
	if n := l.judged(guard.Unknown); n < 20 || p.sentTwice() > n {
		t.Errorf("%d mails have an unknown outcome, and %d came twice; want 20 at least, and no more", n, p.sentTwice())
	}
}

// A program starts while its mail server is down.
func TestSMTPDownThenUp(t *testing.T) {
	l, p := onSMTP(t, 0)
	l.wire.down()
	l.send(some)
	l.untilOpen()
	l.until("probes fail", func() bool { return l.judged(guard.Transient) >= 25 })
	l.up()
	l.ends(0)
	if n := l.judged(guard.Unknown); n != 0 || p.sentTwice() != 0 {
		t.Errorf("%d mails have an unknown outcome, and %d came twice; want none", n, p.sentTwice())
	}
}

// A server that closes asks to wait.
func TestSMTPServerCloses(t *testing.T) {
	l, p := onSMTP(t, 0)
	p.closes = 3
	l.send(some)
	l.until("the server closes", func() bool { return l.judged(guard.Throttled) == 3 })
	l.ends(0)
	if n := l.judged(guard.Unknown); n != 0 || p.sentTwice() != 0 {
		t.Errorf("%d mails have an unknown outcome, and %d came twice; want none", n, p.sentTwice())
	}
}
