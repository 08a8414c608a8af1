package login

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// nextIn is the field of a form, and of a link's query, that has the page to which a login leads.
const nextIn = "next"

// mostWay bounds the length of a way, in bytes.
const mostWay = 2000

// wanted is the page that somebody has asked for who isn't in yet, seen from the base. A login leads there.
func wanted(r *http.Request, base string) string {
	if r.URL.Path == base+"/login" { // it was asked for before
		return LocalWay(strings.Join(append(r.URL.Query()[nextIn], r.PostForm[nextIn]...), ""))
	}
	way := strings.TrimPrefix(r.URL.EscapedPath(), base+"/")
	if r.URL.RawQuery != "" {
		way += "?" + r.URL.RawQuery
	}
	return LocalWay(way)
}

// LocalWay returns a way to a page below the base, or "" where the way may lead elsewhere: to another host, or out of
// the base by dots, which browsers also read where they are escaped. A browser takes a backslash for a slash, and
// leaves out tabs and ends of lines. No way leads to a login.
func LocalWay(way string) string {
	if len(way) > mostWay || strings.ContainsFunc(way, func(r rune) bool { return r <= ' ' || r > '~' || r == '\\' }) {
		return ""
	}
	to, err := url.Parse("./" + way)
	if err != nil || to.IsAbs() || to.Host != "" || to.Fragment != "" || strings.HasPrefix(way, "/") {
		return ""
	}
	parts := strings.Split(strings.TrimPrefix(to.EscapedPath(), "./"), "/")
	for i, part := range parts {
		name, err := url.PathUnescape(part)
		if err != nil || name == "." || name == ".." || name == "" && i < len(parts)-1 {
			return ""
		}
	}
	if slices.Contains([]string{"login", "logout"}, parts[0]) {
		return ""
	}
	return way
}
