package reservations

import (
	"fmt"
	"maps"
	"net/mail"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/millrace-go/millrace/channel"
)

// Limits of a reservation.
const (
	MaxQuantity = 20  // seats of one reservation; a larger party must phone
	MaxName     = 100 // characters
	MaxEmail    = 254 // bytes, what SMTP carries
	MonthsAhead = 12

	idYoungest = 24 * time.Hour     // how far ahead the clock of the ID's maker may be
	idOldest   = 7 * 24 * time.Hour // well within the time for which the framework remembers decided IDs
)

var idPattern = regexp.MustCompile(`^[A-Za-z0-9_-]{8,64}$`)

// Faults say what is wrong with which field, in words for people. They are an error where there are some.
type Faults map[string]string

// Error has all faults, by field.
func (f Faults) Error() string {
	var all []string
	for _, field := range slices.Sorted(maps.Keys(f)) {
		all = append(all, field+": "+f[field])
	}
	return strings.Join(all, " ")
}

// Check returns the [Faults] that don't depend on the time. The framework calls it: a faulty reservation isn't sent by
// any program, and one that comes all the same goes to the poison queue before it is decided.
func (m MakeReservation) Check() error {
	if f := m.Faults(); len(f) > 0 {
		return f
	}
	return nil
}

// ValidID reports whether an ID can be a reservation's.
func ValidID(id string) bool { return idPattern.MatchString(id) }

// ValidMonth reports whether a text is a month such as "2026-12".
func ValidMonth(month string) bool {
	_, err := time.Parse("2006-01", month)
	return err == nil
}

// Faults makes the checks that don't depend on the time.
func (m MakeReservation) Faults() Faults {
	f := Faults{}
	if !ValidID(m.ID) {
		f["id"] = "An ID has 8 to 64 letters, digits, hyphens and underscores."
	}
	if m.Date == "" {
		f["date"] = "Choose a date."
	} else if _, err := time.Parse(time.DateOnly, m.Date); err != nil {
		f["date"] = "Write the date as year-month-day, for example 2026-12-24."
	}
	switch {
	case !strings.ContainsFunc(m.Name, visible):
		f["name"] = "Tell us your name."
	case utf8.RuneCountInString(m.Name) > MaxName:
		f["name"] = fmt.Sprintf("Please shorten the name to %d characters.", MaxName)
	case !utf8.ValidString(m.Name) || strings.ContainsFunc(m.Name, unprintable):
		f["name"] = "The name has a character that can't be seen or printed. Please type it again."
	}
	if m.Email == "" {
		f["email"] = "Tell us where to send the answer."
	} else if a, err := mail.ParseAddress(m.Email); err != nil || a.Address != m.Email || len(m.Email) > MaxEmail || strings.ContainsFunc(m.Email, unprintable) {
		f["email"] = "Write an e-mail address, for example ada@example.org."
	}
	if m.Quantity < 1 || m.Quantity > MaxQuantity {
		f["quantity"] = fmt.Sprintf("Choose 1 to %d seats.", MaxQuantity)
	}
	return f
}

// FaultsAt also makes the checks that depend on the time: whether the date can be booked now, and whether the ID is
// young enough to recognise a repeat with certainty.
func (m MakeReservation) FaultsAt(now time.Time) Faults {
	f := m.Faults()
	first, last := Bookable(now)
	switch {
	case f["date"] != "":
	case m.Date < first:
		f["date"] = "That day is over."
	case m.Date > last:
		f["date"] = fmt.Sprintf("We take reservations for up to %d months ahead.", MonthsAhead)
	}
	if t, ok := channel.IDTime(m.ID); ok && (now.Sub(t) > idOldest || t.Sub(now) > idYoungest) {
		f["id"] = "This ID is too old or from the future. Make a new one."
	}
	return f
}

// Bookable returns the first and the last date that can be booked. Today is the date in now's location: that of the
// server, whose time zone is the restaurant's.
func Bookable(now time.Time) (first, last string) {
	y, m, d := now.Date()
	end := time.Date(y, m+MonthsAhead, d, 0, 0, 0, 0, time.UTC)
	return now.Format(time.DateOnly), end.Format(time.DateOnly)
}

// unprintable reports characters that a name must not have: control characters, those that change the direction of
// text, and others that are invisible. The two joiners are allowed, because names in Persian or Malayalam need them,
// and so do many emoji.
func unprintable(r rune) bool {
	const nonJoiner, joiner = '\u200c', '\u200d'
	return !unicode.IsGraphic(r) && r != nonJoiner && r != joiner
}

// visible reports characters of which a name needs at least one. Some letters and signs are defined to be blank.
func visible(r rune) bool {
	const blankBraille = '\u2800'
	return r != blankBraille && unicode.In(r, unicode.L, unicode.N, unicode.P, unicode.S) && !unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r)
}
