package millrace_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A type and a package are small if a reader can hold them in mind. So these two numbers are measured.
const (
	mostEffective = 25 // methods of a type, with those of what it embeds, and functions whose first parameter it is
	mostInCycles  = 3  // files of a package that call each other in a circle
)

// exempt are the packages that aren't measured, with the reasons. A name that ends with /... means the package and all
// below it.
func exempt() map[string]string {
	return map[string]string{
		"storage/storagetest":     "a suite is one table of checks on one subject, and is read check by check",
		"storage/sqlite/...":      "one engine behind one door; its files follow the port's methods",
		"values":                  "the record and its laws are one idea",
		"sample/reservations/...": "users copy the sample as a whole, so it is cut by page",
	}
}

// A room is what is measured of a package.
type measured struct {
	pkg       string
	effective map[string]int // by type
	cycles    []string       // files that lie in a circle of calls
}

// measureRooms type-checks the module's packages without their tests. Imported packages come from the compiler.
var measureRooms = sync.OnceValues(func() ([]measured, error) {
	cmd := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles,Module", "./...")
	cmd.Stderr = os.Stderr
	listed, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	type listing struct {
		ImportPath, Dir, Export string
		GoFiles                 []string
		Module                  *struct{ Main bool }
	}
	exports := map[string]string{}
	var own []listing
	for d := json.NewDecoder(strings.NewReader(string(listed))); ; {
		var p listing
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		exports[p.ImportPath] = p.Export
		if p.Module != nil && p.Module.Main {
			own = append(own, p)
		}
	}
	set := token.NewFileSet()
	from := importer.ForCompiler(set, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	var all []measured
	for _, p := range own {
		var files []*ast.File
		for _, name := range p.GoFiles {
			f, err := parser.ParseFile(set, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				return nil, err
			}
			files = append(files, f)
		}
		m, err := measure(set, strings.TrimPrefix(p.ImportPath, module+"/"), files, from)
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
})

func measure(set *token.FileSet, name string, files []*ast.File, from types.Importer) (measured, error) {
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	pkg, err := (&types.Config{Importer: from}).Check(name, set, files, info)
	if err != nil {
		return measured{}, err
	}
	return measured{name, effective(pkg), inCycles(calls(set, files, pkg, info))}, nil
}

// effective counts, for each type of a package, the methods of it and of what it embeds, and the functions whose first
// parameter it is; a context before that doesn't count. Exported generic functions don't count, because Go has no
// generic methods.
func effective(pkg *types.Package) map[string]int {
	count := map[string]int{}
	for _, name := range pkg.Scope().Names() {
		switch o := pkg.Scope().Lookup(name).(type) {
		case *types.TypeName:
			if !o.IsAlias() && !types.IsInterface(o.Type()) {
				count[name] += types.NewMethodSet(types.NewPointer(o.Type())).Len()
			}
		case *types.Func:
			if t := firstParameter(o); t != nil && t.Pkg() == pkg && !types.IsInterface(t.Type()) {
				count[t.Name()]++
			}
		}
	}
	return count
}

// firstParameter is the type of a function's first parameter that is no context; nil if that has no name.
func firstParameter(f *types.Func) *types.TypeName {
	if f.Exported() && f.Signature().TypeParams().Len() > 0 {
		return nil
	}
	for v := range f.Signature().Params().Variables() {
		t := v.Type()
		if p, ok := t.(*types.Pointer); ok {
			t = p.Elem()
		}
		named, ok := t.(*types.Named)
		if !ok {
			return nil
		}
		if o := named.Obj(); o.Pkg() == nil || o.Pkg().Path() != "context" {
			return named.Origin().Obj()
		}
	}
	return nil
}

// calls tells which files of a package call functions and methods of which others. A call through an interface is none.
func calls(set *token.FileSet, files []*ast.File, pkg *types.Package, info *types.Info) map[string][]string {
	file := func(at token.Pos) string { return filepath.Base(set.Position(at).Filename) }
	graph := map[string][]string{}
	for _, f := range files {
		from := file(f.Pos())
		graph[from] = nil
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			callee, ok := info.Uses[calledName(call)].(*types.Func)
			if !ok || callee.Pkg() != pkg {
				return true
			}
			if r := callee.Signature().Recv(); r != nil && types.IsInterface(r.Type()) {
				return true
			}
			if to := file(callee.Origin().Pos()); to != from && !slices.Contains(graph[from], to) {
				graph[from] = append(graph[from], to)
			}
			return true
		})
	}
	return graph
}

