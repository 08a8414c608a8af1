package keylock

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/storage"
)

// A row of any content is refused with an error that says so, or its key can go on: what a turn makes of it can be read
// again, the next event in order isn't taken for one that is done, and a release leaves nothing to wait for.
func FuzzDocument(f *testing.F) {
	f.Add([]byte(`{"version":1,"id":"x","holder":"h","fence":7,"beat":1,"ttl":30000,"at":5,"state":{"first":{"message":"m","after":1000}}}`), "n", uint64(8), uint64(7))
	f.Add([]byte(`{"version":1,"fence":7,"ttl":30000,"state":{"done":9,"past":[{"from":1,"to":2},{"from":5,"to":5}],"gap":{"message":"m","sequence":12,"previous":11}}}`), "", uint64(12), uint64(11))
	f.Add([]byte(`{"version":1,"fence":7,"ttl":30000,"state":{"done":18446744073709551615,"halted":{"message":"m","sequence":18446744073709551615}}}`), "m", uint64(1), uint64(0))
	f.Add([]byte(`{"version":1,"fence":1152921504606846976,"ttl":3000,"state":{"first":{"after":9223372036854775807},"past":[{"from":9,"to":2}]}}`), "\x00", uint64(math.MaxUint64), uint64(math.MaxUint64-1))
	f.Add([]byte(`{"version":1,"fence":7,"ttl":30000,"holder":"`+strings.Repeat("x", 16000)+`"}`), strings.Repeat("<", 256), uint64(1), uint64(0))
	f.Add([]byte(`{"version":2}`), "", uint64(0), uint64(0))
	f.Fuzz(func(t *testing.T, data []byte, message string, sequence, previous uint64) {
		d, err := decode(data)
		if err != nil {
			if !errors.Is(err, errUnreadable) && !errors.Is(err, errNewer) || !errors.Is(err, storage.ErrInvalid) {
				t.Error(err)
			}
			return
		}
		again := func(what string, s State) State {
			next := document{Version: version, ID: "id", Holder: strings.Repeat("h", maxText), Fence: min(d.Fence+1, 1<<60-1), TTL: d.TTL, State: s}
			data, err := json.Marshal(next)
			if err != nil {
				t.Fatal(err)
			}
			if next, err = decode(data); err != nil {
				t.Fatalf("%s can't be read again: %d bytes: %s", what, len(data), data)
			}
			return next.State
		}
		s := again("what was read", d.State)
		if next := s.Done + 1; s.Place(next, s.Done) != Next {
			t.Errorf("the next event can't run: %+v", s)
		}
		_, _, _ = s.Place(sequence, previous), s.IsFirst(message), s.IsHalt(message)
		if after := (*Wait).Count(new(Wait), &s, time.Minute, Waiter{Message: message}); after != 0 || s.First != nil && s.First.After > maxAfter {
			t.Errorf("it waits for %v", s.First.After)
		}
		s.Skip(message, message)
		s.Wait(message, time.Hour, sequence)
		s.WaitFor(message, sequence, previous)
		s.Halt(message, message, sequence)
		s = again("a halt", s)
		s.Released = &Released{By: cut(message), Why: cut(message)}
		s.release()
		if s = again("what is released", s); s.blocked() {
			t.Errorf("a release leaves %+v", s)
		}
		if previous < sequence {
			s.Pass(sequence, previous)
			_ = again("an event that is done", s)
		}
	})
}
