package poisoned

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
)

// varies matches what differs between two errors of one cause: quoted texts, addresses, IDs and numbers.
var varies = regexp.MustCompile("\"[^\"]*\"|`[^`]*`|'[^']*'|[0-9A-Fa-f]{8}-[0-9A-Fa-f-]{27}|0x[0-9A-Fa-f]+|\\b[0-9A-Fa-f]*[0-9][0-9A-Fa-f]*\\b|[0-9]+")

// Fingerprint is the same for errors of one cause, and tells nothing of their text; "" for no error.
func Fingerprint(text string) string {
	if text == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(varies.ReplaceAllString(text, "#")))
	return hex.EncodeToString(sum[:4])
}
