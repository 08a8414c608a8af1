package act

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/millrace-go/millrace/internal/storecall"
)

// The largest notes of all acts, in bytes.
const (
	MaxBy  = storecall.MaxBy
	MaxWhy = storecall.MaxWhy
)

// A Kind says what a field takes, for whoever asks a person for the text.
type Kind int

// The kinds of field.
const (
	KindText Kind = iota
	KindFlag      // true or false
	KindNumber
	KindDuration
	KindMoment
	KindContent // of a file
	KindFile    // the name of a file or folder of this machine, for an act that is Local or Disk
)

// A Field reads the text of a part of an input.
type Field struct {
	Name     string // of the flag
	About    string // what it is. The word in backquotes names the value
	Kind     Kind
	Place    string // names it among the arguments without a flag. "" means that it is a flag
	Both     bool   // it has a place, and is a flag, too
	Optional bool   // it has a place, and may be left out
	Many     bool   // it may be given several times
	Selects  bool   // it is one of those that select many things, in place of those that name one
	Default  string // as text; "" for none
	Most     int    // bytes of content

	Set   func(text string) error                        // reads text
	Words func(ctx context.Context, desk *Desk) []string // what it may be, as far as that is known; may be nil
	Plain []string                                       // what it may be, whatever the store holds
	Shown func(text string) string                       // what others may read of its text; nil means all of it

	given *[]string // the texts that it has read
}

// At gives a field a place among the arguments that have no flag.
func (f Field) At(place string) Field { f.Place = place; return f }

// Maybe says that a field with a place may be left out.
func (f Field) Maybe() Field { f.Optional = true; return f }

// OrFlag says that a field with a place may be given by its flag instead.
func (f Field) OrFlag() Field { f.Optional, f.Both = true, true; return f }

// Selecting says of fields that they select many things, for an act that also takes the name of one.
func Selecting(fields []Field) []Field {
	for i := range fields {
		fields[i].Selects = true
	}
	return fields
}

// From says where the words come from that a field may be.
func (f Field) From(words func(context.Context, *Desk) []string) Field { f.Words = words; return f }

// OneOf says which words a field may be.
func (f Field) OneOf(words ...string) Field { f.Plain = words; return f.With(among(words)) }

// Hidden says that nobody but the store may know the text: the audit log has a mark in its place.
func (f Field) Hidden() Field { return f.ShownAs(func(string) string { return "…" }) }

// ShownAs says what others may read of the text.
func (f Field) ShownAs(shown func(text string) string) Field { f.Shown = shown; return f }

// With adds a check of the text. Its error says what is wanted.
func (f Field) With(check func(text string) error) Field {
	set := f.Set
	f.Set = func(s string) error {
		if err := check(s); err != nil {
			return err
		}
		return set(s)
	}
	return f
}

func among(words []string) func(string) error {
	return func(s string) error {
		if !slices.Contains(words, s) {
			return fmt.Errorf("want one of %s", strings.Join(words, ", "))
		}
		return nil
	}
}

func (f Field) usage() string {
	name := f.Place
	if f.Many {
		name += "…"
	}
	if f.Optional {
		name = "[" + name + "]"
	}
	return name
}

// Text reads a text. An empty one comes from an unset variable of a shell, and must not mean "any".
func Text(to *string, name, about string) Field {
	return Field{Name: name, About: about, Default: *to, Set: func(s string) error { return text(to, s) }}
}

// Texts reads a text each time that it is given.
func Texts(to *[]string, name, about string) Field {
	return Field{Name: name, About: about, Many: true, Set: func(s string) error {
		var one string
		if err := text(&one, s); err != nil {
			return err
		}
		*to = append(*to, one)
		return nil
	}}
}

func text(to *string, s string) error {
	if s == "" {
		return errors.New("the value is empty")
	}
	*to = s
	return nil
}

// note reads a text that other people read on their terminals.
func note(to *string, name, about string, most int) Field {
	return Text(to, name, about).With(func(s string) error { return CheckNote(s, most) })
}

// CheckNote says what keeps a text from being a note.
func CheckNote(s string, most int) error {
	if len(s) > most || !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) {
		return fmt.Errorf("want at most %d bytes of valid UTF-8 without control characters", most)
	}
	return nil
}

// Flag reads true or false.
func Flag(to *bool, name, about string) Field {
	return Field{Name: name, About: about, Kind: KindFlag, Set: func(s string) (err error) {
		if *to, err = strconv.ParseBool(s); err != nil {
			return errors.New("want true or false")
		}
		return nil
	}}
}

// Number reads a whole number between two.
func Number[N ~int | ~int64 | ~uint64](to *N, name, about string, least, most N) Field {
	f := Field{Name: name, About: about, Kind: KindNumber, Set: func(s string) error {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil || n < 0 && N(n) > 0 || N(n) < least || N(n) > most {
			return fmt.Errorf("want a number from %d to %d", least, most)
		}
		*to = N(n)
		return nil
	}}
	if *to != 0 {
		f.Default = fmt.Sprint(*to)
	}
	return f
}

// Duration reads a time span between two.
func Duration(to *time.Duration, name, about string, least, most time.Duration) Field {
	f := Field{Name: name, About: about, Kind: KindDuration, Set: func(s string) error {
		d, err := time.ParseDuration(s)
		if err != nil || d < least || d > most {
			return fmt.Errorf("want a time such as 90s, 30m or 12h, from %s to %s", span(least), span(most))
		}
		*to = d
		return nil
	}}
	if *to != 0 {
		f.Default = span(*to)
	}
	return f
}

// span is a time span for people.
func span(d time.Duration) string {
	if days := d / (24 * time.Hour); days > 10 && d%(24*time.Hour) == 0 {
		return fmt.Sprintf("%d days", days)
	}
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}

// MaxAhead is how far ahead a moment or a delay may be.
const MaxAhead = 3650 * 24 * time.Hour

// aMoment is a moment, for help and errors.
const aMoment = "2026-12-24T18:00:00+01:00 or \"2026-12-24 18:00\""

// Moment reads a time, by this machine's zone where the text names none.
func Moment(to *time.Time, name, about string) Field {
	return Field{Name: name, Kind: KindMoment,
		About: about + ", such as " + aMoment + " of this machine, at most 3650 days ahead",
		Set: func(s string) error {
			for _, layout := range []string{time.RFC3339, time.DateTime, "2006-01-02 15:04", "2006-01-02T15:04"} {
				if t, err := time.ParseInLocation(layout, s, time.Local); err == nil && time.Until(t) <= MaxAhead {
					*to = t
					return nil
				}
			}
			return errors.New("want a time such as " + aMoment + ", at most 3650 days ahead")
		}}
}

// Content reads what is in a file, at most so many bytes. A command line takes the file's name, or - for the standard
// input.
func Content(to *[]byte, name, about string, most int) Field {
	return Field{Name: name, About: about, Kind: KindContent, Most: most, Set: func(s string) error {
		switch {
		case len(s) > most:
			return fmt.Errorf("more than %d bytes", most)
		case strings.TrimSpace(s) == "":
			return errors.New("it is empty")
		}
		*to = []byte(s)
		return nil
	}}
}
