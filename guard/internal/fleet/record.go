package fleet

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"
)

// LongestPause bounds what a service may ask for.
const LongestPause = time.Hour

const (
	mostMembers = 200         // that a record names
	mostRecord  = 64 << 10    // bytes
	mostEpoch   = 1 << 53     // after which the numbers begin again
	mostTries   = 1 << 20     // of a record
	maxID       = 100         // bytes
	mostWhy     = 200         // bytes
	caseAge     = time.Minute // after which what others have reported is forgotten
)

// record is what the breakers of all processes have agreed on, as JSON. The zero record says that all is well.
//
//	clean ─a breaker opens─▶ ill ─more are ill than well─▶ open ─claim─▶ open, with a prober ─done─▶ clean
//	  ▲                       │                             ▲               │
//	  └──none is ill any more─┘                             └──it fails; or dies, and another claims
//
// A process that is ill claims the right to probe before the record is open, too. If the service asks one process to
// wait, the record is open at once, for that long.
type record struct {
	Epoch  int64    `json:"epoch"`           // writes so far
	Open   bool     `json:"open,omitzero"`   // for all
	Ill    []string `json:"ill,omitzero"`    // processes whose own breaker has opened
	Well   []string `json:"well,omitzero"`   // processes whose calls are done meanwhile
	Tries  int      `json:"tries,omitzero"`  // probes that have failed
	Prober string   `json:"prober,omitzero"` // the process that probes
	Pause  int64    `json:"pause,omitzero"`  // milliseconds that the service asks all to wait; 0: it doesn't, or that is over

	Since time.Time `json:"since,omitzero"` // when the first breaker opened, by its process's clock; for people alone
	Why   string    `json:"why,omitzero"`   // the error that opened it, likewise
}

// lost is the prober of a record that can't be read: nobody knows which process it is, so others wait until it would
// have lost the right to probe. If it lives, it puts itself in.
const lost = "-"

var errRecord = errors.New("the document can't be read as that of a breaker; the breaker counts as open, until it is replaced and a call is done")

func decodeRecord(body []byte) (record, error) {
	var r record
	named := func(ids []string) bool {
		return len(ids) <= mostMembers && !slices.ContainsFunc(ids, func(id string) bool { return id == "" || !isID(id) })
	}
	if len(body) > mostRecord || json.Unmarshal(body, &r) != nil || r.Epoch < 1 || r.Epoch > mostEpoch || r.Tries < 0 || r.Tries > mostTries ||
		!isID(r.Prober) || r.Pause < 0 || r.Pause > LongestPause.Milliseconds() ||
		len(r.Why) > mostWhy || !named(r.Ill) || !named(r.Well) {
		return record{}, errRecord
	}
	return r, nil
}

