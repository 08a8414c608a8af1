package millrace_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

const mostLines = 60 // of a function outside of tests

// longFunctions are the functions outside of tests that may be longer than mostLines, by file and name, with the
// reasons.
func longFunctions() map[string]string {
	return map[string]string{
		"cmd/internal/mutants/list.go promises":       "a table: one entry for each break",
		"cmd/internal/mutants/parts.go parts":         "a table: one entry for each break",
		"cmd/internal/mutants/process.go processes":   "a table: one entry for each break",
		"cmd/internal/mutants/guard.go guards":        "a table: one entry for each break",
		"cmd/internal/mutants/adaptive.go adaptives":  "a table: one entry for each break",
		"cmd/internal/mutants/calls.go guardedCalls":  "a table: one entry for each break",
		"cmd/internal/mutants/alerts.go alerted":      "a table: one entry for each break",
		"cmd/internal/mutants/limit.go limits":        "a table: one entry for each break",
		"cmd/internal/mutants/settings.go changes":    "a table: one entry for each break",
		"cmd/internal/mutants/turns.go turnRows":      "a table: one entry for each break",
		"cmd/internal/mutants/turns.go turnReactions": "a table: one entry for each break",
	}
}

// tooLong returns a sentence for each function outside of tests with more lines than most and no reason, and for each
// reason that no function needs.
func tooLong(files []source, most int, reasons map[string]string) []string {
	var wrong []string
	unused := maps.Clone(reasons)
	for _, f := range files {
		for _, d := range f.tree.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || f.test {
				continue
			}
			name := fn.Name.Name
			if fn.Recv != nil {
				name = receiver(fn) + "." + name
			}
			name = f.name + " " + name
			n := f.set.Position(fn.End()).Line - f.set.Position(fn.Pos()).Line + 1
			if n <= most {
				continue
			}
			if reasons[name] == "" {
				wrong = append(wrong, fmt.Sprintf("%s has %d lines, more than %d: split it, or give the reason in longFunctions", name, n, most))
			}
			delete(unused, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(unused)) {
		wrong = append(wrong, fmt.Sprintf("%s is listed in longFunctions, but no such function has more than %d lines: remove the entry", name, most))
	}
	return wrong
}

// receiver returns the name of a method's type, without * and type parameters.
func receiver(fn *ast.FuncDecl) string {
	e := fn.Recv.List[0].Type
	for {
		switch x := e.(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.IndexListExpr:
			e = x.X
		case *ast.Ident:
			return x.Name
		default:
			return fmt.Sprintf("%T", e)
		}
	}
}

func TestFunctionsAreShort(t *testing.T) {
	t.Parallel()
	for _, s := range tooLong(sources(t), mostLines, longFunctions()) {
		t.Error(s)
	}
}

func TestLongFunctionsAreRefused(t *testing.T) {
	t.Parallel()
	files := []source{
		parsed(t, "a/one.go", "package a\nfunc long() {\n\n}\ntype x int\nfunc (*x) long() {\n\n}\nfunc short() {\n}"),
		parsed(t, "a/one_test.go", "package a\nfunc inTest() {\n\n}"),
	}
	want := []string{
		"a/one.go long has 3 lines, more than 2: split it, or give the reason in longFunctions",
		"a/one.go short is listed in longFunctions, but no such function has more than 2 lines: remove the entry",
	}
	reasons := map[string]string{"a/one.go x.long": "a table", "a/one.go short": "it was long once"}
	if got := tooLong(files, 2, reasons); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := tooLong(files, 3, nil); len(got) != 0 {
		t.Errorf("got %q, want nothing", got)
	}
}

// parsed returns a source of the module that exists in the test only.
func parsed(t *testing.T, name, text string) source {
	t.Helper()
	f := source{name: name, pkg: path.Dir(name), test: strings.HasSuffix(name, "_test.go"), text: []byte(text), set: token.NewFileSet()}
	var err error
	if f.tree, err = parser.ParseFile(f.set, name, text, parser.SkipObjectResolution); err != nil {
		t.Fatal(err)
	}
	return f
}
