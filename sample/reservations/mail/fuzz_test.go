package mail

import (
	"bytes"
	"errors"
	netmail "net/mail"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/sample/reservations"
)

// FuzzMail checks that nothing in a mail adds a header or a recipient, or leads its file out of the folder, and that
// a refusal doesn't repeat the address.
func FuzzMail(f *testing.F) {
	const id = "0190b6a2-7b1c-7def-8123-456789abcdef"
	f.Add("ada@example.org", "Your table", "Dear Ada,\n", id)
	f.Add("ada@example.org\r\nBcc: eve@example.org", "a\nBcc: eve@example.org", "\r\n.\r\nRCPT TO:<eve@example.org>", "../../etc/passwd")
	f.Add("\"a b\"@example.org", "\u2028Bcc: eve@example.org", "\x00\xff", "a\x00b")
	f.Add("ä@example.org", "=?utf-8?q?=0d=0aBcc:_eve@example.org?=", "--boundary", strings.ToUpper(id))
	f.Fuzz(func(t *testing.T, to, subject, text, id string) {
		msg, name, err := compose(DefaultFrom, reservations.Mail{To: to, Subject: subject, Text: text, MessageID: id})
		if err != nil {
			if id != "" && !errors.Is(err, ErrRefused) || len(to) > 8 && strings.Contains(err.Error(), to) {
				t.Errorf("to %q: got %v", to, err)
			}
			return
		}
		if file := filepath.Join("folder", name+".eml"); filepath.Dir(file) != "folder" || strings.ContainsAny(file, "\x00\r\n") {
			t.Errorf("ID %q: the file is %q", id, file)
		}
		var b bytes.Buffer
		if _, err := msg.WriteTo(&b); err != nil {
			t.Fatal(err)
		}
		m, err := netmail.ReadMessage(&b)
		if err != nil {
			t.Fatalf("can't be read: %v", err)
		}
		got, err := m.Header.AddressList("To")
		if err != nil || len(got) != 1 || len(m.Header["To"]) != 1 || got[0].Address != to {
			t.Errorf("to %q: got %v (%v)", to, m.Header["To"], err)
		}
		known := []string{"Subject", "To", "From", "Date", "Message-Id", "Mime-Version", "Content-Type", "Content-Transfer-Encoding", "Auto-Submitted"}
		for _, header := range known {
			if len(m.Header[header]) != 1 || strings.ContainsAny(m.Header.Get(header), "\r\n") {
				t.Errorf("header %s: got %q", header, m.Header[header])
			}
		}
		if len(m.Header) != len(known) {
			t.Errorf("got the headers %v, want no more than %v", m.Header, known)
		}
	})
}
