package reservations

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// Noon in the restaurant, midnight in Greenwich: the day must be the restaurant's.
var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.FixedZone("far east", 12*60*60))

func TestFaults(t *testing.T) {
	t.Parallel()
	idOf := func(at time.Time) string {
		return fmt.Sprintf("%012x", at.UnixMilli())[:8] + "-" + fmt.Sprintf("%012x", at.UnixMilli())[8:] + "-7abc-8abc-0123456789ab"
	}
	for _, test := range []struct {
		name   string
		change func(*MakeReservation)
		faulty []string
	}{
		{"nothing", func(*MakeReservation) {}, nil},
		{"a name with accents and an emoji", func(m *MakeReservation) { m.Name = "Zoë O’Hara-Ñandú 👩‍🚀" }, nil},
		{"the longest name", func(m *MakeReservation) { m.Name = strings.Repeat("ß", MaxName) }, nil},
		{"the largest party", func(m *MakeReservation) { m.Quantity = MaxQuantity }, nil},
		{"today", func(m *MakeReservation) { m.Date = "2026-11-20" }, nil},
		{"the last day", func(m *MakeReservation) { m.Date = "2027-11-20" }, nil},
		{"a young ID", func(m *MakeReservation) { m.ID = idOf(noon.Add(-6 * 24 * time.Hour)) }, nil},
		{"all empty", func(m *MakeReservation) { *m = MakeReservation{} }, []string{"date", "email", "id", "name", "quantity"}},
		{"a short ID", func(m *MakeReservation) { m.ID = "a" }, []string{"id"}},
		{"a long ID", func(m *MakeReservation) { m.ID = strings.Repeat("a", 65) }, []string{"id"}},
		{"a path as ID", func(m *MakeReservation) { m.ID = "../../etc/passwd" }, []string{"id"}},
		{"somebody's cancellation as ID", func(m *MakeReservation) { m.ID = CancelReservation{ID: "reservation-b"}.MessageID() }, []string{"id"}},
		{"an old ID", func(m *MakeReservation) { m.ID = idOf(noon.Add(-8 * 24 * time.Hour)) }, []string{"id"}},
		{"an ID from the future", func(m *MakeReservation) { m.ID = idOf(noon.Add(48 * time.Hour)) }, []string{"id"}},
		{"yesterday", func(m *MakeReservation) { m.Date = "2026-11-19" }, []string{"date"}},
		{"too far ahead", func(m *MakeReservation) { m.Date = "2027-11-21" }, []string{"date"}},
		{"a lazy date", func(m *MakeReservation) { m.Date = "2026-12-4" }, []string{"date"}},
		{"no such day", func(m *MakeReservation) { m.Date = "2026-11-31" }, []string{"date"}},
		{"a time", func(m *MakeReservation) { m.Date = "2026-12-24T18:00" }, []string{"date"}},
		{"a blank name", func(m *MakeReservation) { m.Name = " \t" }, []string{"name"}},
		{"a name too long", func(m *MakeReservation) { m.Name = strings.Repeat("ß", MaxName+1) }, []string{"name"}},
		{"a name of two lines", func(m *MakeReservation) { m.Name = "Ada\r\nBcc: all@example.org" }, []string{"name"}},
		{"a name that is no text", func(m *MakeReservation) { m.Name = "Ada\xff" }, []string{"name"}},
		{"no address", func(m *MakeReservation) { m.Email = "ada" }, []string{"email"}},
		{"two addresses", func(m *MakeReservation) { m.Email = "ada@example.org, bob@example.org" }, []string{"email"}},
		{"an address with a name", func(m *MakeReservation) { m.Email = "Ada <ada@example.org>" }, []string{"email"}},
		{"an address of two lines", func(m *MakeReservation) { m.Email = "ada@example.org\r\nBcc: all@example.org" }, []string{"email"}},
		{"an address too long", func(m *MakeReservation) { m.Email = strings.Repeat("a", MaxEmail) + "@example.org" }, []string{"email"}},
		{"nobody", func(m *MakeReservation) { m.Quantity = 0 }, []string{"quantity"}},
		{"fewer than nobody", func(m *MakeReservation) { m.Quantity = -1 }, []string{"quantity"}},
		{"a crowd", func(m *MakeReservation) { m.Quantity = MaxQuantity + 1 }, []string{"quantity"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			m := ask("reservation-a", 2)
			test.change(&m)
			if got := slices.Sorted(maps.Keys(m.FaultsAt(noon))); !slices.Equal(got, test.faulty) {
				t.Errorf("faulty fields of %+v: got %v, want %v", m, got, test.faulty)
			}
		})
	}
}

func TestMonths(t *testing.T) {
	t.Parallel()
	for month, want := range map[string]bool{"2026-12": true, "2026-13": false, "2026-1": false, "2026-12-01": false, "": false, "../..": false} {
		if got := ValidMonth(month); got != want {
			t.Errorf("ValidMonth(%q): got %v, want %v", month, got, want)
		}
	}
	for date, want := range map[string]string{"2026-12-24": "2026-12", "": "", "2026": "2026"} {
		if got := MonthOf(date); got != want {
			t.Errorf("MonthOf(%q): got %q, want %q", date, got, want)
		}
	}
}
