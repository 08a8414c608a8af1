package sqlite

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/millrace-go/millrace/storage/driver"
)

// params are the contents of a store URL after "sqlite:".
type params struct {
	path   string // absolute
	normal bool   // sync=normal
	wake   bool   // watch other processes
	log    *slog.Logger
}

const knownParams = "sync=full|normal, wake=on|off"

// File returns the path in a store URL, with or without the scheme, as it is written there. The path is taken as it is:
// nothing in it is escaped. The error matches storage.ErrInvalid if the path can't be meant, as one with a line break
// at its end, or with a ~ that no shell has replaced.
func File(url string) (string, error) {
	path, _, _ := strings.Cut(strings.TrimPrefix(url, "sqlite:"), "?")
	bad := func(format string, args ...any) (string, error) {
		return "", fmt.Errorf("%w: "+format, append([]any{driver.ErrInvalid}, args...)...)
	}
	switch {
	case path == "":
		return bad("no path; want one like sqlite:data/app.db")
	case path == ":memory:":
		return bad("a database in memory is not durable; want a path like sqlite:data/app.db")
	case strings.HasPrefix(path, "file:"), isURL(path):
		return bad("a path is wanted, not a URL: sqlite:relative/path or sqlite:/absolute/path") // a URL may hold a password
	}
	if why := mistyped(path); why != "" {
		return bad("path %s %s", driver.Quote(path), why)
	}
	return path, nil
}

// mistyped says why a path can't be what was meant. SQLite would make a file of that name.
func mistyped(path string) string {
	bare := strings.TrimSpace(path)
	first, _, deep := strings.Cut(path, "/")
	switch {
	case bare != path:
		return "has white space, or a line break, at its beginning or end; want " + driver.Quote(bare)
	case strings.ContainsFunc(path, unicode.IsControl):
		return "holds a control character, such as a line break; want one without"
	case len(path) > 1 && strings.ContainsAny(path[:1], `"'`) && path[len(path)-1] == path[0]:
		return "is in quotes, which are taken for a part of it; want " + driver.Quote(path[1:len(path)-1])
	case first == "~", deep && first[:min(1, len(first))] == "~":
		return "begins with a ~, which only a shell replaces; want the folder in its place, or ./~"
	case path[0] == '$', strings.Contains(path, "${"), strings.Contains(path, "$("):
		return "has the name of a variable in it, which nothing has replaced; want the variable's value in its place"
	case os.IsPathSeparator(path[len(path)-1]):
		return "is a folder; want the path of a file in it"
	}
	return ""
}

// parse splits a store URL, with or without its scheme.
func parse(url string) (params, error) {
	p := params{wake: true}
	_, query, _ := strings.Cut(url, "?")
	bad := func(format string, args ...any) (params, error) {
		return params{}, fmt.Errorf("%w: "+format, append([]any{driver.ErrInvalid}, args...)...)
	}
	path, err := File(url)
	if err != nil {
		return params{}, err
	}
	seen := map[string]bool{}
	for query != "" {
		var pair string
		pair, query, _ = strings.Cut(query, "&")
		name, value, _ := strings.Cut(pair, "=")
		if seen[name] {
			return bad("parameter %s is given twice; known parameters are %s", driver.Quote(name), knownParams)
		}
		seen[name] = true
		switch name + "=" + value {
		case "sync=full", "wake=on":
		case "sync=normal":
			p.normal = true
		case "wake=off":
			p.wake = false
		default:
			return bad("parameter %s, or its value, is unknown; known are %s", driver.Quote(name), knownParams) // a value may be a secret
		}
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return bad("path %s: %v", driver.Quote(path), err)
	}
	p.path = abs
	return p, nil
}

// isURL reports that two slashes begin a path, or follow a name and a colon, as in the URL of another kind of store.
func isURL(path string) bool {
	scheme, _, ok := strings.Cut(path, "//")
	return ok && (scheme == "" || strings.HasSuffix(scheme, ":") && !strings.ContainsAny(scheme, `/\`))
}
