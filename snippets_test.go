package millrace_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The Go of a page that no test compiles names only what its packages have.
func TestPagesNameWhatThereIs(t *testing.T) {
	t.Parallel()
	exported := map[string][]string{} // by the package's name
	for _, file := range publicFiles(t) {
		if strings.HasPrefix(file, "sample") || strings.HasPrefix(file, "examples") {
			continue // programs
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		name := parsed.Name.Name
		for _, d := range parsed.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					exported[name] = append(exported[name], d.Name.Name)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.TypeSpec:
						exported[name] = append(exported[name], s.Name.Name)
					case *ast.ValueSpec:
						for _, n := range s.Names {
							exported[name] = append(exported[name], n.Name)
						}
					}
				}
			}
		}
	}
	pages, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	code, use := regexp.MustCompile("(?s)```go\n(.*?)```"), regexp.MustCompile(`\b([a-z]+)\.([A-Z]\w*)`)
	n := 0
	for _, page := range append(pages, "README.md", "SECURITY.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range code.FindAllStringSubmatch(string(text), -1) {
			for _, found := range use.FindAllStringSubmatch(part[1], -1) {
				names, ours := exported[found[1]]
				if !ours || strings.Contains(part[1], found[1]+" :=") || strings.Contains(part[1], found[1]+", err :=") { // a variable
					continue
				}
				if n++; !slices.Contains(names, found[2]) {
					t.Errorf("%s has %s, which isn't there", page, found[0])
				}
			}
		}
	}
	if n < 50 {
		t.Errorf("got %d names in the pages; want those of all examples", n)
	}
}
