package sqlite

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

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

// parse splits a store URL, with or without its scheme. The path is taken as it is: nothing in it is escaped.
func parse(url string) (params, error) {
	p := params{wake: true}
	path, query, _ := strings.Cut(strings.TrimPrefix(url, "sqlite:"), "?")
	bad := func(format string, args ...any) (params, error) {
		return params{}, fmt.Errorf("%w: "+format, append([]any{driver.ErrInvalid}, args...)...)
	}
	switch {
	case path == "":
		return bad("no path; want one like sqlite:data/app.db")
	case path == ":memory:":
		return bad("a database in memory is not durable; want a path like sqlite:data/app.db")
	case strings.HasPrefix(path, "file:"), isURL(path):
		return bad("a path is wanted, not a URL: sqlite:relative/path or sqlite:/absolute/path") // a URL may hold a password
	case strings.ContainsRune(path, 0):
		return bad("path %s: it holds a zero byte", driver.Quote(path))
	case os.IsPathSeparator(path[len(path)-1]):
		return bad("path %s is a folder; want the path of a file in it", driver.Quote(path))
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
