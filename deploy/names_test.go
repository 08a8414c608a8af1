package deploy

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// names is names.json: everything that the sample stores, and what its web may do with each ("" is nothing).
type names struct{ Queues, Containers, Tables []name }

type name struct{ Name, Web string }

func readNames(t *testing.T) names {
	t.Helper()
	var n names
	d := json.NewDecoder(bytes.NewReader([]byte(read(t, "names.json"))))
	d.DisallowUnknownFields()
	if err := d.Decode(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func sorted(list []name) []string {
	var all []string
	for _, n := range list {
		all = append(all, n.Name)
	}
	return slices.Sorted(slices.Values(all))
}

func TestQueues(t *testing.T) {
	t.Parallel()
	p, n := running(t), readNames(t)
	if got, want := sorted(n.Queues), slices.Sorted(slices.Values(p.queues)); !slices.Equal(got, want) {
		t.Errorf("names.json has queues %q; the worker consumes %q", got, want)
	}
	for _, q := range n.Queues {
		want := ""
		if slices.Contains(p.commands, q.Name) {
			want = "send" // the web sends commands, and the worker events
		}
		if q.Web != want {
			t.Errorf("the web's right to queue %s is %q, want %q", q.Name, q.Web, want)
		}
	}
}

// The containers and tables of names.json are those in the source, and the web may use those that its code uses.
func TestContainersAndTables(t *testing.T) {
	t.Parallel()
	n, u := readNames(t), usedNames(t)
	for _, c := range []struct {
		kind string
		list []name
		used map[string]bool // by name: whether the web uses it
		may  []string
	}{
		{"container", n.Containers, u.containers, []string{"read", "write"}},
		{"table", n.Tables, u.tables, []string{"read", "write"}}, // the access that storage.bicep knows
	} {
		if got, want := sorted(c.list), slices.Sorted(maps.Keys(c.used)); !slices.Equal(got, want) {
			t.Errorf("names.json has %ss %q; the source names %q", c.kind, got, want)
		}
		for _, one := range c.list {
			if one.Web != "" && !slices.Contains(c.may, one.Web) {
				t.Errorf("%s %s: the web may %q, want one of %q", c.kind, one.Name, one.Web, c.may)
			}
			if (one.Web != "") != c.used[one.Name] {
				t.Errorf("%s %s: the web may %q; that its code uses it is %v", c.kind, one.Name, one.Web, c.used[one.Name])
			}
		}
	}
}

type used struct{ containers, tables map[string]bool }

// named are the packages in which others give the names, with the reasons.
func named() map[string]string {
	return map[string]string{
		"storage":      "it opens what its callers name",
		"values":       "collections have the names that values.New and views.New get",
		"process":      "all names begin with that of a plan, and the sample has none",
		"coord/leader": "documents under a term are the caller's",
		"ops/acts":     "it looks at what others have stored",

		"ops/internal/applied":   "it looks into the collection of a handler",
		"ops/internal/instances": "collections have the names of plans",
	}
}

// packages are those of this module of which the programs consist.
func packages(t *testing.T) (dirs []string) {
	t.Helper()
	const module = "github.com/millrace-go/millrace/"
	cmd := exec.Command("go", "list", "-deps", "./cmd/web", "./cmd/worker")
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v", cmd, err)
	}
	for path := range strings.FieldsSeq(string(out)) {
		if dir, ours := strings.CutPrefix(path, module); ours && named()[dir] == "" {
			dirs = append(dirs, dir)
		}
	}
	if len(dirs) < 20 {
		t.Fatalf("the programs consist of packages %q", dirs)
	}
	return dirs
}

// usedNames finds the names in the calls that take them, and whether code of the web makes the call. A collection of
// values or views is a container and a table (values/collection.go).
func usedNames(t *testing.T) used {
	t.Helper()
	u := used{containers: map[string]bool{}, tables: map[string]bool{}}
	for _, dir := range packages(t) {
		set := token.NewFileSet()
		var files []*ast.File
		err := filepath.WalkDir(filepath.Join("..", dir), func(file string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && filepath.ToSlash(file) != path.Join("..", dir):
				return filepath.SkipDir
			case d.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go"):
				return nil
			}
			f, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
			files = append(files, f)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		consts := constants(files)
		ofWeb := slices.Contains([]string{"files/assets", "files/valet", "files/valet/internal/key", "channel", "internal/wire", "coord/gate", "settings", "sample/reservations/site", "storage/doorbell", "storage/lanes", "spool", "host/internal/boot"}, dir)
		for _, f := range files {
			ast.Inspect(f, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				method, ok := call.Fun.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				switch method.Sel.Name {
				case "Blobs", "Table", "Files":
					if len(call.Args) != 1 || isLocal(method.X) {
						return true
					}
					if _, wraps := call.Args[0].(*ast.CallExpr); wraps {
						return true // what is wrapped is seen by itself
					}
					name := text(call.Args[0], consts)
					if x, ok := call.Args[0].(*ast.Ident); ok && (x.Name == "public" || dir == "ops/audit" && x.Name == "name") {
						return true // an operator names it, and deploys it; or whoever has a log of its own
					}
					if name == "" {
						t.Errorf("%s: can't tell which name this is", set.Position(call.Pos()))
					} else if method.Sel.Name == "Table" {
						u.tables[name] = u.tables[name] || ofWeb && name != "file-held" // which workers alone note
					} else {
						u.containers[name] = u.containers[name] || ofWeb
					}
				case "In":
					if x, ok := method.X.(*ast.Ident); ok && x.Name == "audit" {
						u.tables[text(call.Args[1], consts)] = ofWeb
					}
				case "New", "NewKept":
					if x, ok := method.X.(*ast.Ident); ok && (x.Name == "values" || x.Name == "views") && (strings.HasPrefix(dir, "sample/") || dir == "schedule" || dir == "files/valet") {
						name := text(call.Args[slices.Index([]string{"", "New", "NewKept"}, method.Sel.Name)], consts)
						if name == "" {
							t.Errorf("%s: can't tell which collection this is", set.Position(call.Pos()))
						}
						u.containers[name] = u.containers[name] || x.Name == "views" || dir == "files/valet" // which the web shows
						u.tables[name+"-applied"] = false
					}
				}
				return true
			})
		}
	}
	return u
}

// isLocal reports that a store is the file of a spool, on the machine of its program.
func isLocal(store ast.Expr) bool {
	switch x := store.(type) {
	case *ast.Ident:
		return x.Name == "local"
	case *ast.SelectorExpr:
		return x.Sel.Name == "local"
	}
	return false
}

// constants finds a package's constants that are text.
func constants(files []*ast.File) map[string]string {
	all := map[string]string{}
	for _, f := range files {
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.CONST {
				continue
			}
			for _, s := range g.Specs {
				v := s.(*ast.ValueSpec)
				for i, id := range v.Names {
					if i < len(v.Values) {
						all[id.Name] = text(v.Values[i], nil)
					}
				}
			}
		}
	}
	return all
}

// text is the value of a constant or a literal, or "".
func text(e ast.Expr, consts map[string]string) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		s, _ := strconv.Unquote(e.Value)
		return s
	case *ast.Ident:
		return consts[e.Name]
	}
	return ""
}
