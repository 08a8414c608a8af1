package guard_test

import (
	"testing"
	"time"

	"github.com/millrace-go/millrace/guard"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/worker"
)

// Close closes the breakers of all processes, in a ramp. If the service is still away, they open again, and one process
// that can't reach it stays shut to itself.
func TestCloseByHand(t *testing.T) {
	for name, down := range map[string]error{"the service is back": nil, "the service is away": errDown} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := worldtest.OpenStore(t, worldtest.Virtual)
				all := make([]*guard.Guard, 3)
				for i := range all {
					all[i] = quiet()
					limiter, err := all[i].Limiter(t.Context(), worker.Consumer{Store: s})
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { _ = limiter.Leave(t.Context()) })
				}
				for _, g := range all[:2] {
					trip(t, g)
				}
				time.Sleep(3 * time.Second)
				before, err := guard.Close(t.Context(), s, "smtp")
				if err != nil || !before.All || before.Why == "" || before.Since.IsZero() {
					t.Fatalf("got %+v, %v; want an outage for all, since when and why", before, err)
				}
				time.Sleep(3 * time.Second)
				for i, g := range all {
					for n := range 60 {
						_ = g.Do(handling(t, id(n), 1), ends(down))
					}
					worldtest.Want(t, "open", g.Open(), down != nil)
					if i == 1 {
						time.Sleep(3 * time.Second)
					}
				}
				found, err := guard.Outages(t.Context(), s)
				worldtest.WantErr(t, err, nil)
				worldtest.Want(t, "outages", len(found) > 0, down != nil)
			})
		})
	}
}

// What Close finds tells what it does: a breaker that is closed stays as it is, and a document that no process replaces
// any more is replaced.
func TestCloseOfAGuardThatIsGone(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, "")
	for name, text := range map[string]string{
		"open": `{"epoch":9007199254740992,"open":true,"ill":["a"],"prober":"a","pause":9000,"tries":7}`,
		"ill":  `{"epoch":7,"ill":["a"]}`,
		"junk": `{"epoch":`,
		"shut": `{"epoch":3}`,
	} {
		if _, err := s.Blobs("guards").Put(t.Context(), name, []byte(text), storage.Condition{}); err != nil {
			t.Fatal(err)
		}
		before, err := guard.Close(t.Context(), s, name)
		worldtest.WantErr(t, err, nil)
		want := guard.Status{Name: name, Open: name != "shut", All: name == "open" || name == "junk", Asks: name == "open", Damaged: name == "junk", Why: before.Why}
		worldtest.Want(t, name, before, want)
		again, err := guard.Close(t.Context(), s, name)
		worldtest.WantErr(t, err, nil)
		worldtest.Want(t, name+" again", again, guard.Status{Name: name})
	}
	_, err := guard.Close(t.Context(), s, "nobody's")
	worldtest.WantErr(t, err, storage.ErrNotFound)
	n := 0
	for status, err := range guard.List(t.Context(), s) {
		worldtest.WantErr(t, err, nil)
		worldtest.Want(t, status.Name, status.Open, false)
		n++
	}
	worldtest.Want(t, "documents", n, 4)
}
