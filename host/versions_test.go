package host_test

import (
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/millrace-go/millrace/internal/boottest"
)

// While a deployment rolls, each version of a program serves the static files of both. Of 1,000 loads of a page, each
// from any of the two, no request for a file fails, whichever of them it reaches.
func TestTwoVersionsOfTheSampleSideBySide(t *testing.T) {
	t.Parallel()
	m := copySample(t)
	bin := t.TempDir()
	var urls []string
	for _, version := range []string{"old", "new"} {
		m.Write(t, "reservations/site/static/site.css", "body{color:black} /* "+version+" */\n.brand{background:url(mark.svg)}\n")
		m.Write(t, "reservations/site/static/mark.svg", `<svg xmlns="http://www.w3.org/2000/svg"><title>`+version+`</title></svg>`)
		program := filepath.Join(bin, version)
		m.Go(t, "build", "-o", program, "./cmd/web")
		urls = append(urls, boottest.Start(t, program, m.Dir, nil, "-addr", "127.0.0.1:0", "-worker=false").URL(t))
	}
	reference := regexp.MustCompile(`(?:href|src)="(/static/[^"]+)"|url\(([^)]+)\)`)
	r := rand.New(rand.NewPCG(5, 6))
	names := map[string]bool{}
	get := func(path string) string {
		status, text := boottest.Get(t, urls[r.IntN(2)]+path)
		if status != http.StatusOK {
			t.Fatalf("%s: got %d", path, status)
		}
		return text
	}
	for range 1000 {
		for _, ref := range reference.FindAllStringSubmatch(get("/"), -1) {
			text := get(ref[1])
			names[ref[1]] = true
			for _, inner := range reference.FindAllStringSubmatch(text, -1) {
				get("/static/" + inner[2])
			}
		}
	}
	if len(names) != 4 { // the style sheet and the mark of both
		t.Errorf("the pages name %d files, want 4: %v", len(names), names)
	}
}