// calledName is the name of what a call calls; nil if that has none.
func calledName(call *ast.CallExpr) *ast.Ident {
	fun := ast.Unparen(call.Fun)
	switch x := fun.(type) {
	case *ast.IndexExpr:
		fun = x.X
	case *ast.IndexListExpr:
		fun = x.X
	}
	switch x := fun.(type) {
	case *ast.Ident:
		return x
	case *ast.SelectorExpr:
		return x.Sel
	}
	return nil
}

// inCycles returns the nodes of a graph from which a way leads back to themselves.
func inCycles(graph map[string][]string) []string {
	var found []string
	for node := range graph {
		seen := map[string]bool{}
		for todo := slices.Clone(graph[node]); len(todo) > 0; {
			next := todo[0]
			if todo = todo[1:]; !seen[next] {
				seen[next] = true
				todo = append(todo, graph[next]...)
			}
		}
		if seen[node] {
			found = append(found, node)
		}
	}
	slices.Sort(found)
	return found
}

// tooLarge returns a sentence for each type and package that is larger than it may be.
func tooLarge(all []measured, exempt map[string]string) []string {
	var wrong []string
	judge := func(name string, n, most int, what string) {
		if n > most {
			wrong = append(wrong, fmt.Sprintf("%s has %d %s, more than %d: cut it", name, n, what, most))
		}
	}
	for _, m := range all {
		if _, ok := ruled(exempt, m.pkg); ok {
			continue
		}
		for name, n := range m.effective {
			judge(m.pkg+"."+name, n, mostEffective, "methods and functions")
		}
		judge(m.pkg, len(m.cycles), mostInCycles, "files that call each other in a circle ("+strings.Join(m.cycles, ", ")+")")
	}
	slices.Sort(wrong)
	return wrong
}

// ruled returns the entry that fits a package.
func ruled(rules map[string]string, pkg string) (string, bool) {
	for rule, why := range rules {
		if below, all := strings.CutSuffix(rule, "/..."); rule == pkg || all && (pkg == below || strings.HasPrefix(pkg, below+"/")) {
			return why, true
		}
	}
	return "", false
}

func TestRoomsAreSmall(t *testing.T) {
	t.Parallel()
	all, err := measureRooms()
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range tooLarge(all, exempt()) {
		t.Error(fault)
	}
}

// The measure must see what it exists for.
func TestLargeRoomsAreRefused(t *testing.T) {
	t.Parallel()
	set := token.NewFileSet()
	var files []*ast.File
	for name, text := range map[string]string{
		"one.go": `package a
type base struct{}
func (base) f() {}
func (*base) g() {}
type x struct{ base }
func (x) h() { up() }
func takes(v *x, n int) {}
func Generic[T any](v x, t T) {}
type port interface{ f(); g() }
func through(p port) { p.f(); alone() }
`,
		"two.go":   "package a\nfunc up() { new(x).h(); alone() }\n",
		"three.go": "package a\nfunc alone() {}\n",
	} {
		f, err := parser.ParseFile(set, name, text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	m, err := measure(set, "a", files, importer.Default())
	if err != nil {
		t.Fatal(err)
	}
	if m.effective["base"] != 2 || m.effective["x"] != 4 || m.effective["port"] != 0 {
		t.Errorf("counted %v; want 2 of base, 4 of x, none of port", m.effective)
	}
	if want := []string{"one.go", "two.go"}; !slices.Equal(m.cycles, want) {
		t.Errorf("in circles: %q, want %q", m.cycles, want)
	}
	big := measured{pkg: "b", effective: map[string]int{"x": mostEffective + 2, "y": mostEffective}, cycles: []string{"1", "2", "3", "4"}}
	for rule, want := range map[string]int{"b/...": 0, "c": 2} {
		if got := tooLarge([]measured{big}, map[string]string{rule: "a reason"}); len(got) != want {
			t.Errorf("with %s exempt: %q; want %d faults", rule, got, want)
		}
	}
}
