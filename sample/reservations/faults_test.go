package reservations

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// noon is noon in the restaurant and midnight in Greenwich: the day must be the restaurant's.
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
		{"a name with joiners", func(m *MakeReservation) { m.Name = "علی\u200cرضا" }, nil},
		{"a name of one sign", func(m *MakeReservation) { m.Name = "王" }, nil},
		{"a name of an emoji", func(m *MakeReservation) { m.Name = "🍲" }, nil},
		{"a name of spaces from all over the world", func(m *MakeReservation) { m.Name = "\u00a0\u2003\u3000" }, []string{"name"}},
		{"a name of zero width", func(m *MakeReservation) { m.Name = "\u200b\u200c\u200d\u2060\ufeff" }, []string{"name"}},
		{"a name of joiners only", func(m *MakeReservation) { m.Name = "\u200c\u200d" }, []string{"name"}},
		{"a name of blank Braille", func(m *MakeReservation) { m.Name = "\u2800\u2800" }, []string{"name"}},
		{"a name of blank letters", func(m *MakeReservation) { m.Name = "\u3164\u115f\u1160\uffa0" }, []string{"name"}},
		{"a name of accents only", func(m *MakeReservation) { m.Name = "\u0301\ufe0f\u034f" }, []string{"name"}},
		{"a name that turns what follows", func(m *MakeReservation) { m.Name = "Ada\u202egnp.exe" }, []string{"name"}},
		{"a name with an isolate", func(m *MakeReservation) { m.Name = "\u2066Ada\u2069" }, []string{"name"}},
		{"a name with a mark of direction", func(m *MakeReservation) { m.Name = "\u200eAda" }, []string{"name"}},
		{"a name with a soft hyphen", func(m *MakeReservation) { m.Name = "A\u00adda" }, []string{"name"}},
		{"a name with a tag", func(m *MakeReservation) { m.Name = "Ada\U000e0041" }, []string{"name"}},
		{"a name in letters of one's own", func(m *MakeReservation) { m.Name = "Ada \ue000" }, []string{"name"}},
		{"a name of code points that mean nothing", func(m *MakeReservation) { m.Name = "Ada \U000efffe" }, []string{"name"}},
		{"a name that is no text", func(m *MakeReservation) { m.Name = "Ada\xff" }, []string{"name"}},
		{"no address", func(m *MakeReservation) { m.Email = "ada" }, []string{"email"}},
		{"two addresses", func(m *MakeReservation) { m.Email = "ada@example.org, bob@example.org" }, []string{"email"}},
		{"an address with a name", func(m *MakeReservation) { m.Email = "Ada <ada@example.org>" }, []string{"email"}},
		{"an address of two lines", func(m *MakeReservation) { m.Email = "ada@example.org\r\nBcc: all@example.org" }, []string{"email"}},
		{"an address that turns what follows", func(m *MakeReservation) { m.Email = "ada\u202e@example.org" }, []string{"email"}},
		{"an address of zero width", func(m *MakeReservation) { m.Email = "\u200bada@example.org" }, []string{"email"}},
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

// A name's fault says whether the name has no visible character, or a character that must go.
func TestFaultsOfNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"\u200b": "Tell us your name.", "\u2800": "Tell us your name.", "Ada\u202e": "can't be seen", "\u200bAda": "can't be seen"} {
		if got := (MakeReservation{Name: name}).Faults()["name"]; !strings.Contains(got, want) {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
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
