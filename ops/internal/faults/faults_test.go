package faults_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/guard"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/handling/verdict"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/ops/internal/faults"
	"github.com/millrace-go/millrace/values"
)

func published(name string) bool {
	return slices.Contains([]string{"orders", "post", "shop.order.v1"}, name)
}

// Law: an error of the framework without a text of a program is shown whole. Its errors are made here as it makes them,
// so that other words are a failure of this test.
func TestLawTheFrameworksOwnErrorsAreShown(t *testing.T) {
	t.Parallel()
	all := []error{
		fmt.Errorf("%w %s in queue %s", wire.ErrUnknownKind, "shop.order.v1", "orders"), wire.ErrDataLost, values.ErrContentDiffers, values.ErrTooOld,
		&guard.StatusError{Method: http.MethodPost, Code: 503}, &guard.Error{Name: "post", Fault: guard.Fault{Kind: guard.Transient}, Err: &guard.StatusError{Method: http.MethodGet, Code: 429}},
		&verdict.HangError{What: "the handler", Limit: 90 * time.Second}, handlers.Retry(1500*time.Millisecond, handlers.Poison(handlers.ReasonOutcomeUnknown, nil)), handlers.Poison("", nil),
		errors.New("in the poison queue of orders: " + handlers.ReasonUnknownKind), errors.New("no end within 48h0m0s"),
	}
	for _, reason := range []string{handlers.ReasonUndecodable, handlers.ReasonRefused, handlers.ReasonUnknownKind, handlers.ReasonAttempts, handlers.ReasonHangs, handlers.ReasonDeliveries,
		handlers.ReasonContentDiffers, handlers.ReasonTooOld, handlers.ReasonDataLost, handlers.ReasonBadKey, handlers.ReasonOutcomeUnknown} {
		all = append(all, handlers.Poison(reason, nil))
	}
	for kind := guard.Kind(0); !strings.HasPrefix(kind.String(), "Kind("); kind++ {
		all = append(all, &guard.Error{Name: "post", Fault: guard.Fault{Kind: kind}, Err: wire.ErrDataLost})
	}
	for _, err := range all {
		if own, rest := faults.Split(err.Error(), published); rest != "" || own != err.Error() {
			t.Errorf("%q: got %q and %q", err, own, rest)
		}
	}
}

// Law: what a program's code has written is none of the own words, whatever stands before it.
func TestLawAProgramsTextIsNoOwnWord(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                 "",
		"no card of Ada's": "",
		"outcome unknown: poison: outcome unknown: Ada's bank is gone":                           "outcome unknown: poison: outcome unknown: ",
		"poison: Ada is dead: yes":                                                               "",
		"outcome unknown: unknown kind Ada in queue orders":                                      "outcome unknown: ",
		"unknown kind Ada":                                                                       "",
		"unknown kind shop.order.v1 in queue Ada":                                                "",
		"unknown kind shop.order.v1 in queue orders of Ada":                                      "",
		"in the poison queue of Ada: unknown kind":                                               "",
		"in the poison queue of orders: Ada":                                                     "in the poison queue of orders: ",
		"guard: Ada: not done: no":                                                               "",
		"guard: post: not done: dial tcp ada.example":                                            "guard: post: not done: ",
		"POST was answered 503 Ada Unavailable":                                                  "",
		"POST was answered 503 Service Unavailable: Ada":                                         "",
		"ADA was answered 503 Service Unavailable":                                               "",
		"delivered 20 times without an outcome: does it kill its worker? last error: panic: Ada": "delivered 20 times without an outcome: does it kill its worker? last error: panic: ",
		"items 3, 4 and 7 more: Ada":                                                             "items 3, 4 and 7 more: ",
		"items Ada: gone":                                                                        "",
		"the handler hangs: it was to end within Ada":                                            "",
		"no end within 5s: Ada":                                                                  "no end within 5s: ",
		"unknown kind shop.order.v1 in queue orders\nAda":                                        "",
		"refused: refused: outcome unknown\u2028Ada":                                             "refused: refused: ",
		"panic: " + strings.Repeat("outcome unknown: ", 50):                                      "panic: " + strings.Repeat("outcome unknown: ", 50),
	} {
		own, rest := faults.Split(text, published)
		if own != want || own+rest != text {
			t.Errorf("%q: got %q and %q, want %q", text, own, rest, want)
		}
	}
}

// Law: digits of a program's text are no own words: those of a card or a telephone look like numbers of items, or like
// a time span. Numbers and spans are own words in the framework's form alone, and within bounds.
func TestLawAProgramsDigitsAreNoOwnWords(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"items 4111, 1111, 1111, 1111: card refused", "items 491701234, 567890123: no", "items 49170: no", "items 007: no", "items 1, 2, 2: no",
		"retry after 491701234567h: no", "retry after 49170h: no", "retry after 1m: no", "retry after 61s: no", "retry after 01s: no",
		"later, after ............s: no", "later, after 1.50s: no", "no end within 4917012h0m0s",
		"items 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22: no",
	} {
		if own, rest := faults.Split(text, published); own != "" || rest != text {
			t.Errorf("%q: got %q and %q", text, own, rest)
		}
	}
}

// Law: an own span is what the framework writes for it, and own items are in their order, whatever a text has.
func FuzzLawOwnNumbersAreTheFrameworks(f *testing.F) {
	f.Add("retry after", "1h0m0s", "")
	f.Add("later, after", "1.5s", "")
	f.Add("items", "4111", "1111")
	f.Add("items", "3", "14")
	f.Fuzz(func(t *testing.T, lead, a, b string) {
		text := lead + " " + a
		if b != "" {
			text += ", " + b
		}
		own, rest := faults.Split(text+": Ada", func(string) bool { return false })
		if own+rest != text+": Ada" {
			t.Fatalf("%q became %q and %q", text, own, rest)
		}
		if own == "" || b != "" && !strings.HasPrefix(own, "items ") {
			return
		}
		numbers := strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(own, "items "), "retry after "), "later, after "), ": ")
		if d, err := time.ParseDuration(numbers); err == nil && numbers != "0" && d.String() != numbers && strings.ContainsAny(numbers, "hms") {
			t.Errorf("%q: own words have the span %s, which is %s", text, numbers, d)
		}
		if rest, ok := strings.CutPrefix(own, "items "); ok {
			last := -1
			for _, x := range strings.Split(strings.TrimSuffix(rest, ": "), ", ") {
				var n int
				if _, err := fmt.Sscan(x, &n); err != nil || n <= last || n > 9999 {
					t.Errorf("%q: own words have the items %s", text, rest)
				}
				last = n
			}
		}
	})
}
