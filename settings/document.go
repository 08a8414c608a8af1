package settings

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/millrace-go/millrace/internal/jsonform"
	"github.com/millrace-go/millrace/storage"
)

const (
	maxEnded    = 50        // endings that the current document keeps
	maxRefusals = 20        // that an ending keeps
	maxReason   = 300       // bytes of one refusal
	maxDocument = 768 << 10 // bytes of the current document
	maxVersion  = 256 << 10 // bytes of a version
)

// A document is the blob NAME/current: which version is in force, and which one is being checked. The zero document is
// one that nobody has written.
type document struct {
	Epoch     int64           `json:"epoch"`  // writes so far
	Last      int64           `json:"last"`   // the highest number of a version that was ever proposed
	Stable    int64           `json:"stable"` // the version in force; 0: the programs' defaults
	Values    json.RawMessage `json:"values"` // of Stable
	Candidate *candidate      `json:"candidate,omitempty"`
	Ended     []Ending        `json:"ended,omitempty"` // of the last proposals, newest first
}

// A candidate is a version that the live nodes are asked about.
type candidate struct {
	Version int64           `json:"version"`
	Values  json.RawMessage `json:"values"`
	By      string          `json:"by"`
	Since   time.Time       `json:"since"` // by the clock of the process that proposed it
	Force   bool            `json:"force,omitempty"`
	Stages  []Stage         `json:"stages,omitempty"` // none: it comes into force everywhere at once
	Roll    *roll           `json:"roll,omitempty"`   // none: it is being checked
}

// A Version is what somebody has proposed. It never changes.
type Version struct {
	Number  int64           `json:"number"`
	Base    int64           `json:"base"`             // the version that was in force then
	BackTo  *int64          `json:"backTo,omitempty"` // the version that it repeats, where somebody went back
	By      string          `json:"by"`
	Why     string          `json:"why,omitempty"`
	At      time.Time       `json:"at"`     // by the clock of the process that proposed it
	Epoch   int64           `json:"epoch"`  // of the current document then
	Values  json.RawMessage `json:"values"` // what is set: a JSON merge patch on the programs' defaults
	Changes []Change        `json:"changes"`
}

// parseDocument reads a current document. Other contents are an error, and never a value. Members that a newer release
// has added are passed over, and the next write leaves them out.
func parseDocument(data []byte) (document, error) {
	d, err := jsonform.DecodeNewer[document](data)
	if err == nil {
		err = d.check(len(data))
	}
	if err != nil {
		return document{}, fmt.Errorf("%w: this is no document of settings, or one of a newer Millrace: %w", storage.ErrInvalid, err)
	}
	return d, nil
}

func (d document) check(size int) error {
	if size > maxDocument || d.Epoch < 1 || d.Epoch > math.MaxInt64/2 || d.Last > math.MaxInt64/2 || d.Stable < 0 || d.Stable > d.Last || len(d.Ended) > maxEnded {
		return fmt.Errorf("its numbers can't be right")
	}
	if _, err := parseTree(d.Values); err != nil {
		return err
	}
	if c := d.Candidate; c != nil {
		if c.Version <= d.Stable || c.Version > d.Last {
			return fmt.Errorf("its candidate has an impossible number")
		}
		if err := c.check(); err != nil {
			return err
		}
		_, err := parseTree(c.Values)
		return err
	}
	return nil
}

func (c candidate) check() error {
	err := checkStages(c.Stages)
	if r := c.Roll; err == nil && r != nil && (r.Stage < 0 || r.Stage >= len(c.Stages) || r.Baked < 0 || r.Baked > 2*maxBake) {
		err = fmt.Errorf("its roll-out has impossible numbers")
	}
	return err
}

// parseVersion reads a version, and refuses one of another number.
func parseVersion(data []byte, number int64) (Version, error) {
	v, err := jsonform.DecodeNewer[Version](data)
	if err == nil && (v.Number != number || len(data) > maxVersion) {
		err = fmt.Errorf("its number is %d", v.Number)
	}
	if err == nil {
		_, err = parseTree(v.Values)
	}
	if err != nil {
		return Version{}, fmt.Errorf("%w: this is no version %d of settings: %w", storage.ErrInvalid, number, err)
	}
	return v, nil
}

// of returns what has become of a version, if the document still tells.
func (d document) of(version int64) (Ending, bool) {
	for _, e := range d.Ended {
		if e.Version == version {
			return e, true
		}
	}
	return Ending{}, false
}

// lastEnded returns the highest version that has ended, of those that the document tells and one before.
func (d document) lastEnded(before int64) int64 {
	for _, e := range d.Ended {
		before = max(before, e.Version)
	}
	return before
}

// propose returns the document with a candidate. A candidate before it is dropped.
func (d document) propose(c candidate) document {
	d = d.drop(Refusal{c.By, fmt.Sprintf("forced version %d", c.Version)}, c.Since)
	d.Candidate, d.Last = &c, c.Version
	return d
}

// drop returns the document without its candidate. by tells who did that, and why.
func (d document) drop(by Refusal, at time.Time) document {
	if c := d.Candidate; c != nil {
		result := Dropped
		if c.Roll != nil {
			result = RolledBack
		}
		d = d.end(Ending{Version: c.Version, Result: result, At: at, Reasons: []Refusal{by}})
	}
	d.Candidate = nil
	return d
}

// settle returns the document in which the candidate has ended.
func (d document) settle(result Result, reasons []Refusal, at time.Time) document {
	c := d.Candidate
	d.Candidate = nil
	d = d.end(Ending{Version: c.Version, Result: result, At: at, Reasons: reasons})
	if d.Ended[0].came() {
		d.Stable, d.Values = c.Version, c.Values
	}
	return d
}

// goBack returns the document in which an earlier version is in force again, under a new number.
func (d document) goBack(v Version, at time.Time) document {
	d = d.drop(Refusal{v.By, v.Why}, at)
	d.Stable, d.Last, d.Values = v.Number, v.Number, v.Values
	return d.end(Ending{Version: v.Number, Result: InForce, At: at})
}

// end adds an ending. Its epoch is that of the write.
func (d document) end(e Ending) document {
	e.Epoch, e.At = d.Epoch+1, e.At.Round(0).UTC()
	e.Reasons = e.Reasons[:min(len(e.Reasons), maxRefusals)]
	all := append([]Ending{e}, d.Ended...)
	d.Ended = all[:min(len(all), maxEnded)]
	return d
}
