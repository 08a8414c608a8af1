package channel_test

import (
	"bytes"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Only types that name their kind can be sent: anything else doesn't compile.
func TestOnlyMessagesCanBeSent(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", "github.com/millrace-go/millrace/channel").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	exports := map[string]string{}
	for line := range bytes.Lines(out) {
		path, file, _ := strings.Cut(strings.TrimSpace(string(line)), " ")
		exports[path] = file
	}
	check := func(src string) error {
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, "snippet.go", src, 0)
		if err != nil {
			t.Fatal(err)
		}
		conf := types.Config{Importer: importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })}
		_, err = conf.Check("snippet", fset, []*ast.File{f}, nil)
		return err
	}
	const head = `package snippet
		import ("context"; "github.com/millrace-go/millrace/channel")
		type named struct{}
		func (named) Kind() channel.Kind { return "named.v1" }
		type other struct{}
		func (other) Kind() channel.Kind { return "other.v1" }
		type nameless struct{}
		type wrong struct{}
		func (wrong) Kind() string { return "wrong.v1" }
		func f(ctx context.Context, c *channel.Channels, s *channel.Sender[named]) {
	`
	for _, test := range []struct{ name, code, want string }{
		{"a message", `channel.NewSender[named](c); s.Send(ctx, named{}, named{}); channel.Command[named]("q"); channel.Event[named]()`, ""},
		{"a type without a kind", `channel.NewSender[nameless](c)`, "nameless does not satisfy channel.Message"},
		{"a kind that is any text", `channel.NewSender[wrong](c)`, "wrong does not satisfy channel.Message"},
		{"text", `channel.NewSender[string](c)`, "string does not satisfy channel.Message"},
		{"anything", `channel.NewSender[any](c)`, "any does not satisfy channel.Message"},
		{"another message", `s.Send(ctx, other{})`, "cannot use other{}"},
		{"a route of a type without a kind", `channel.Command[nameless]("q")`, "nameless does not satisfy channel.Message"},
		{"an event of a type without a kind", `channel.Event[nameless]("q")`, "nameless does not satisfy channel.Message"},
		{"a sender that is asked to receive", `s.Receive(ctx)`, "s.Receive undefined"},
	} {
		err := check(head + test.code + "}")
		switch {
		case test.want == "" && err != nil:
			t.Errorf("%s: got error %v", test.name, err)
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%s: got error %v, want %q", test.name, err, test.want)
		}
	}
}
