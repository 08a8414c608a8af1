package channel_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/channel"
)

// The comment of Envelope lists the fields that the struct has, with their types.
func TestTheCommentOfEnvelopeListsItsFields(t *testing.T) {
	t.Parallel()
	const name = "Envelope"
	var want, got []string
	spec, _ := typeSpec(t, "../internal/wire/envelope.go", name)
	for _, f := range spec.Type.(*ast.StructType).Fields.List {
		want = append(want, f.Names[0].Name+" "+types.ExprString(f.Type))
	}
	_, doc := typeSpec(t, "envelope.go", name)
	for line := range strings.Lines(doc) {
		code, ok := strings.CutPrefix(line, "\t")
		code, _, _ = strings.Cut(code, "//")
		if field := strings.Fields(code); ok && len(field) > 0 {
			got = append(got, strings.Join(field, " "))
		}
	}
	if len(want) < 10 || !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func typeSpec(t *testing.T, file, name string) (spec *ast.TypeSpec, doc string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range f.Decls {
		if decl, ok := d.(*ast.GenDecl); ok && decl.Tok == token.TYPE {
			if s, ok := decl.Specs[0].(*ast.TypeSpec); ok && s.Name.Name == name {
				return s, decl.Doc.Text()
			}
		}
	}
	t.Fatalf("%s has no type %s", file, name)
	return nil, ""
}

// Users see of Channels what they need, and two methods more for the module's own packages.
func TestChannelsHaveFewMethods(t *testing.T) {
	t.Parallel()
	var got []string
	for c, i := reflect.TypeFor[*channel.Channels](), 0; i < c.NumMethod(); i++ {
		got = append(got, c.Method(i).Name)
	}
	if want := []string{"LogTo", "Logger", "Outbox", "Routes", "Send", "SendWith", "Sent", "SpoolTo", "Spools", "Store", "TraceWith", "Tracer"}; !slices.Equal(got, want) {
		t.Errorf("got the methods %q, want %q", got, want)
	}
}
