package chart

import (
	"math"
	"strconv"
	"strings"
)

// Nothing stands in place of a missing number.
const Nothing = "–"

// Number writes three significant digits, with separated thousands.
func Number(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return Nothing
	}
	if v == 0 {
		return "0"
	}
	rounded, exponent, _ := strings.Cut(strconv.FormatFloat(v, 'e', 2, 64), "e")
	digits, _ := strconv.Atoi(exponent)
	v, _ = strconv.ParseFloat(rounded+"e"+exponent, 64)
	return thousands(strconv.FormatFloat(v, 'f', max(2-digits, 0), 64))
}

// Whole writes all digits, with separated thousands.
func Whole(n int) string { return thousands(strconv.Itoa(n)) }

func thousands(s string) string {
	whole, fraction, dot := strings.Cut(s, ".")
	for i := len(whole) - 3; i > 0 && whole[i-1] != '-'; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if dot {
		whole += "." + fraction
	}
	return whole
}
