package keylock

import (
	"slices"
	"time"
)

// maxSpans bounds a row. Beyond it neighbours become one span. A message in a span runs if it comes, so a span that is
// too large lets repeats run again, and loses nothing.
const maxSpans = 24

// A Span is sequence numbers, both ends included.
type Span struct {
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
}

// A Gap is what the messages of a source wait for.
type Gap struct {
	Message  string    `json:"message"`  // the ID of the first message that waits
	Sequence uint64    `json:"sequence"` // of it
	Previous uint64    `json:"previous"` // the message before it, which hasn't come
	Since    time.Time `json:"since"`
}

// A Place is where a message of a source stands.
type Place int

const (
	Next   Place = iota // all before it are done
	Repeat              // it is done
	Late                // others went past it
	Early               // one before it isn't done
)

// Place tells where the message with a sequence number stands, which follows the previous one.
func (s *State) Place(sequence, previous uint64) Place {
	switch {
	case slices.ContainsFunc(s.Past, func(p Span) bool { return p.From <= sequence && sequence <= p.To }):
		return Late
	case sequence <= s.Done:
		return Repeat
	case previous > s.Done:
		return Early
	}
	return Next
}

// Pass notes that a message is done that stands Next or Late. It doesn't note a number that no source reaches, for
// which all others would be done.
func (s *State) Pass(sequence, previous uint64) {
	if sequence > maxNumber {
		return
	}
	if sequence <= s.Done {
		s.took(sequence)
		return
	}
	if previous < s.Done { // its source has begun to count anew: nobody knows what is between
		s.goPast(sequence - 1)
	}
	s.Done, s.Gap = sequence, nil
}

// GoPast lets others go past all up to a sequence number that is not done.
func (s *State) GoPast(sequence uint64) {
	s.goPast(sequence)
	s.Gap = nil
}

func (s *State) goPast(to uint64) {
	if to <= s.Done || to > maxNumber {
		return
	}
	from := s.Done + 1
	s.Done, s.Past = to, slices.Clone(s.Past)
	if n := len(s.Past); n > 0 && s.Past[n-1].To+1 == from {
		s.Past[n-1].To = to
		return
	}
	s.Past = append(s.Past, Span{from, to})
	s.bound()
}

// MayCome notes that the message that is done last may come again, because it went to the poison queue. It ignores a
// number that Pass has not noted.
func (s *State) MayCome(sequence uint64) {
	if sequence != s.Done {
		return
	}
	s.Past = append(slices.Clone(s.Past), Span{sequence, sequence})
	s.bound()
}

// took takes a number out of the spans.
func (s *State) took(sequence uint64) {
	var left []Span
	for _, p := range s.Past {
		if sequence < p.From || p.To < sequence {
			left = append(left, p)
			continue
		}
		if p.From < sequence {
			left = append(left, Span{p.From, sequence - 1})
		}
		if sequence < p.To {
			left = append(left, Span{sequence + 1, p.To})
		}
	}
	s.Past = left
	s.bound()
}

// bound makes the two oldest spans one while there are too many. Another program may have left them in any order.
func (s *State) bound() {
	for len(s.Past) > maxSpans {
		p, next := s.Past[0], s.Past[1]
		s.Past = s.Past[1:]
		s.Past[0] = Span{min(p.From, next.From), max(p.To, next.To)}
	}
}

// WaitFor notes the gap before a message. It reports whether that is new.
func (s *State) WaitFor(message string, sequence, previous uint64) bool {
	if s.Gap != nil && s.Gap.Sequence <= sequence {
		return false
	}
	s.Gap = &Gap{Message: cut(message), Sequence: sequence, Previous: previous, Since: time.Now().UTC()}
	return true
}

// blocked reports that a release has something to do.
func (s *State) blocked() bool { return s.First != nil || s.Halted != nil || s.Gap != nil }

// release goes past what the key waits for.
func (s *State) release() {
	if s.Halted != nil {
		s.goPast(s.Halted.Sequence)
	}
	if s.Gap != nil {
		s.goPast(s.Gap.Previous)
	}
	if s.First != nil {
		s.goPast(s.First.Sequence)
	}
	s.First, s.Halted, s.Gap = nil, nil, nil
}
