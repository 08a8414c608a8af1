package acts_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/acts"
)

// Law: a finding's fix names acts that there are, with arguments and flags that they take. The command line of a fix is
// made from its act alone.
func TestLawFixesAreActs(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../doctor/*.go")
	if err != nil {
		t.Fatal(err)
	}
	hints := 0
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CompositeLit:
				if s, ok := n.Type.(*ast.SelectorExpr); ok && s.Sel.Name == "Hint" {
					hints++
					checkHint(t, name, n)
				}
			case *ast.SelectorExpr:
				if n.Sel.Name == "Command" && filepath.Base(name) != "mend.go" && !strings.HasSuffix(name, "_test.go") {
					t.Errorf("%s makes a command line that is no act's", name)
				}
			}
			return true
		})
	}
	if hints < 20 {
		t.Errorf("found %d hints, want 20 at least", hints)
	}
}

// checkHint holds the literal of a hint against the table of acts.
func checkHint(t *testing.T, file string, n *ast.CompositeLit) {
	t.Helper()
	var name, open string
	var flags []string
	args := 0
	for _, x := range n.Elts {
		field := x.(*ast.KeyValueExpr)
		switch value := field.Value.(type) {
		case *ast.BasicLit:
			text, err := strconv.Unquote(value.Value)
			if err != nil {
				t.Fatal(err)
			}
			switch field.Key.(*ast.Ident).Name {
			case "Act":
				name = text
			case "Open":
				open = text
			}
		case *ast.CompositeLit:
			if field.Key.(*ast.Ident).Name == "Args" {
				args = len(value.Elts)
				continue
			}
			for _, pair := range value.Elts {
				flag, err := strconv.Unquote(pair.(*ast.KeyValueExpr).Key.(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				flags = append(flags, flag)
			}
		}
	}
	for word := range strings.FieldsSeq(open) {
		if flag, ok := strings.CutPrefix(word, "--"); ok {
			flags = append(flags, flag)
		} else if strings.ToUpper(word) == word && !strings.Contains(open, "--id "+word) && !strings.Contains(open, "--why "+word) && !strings.Contains(open, "--to "+word) {
			args++
		}
	}
	i := slices.IndexFunc(acts.All(), func(a *act.Act) bool { return a.Name() == name })
	if i < 0 {
		if name != "top" { // it is the command line's own
			t.Errorf("%s: there is no act %q", file, name)
		}
		return
	}
	r := acts.All()[i].Request()
	least, most := 0, 0
	for _, f := range r.Fields {
		switch {
		case f.Place == "":
		case f.Many:
			most = 1000
		default:
			most++
		}
		if f.Place != "" && !f.Optional {
			least++
		}
	}
	if args < least && open != "" || args > most {
		t.Errorf("%s: %s takes %s, and the hint has %d", file, name, r.Places(), args)
	}
	for _, flag := range flags {
		if r.Field(flag) == nil {
			t.Errorf("%s: %s takes no --%s", file, name, flag)
		}
	}
}
