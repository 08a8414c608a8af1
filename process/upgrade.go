package process

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace-go/millrace/internal/contain"
	"github.com/millrace-go/millrace/internal/jsonform"
	"github.com/millrace-go/millrace/process/internal/flow"
)

// upgrade takes instances of a version over to another.
type upgrade struct {
	from, to int
	renamed  map[string]string
	state    func(jsontext.Value) (jsontext.Value, error)
}

// A Renaming says that a step has another name in the newer version.
type Renaming struct{ from, to string }

// Renamed returns a [Renaming].
func Renamed(from, to string) Renaming { return Renaming{from, to} }

// Upgrade takes instances of a version over to a newer one, at their next message, where all steps that are open, or
// may still be undone, are in both versions. Where they are not, the instance goes on by its own version until they
// are, so keep that registered. state is pure. [Check] finds what can't be taken over.
func Upgrade[Old, New any](from, to int, state func(Old) New, renamed ...Renaming) Part {
	u := upgrade{from: from, to: to, renamed: map[string]string{}}
	for _, r := range renamed {
		u.renamed[r.from] = r.to
	}
	if state != nil {
		u.state = func(raw jsontext.Value) (jsontext.Value, error) {
			old, err := decode[Old](raw)
			if err != nil {
				return nil, err
			}
			return jsonform.Encode(state(old))
		}
	}
	return u
}

func (u upgrade) addTo(d *definition) {
	switch _, twice := d.upgrades[u.from]; {
	case u.state == nil:
		d.fault("upgrade from version %d to %d: the function is nil", u.from, u.to)
	case u.from >= u.to:
		d.fault("upgrade from version %d to %d: want a newer one", u.from, u.to)
	case d.versions[u.to] == nil:
		d.fault("upgrade from version %d to %d: version %d is not registered before it", u.from, u.to, u.to)
	case twice:
		d.fault("upgrade from version %d is registered twice", u.from)
	default:
		d.upgrades[u.from] = u
	}
}

// checkUpgrades holds what was renamed against the versions.
func checkUpgrades(d *definition) {
	for _, from := range slices.Sorted(maps.Keys(d.upgrades)) {
		u := d.upgrades[from]
		for _, why := range misnamed(u.renamed, d.versions[from], d.versions[u.to]) {
			d.fault("upgrade from version %d to %d: %s", from, u.to, why)
		}
	}
}

// misnamed says which renamings are of steps that there are not. A plan that is nil is not known.
func misnamed(renamed map[string]string, from, to *flow.Plan) (all []string) {
	for _, old := range slices.Sorted(maps.Keys(renamed)) {
		name := renamed[old]
		if from != nil && from.Step(old) == nil {
			all = append(all, fmt.Sprintf("Renamed(%q, %q): version %d has no step %q", old, name, from.Version, old))
		}
		if to != nil && to.Step(name) == nil {
			all = append(all, fmt.Sprintf("Renamed(%q, %q): version %d has no step %q", old, name, to.Version, name))
		}
	}
	return all
}

// renaming returns the function that says what a step is called in the newer version.
func renaming(names map[string]string) func(string) string {
	return func(name string) string { return cmp.Or(names[name], name) }
}

// apply takes an instance over, if its open steps are in the newer plan.
func (u upgrade) apply(d flow.Instance, to *flow.Plan) (_ flow.Instance, ok bool) {
	next, ok := d.Carry(to, renaming(u.renamed))
	if !ok {
		return d, false
	}
	failed := contain.Apart(func() (err error) {
		next.State, err = u.state(d.State)
		return err
	})
	if failed != nil {
		return d, false // it goes on by its own version
	}
	return next, true
}

// Check says what [Upgrade] can't take over: sets of steps that an instance of the version from may wait for together,
// and that are not in the version to as they were, or with which it has done something that is not in it and may still
// be undone. Instances whose parts are open are taken over when these have ended. Use it in a test.
func Check(from, to Part, renamed ...Renaming) error {
	a, okA := from.(version)
	b, okB := to.(version)
	if !okA || !okB {
		return errors.New("process: check: want two versions")
	}
	d := define("check", a, b)
	if err := d.err(); err != nil {
		return fmt.Errorf("process: check: %w", err)
	}
	names := map[string]string{}
	for _, r := range renamed {
		names[r.from] = r.to
	}
	if all := misnamed(names, d.versions[a.number], d.versions[b.number]); len(all) > 0 {
		return fmt.Errorf("process: check: %s", strings.Join(all, "; "))
	}
	var faults []error
	for _, x := range d.versions[a.number].Strands(d.versions[b.number], renaming(names)) {
		why := ""
		if !slices.Contains(x.Waits, x.Cause) {
			why = fmt.Sprintf(", because %s, which may still be undone, is not in it", x.Cause)
		}
		faults = append(faults, fmt.Errorf("an instance of version %d that waits for %s can't go on by version %d%s", a.number, strings.Join(x.Waits, " and "), b.number, why))
	}
	if len(faults) == 0 {
		return nil
	}
	return fmt.Errorf("process: check: %w\nkeep version %d, or say what was renamed", errors.Join(faults...), a.number)
}
