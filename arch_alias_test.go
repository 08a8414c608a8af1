package millrace_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// go doc shows an alias without the fields of its type, so the alias's comment has them as code: names and types, and
// what its users need to know of each.
func TestAliasesShowTheirFields(t *testing.T) {
	t.Parallel()
	aliases := 0
	for _, file := range publicFiles(t) {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			decl, ok := d.(*ast.GenDecl)
			if !ok || decl.Tok != token.TYPE {
				continue
			}
			for _, s := range decl.Specs {
				spec := s.(*ast.TypeSpec)
				fields := fieldsOf(t, parsed, spec)
				if len(fields) == 0 {
					continue
				}
				aliases++
				doc := spec.Doc
				if doc == nil {
					doc = decl.Doc
				}
				code := codeOf(doc)
				for _, field := range fields {
					if !slices.Contains(code, bare(field)) {
						t.Errorf("%s: the comment of %s lacks the line\n//\t%s", file, spec.Name, field)
					}
				}
			}
		}
	}
	if aliases < 10 {
		t.Errorf("got %d aliases of structs; want those of package storage at least", aliases)
	}
}

// publicFiles are the files of the packages that programs import.
func publicFiles(t *testing.T) (files []string) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && (name == "internal" || name == "node_modules" || name == "bench" || name == "proof" || name == "cmd" || name != "." && strings.HasPrefix(name, ".")):
			return fs.SkipDir
		case strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go"):
			files = append(files, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// fieldsOf returns the lines of the exported fields of the struct that an exported alias stands for, and none of
// anything else.
func fieldsOf(t *testing.T, in *ast.File, alias *ast.TypeSpec) (lines []string) {
	t.Helper()
	from, ok := alias.Type.(*ast.SelectorExpr)
	if !alias.Assign.IsValid() || !alias.Name.IsExported() || !ok {
		return nil
	}
	for _, i := range in.Imports {
		path, err := strconv.Unquote(i.Path.Value)
		folder, ours := strings.CutPrefix(path, "github.com/millrace-go/millrace/")
		if err != nil || !ours || filepath.Base(folder) != from.X.(*ast.Ident).Name {
			continue
		}
		sources, err := filepath.Glob(filepath.Join(folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range sources {
			if !strings.HasSuffix(file, "_test.go") {
				lines = append(lines, exportedFields(t, file, from.Sel.Name)...)
			}
		}
	}
	return lines
}

// exportedFields returns the lines of the exported fields of a struct, if the file has it.
func exportedFields(t *testing.T, file, name string) (lines []string) {
	t.Helper()
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, source, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok || spec.Name.Name != name {
			return true
		}
		if of, ok := spec.Type.(*ast.StructType); ok {
			all := strings.Split(string(source), "\n")
			for _, f := range of.Fields.List {
				if len(f.Names) > 0 && !f.Names[0].IsExported() {
					continue
				}
				for _, line := range all[set.Position(f.Pos()).Line-1 : set.Position(f.End()).Line] {
					lines = append(lines, strings.TrimPrefix(line, "\t"))
				}
			}
		}
		return false
	})
	return lines
}

// codeOf returns the lines of code in a comment, bare.
func codeOf(doc *ast.CommentGroup) (lines []string) {
	if doc == nil {
		return nil
	}
	for _, c := range doc.List {
		if line, ok := strings.CutPrefix(c.Text, "//\t"); ok {
			lines = append(lines, bare(line))
		}
	}
	return lines
}

// bare is a line without its comment and its alignment.
func bare(line string) string {
	line, _, _ = strings.Cut(line, " //")
	return strings.Join(strings.Fields(line), " ")
}
