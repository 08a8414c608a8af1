package valet

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-go/millrace/storage"
)

// A Status is what a client is told of a file.
type Status struct {
	ID       string    `json:"id"`
	State    State     `json:"state"`
	Reason   string    `json:"reason,omitempty"`
	Name     string    `json:"name"`
	Type     string    `json:"type"`
	Size     int64     `json:"size"`
	PartSize int64     `json:"partSize,omitempty"`
	Parts    int       `json:"parts,omitempty"`
	Have     string    `json:"have,omitempty"`    // the parts that are there: "1-3,7"
	Missing  string    `json:"missing,omitempty"` // those that aren't, in the answer to a completion
	Until    time.Time `json:"until"`
	URL      string    `json:"url,omitempty"` // in the list of a folder: a key that reads the file
}

// A PartKey is where a part can be put.
type PartKey struct {
	Number int    `json:"n"`
	Size   int64  `json:"size"`
	URL    string `json:"url"` // a secret
}

// PartKeys are the answer to URL/parts.
type PartKeys struct {
	Until time.Time `json:"until"`
	Parts []PartKey `json:"parts"`
}

// A refusal is an answer without what was asked for.
type refusal struct {
	code int
	text string
}

func (e refusal) Error() string { return e.text }

// The refusals of a key itself.
var (
	errUnknown = refusal{http.StatusNotFound, "there is no such key"}
	errPlain   = refusal{http.StatusForbidden, "keys are for HTTPS alone"}
	errOver    = refusal{http.StatusGone, "this key has ended"}
	errRevoked = refusal{http.StatusGone, "this key was revoked"}
	errOther   = refusal{http.StatusForbidden, "this key is somebody else's"}
	errUsedUp  = refusal{http.StatusGone, "this key was used as often as it may be"}
	errVerb    = refusal{http.StatusMethodNotAllowed, "this key doesn't allow that"}
)

// answer writes JSON, unless there is an error.
func answer(w http.ResponseWriter, code int, what any, err error) error {
	if err != nil {
		return err
	}
	body, err := json.Marshal(what)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(append(body, '\n')) // a client that has gone
	return nil
}

// refusalOf is what a client is told of an error, or nothing where the fault isn't the client's.
func refusalOf(err error) (no refusal) {
	switch {
	case errors.As(err, &no):
	case errors.Is(err, storage.ErrTooLarge):
		no = refusal{http.StatusRequestEntityTooLarge, plain(err)}
	case errors.Is(err, storage.ErrInvalid):
		no = refusal{http.StatusBadRequest, plain(err)}
	}
	return no
}

// plain is what is wrong with a request, without where in the program that shows.
func plain(err error) string {
	text := err.Error()
	for _, kind := range []error{storage.ErrInvalid, storage.ErrTooLarge} {
		if _, rest, found := strings.Cut(text, kind.Error()+": "); found {
			return rest
		}
	}
	return text
}

func either(err error, otherwise refusal) error {
	if err != nil {
		return err
	}
	return otherwise
}

// mostAsked bounds the parts for which one request gets keys.
const mostAsked = 64

// parseParts reads "1-3,7". Each part is there once, in the order of the text.
func parseParts(text string, parts int) ([]int, error) {
	bad := refusal{http.StatusBadRequest, fmt.Sprintf("n; want parts such as 1-3,7, of 1 to %d, at most %d of them", parts, mostAsked)}
	var numbers []int
	seen := map[int]bool{}
	for piece := range strings.SplitSeq(text, ",") {
		from, to, several := strings.Cut(piece, "-")
		a, ok := partNumber(from, parts)
		b := a
		if several && ok {
			b, ok = partNumber(to, parts)
		}
		if !ok || b < a || b-a >= mostAsked {
			return nil, bad
		}
		for n := a; n <= b; n++ {
			if !seen[n] {
				numbers = append(numbers, n)
			}
			if seen[n] = true; len(numbers) > mostAsked {
				return nil, bad
			}
		}
	}
	return numbers, nil
}

func partNumber(text string, parts int) (int, bool) {
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= 1 && n <= parts && strconv.Itoa(n) == text
}

// ranges writes what parseParts reads.
func ranges(numbers []int) string {
	var b strings.Builder
	for i := 0; i < len(numbers); {
		j := i
		for j+1 < len(numbers) && numbers[j+1] == numbers[j]+1 {
			j++
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(numbers[i]))
		if j > i {
			b.WriteString("-" + strconv.Itoa(numbers[j]))
		}
		i = j + 1
	}
	return b.String()
}
