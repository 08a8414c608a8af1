package app

import (
	"context"
	"io"
	"maps"
	"net"
	netmail "net/mail"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-smtp"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/coord/ids"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/host"
	"github.com/millrace-go/millrace/millracetest"
	"github.com/millrace-go/millrace/ops/alert"
	"github.com/millrace-go/millrace/ops/doctor"
	"github.com/millrace-go/millrace/sample/reservations"
	"github.com/millrace-go/millrace/storage"
)

// letterbox is a real SMTP server on loopback. It tells of each mail.
type letterbox struct{ mails chan string }

func (b letterbox) NewSession(*smtp.Conn) (smtp.Session, error) { return b, nil }
func (letterbox) Mail(string, *smtp.MailOptions) error          { return nil }
func (letterbox) Rcpt(string, *smtp.RcptOptions) error          { return nil }
func (letterbox) Reset()                                        {}
func (letterbox) Logout() error                                 { return nil }

func (b letterbox) Data(r io.Reader) error {
	data, err := io.ReadAll(r)
	if err == nil {
		b.mails <- string(data)
	}
	return err
}

// serveMail starts a letterbox, and returns its URL.
func serveMail(t *testing.T) (b letterbox, url string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b = letterbox{make(chan string, 10)}
	srv := smtp.NewServer(b)
	srv.Domain = "test.example"
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(ln) }()
	t.Cleanup(func() {
		_ = srv.Close()
		<-ended
	})
	return b, "smtp://" + ln.Addr().String() + "?from=tables@example.org"
}

// Alerts become mails at a real server. An alert that is told twice is one mail, because its ID is the mail's.
func TestAlertsAreMailed(t *testing.T) {
	t.Chdir(t.TempDir())
	box, url := serveMail(t)
	p, hooks, code := Program(), make(chan alert.Hook, 1), make(chan int, 1)
	own := p.Alert
	p.Alert = func(a *host.App) alert.Hook { hooks <- own(a); return nil }
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		code <- host.Run(ctx, host.Process{Args: []string{"worker", "-admin", "off", "-smtp", url, "-alerts", "ops@example.org"}}, p)
	}()
	hook := <-hooks
	began := alert.Alert{ID: channel.NewID(), Since: time.Now(), At: time.Now(),
		Finding: doctor.Finding{Severity: doctor.Wrong, Check: "gates", About: "season-2027", Text: "gate season-2027 can't be read", Fix: "Close it."}}
	over := began
	over.ID, over.Over = channel.NewID(), true
	for _, a := range []alert.Alert{began, began, over} {
		if err := hook(ctx, a); err != nil {
			t.Fatal(err)
		}
	}
	subjects := map[string]string{} // by Message-ID
	for range 2 {
		m, err := netmail.ReadMessage(strings.NewReader(<-box.mails))
		if err != nil {
			t.Fatal(err)
		}
		if to := m.Header.Get("To"); to != "<ops@example.org>" {
			t.Errorf("a mail goes to %s", to)
		}
		subjects[m.Header.Get("Message-ID")] = m.Header.Get("Subject")
	}
	want := map[string]string{}
	for _, a := range []alert.Alert{began, over} {
		want["<"+a.ID+"@example.org>"] = a.Title()
	}
	if !maps.Equal(subjects, want) {
		t.Errorf("got mails %q, want %q", subjects, want)
	}
	stop()
	if c := <-code; c != host.ExitOK {
		t.Errorf("got exit code %d", c)
	}
	if n := len(box.mails); n > 0 {
		t.Errorf("%d mails have come twice", n)
	}
}

// A finding in the store of a program that runs is mailed once at each end, though a process goes and another follows.
func TestFindingsAreMailed(t *testing.T) {
	t.Parallel()
	var server outbox
	program := millracetest.Program{Routes: reservations.Routes, Register: func(h *handlers.Registry) error {
		numbers, err := reservations.Numbers(h.Channels().Store(), ids.Config{})
		reservations.Register(h, 10, reservations.Mails{Mailer: &server}, numbers, nil)
		return err
	}}
	millracetest.Run(t, program, func(t *testing.T, app *millracetest.App) {
		store := app.Channels().Store()
		lead := func(during func() error) {
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() {
				ended <- alert.Run(ctx, alert.Config{Store: store, Name: "reservations", Hook: mailed(app.Channels(), "ops@example.org")})
			}()
			if err := during(); err != nil {
				t.Error(err)
			}
			<-time.After(10 * time.Minute)
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			app.Drain()
		}
		of := func(word string) (n int) {
			server.mu.Lock()
			defer server.mu.Unlock()
			for _, s := range server.subjects {
				if strings.HasPrefix(s, word) && strings.Contains(s, "gate season-2027") {
					n++
				}
			}
			return n
		}
		gates := store.Blobs("gates")
		lead(func() error {
			_, err := gates.Put(t.Context(), "season-2027", []byte("junk"), storage.Condition{})
			return err
		})
		lead(func() error { return nil })
		if of("Wrong: ") != 1 || of("Over: ") != 0 {
			t.Errorf("got mails %q, want one that the gate can't be read", server.subjects)
		}
		lead(func() error { return gates.Delete(t.Context(), "season-2027", storage.Condition{}) })
		if of("Wrong: ") != 1 || of("Over: ") != 1 {
			t.Errorf("got mails %q, want one of each end", server.subjects)
		}
	})
}
