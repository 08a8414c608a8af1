package ids

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/millrace-go/millrace/storage"
)

// damm is the quasigroup of order 10 in H. Michael Damm's thesis "Total anti-symmetrische Quasigruppen" (Marburg,
// 2004). Its check digit finds each wrong digit and each swap of neighbours. The diagonal is zero, so the check digit
// of a number leads back to 0.
var damm = [10][10]byte{
	{0, 3, 1, 7, 5, 9, 8, 6, 4, 2},
	{7, 0, 9, 2, 1, 5, 4, 8, 6, 3},
	{4, 2, 0, 6, 8, 7, 1, 3, 5, 9},
	{1, 7, 5, 0, 9, 8, 3, 4, 2, 6},
	{6, 1, 2, 3, 0, 4, 5, 9, 7, 8},
	{3, 6, 7, 4, 2, 0, 9, 5, 8, 1},
	{5, 8, 6, 9, 7, 2, 0, 1, 3, 4},
	{8, 9, 4, 5, 3, 6, 2, 0, 1, 7},
	{9, 4, 3, 8, 6, 1, 7, 2, 0, 5},
	{2, 5, 8, 1, 4, 3, 6, 7, 9, 0},
}

// check returns the check digit of a number in decimal digits. Other characters are left out.
func check(number string) byte {
	c := byte(0)
	for i := range len(number) {
		if d := number[i] - '0'; d <= 9 {
			c = damm[c][d]
		}
	}
	return '0' + c
}

// Format writes a number with its check digit: "1042-9". A number below 1, which no Sequence gives out, is written
// too, but [Parse] refuses it.
func Format(n int64) string {
	number := strconv.FormatInt(n, 10)
	return number + "-" + string(check(number))
}

// Parse reads what [Format] has written, and a person has perhaps typed. It finds one wrong digit, and two neighbours
// that were swapped. White space around the number is ignored, and a typographic hyphen or dash counts as a hyphen. A
// text before the number, such as "No.", is the caller's to cut off. The error is storage.ErrInvalid and says what is
// wrong.
func Parse(s string) (int64, error) {
	n, err := parse(strings.TrimSpace(s))
	if err != nil {
		return 0, fmt.Errorf("ids: parse %s: %w: %w", storage.Quote(s), storage.ErrInvalid, err)
	}
	return n, nil
}

func parse(s string) (int64, error) {
	s = hyphens(s)
	number, digit, found := strings.Cut(s, "-")
	switch {
	case !found || number == "" || len(digit) != 1 || !digits(number) || !digits(digit):
		return 0, errors.New(`want a number, a hyphen and a check digit, such as "1042-9"`)
	case number[0] == '0':
		return 0, errors.New("want a number from 1, without leading zeros")
	case check(number) != digit[0]:
		return 0, errors.New("the check digit doesn't fit: a digit was mistyped")
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("the number is larger than %d", int64(math.MaxInt64))
	}
	return n, nil
}

// hyphens replaces a hyphen (U+2010), a non-breaking hyphen (U+2011) and an en dash (U+2013).
func hyphens(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\u2010' || r == '\u2011' || r == '\u2013' {
			return '-'
		}
		return r
	}, s)
}

func digits(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < '0' || r > '9' })
}
