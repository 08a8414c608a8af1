package folder

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/millrace-go/millrace/storage/driver"
)

// place is where a key's files lie, and which lock is theirs.
type place struct {
	container, key string
	parent, dir    string // in the folder
	lock           int
}

func placeOf(container, key string) place {
	sum := sha256.Sum256([]byte(key))
	parent := "c-" + container
	return place{container: container, key: key, parent: parent, dir: parent + "/" + hex.EncodeToString(sum[:]), lock: int(sum[0]) % manyLocks}
}

// Kinds of parts. One that was copied counts only where a manifest names it.
const (
	kindPut    = 'p'
	kindCopied = 'c'
)

// A part is what the name of a part's file says.
type part struct {
	kind   byte
	number int
	turn   int // of parts with the same number, a later one has a higher turn
	size   int64
	name   string
}

// newPart gives a part a name that no other part ever has.
func newPart(kind byte, number, turn int, size int64) part {
	return part{kind, number, turn, size, fmt.Sprintf("%c%05d-%d-%d-%s", kind, number, turn, size, rand.Text())}
}

// parsePart reads a name. ok is false for files that aren't parts.
func parsePart(name string) (p part, ok bool) {
	fields := strings.Split(name, "-")
	if len(fields) != 4 || len(fields[0]) < 2 || fields[3] == "" {
		return part{}, false
	}
	number, errNumber := strconv.ParseUint(fields[0][1:], 10, 31)
	turn, errTurn := strconv.ParseUint(fields[1], 10, 31)
	size, errSize := strconv.ParseUint(fields[2], 10, 62)
	kind := name[0]
	if errNumber != nil || errTurn != nil || errSize != nil || kind != kindPut && kind != kindCopied || number < 1 || number > driver.MaxParts {
		return part{}, false
	}
	return part{kind, int(number), int(turn), int64(size), name}, true
}

// newer reports whether a part came later than another one of the same number.
func (p part) newer(than part) bool {
	return p.turn > than.turn || p.turn == than.turn && p.name > than.name
}
