// Package key has the text of a key: what it allows, signed by a secret of the store.
package key

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"strings"
	"time"

	"github.com/google/uuid"
)

// A Verb is what a key allows.
type Verb byte

// Version is the beginning of each text of a key.
const Version = "v1"

const (
	ToWrite  Verb = 'w' // an upload
	ToRead   Verb = 'r' // a download
	ToPut    Verb = 'p' // one part, where bytes go through the program
	ToFolder Verb = 'd' // uploads and a list of one folder
)

// ErrForged is the error of a text that is no key of this program.
var ErrForged = errors.New("this is no key")

// A Token is what a key says. Its text is "v1.KEYID.PAYLOAD.MAC": the MAC is HMAC-SHA-256 over all before it, of which
// the first 16 bytes stand there (RFC 2104, section 5).
type Token struct {
	Verb  Verb
	Until time.Time // whole seconds
	ID    uuid.UUID // of the key; its time is when the key was made
	Owner [8]byte   // the beginning of the owner's digest
	Uses  uint16    // of a download; 0: any number
	Part  uint16    // of ToPut
	Size  uint32    // bytes of the part
	File  string    // the file's ID, or a folder
	Mark  string    // of a folder: the rule of its uploads; of a download: how it is served
	// Holder is whom the key was given to. The document of an upload has that, so its key has not.
	Holder string
}

const (
	fixed    = 1 + 8 + 16 + 8 + 2 + 2 + 4 + 2 + 2 // bytes of a payload before its texts
	macSize  = 16
	mostText = 2000 // bytes of a text
)

// Made is when the key was made.
func (t Token) Made() time.Time {
	sec, nsec := t.ID.Time().UnixTime()
	return time.Unix(sec, nsec).UTC()
}

// payload is the Token without its MAC.
func (t Token) payload() []byte {
	b := make([]byte, 0, fixed+len(t.File)+len(t.Mark)+len(t.Holder))
	b = append(b, byte(t.Verb))
	b = binary.BigEndian.AppendUint64(b, uint64(t.Until.Unix()))
	b = append(b, t.ID[:]...)
	b = append(b, t.Owner[:]...)
	b = binary.BigEndian.AppendUint16(b, t.Uses)
	b = binary.BigEndian.AppendUint16(b, t.Part)
	b = binary.BigEndian.AppendUint32(b, t.Size)
	b = binary.BigEndian.AppendUint16(b, uint16(len(t.File)))
	b = binary.BigEndian.AppendUint16(b, uint16(len(t.Mark)))
	return append(append(append(b, t.File...), t.Mark...), t.Holder...)
}

// parsePayload reads what payload has written. Each Token has one form.
func parsePayload(b []byte) (t Token, err error) {
	if len(b) < fixed {
		return Token{}, ErrForged
	}
	t.Verb, b = Verb(b[0]), b[1:]
	t.Until, b = time.Unix(int64(binary.BigEndian.Uint64(b)), 0).UTC(), b[8:]
	b = b[copy(t.ID[:], b):]
	b = b[copy(t.Owner[:], b):]
	t.Uses, t.Part, t.Size = binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:]), binary.BigEndian.Uint32(b[4:])
	file, mark := int(binary.BigEndian.Uint16(b[8:])), int(binary.BigEndian.Uint16(b[10:]))
	if b = b[12:]; file+mark > len(b) {
		return Token{}, ErrForged
	}
	t.File, t.Mark, t.Holder = string(b[:file]), string(b[file:file+mark]), string(b[file+mark:])
	return t, nil
}

// text signs the Token.
func (t Token) text(s secret) string {
	signed := Version + "." + s.ID + "." + base64.RawURLEncoding.EncodeToString(t.payload())
	return signed + "." + base64.RawURLEncoding.EncodeToString(mac(s, signed))
}

func mac(s secret, signed string) []byte {
	h := hmac.New(sha256.New, s.Secret)
	h.Write([]byte(signed))
	return h.Sum(nil)[:macSize]
}

// split returns the parts of a Token's text, unread.
func split(text string) (keyID, payload, sum, signed string, ok bool) {
	parts := strings.Split(text, ".")
	if len(text) > mostText || len(parts) != 4 || parts[0] != Version {
		return "", "", "", "", false
	}
	return parts[1], parts[2], parts[3], text[:strings.LastIndexByte(text, '.')], true
}

// verify reads a token that the secret has signed.
func verify(text string, s secret) (Token, error) {
	_, payload, sum, signed, ok := split(text)
	if !ok {
		return Token{}, ErrForged
	}
	if !hmac.Equal([]byte(sum), []byte(base64.RawURLEncoding.EncodeToString(mac(s, signed)))) {
		return Token{}, ErrForged // compared as texts: a decoder skips line breaks, so a key would have several texts
	}
	b, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil {
		return Token{}, ErrForged
	}
	return parsePayload(b)
}

// DigestOf names an owner without saying who it is.
func DigestOf(owner string) [8]byte {
	sum := sha256.Sum256([]byte(owner))
	return [8]byte(sum[:8])
}
