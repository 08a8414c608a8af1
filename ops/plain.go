package ops

import (
	"fmt"
	"html/template"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// isHidden reports a rune that people can't see: a control character, or a mark that turns the direction of the text.
func isHidden(r rune) bool {
	switch {
	case ' ' <= r && r <= '~', r == '\n', r == '\r', r == '\t', unicode.Is(unicode.Zs, r):
		return false
	}
	return !unicode.IsPrint(r) || r == utf8.RuneError
}

// plain is a text without what people can't see. Each such rune is shown as Go writes it. A whole page goes through
// plain, so no part of a page can forget to.
func plain(s string) string {
	return replaceHidden(s, func(r rune) string { return strings.Trim(strconv.QuoteRuneToASCII(r), "'") })
}

// plainJSON is plain for JSON that somebody goes on to edit: it means the same.
func plainJSON(s string) string {
	return replaceHidden(s, func(r rune) string {
		if high, low := utf16.EncodeRune(r); high != utf8.RuneError {
			return fmt.Sprintf(`\u%04x\u%04x`, high, low)
		}
		return fmt.Sprintf(`\u%04x`, r)
	})
}

// unseen is the attribute of a field that nobody sees. A browser sends the text as it is, although the page has been
// made plain. No act takes a name with control characters, which HTML can't name.
func unseen(s string) template.HTMLAttr {
	return template.HTMLAttr(`value="` + replaceHidden(template.HTMLEscapeString(s), func(r rune) string {
		if unicode.IsControl(r) {
			return string(r)
		}
		return fmt.Sprintf("&#x%x;", r)
	}) + `"`)
}

// replaceHidden puts a text in the place of each rune that people can't see.
func replaceHidden(s string, with func(rune) string) string {
	if !strings.ContainsFunc(s, isHidden) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if isHidden(r) {
			b.WriteString(with(r))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}
