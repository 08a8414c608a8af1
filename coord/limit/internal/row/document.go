package row

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage"
)

// These are the least and the longest TTL of a row.
const (
	LeastTTL = 3 * time.Second
	maxTTL   = time.Minute
)

const (
	container = "shares"
	maxRows   = 500
	maxBytes  = 256 << 10
	maxUnits  = 1 << 50 // of a limit
)

// errUnreadable is the error of a blob that can't be read as shares.
var errUnreadable = fmt.Errorf("%w: the blob in container %s can't be read as shares; it is replaced if nobody changes it", storage.ErrInvalid, container)

// A document is the blob's content, as JSON: the members by ID.
type document struct {
	Members map[string]row `json:"members"`       // never null in a blob
	Turn    int64          `json:"turn,omitzero"` // whose turn it is to have what can't be divided evenly
}

// A row is a member. Its numbers are in the units of its kind: thousandths of a call a second, or slots.
type row struct {
	Limit int64 `json:"limit"` // that the member knows
	Share int64 `json:"share"`
	Wants int64 `json:"wants"`
	Beat  int64 `json:"beat"`
	TTL   int64 `json:"ttl"` // milliseconds
}

func (r row) valid() bool {
	in := func(n, least int64) bool { return n >= least && n <= maxUnits }
	return in(r.Limit, 1) && in(r.Share, 0) && in(r.Wants, 0) && in(r.Beat, 1) &&
		r.TTL >= LeastTTL.Milliseconds() && r.TTL <= maxTTL.Milliseconds()
}

// decode reads a document. It refuses whatever might be something else: nothing of it counts then.
func decode(body []byte) (document, error) {
	var d document
	if len(body) > maxBytes || json.Unmarshal(body, &d) != nil || d.Members == nil || d.Turn < 0 || d.Turn > maxUnits || len(d.Members) > maxRows {
		return document{}, errUnreadable
	}
	for id, r := range d.Members {
		if id == "" || !r.valid() {
			return document{}, errUnreadable
		}
	}
	return d, nil
}

// limit is the smallest limit of the members.
func (d document) limit() int64 {
	least := int64(maxUnits)
	for _, r := range d.Members {
		least = min(least, r.Limit)
	}
	return least
}

// given is the sum of all shares but one.
func (d document) given(but string) (sum int64) {
	for id, r := range d.Members {
		if id != but {
			sum += r.Share
		}
	}
	return sum
}

// short reports that a member with that share must lower it, so that the others can have their targets.
func (d document) short(id string, share int64) bool {
	missing, targets := int64(0), d.targets()
	for other, r := range d.Members {
		if other != id {
			missing += max(0, targets[other]-r.Share)
		}
	}
	return missing > d.limit()-d.given(id)-share
}

// hungry reports that a member has less than its target.
func (d document) hungry() bool {
	targets := d.targets()
	for id, r := range d.Members {
		if r.Share < targets[id] {
			return true
		}
	}
	return false
}

// hungryBut reports that a member other than one wants more than it has.
func (d document) hungryBut(id string) bool {
	for other, r := range d.Members {
		if other != id && matters(r.Wants-r.Share, r.Wants) {
			return true
		}
	}
	return false
}

// matters reports that a difference is worth a write of its own.
func matters(difference, of int64) bool { return difference > 0 && difference*20 >= of }

// scarce reports that there are fewer units than members that want one, so that some have none.
func (d document) scarce() bool {
	hungry := int64(0)
	for _, r := range d.Members {
		hungry += min(r.Wants, 1)
	}
	return hungry > d.limit()
}

// targets divides the limit by max-min: nobody gets more than it wants, and the rest is divided evenly. The remainder
// goes to those whose turn it is. The sum is at most the limit.
func (d document) targets() map[string]int64 {
	ids := slices.Sorted(maps.Keys(d.Members))
	if n := int64(len(ids)); n > 0 {
		ids = slices.Concat(ids[d.Turn%n:], ids[:d.Turn%n])
	}
	slices.Reverse(ids) // of those that want the same, the first comes last, and gets what is left
	slices.SortStableFunc(ids, func(a, b string) int { return cmp.Compare(d.Members[a].Wants, d.Members[b].Wants) })
	left, targets := d.limit(), map[string]int64{}
	for i, id := range ids {
		targets[id] = min(d.Members[id].Wants, left/int64(len(ids)-i))
		left -= targets[id]
	}
	return targets
}

// Damaged returns the keys of the blobs that can't be read.
func Damaged(ctx context.Context, s *storage.Store) (keys []string, err error) {
	if err := storecall.CheckStore(s); err != nil {
		return nil, err
	}
	for info, err := range s.Blobs(container).List(ctx, "") {
		if err != nil {
			return nil, err
		}
		blob, err := s.Blobs(container).Get(ctx, info.Key, "")
		if errors.Is(err, storage.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if _, err := decode(blob.Body); err != nil {
			keys = append(keys, info.Key)
		}
	}
	return keys, nil
}

// encode writes a document that decode can read.
func encode(d document) ([]byte, error) {
	body, err := json.Marshal(d)
	if err == nil && (len(d.Members) > maxRows || len(body) > maxBytes) {
		err = errors.Join(storage.ErrTooLarge, fmt.Errorf("%d processes share the number; at most %d can, so this one makes no calls until others have left", len(d.Members), maxRows))
	}
	return body, err
}
