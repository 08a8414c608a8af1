package millrace_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// source is one Go file of the module.
type source struct {
	name, pkg string // relative to the root, with slashes
	test      bool
	text      []byte
	tree      *ast.File
	set       *token.FileSet
}

// sources returns all Go files of the module, whatever they are built for.
func sources(t *testing.T) []source {
	t.Helper()
	all, err := readSources()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

var readSources = sync.OnceValues(func() ([]source, error) {
	var all []source
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			_, statErr := os.Stat(filepath.Join(name, "go.mod"))
			hidden := strings.HasPrefix(d.Name(), ".") || strings.HasPrefix(d.Name(), "_")
			if name != "." && (hidden || d.Name() == "testdata" || d.Name() == "data" || d.Name() == "node_modules" || statErr == nil) {
				return filepath.SkipDir // the folder's go.mod begins another module
			}
			return nil
		}
		if filepath.Ext(name) != ".go" {
			return nil
		}
		f := source{name: filepath.ToSlash(name), test: strings.HasSuffix(name, "_test.go"), set: token.NewFileSet()}
		f.pkg = path.Dir(f.name)
		if f.text, err = os.ReadFile(name); err != nil {
			return err
		}
		f.tree, err = parser.ParseFile(f.set, name, f.text, parser.ParseComments|parser.SkipObjectResolution)
		all = append(all, f)
		return err
	})
	return all, err
})

func (f source) imports() []string {
	var paths []string
	for _, s := range f.tree.Imports {
		if p, err := strconv.Unquote(s.Path.Value); err == nil { // the parser has checked it
			paths = append(paths, p)
		}
	}
	return paths
}

func (f source) at(n ast.Node) string {
	return fmt.Sprintf("%s:%d", f.name, f.set.Position(n.Pos()).Line)
}

func TestFileLengths(t *testing.T) {
	t.Parallel()
	const most, mostOfTests = 500, 700
	for _, f := range sources(t) {
		limit := most
		if f.test {
			limit = mostOfTests
		}
		if n := strings.Count(string(f.text), "\n"); n > limit {
			t.Errorf("%s has %d lines, more than %d: it is probably two files", f.name, n, limit)
		}
	}
}

