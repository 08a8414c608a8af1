package doctor

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/driver"
)

// inspected is a store whose driver tells what is wrong with its engine.
type inspected struct {
	driver.Store
	faults []driver.Fault
	err    error
}

func (s inspected) Inspector() driver.Inspector                     { return s }
func (s inspected) Inspect(context.Context) ([]driver.Fault, error) { return s.faults, s.err }

// Each fault of the engine is a finding, with the driver's words. An engine that can't be looked at hides no other
// finding.
func TestEngineFindings(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, "")
	put(t, s, "gates", "a")
	of := func(faults []driver.Fault, err error) *Examination {
		return Look(t.Context(), deskOf(t, storage.New(inspected{s.Driver(), faults, err})), time.Minute)
	}
	x := of([]driver.Fault{{Name: "disk", Text: "the disk is full", Fix: "Make room."}, {Name: "copy", Text: "a copy lags", Fix: "Wait.", Note: true}}, nil)
	var got []Finding
	for _, f := range x.Findings {
		if f.Check == "engine" {
			got = append(got, f)
		}
	}
	if len(got) != 2 || got[0].Severity != Wrong || got[0].Text != "the disk is full" || got[0].Fix != "Make room." || got[1].Severity != Note || got[0].Key() == got[1].Key() {
		t.Errorf("got %+v; want both faults", got)
	}
	x = of(nil, errors.New("no right to look"))
	if err := x.Err(); err == nil || !strings.Contains(err.Error(), "no right to look") {
		t.Errorf("got the error %v, want why the engine wasn't looked at", err)
	}
	if len(x.Findings) == 0 || x.Saw(Finding{Check: "engine"}) || !x.Saw(Finding{Check: "gates"}) {
		t.Errorf("got %+v; want the other findings, and the engine not looked at", x)
	}
}
