package flow

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// address returns the text for a reply to a step: "fulfil/o17#02~1".
func address(plan, id, path string, run int) string {
	return plan + "/" + id + "#" + PathRun(path, run)
}

// PathRun writes a path and a run, where there is one.
func PathRun(path string, run int) string {
	if run > 0 {
		path += "~" + strconv.Itoa(run)
	}
	return path
}

// Address reads the text for a reply to a step.
func Address(s string) (plan, id, path string, run int, ok bool) {
	plan, s, ok = strings.Cut(s, "/")
	at := strings.LastIndexByte(s, '#')
	if !ok || at < 0 {
		return "", "", "", 0, false
	}
	id, path = s[:at], s[at+1:]
	path, n, again := strings.Cut(path, "~")
	if again {
		var err error
		if run, err = strconv.Atoi(n); err != nil {
			return "", "", "", 0, false
		}
	}
	return plan, id, path, run, id != "" && path != ""
}

// ChildID is the ID of a step's child, or of a page.
func ChildID(parent, path string, run, index int) string {
	return fmt.Sprintf("%s/%s.%05d", parent, PathRun(path, run), index)
}

// TopID returns the ID of the instance that a part belongs to.
func TopID(id string) string {
	top, _, _ := strings.Cut(id, "/")
	return top
}

// Numbers in keys in place of an item's.
const (
	wholeStep = -1
	listStep  = -2
)

// key is the idempotency key of a step, an item of it, or an undo. It is the same for all attempts.
func key(plan, id, path string, run, item, undo int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%s\x00%d\x00%d\x00%d", plan, id, path, run, item, undo))
	return hex.EncodeToString(sum[:16])
}

// Key is the idempotency key of a step.
func Key(plan, id, path string, run int) string { return key(plan, id, path, run, wholeStep, 0) }

// digest tells results apart.
func digest(result jsontext.Value, effect string) string {
	sum := sha256.Sum256(result)
	if effect != "" {
		sum = sha256.Sum256([]byte("effect\x00" + effect))
	}
	return hex.EncodeToString(sum[:8])
}
