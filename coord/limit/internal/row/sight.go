package row

import (
	"maps"
	"time"

	"github.com/millrace-go/millrace/internal/agree"
)

// sight is what a member has seen of the document since it joined.
type sight struct {
	beats  map[string]sighting // of the rows, by ID
	turn   int64               // of the document
	turned time.Time           // when that was first seen
}

// sighting is a beat, and when it was first seen.
type sighting struct {
	beat  int64
	since time.Time
}

// see notes what the document says.
func (s *sight) see(now time.Time, d document) {
	if s.turned.IsZero() || d.Turn != s.turn {
		s.turn, s.turned = d.Turn, now
	}
	maps.DeleteFunc(s.beats, func(id string, _ sighting) bool { _, there := d.Members[id]; return !there })
	for id, r := range d.Members {
		if seen, ok := s.beats[id]; !ok || seen.beat != r.Beat {
			s.beats[id] = sighting{r.Beat, now}
		}
	}
}

// dies returns when a row of the document can be removed, unless the row changes.
func (s *sight) dies(id string, r row) time.Time {
	return agree.DeadFrom(s.beats[id].since, time.Duration(r.TTL)*time.Millisecond)
}

// alive returns the document without the rows of the dead. A member's own row stays.
func (s *sight) alive(now time.Time, d document, own string) document {
	alive := document{Members: map[string]row{}, Turn: d.Turn}
	for id, r := range d.Members {
		if id == own || now.Before(s.dies(id, r)) {
			alive.Members[id] = r
		}
	}
	return alive
}
