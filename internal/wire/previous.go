package wire

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// previousName is the extension attribute that names the emission before this one, for each queue that wants order:
//
//	"previous":"sms:57:1732730000000,mails:55:1732729000000"
//
// That is the queue, the sequence number of its emission before this one, or 0, and when that was made, in milliseconds
// since 1970. It is an attribute that older programs keep and don't look at.
const previousName = "previous"

// A Stamp is an emission as its document remembers it: its sequence number, and when it was made.
type Stamp struct {
	Sequence uint64 `json:"n"`
	At       int64  `json:"at"` // milliseconds since 1970
}

// SetPrevious names the emission before this one to each of these queues.
func (e *Envelope) SetPrevious(queues []string, before func(queue string) Stamp) {
	var b strings.Builder
	for i, q := range queues {
		if i > 0 {
			b.WriteByte(',')
		}
		s := before(q)
		fmt.Fprintf(&b, "%s:%d:%d", q, s.Sequence, s.At)
	}
	text, err := json.Marshal(b.String())
	if err != nil {
		return // names of queues are valid UTF-8
	}
	if e.Extensions == nil {
		e.Extensions = map[string]jsontext.Value{}
	}
	e.Extensions[previousName] = text
}

// PreviousTo returns the sequence number of the emission before this one to a queue, and when it was made. ok is false
// where the message names none: it is outside of an order.
func (e *Envelope) PreviousTo(queue string) (sequence uint64, at time.Time, ok bool) {
	raw := e.Extensions[previousName]
	if len(raw) == 0 {
		return 0, time.Time{}, false
	}
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return 0, time.Time{}, false
	}
	for part := range strings.SplitSeq(text, ",") {
		fields := strings.Split(part, ":")
		if len(fields) != 3 || fields[0] != queue {
			continue
		}
		n, err := strconv.ParseUint(fields[1], 10, 64)
		ms, err2 := strconv.ParseInt(fields[2], 10, 64)
		return n, time.UnixMilli(ms), err == nil && err2 == nil
	}
	return 0, time.Time{}, false
}
