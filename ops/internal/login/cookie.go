package login

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/millrace-go/millrace/ops/act"
)

const (
	cookieFor = 12 * time.Hour
	// partOfDigest tells the tokens of one name apart. The whole digest is nobody's business.
	partOfDigest = 16
)

// A ticket is what a cookie says. Nobody can change it: a key of this process signs it.
type ticket struct {
	ID    string    `json:"i"` // by which it is ended
	Name  string    `json:"n"`
	Role  act.Role  `json:"r"`           // of a link; that of a token stands in the file
	Token string    `json:"t,omitempty"` // the beginning of the token's digest; "" for a link
	Until time.Time `json:"u"`
}

// newTicket makes a ticket of nobody yet.
func newTicket(now time.Time) ticket { return ticket{ID: rand.Text(), Until: now.Add(cookieFor)} }

// A signer signs tickets, and knows those that were ended before their time. A ticket holds in one process alone, so
// nobody else has to know.
type signer struct {
	key [32]byte

	mu    sync.Mutex
	ended map[string]time.Time // until when the ticket of an ID would hold
}

func newSigner() *signer {
	s := &signer{ended: map[string]time.Time{}}
	_, _ = rand.Read(s.key[:]) // it never fails
	return s
}

// end ends a ticket. The signer forgets that when the ticket would hold no longer.
func (s *signer) end(t ticket, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.ended, func(_ string, until time.Time) bool { return until.Before(now) })
	s.ended[t.ID] = t.Until
}

func (s *signer) isEnded(t ticket) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ended := s.ended[t.ID]
	return ended
}

func (s *signer) mac(text string) string {
	m := hmac.New(sha256.New, s.key[:])
	_, _ = m.Write([]byte(text)) // it never fails
	return base64.RawURLEncoding.EncodeToString(m.Sum(nil))
}

// value returns the value of a cookie.
func (s *signer) value(t ticket) (string, error) {
	raw, err := json.Marshal(t)
	if err != nil {
		return "", err
	}
	text := base64.RawURLEncoding.EncodeToString(raw)
	return text + "." + s.mac(text), nil
}

// read returns the ticket of a cookie, if this process has signed it and it holds.
func (s *signer) read(value string, now time.Time) (t ticket, ok bool) {
	text, mac, _ := strings.Cut(value, ".")
	if !hmac.Equal([]byte(mac), []byte(s.mac(text))) {
		return t, false
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || json.Unmarshal(raw, &t) != nil {
		return t, false
	}
	return t, now.Before(t.Until) && t.Until.Before(now.Add(cookieFor+time.Minute)) && !s.isEnded(t)
}

// cookieName is the name of the cookie for the door that a request has come to. A browser sends the cookies of a host
// to all its ports, so the name tells ports apart: the port for which the browser asked, and the port of this process,
// because a proxy may hide the first.
func cookieName(r *http.Request) string {
	door := strings.ToLower(r.Host)
	if at, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		_, port, _ := net.SplitHostPort(at.String()) // "" tells as much
		door += " " + port
	}
	return "millrace_ops_" + digest(door)[:8]
}

// cookie makes the cookie of a value; an empty one takes it away. It names no path: then a browser takes the folder of
// the page that logs in or out, which is the right one under any path of a proxy.
func cookie(r *http.Request, value string) *http.Cookie {
	c := &http.Cookie{
		Name: cookieName(r), Value: value, HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https"), MaxAge: int(cookieFor.Seconds()),
	}
	if value == "" {
		c.MaxAge = -1
	}
	return c
}
