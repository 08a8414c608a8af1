package azure

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/millrace-go/millrace/storage"
)

func isRead(req *http.Request) bool {
	return req.Method == http.MethodGet || req.Method == http.MethodHead
}

func isWrite(req *http.Request) bool { return !isRead(req) }

// After a lost answer the store is read. If that read is disturbed, it is repeated and learns the same.
func TestDisturbedReadBack(t *testing.T) {
	t.Parallel()
	for _, a := range slices.Concat(docActs("blob"), docActs("row")) {
		if !a.reads {
			continue
		}
		for _, x := range allFaults() {
			t.Run(a.name+"/"+x.name, func(t *testing.T) {
				t.Parallel()
				s, f := disturbed(t)
				call, after := a.prepare(t, s)
				f.arm(aimed{fault: named("answer lost")}, aimed{fault: x, choose: isRead})
				err := call()
				log, _ := f.made()
				reads := slices.DeleteFunc(log, func(r string) bool { return !strings.HasPrefix(r, "GET ") && !strings.HasPrefix(r, "HEAD ") })
				if x.name == "slow body" && strings.HasPrefix(reads[0], "HEAD ") { // the SDK never repeats a HEAD that was answered
					checkUnknown(t, err)
					return
				}
				if len(reads) < 2 {
					t.Errorf("read %q; want once disturbed and once more", reads)
				}
				after(t, err)
			})
		}
	}
}

// checkUnknown checks the error of a write whose outcome nobody can know.
func checkUnknown(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, storage.ErrUnavailable) && !errors.Is(err, storage.ErrThrottled) || storage.LostRace(err) || errors.Is(err, storage.ErrNotFound) ||
		!strings.Contains(err.Error(), "unknown") {
		t.Errorf("got %v; want an error that says that the outcome is unknown", err)
	}
}

// If the store can't be read either, or its answer doesn't tell, the outcome stays unknown: neither a lost race nor
// a success.
func TestFailingReadBack(t *testing.T) {
	t.Parallel()
	put := func(cond storage.Condition) func(*testing.T, doc) error {
		return func(t *testing.T, d doc) error { _, err := d.put(t, "mine", cond); return err }
	}
	remove := func(t *testing.T, d doc) error { return d.remove(t, storage.Condition{IfMatch: `"0x1"`}) }
	always := func(status int, code string) func(*faults, *http.Request) (*http.Response, error) {
		return func(_ *faults, req *http.Request) (*http.Response, error) { return respond(req, status, code), nil }
	}
	failures := append(allFaults(), fault{name: "forbidden", do: always(403, "AuthorizationFailure")}, fault{name: "nonsense", do: always(200, "")})
	for _, c := range []struct {
		name, kind string
		write      func(*testing.T, doc) error
		broken     *http.Response // the answer to a repeat
	}{
		{"blob put if absent", "blob", put(storage.Condition{IfAbsent: true}), says(409, "BlobAlreadyExists")},
		{"blob put if match", "blob", put(storage.Condition{IfMatch: `"0x1"`}), says(412, "ConditionNotMet")},
		{"blob delete if match", "blob", remove, says(412, "ConditionNotMet")},
		{"row put if absent", "row", put(storage.Condition{IfAbsent: true}), odata(409, "EntityAlreadyExists")},
		{"row put if match", "row", put(storage.Condition{IfMatch: `"0x1"`}), odata(412, "UpdateConditionNotSatisfied")},
	} {
		for _, x := range failures {
			t.Run(c.name+"/"+x.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := &faults{bubble: true, next: &scripted{answers: []*http.Response{c.broken}}}
					s := answeredBy(t, f)
					f.arm(aimed{fault: fault{do: func(*faults, *http.Request) (*http.Response, error) { return nil, errReset }}, choose: isWrite},
						aimed{fault: x, choose: isRead, always: true})
					checkUnknown(t, c.write(t, docsOf(s)[c.kind]))
					if log, _ := f.made(); len(log) < 3 || len(log) > 2+maxTries {
						t.Errorf("%q; want two writes, and at most %d reads", log, maxTries)
					}
				})
			})
		}
	}
}
