package mail_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/sample/reservations"
	"github.com/millrace-go/millrace/sample/reservations/mail"
)

// Text from people may hold line ends, commands and headers. The test tries every field with both mailers.
func TestInjection(t *testing.T) {
	t.Parallel()
	s := serve(t, behaviour{})
	smtpMailer := newSMTP(t, "smtp://"+s.addr, nil)
	dir := t.TempDir()
	folder := mail.NewFolder(dir)

	nasty := []string{"\r\nBcc: eve@example.org", "\nBcc: eve@example.org", "\rBcc: eve@example.org", "\r\n.\r\nRCPT TO:<eve@example.org>",
		"\u2028Bcc: eve@example.org", "\x00", "\xff\xfe", "> , eve@example.org", "\r\n\r\n<script>"}
	for _, n := range nasty {
		for field, change := range map[string]func(*reservations.Mail){
			"subject": func(m *reservations.Mail) { m.Subject += n },
			"text":    func(m *reservations.Mail) { m.Text += n },
			"ID":      func(m *reservations.Mail) { m.MessageID += n },
		} {
			m := confirmation()
			change(&m)
			if err := errors.Join(smtpMailer.Send(within(t), m), folder.Send(t.Context(), m)); err != nil {
				t.Errorf("%s with %q: %v", field, n, err)
			}
		}
		m := confirmation()
		m.To += n
		for _, mailer := range []reservations.Mailer{smtpMailer, folder} {
			if err := mailer.Send(within(t), m); !errors.Is(err, mail.ErrRefused) {
				t.Errorf("address %q: got %v, want ErrRefused", m.To, err)
			}
		}
	}

	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, f := range files {
		texts["file "+f.Name()] = read(t, dir, f.Name())
	}
	for _, x := range s.mails() {
		if x.to != confirmation().To {
			t.Errorf("got a mail to %q, want none but to %q", x.to, confirmation().To)
		}
		texts["sent "+x.data] = x.data
	}
	for name, text := range texts {
		h := parse(t, text).Header
		if h.Get("Bcc") != "" || len(h["To"]) != 1 || h.Get("To") != "<"+confirmation().To+">" {
			t.Errorf("%s: got To %q and Bcc %q, want one recipient:\n%s", name, h["To"], h["Bcc"], text)
		}
		for _, known := range []string{"Subject", "To", "From", "Date", "Message-Id", "Mime-Version", "Content-Type", "Content-Transfer-Encoding", "Auto-Submitted"} {
			delete(h, known)
		}
		if len(h) != 0 {
			t.Errorf("%s: got further headers %v", name, h)
		}
	}
}

func TestBadAddresses(t *testing.T) {
	t.Parallel()
	folder := mail.NewFolder(t.TempDir())
	for _, to := range []string{"", "ada", "Ada <ada@example.org>", "ada@example.org, bob@example.org", " ada@example.org", "ada@example.org\n", strings.Repeat("@", 100)} {
		m := confirmation()
		m.To = to
		err := folder.Send(t.Context(), m)
		if !errors.Is(err, mail.ErrRefused) {
			t.Errorf("%q: got %v, want ErrRefused", to, err)
		} else if len(to) > 3 && strings.Contains(err.Error(), to) {
			t.Errorf("%q: the error %q repeats the address", to, err)
		}
	}
}
