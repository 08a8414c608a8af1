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