// The words are put together here so that this file doesn't contain them.
func TestNothingIsLeftToDo(t *testing.T) {
	t.Parallel()
	left := regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|X` + `XX)\b`)
	for _, f := range sources(t) {
		for _, group := range f.tree.Comments {
			for _, c := range group.List {
				if left.MatchString(c.Text) {
					t.Errorf("%s: do it now, or write an issue: %s", f.at(c), c.Text)
				}
			}
		}
	}
}

// sleepers are the files that may sleep, by the beginning of their names, with the reasons.
func sleepers() map[string]string {
	return map[string]string{
		"internal/agreetest/":                     "it is for tests in virtual time, which a sleep moves on",
		"storage/sqlite/internal/engine/retry.go": "another process's lock can't be waited for; the sleeps are a fraction of a millisecond, and the context is looked at between them",
	}
}

func TestNobodySleeps(t *testing.T) {
	t.Parallel()
	virtual := map[string]bool{} // packages whose tests have a virtual clock, which a sleep moves on
	for _, f := range sources(t) {
		virtual[f.pkg] = virtual[f.pkg] || f.test && (slices.Contains(f.imports(), "testing/synctest") || slices.Contains(f.imports(), module+"/internal/agreetest"))
	}
	excused := sleepers()
	for _, f := range sources(t) {
		for n, name := range f.selectors() {
			if name != "time.Sleep" || f.test && virtual[f.pkg] {
				continue
			}
			allowed := false
			for prefix := range sleepers() {
				if strings.HasPrefix(f.name, prefix) {
					allowed = true
					delete(excused, prefix)
				}
			}
			if !allowed {
				t.Errorf("%s: time.Sleep can't be cancelled, and a test that sleeps depends on luck: wait for the event, or use a timer beside a context", f.at(n))
			}
		}
	}
	for prefix := range excused {
		t.Errorf("%s…: nobody sleeps there any more: take it off the list", prefix)
	}
}

// A bare recover doesn't tell a panic with nil from a return. So one package calls what may panic, and others that
// recover give it what they got.
func TestOnlyOnePackageRecovers(t *testing.T) {
	t.Parallel()
	for _, f := range sources(t) {
		if f.test || f.pkg == "internal/contain" {
			continue
		}
		given := map[ast.Expr]bool{}
		for n := range ast.Preorder(f.tree) {
			call, ok := n.(*ast.CallExpr)
			switch {
			case !ok:
			case callee(call.Fun) == "contain.Caught" && len(call.Args) == 1:
				given[call.Args[0]] = true
			case callee(call.Fun) == "recover" && !given[call]:
				t.Errorf("%s: recover returns nil also after panic(nil), where GODEBUG has panicnil=1: use contain.Call, or contain.Caught(recover()) where a call hasn't returned", f.at(n))
			}
		}
	}
}

func TestLibrariesLeaveTheProcessAlone(t *testing.T) {
	t.Parallel()
	ends := []string{"os.Exit", "log.Fatal", "log.Fatalf", "log.Fatalln", "log.Panic", "log.Panicf", "log.Panicln"}
	changes := []string{"slog.SetDefault", "log.SetOutput", "signal.Notify", "signal.NotifyContext", "signal.Ignore", "os.Setenv", "os.Chdir"}
	for _, f := range sources(t) {
		if f.test || fits("cmd/...", f.pkg) || fits("host/...", f.pkg) || fits("examples/...", f.pkg) {
			continue
		}
		for n, name := range f.selectors() {
			switch {
			case slices.Contains(ends, name):
				t.Errorf("%s: %s: only a program ends the process; a library returns an error", f.at(n), name)
			case slices.Contains(changes, name):
				t.Errorf("%s: %s changes the whole process; that is a program's to do", f.at(n), name)
			}
		}
	}
}

// selectors yields every use of a name that looks like another package's, such as time.Sleep.
func (f source) selectors() iter.Seq2[ast.Node, string] {
	return func(yield func(ast.Node, string) bool) {
		for n := range ast.Preorder(f.tree) {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				continue
			}
			if pkg, ok := sel.X.(*ast.Ident); ok && !yield(n, pkg.Name+"."+sel.Sel.Name) {
				return
			}
		}
	}
}

func TestNoInit(t *testing.T) {
	t.Parallel()
	for _, f := range sources(t) {
		for _, d := range f.tree.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				t.Errorf("%s: func init does things behind the back of whoever imports the package: call it by name", f.at(d))
			}
		}
	}
}

// A package-level variable that can change is state that all users of the process share.
func TestNoPackageState(t *testing.T) {
	t.Parallel()
	changed := assigned(t)
	for _, f := range sources(t) {
		if f.test {
			continue
		}
		for _, d := range f.tree.Decls {
			decl, ok := d.(*ast.GenDecl)
			if !ok || decl.Tok != token.VAR {
				continue
			}
			for _, s := range decl.Specs {
				spec := s.(*ast.ValueSpec) // all that a var declaration has
				for i, name := range spec.Names {
					if why := mutable(decl, spec, i); why != "" {
						t.Errorf("%s: var %s %s: it is state that the whole process shares; give it to a struct, or to the function that needs it", f.at(name), name.Name, why)
					}
					if changed[f.pkg][name.Name] {
						t.Errorf("%s: var %s is assigned to after its declaration: it is state that the whole process shares", f.at(name), name.Name)
					}
				}
			}
		}
	}
}

// mutable returns why a variable may change, or "" if it is as good as a constant: an error, a compiled pattern, an
// embedded file, a check of an interface, or a table of plain values that no code assigns to.
func mutable(decl *ast.GenDecl, spec *ast.ValueSpec, i int) string {
	if spec.Names[i].Name == "_" || embedded(decl.Doc) || embedded(spec.Doc) {
		return ""
	}
	if i >= len(spec.Values) {
		if spec.Type != nil && callee(spec.Type) == "sync.Once" {
			return "" // for work that a process may do only once
		}
		return "has no value yet"
	}
	switch v := spec.Values[i].(type) {
	case *ast.CompositeLit:
		switch v.Type.(type) {
		case *ast.MapType, *ast.ArrayType:
			if len(v.Elts) == 0 {
				return "is empty, so it waits to be filled"
			}
		}
	case *ast.CallExpr:
		// The result of a function of the package itself is a table, made once. Another check sees that no code
		// assigns to it. The result of another package may be anything.
		known := []string{"errors.New", "fmt.Errorf", "regexp.MustCompile", "strings.NewReplacer", "template.Must", "reflect.TypeFor"}
		name := callee(v.Fun)
		if strings.Contains(name, ".") && !slices.Contains(known, name) {
			return "holds what " + name + " returns"
		}
	case *ast.UnaryExpr:
		if v.Op == token.AND {
			return "is a pointer"
		}
	}
	return ""
}

func embedded(doc *ast.CommentGroup) bool {
	return doc != nil && slices.ContainsFunc(doc.List, func(c *ast.Comment) bool { return strings.HasPrefix(c.Text, "//go:embed ") })
}

func callee(e ast.Expr) string {
	switch f := e.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return callee(f.X) + "." + f.Sel.Name
	case *ast.ArrayType:
		return "[]" + callee(f.Elt)
	case *ast.IndexExpr:
		return callee(f.X)
	}
	return "a call"
}

// assigned returns, by package, the names that functions outside of tests assign to, or to an element of, without
// having declared them. It ignores scopes: a name that a function declares anywhere is local everywhere in it.
func assigned(t *testing.T) map[string]map[string]bool {
	all := map[string]map[string]bool{}
	for _, f := range sources(t) {
		if f.test {
			continue
		}
		if all[f.pkg] == nil {
			all[f.pkg] = map[string]bool{}
		}
		for _, d := range f.tree.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
				own := declared(fn)
				for _, name := range targets(fn.Body) {
					if !own[name] && name != "_" {
						all[f.pkg][name] = true
					}
				}
			}
		}
	}
	return all
}

// declared returns all names that a function declares.
func declared(fn *ast.FuncDecl) map[string]bool {
	own := map[string]bool{}
	ast.Inspect(fn, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field:
			for _, name := range n.Names {
				own[name.Name] = true
			}
		case *ast.ValueSpec:
			for _, name := range n.Names {
				own[name.Name] = true
			}
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				for _, e := range n.Lhs {
					if id, ok := e.(*ast.Ident); ok {
						own[id.Name] = true
					}
				}
			}
		case *ast.RangeStmt:
			for _, e := range []ast.Expr{n.Key, n.Value} {
				if id, ok := e.(*ast.Ident); ok && n.Tok == token.DEFINE {
					own[id.Name] = true
				}
			}
		}
		return true
	})
	return own
}

// targets returns the first names of the targets of assignments and ++: x in x = 1, x[i] = 1 and x.y++.
func targets(body *ast.BlockStmt) []string {
	var names []string
	add := func(e ast.Expr) {
		for {
			switch x := e.(type) {
			case *ast.Ident:
				names = append(names, x.Name)
				return
			case *ast.IndexExpr:
				e = x.X
			case *ast.SelectorExpr:
				e = x.X
			case *ast.StarExpr:
				e = x.X
			case *ast.ParenExpr:
				e = x.X
			default:
				return
			}
		}
	}
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if n.Tok != token.DEFINE {
				for _, e := range n.Lhs {
					add(e)
				}
			}
		case *ast.IncDecStmt:
			add(n.X)
		}
		return true
	})
	return names
}
