// Package faults tells the framework's own words in the text of an error from the text of a program's code. The words
// are shown to everybody, because they say what somebody on call has to know. The program's text may be personal. So
// that text is hidden until somebody says why they need to see it.
//
//	own, rest := faults.Split("outcome unknown: no card of Ada's", published)
//	// "outcome unknown: ", "no card of Ada's"
//
// A text doesn't say who wrote it, and a program can write the framework's words, too. So the words are fixed. Only
// numbers, time spans and names vary in them, and the names are of queues, guards and kinds that everybody may see. So
// the own words of any text have nothing personal.
//
// # Laws
//
//   - Own words hold no character of a program's text, but for what the framework would have written itself.
//   - A name is a part of own words only if it is shown elsewhere. Else the own words end before the name's phrase.
//   - Own words and the rest are the text, in this order.
//   - An error of the framework that has no text of a program is own words from its begin to its end.
package faults

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// These patterns are of what varies in the framework's words. A test looks at what a group matches, because a
// program's text may look alike: its digits may be those of a card or a telephone.
const (
	number  = `[0-9]{1,4}`
	span    = `(?P<span>[0-9][0-9.hmsµn]{1,24})`
	items   = `(?P<items>` + number + `(?:, ` + number + `){0,9})`
	name    = `([^\s:"]{1,200})`
	reasons = `(?:undecodable|refused by its check|unknown kind|too many attempts|handler hangs|too many deliveries|same ID, other content|too old to judge|body is gone|bad key|outcome unknown|no reason given)`
	kinds   = `(?:done|refused|asked to wait|not done|outcome unknown|not called to the end)` // of faults of a guarded call
)

// leads are words before a text of somebody else.
var leads = compile(`(?:%s): `,
	`outcome unknown`, `stuck`, `this program`, `it can't run it`, `panic`, `refused`, `poison: `+reasons, `retry after `+span, `later, after `+span, `no end within `+span,
	`items `+items+`(?: and `+number+` more)?`,
	`in the poison queue of `+name, `guard: `+name+`: `+kinds,
	`delivered `+number+` times without an outcome: does it kill its worker\? last error`)

// wholes are errors from their begin to their end.
var wholes = compile(`(?:%s)$`,
	reasons, `poison: `+reasons, `unknown kind `+name+` in queue `+name, `unknown kind `+name, `no end within `+span, `canceled`,
	`the time for all of it is over`, `undone with what it belongs to`, `no answer in time`,
	`the handler hangs: it was to end within `+span+`, and was given up `+span+` later`,
	`another message with the same ID and other content has been applied`, `the message is too old to tell whether it has been applied`,
	`the claim-checked body is gone`, `a copy of this message was handled, and nobody knows whether its effect has happened`,
	`it has not answered`, `it has died with it, or just before: its row has been the same for three polls`, regexp.QuoteMeta(unchecked),
	`context deadline exceeded`, `context canceled`)

// unchecked is why settings that no program has aren't changed.
const unchecked = "no program that has these settings runs, so none has checked the change: start one (a program has settings if it calls host.Settings), and then repeat the change, or force it unchecked (--force)"

// answers match the error of package guard for a status of HTTP.
var answers = regexp.MustCompile(`^(?:GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS) was answered ([0-9]{3}) (.*)$`)

func compile(frame string, texts ...string) (all []*regexp.Regexp) {
	for _, text := range texts {
		all = append(all, regexp.MustCompile("^"+strings.Replace(frame, "%s", text, 1)))
	}
	return all
}

// Split returns the framework's own words at the begin of an error's text, and the rest. published reports that a name
// may be seen by everybody.
func Split(text string, published func(name string) bool) (own, rest string) {
	rest = text
	for {
		n := lead(rest, published)
		if n == 0 {
			break
		}
		rest = rest[n:]
	}
	if isWhole(rest, published) {
		rest = ""
	}
	return text[:len(text)-len(rest)], rest
}

// lead returns how long the words before somebody else's text are; 0 for none.
func lead(text string, published func(string) bool) int {
	for _, r := range leads {
		if m := r.FindStringSubmatch(text); m != nil && allowed(r, m, published) {
			return len(m[0])
		}
	}
	return 0
}

// isWhole reports that a text has the framework's words alone.
func isWhole(text string, published func(string) bool) bool {
	for _, r := range wholes {
		if m := r.FindStringSubmatch(text); m != nil && allowed(r, m, published) {
			return true
		}
	}
	m := answers.FindStringSubmatch(text)
	if m == nil {
		return false
	}
	code, _ := strconv.Atoi(m[1]) // three digits
	return m[2] == http.StatusText(code)
}

// allowed reports that the framework would have written what the groups of a pattern match.
func allowed(r *regexp.Regexp, found []string, published func(string) bool) bool {
	for i, group := range r.SubexpNames() {
		ok := true
		switch {
		case i == 0: // all of it
		case group == "span":
			ok = isSpan(found[i])
		case group == "items":
			ok = ascend(strings.Split(found[i], ", "))
		default:
			ok = published(found[i])
		}
		if !ok {
			return false
		}
	}
	return true
}

// longest bounds the time spans of own words.
const longest = 9999 * time.Hour

// isSpan reports that a text is a time span as the framework writes spans.
func isSpan(text string) bool {
	d, err := time.ParseDuration(text)
	return err == nil && d.String() == text && d <= longest
}

// ascend reports that numbers of items stand in their order, each written as the framework writes numbers.
func ascend(numbers []string) bool {
	last := -1
	for _, text := range numbers {
		n, err := strconv.Atoi(text)
		if err != nil || n <= last || strconv.Itoa(n) != text {
			return false
		}
		last = n
	}
	return true
}
