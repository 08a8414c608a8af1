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

const (
	mostMethods = 20 // of a type
	mostLines   = 60 // of a function outside of tests
)

// largeTypes are the types that may have more than mostMethods methods, by package and name, with the reasons.
func largeTypes() map[string]string {
	return nil
}

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
		"cmd/internal/mutants/share.go shared":        "a table: one entry for each break",
		"cmd/internal/mutants/settings.go changes":    "a table: one entry for each break",
		"cmd/internal/mutants/turns.go turnRows":      "a table: one entry for each break",
		"cmd/internal/mutants/turns.go turnReactions": "a table: one entry for each break",
	}
}

// tooManyMethods returns a sentence for each type with more methods than most and no reason, and for each reason that
// no type needs. Methods that are declared in tests don't count.
func tooManyMethods(files []source, most int, reasons map[string]string) []string {
	methods := map[string]int{}
	for _, f := range files {
		for _, d := range f.tree.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil && !f.test {
				methods[f.pkg+"."+receiver(fn)]++
			}
		}
	}
	var wrong []string
	for _, name := range slices.Sorted(maps.Keys(methods)) {
		if n := methods[name]; n > most && reasons[name] == "" {
			wrong = append(wrong, fmt.Sprintf("%s has %d methods, more than %d: split it, or give the reason in largeTypes", name, n, most))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(reasons)) {
		if methods[name] <= most {
			wrong = append(wrong, fmt.Sprintf("%s is listed in largeTypes, but has %d methods, not more than %d: remove the entry", name, methods[name], most))
		}
	}
	return wrong
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

func TestTypesHaveFewMethods(t *testing.T) {
	t.Parallel()
	for _, s := range tooManyMethods(sources(t), mostMethods, largeTypes()) {
		t.Error(s)
	}
}

func TestFunctionsAreShort(t *testing.T) {
	t.Parallel()
	for _, s := range tooLong(sources(t), mostLines, longFunctions()) {
		t.Error(s)
	}
}

func TestTooManyMethodsAreRefused(t *testing.T) {
	t.Parallel()
	files := []source{
		parsed(t, "a/one.go", "package a\ntype x[T any] struct{}\nfunc (x[T]) f() {}\nfunc (*x[T]) g() {}\nfunc f() {}"),
		parsed(t, "a/two.go", "package a\nfunc (y *x[U]) h() {}\ntype z struct{}\nfunc (z) f() {}\nfunc (z) g() {}"),
		parsed(t, "a/one_test.go", "package a\nfunc (z) forTests() {}"),
		parsed(t, "b/x.go", "package b\ntype x struct{}\nfunc (x) f() {}"),
	}
	for _, c := range []struct {
		most    int
		reasons map[string]string
		want    []string
	}{
		{most: 3},
		{most: 2, reasons: map[string]string{"a.x": "a table"}},
		{most: 2, want: []string{"a.x has 3 methods, more than 2: split it, or give the reason in largeTypes"}},
		{most: 3, reasons: map[string]string{"a.x": "it was large once"}, want: []string{
			"a.x is listed in largeTypes, but has 3 methods, not more than 3: remove the entry"}},
	} {
		if got := tooManyMethods(files, c.most, c.reasons); !slices.Equal(got, c.want) {
			t.Errorf("at most %d, reasons %v: got %q, want %q", c.most, c.reasons, got, c.want)
		}
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
