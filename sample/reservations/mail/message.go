package mail

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	netmail "net/mail"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	gomail "github.com/wneessen/go-mail"

	"github.com/millrace-go/millrace/sample/reservations"
)

// ErrRefused means that a mail will never be accepted: its address is malformed, or the server has refused it for
// good. A repeat is useless.
var ErrRefused = errors.New("mail refused")

// ErrUnanswered means that a server has got a whole mail, and hasn't said whether it takes it.
var ErrUnanswered = errors.New("the mail was sent without an answer")

// DefaultFrom is the sender of mails unless another one is configured.
const DefaultFrom = "reservations@localhost"

// plainID is the form that IDs nearly always have. Any other ID is hashed: it may hold characters with a meaning in a
// header or in a file's name, or differ from another ID only by case.
var plainID = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

// name returns what stands for a message's ID in a header and in a file's name. It is a pure function of the ID, and
// different for different IDs.
func name(id string) (string, error) {
	if id == "" {
		return "", errors.New("the mail has no message ID")
	}
	if plainID.MatchString(id) {
		return id, nil
	}
	sum := sha256.Sum256([]byte(id))
	return "id-" + hex.EncodeToString(sum[:]), nil
}

// checkAddress accepts one plain address, such as "ada@example.org", and nothing else. The error doesn't repeat the
// address, because it is personal.
func checkAddress(a string) error {
	if parsed, err := netmail.ParseAddress(a); err != nil || parsed.Address != a || strings.ContainsFunc(a, unicode.IsControl) {
		return errors.New("not a plain e-mail address")
	}
	return nil
}

// compose makes the message for the wire or for the file.
func compose(from string, m reservations.Mail) (*gomail.Msg, string, error) {
	id, err := name(m.MessageID)
	if err != nil {
		return nil, "", err
	}
	if err := checkAddress(m.To); err != nil {
		return nil, "", fmt.Errorf("%w: recipient: %w", ErrRefused, err)
	}
	msg := gomail.NewMsg(gomail.WithNoDefaultUserAgent())
	if err := errors.Join(msg.From(from), msg.To(m.To)); err != nil {
		return nil, "", fmt.Errorf("%w: the address can't be written in a header", ErrRefused)
	}
	msg.Subject(oneLine(m.Subject))
	msg.SetMessageIDWithValue(id + "@" + from[strings.LastIndexByte(from, '@')+1:])
	msg.SetDate()
	// The header tells programs not to answer this mail (RFC 3834).
	msg.SetGenHeader("Auto-Submitted", "auto-generated")
	msg.SetBodyString(gomail.TypeTextPlain, clean(m.Text))
	return msg, id, nil
}

// oneLine makes untrusted text safe for a header: control characters, line ends included, become spaces.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.In(r, unicode.Zl, unicode.Zp) {
			return ' '
		}
		return r
	}, valid(s))
}

// clean makes untrusted text safe for a body: its line ends are LF, which the encoder turns into CRLF, and the tab is
// the only other control character that remains.
func clean(s string) string {
	s = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(valid(s))
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, s)
}

func valid(s string) string { return strings.ToValidUTF8(s, string(utf8.RuneError)) }
