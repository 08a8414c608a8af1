package azure

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/storage"
)

func TestALeaseOfSomebodyElseIsAnErrorOfItsOwn(t *testing.T) {
	t.Parallel()
	put := func(cond storage.Condition) func(*testing.T, doc) error {
		return func(t *testing.T, d doc) error { _, err := d.put(t, "mine", cond); return err }
	}
	remove := func(cond storage.Condition) func(*testing.T, doc) error {
		return func(t *testing.T, d doc) error { return d.remove(t, cond) }
	}
	guarded := storage.Condition{IfMatch: `"0x1"`}
	for name, c := range map[string]struct {
		call    func(*testing.T, doc) error
		answers []*http.Response
	}{
		"put":             {put(storage.Condition{}), []*http.Response{says(412, "LeaseIdMissing")}},
		"put if match":    {put(guarded), []*http.Response{says(412, "LeaseIdMissing")}},
		"put with its ID": {put(guarded), []*http.Response{says(412, "LeaseIdMismatchWithBlobOperation")}},
		"delete":          {remove(storage.Condition{}), []*http.Response{says(412, "LeaseIdMissing"), says(200, "")}},
		"delete if match": {remove(guarded), []*http.Response{says(412, "LeaseIdMissing"), says(200, "")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := c.call(t, docsOf(answeredBy(t, &scripted{answers: c.answers}))["blob"])
			if !errors.Is(err, storage.ErrLeased) || storage.LostRace(err) || errors.Is(err, storage.ErrUnavailable) || !strings.Contains(err.Error(), "az storage blob lease break") {
				t.Errorf("got %v, want ErrLeased alone, with advice", err)
			}
		})
	}
}

// A write whose answer was lost may have been done before somebody took a lease.
func TestALeaseAfterALostAnswerLeavesTheOutcomeUnknown(t *testing.T) {
	t.Parallel()
	f := &faults{next: &scripted{answers: []*http.Response{says(412, "LeaseIdMissing"), says(200, "")}}}
	s := answeredBy(t, f)
	f.arm(aimed{fault: fault{do: func(*faults, *http.Request) (*http.Response, error) { return nil, errReset }}, choose: isWrite})
	_, err := docsOf(s)["blob"].put(t, "mine", storage.Condition{IfMatch: `"0x1"`})
	checkUnknown(t, err)
}