// isID reports that a text can be a process's ID, or is empty. JSON escapes no character of it, so a record that can be
// read can be written.
func isID(s string) bool {
	return len(s) <= maxID && !strings.ContainsFunc(s, func(c rune) bool {
		return (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-'
	})
}

// facts are what one process knows.
type facts struct {
	id      string
	ill     bool // its own breaker has opened
	well    bool // its calls are done
	waited  bool // it has reported a while ago, so the others have had time to answer
	recent  bool // what others have reported is not old
	gone    bool // it was there when this process started, and nobody has changed it for so long
	probing bool // its probe is under way
	verdict verdict
	epoch   uint64 // of its breaker

	asked time.Time     // until when the service asks this process to wait; zero: it doesn't
	pause time.Duration // until then
	waits bool          // the record says so already, or asks to wait for longer

	since time.Time // when its breaker opened
	why   string
}

// verdict is how this process's probe ended, as far as the record doesn't say it yet.
type verdict int

const (
	none verdict = iota
	done
	failed
	freed // it told nothing
)

// with returns the record after one process has added what it knows, and whether that is a change.
func (r record) with(f facts) (record, bool) {
	next, pause := r, f.milliseconds()
	if r.Open && f.verdict == done {
		return r.answered(f.id), true // no matter which process had the right to probe
	}
	mine := r.Prober == f.id || r.Prober == lost && (f.probing || f.verdict != none)
	if mine && f.probing {
		next.Prober = f.id
		return next, true // the epoch tells that it goes on
	}
	if mine {
		next.Prober = ""
		if f.verdict == failed {
			next.Tries, next.Pause = min(r.Tries+1, mostTries), pause
			next.Open = r.Open || pause > 0
		}
		if next.Open || f.ill {
			return next, true
		}
	}
	switch {
	case pause > 0 && !f.waits && r.Prober == "": // else another process has written it, or is about to ask
		next.Pause = pause
		switch {
		case r.Open && r.Pause > 0: // the same pause, for longer
		case r.Open:
			next.Tries = min(r.Tries+1, mostTries) // a pause of its own
		default:
			next.Open, next.Tries = true, 0
		}
		return next.told(f), true
	case r.Open:
		return r, false
	}
	reported := slices.Contains(r.Ill, f.id)
	switch {
	case f.ill && !reported:
		if !f.recent {
			next.Ill, next.Well = nil, nil
		}
		next = next.told(f)
		next.Ill = added(next.Ill, f.id)
		next.Well = without(next.Well, f.id)
	case f.gone && !f.ill && len(r.Ill) > 0: // those that live report again
		return record{Epoch: r.Epoch}, true
	case !f.ill && reported:
		if next.Ill = without(next.Ill, f.id); len(next.Ill) == 0 {
			next = record{Epoch: r.Epoch}
		}
	case f.well && !f.ill && len(r.Ill) > 0 && !slices.Contains(r.Well, f.id):
		next.Well = added(next.Well, f.id)
	}
	if f.ill && len(next.Ill) > len(next.Well) && (f.waited && reported || len(next.Ill) > 1) {
		next.Open, next.Tries = true, 0
	}
	return next, next.Open || next.Prober != r.Prober || len(next.Ill) != len(r.Ill) || len(next.Well) != len(r.Well)
}

// answered returns the record after the service has answered a process. If that one hadn't reported that it fails, it
// is well: those that fail again at once are in trouble alone.
func (r record) answered(id string) record {
	next := record{Epoch: r.Epoch}
	if len(r.Ill) > 0 && !slices.Contains(r.Ill, id) {
		next.Well = []string{id}
	}
	return next
}

// told returns the record with what a process knows of the beginning, unless it says that.
func (r record) told(f facts) record {
	if r.Since.IsZero() {
		r.Since, r.Why = f.since.UTC().Truncate(time.Second), f.why
		if len(r.Why) > mostWhy {
			r.Why = r.Why[:mostWhy]
		}
		r.Why = strings.ToValidUTF8(r.Why, "")
	}
	return r
}

// milliseconds is the time that the service asks this process to wait, 0 for none.
func (f facts) milliseconds() int64 {
	if f.pause <= 0 {
		return 0
	}
	return min((f.pause + time.Millisecond - 1).Milliseconds(), LongestPause.Milliseconds())
}

// instead returns what replaces a record that can't be read, from the one that a process has seen before. It is open,
// because it may have been. pause is the rest of the time that the service asks all to wait, as far as that is known.
func (r record) instead(pause time.Duration, now time.Time) record {
	if !r.Open {
		r = record{Epoch: r.Epoch, Open: true}
	}
	r.Prober = lost
	r.Pause = facts{pause: pause}.milliseconds()
	return r.told(facts{since: now, why: errRecord.Error()})
}

// concerns reports that a process must claim the right to probe.
func (r record) concerns(id string) bool { return r.Open || slices.Contains(r.Ill, id) }

// claimed returns the record with a process as the prober. It reports false if there is another.
func (r record) claimed(id string, dead bool) (record, bool) {
	if r.Prober != "" && r.Prober != id && !dead {
		return r, false
	}
	r.Prober, r.Pause = id, 0
	return r, true
}

// added returns a list with one more, unless it is long.
func added(ids []string, id string) []string {
	if len(ids) >= mostMembers {
		return ids
	}
	return append(slices.Clone(ids), id)
}

func without(ids []string, id string) []string {
	return slices.DeleteFunc(slices.Clone(ids), func(other string) bool { return other == id })
}
