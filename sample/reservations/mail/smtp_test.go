package mail_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"mime"
	"mime/quotedprintable"
	"net"
	"strings"
	"testing"

	"github.com/emersion/go-smtp"

	"github.com/millrace-go/millrace/sample/reservations/mail"
)

func TestSMTPDelivers(t *testing.T) {
	t.Parallel()
	s := serve(t, behaviour{})
	m := newSMTP(t, "smtp://"+s.addr+"?from=tables@restaurant.example", nil)
	want := confirmation()
	want.Subject = "Ihr Tisch für Zoë — 予約"
	want.Text = "Dear Zoë,\n\n.\n.leading dots\nFrom here on\n" + strings.Repeat("long ", 400) + "\n"
	if err := m.Send(within(t), want); err != nil {
		t.Fatal(err)
	}
	mails := s.mails()
	if len(mails) != 1 {
		t.Fatalf("got %d mails, want 1", len(mails))
	}
	got := mails[0]
	if got.from != "tables@restaurant.example" || got.to != want.To {
		t.Errorf("got envelope %q to %q, want tables@restaurant.example to %q", got.from, got.to, want.To)
	}
	msg := parse(t, got.data)
	subject, err := new(mime.WordDecoder).DecodeHeader(msg.Header.Get("Subject"))
	if err != nil || subject != want.Subject {
		t.Errorf("got subject %q (%v), want %q", subject, err, want.Subject)
	}
	if got, want := msg.Header.Get("Message-Id"), "<"+want.MessageID+"@restaurant.example>"; got != want {
		t.Errorf("got Message-ID %q, want %q", got, want)
	}
	if _, err := msg.Header.Date(); err != nil {
		t.Errorf("Date: %v", err)
	}
	if got := msg.Header.Get("Content-Transfer-Encoding"); got != "quoted-printable" {
		t.Fatalf("got encoding %q, want quoted-printable", got)
	}
	body, err := io.ReadAll(quotedprintable.NewReader(msg.Body))
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimRight(strings.ReplaceAll(string(body), "\r\n", "\n"), "\n"); got != strings.TrimRight(want.Text, "\n") {
		t.Errorf("got text %q, want %q", got, want.Text)
	}
}

func TestSMTPEncryption(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	for name, c := range map[string]struct {
		server  behaviour
		url     string // up to the address
		trusted bool
		err     string
		tls     bool
	}{
		"plain":                           {url: "smtp://"},
		"STARTTLS offered, unknown cert":  {server: behaviour{startTLS: true}, url: "smtp://", tls: true},
		"login over STARTTLS":             {server: behaviour{startTLS: true, login: secret}, url: "smtp://ada:hunter2@", trusted: true, tls: true},
		"login, unknown cert":             {server: behaviour{startTLS: true, login: secret}, url: "smtp://ada:hunter2@", err: "certificate"},
		"login, no TLS on offer":          {server: behaviour{login: secret}, url: "smtp://ada:hunter2@", err: "STARTTLS"},
		"login over direct TLS":           {server: behaviour{direct: true, login: secret}, url: "smtps://ada:hunter2@", trusted: true, tls: true},
		"direct TLS, no login":            {server: behaviour{direct: true}, url: "smtps://", trusted: true, tls: true},
		"direct TLS, unknown cert":        {server: behaviour{direct: true}, url: "smtps://", err: "certificate"},
		"wrong password":                  {server: behaviour{direct: true, login: "other"}, url: "smtps://ada:hunter2@", trusted: true, err: "535"},
		"wrong password, server echoes":   {server: behaviour{direct: true, login: "other", echoPassword: true}, url: "smtps://ada:hunter2@", trusted: true, err: "535"},
		"login wanted that we don't have": {server: behaviour{login: secret}, url: "smtp://", err: "502"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, c.server)
			roots := s.roots
			if !c.trusted {
				roots = nil
			}
			m := newSMTP(t, c.url+s.addr, roots)
			err := m.Send(within(t), confirmation())
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("got error %v, want one with %q", err, c.err)
				}
				if strings.Contains(err.Error(), secret) || strings.Contains(m.String(), secret) {
					t.Errorf("the password stands in %q or %q", err, m)
				}
				if errors.Is(err, mail.ErrRefused) {
					t.Errorf("got ErrRefused (%v), want an error that another attempt may repair", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := s.mails(); len(got) != 1 || got[0].tls != c.tls {
				t.Errorf("got %d mails, %+v; want 1 with tls=%v", len(got), got, c.tls)
			}
		})
	}
}

func TestSMTPRefusals(t *testing.T) {
	t.Parallel()
	answer := func(code int) error { return &smtp.SMTPError{Code: code, Message: "no, ada@example.org"} }
	for name, c := range map[string]struct {
		server  behaviour
		refused bool
	}{
		"no such recipient":        {server: behaviour{rcpt: answer(550)}, refused: true},
		"mailbox full for now":     {server: behaviour{rcpt: answer(452)}},
		"recipient wants a login":  {server: behaviour{rcpt: answer(530)}},
		"content refused":          {server: behaviour{content: answer(554)}, refused: true},
		"content, later perhaps":   {server: behaviour{content: answer(451)}},
		"our address is not liked": {server: behaviour{mail: answer(550)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, c.server)
			err := newSMTP(t, "smtp://"+s.addr, nil).Send(within(t), confirmation())
			if err == nil {
				t.Fatal("got nil, want an error")
			}
			if got := errors.Is(err, mail.ErrRefused); got != c.refused {
				t.Errorf("got refused=%v (%v), want %v", got, err, c.refused)
			}
			if strings.Contains(err.Error(), "ada@") {
				t.Errorf("got %q, which repeats the address", err)
			}
		})
	}
}

func TestSMTPNobodyListens(t *testing.T) {
	t.Parallel()
	err := newSMTP(t, "smtp://127.0.0.1:1", nil).Send(within(t), confirmation())
	if err == nil || errors.Is(err, mail.ErrRefused) {
		t.Fatalf("got %v, want an error that another attempt may repair", err)
	}
}

// script answers one connection line by line, as a server does before it misbehaves. After its last answer it signals
// reached, and then calls last.
func script(t *testing.T, answers map[string]string, until string, last func(net.Conn)) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { _ = ln.Close(); <-done })
	go func() {
		defer close(done)
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		in := bufio.NewScanner(conn)
		say := func(s string) { _, _ = io.WriteString(conn, s+"\r\n") }
		if until == "" {
			last(conn)
			return
		}
		say("220 test")
		for in.Scan() {
			line := in.Text()
			if strings.HasPrefix(line, until) {
				last(conn)
				return
			}
			verb, _, _ := strings.Cut(line, " ")
			if a, ok := answers[verb]; ok {
				say(a)
			}
		}
	}()
	return ln.Addr().String()
}

var polite = map[string]string{"EHLO": "250 test", "MAIL": "250 ok", "RCPT": "250 ok", "DATA": "354 go on", ".": "250 queued"}

func TestSMTPServerDiesDuringData(t *testing.T) {
	t.Parallel()
	addr := script(t, polite, "Subject:", func(c net.Conn) { _ = c.Close() })
	err := newSMTP(t, "smtp://"+addr, nil).Send(within(t), confirmation())
	if err == nil || errors.Is(err, mail.ErrRefused) {
		t.Fatalf("got %v, want an error that another attempt may repair", err)
	}
}

func TestSMTPServerDiesAfterTakingTheMail(t *testing.T) {
	t.Parallel()
	addr := script(t, polite, "QUIT", func(c net.Conn) { _ = c.Close() })
	if err := newSMTP(t, "smtp://"+addr, nil).Send(within(t), confirmation()); err != nil {
		t.Fatalf("got %v, want nil: the server has accepted the mail, a repeat would be a second one", err)
	}
}

// A server may hang at any point. The context ends the wait.
func TestSMTPHungServer(t *testing.T) {
	t.Parallel()
	for name, until := range map[string]string{"greeting": "", "hello": "EHLO", "recipient": "RCPT", "content": "Subject:", "end of content": "."} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stop := errors.New("the test has seen enough")
			ctx, cancel := context.WithCancelCause(within(t))
			addr := script(t, polite, until, func(c net.Conn) {
				cancel(stop)
				_, _ = io.Copy(io.Discard, c) // until the client closes the connection
			})
			if err := newSMTP(t, "smtp://"+addr, nil).Send(ctx, confirmation()); !errors.Is(err, stop) {
				t.Fatalf("got %v, want the context's cause", err)
			}
		})
	}
}

func TestSMTPAddresses(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"smtp://mx.example":               "smtp://mx.example:25",
		"smtp://ada:x@mx.example":         "smtp://mx.example:587",
		"smtps://mx.example":              "smtps://mx.example:465",
		"smtps://ada:x@[::1]:2525":        "smtps://[::1]:2525",
		"smtp://[::1]":                    "smtp://[::1]:25",
		"smtp://mx.example/":              "smtp://mx.example:25",
		"smtp://h:1?from=a%40example.org": "smtp://h:1",
	} {
		m, err := mail.NewSMTP(url, mail.SMTPConfig{})
		if err != nil {
			t.Errorf("%s: %v", url, err)
		} else if m.String() != want {
			t.Errorf("%s: got %s, want %s", url, m, want)
		}
	}
	for _, url := range []string{
		"", "mx.example:25", "http://mx.example", "smtp://", "smtp://:25", "smtp://h:0", "smtp://h:99999", "smtp://h:x",
		"smtp:h:25", "smtp://h/path", "smtp://h?to=a@b.example", "smtp://h?from=a@b.example&from=c@d.example", "smtp://h?from=nobody",
		"smtp://h?from=a@b.example%0d%0aBcc:%20c@d.example", "smtp://h?from=%zz", "smtp://ada@h", "smtp://:s3cret@h", "smtp://ada:s3cret@h:x", "smtp://ada:s3%cret@h",
		"smtps://ada:s3cret@h:465:9", "smtp://::1", "smtp://::1:25", "smtp://h::25", "smtp://[::1]:25:25",
	} {
		_, err := mail.NewSMTP(url, mail.SMTPConfig{})
		if err == nil {
			t.Errorf("%q: got nil, want an error", url)
		} else if strings.Contains(err.Error(), "s3") {
			t.Errorf("%q: the error %q repeats the password", url, err)
		}
	}
}
