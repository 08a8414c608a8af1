package millrace_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A room is a part of package worker: its files, and the rooms whose types, functions, methods and fields they may use
// besides their own.
type room struct {
	name, files string
	may         string
	calls       string // fields that hold functions, each a way out of the room that no name shows
	why         string
}

// rooms is the table of package worker, from the ground up.
func rooms() []room {
	return []room{
		{
			name: "ground", files: "setup.go config.go faults.go limiter.go message.go claim.go trace.go metrics.go counts.go delay.go gate.go crew.go room.go reserve.go hung.go",
			calls: "Config.RetryDelay QueueConfig.RetryDelay Consumer.Fit Consumer.InHand Consumer.Others crew.do crew.work crew.lower",
			why:   "all rooms stand on it, so it knows none of them",
		},
		{
			name: "settler", files: "settle.go giveup.go due.go delete.go finish.go log.go trouble.go", may: "ground", calls: "finisher.released deletions.run",
			why: "it records how a delivery ended; when a message is handled, and whether more are taken, is not its business",
		},
		{
			name: "hand", files: "hand.go run.go keyturn.go starts.go backlog.go groups.go fetch.go bodies.go suspects.go renew.go unstarted.go open.go", may: "ground settler", calls: "suspects.open",
			why: "it handles the messages that it is given; where they come from, and whose turn it is, is not its business",
		},
		{
			name: "intake", files: "intake.go board.go pausing.go partly.go", may: "ground hand", calls: "board.outer",
			why: "it takes messages and gives them to the hand; how they end is not its business",
		},
		{name: "consumer", files: "consumer.go worker.go doc.go", may: "ground settler hand intake", why: "it puts the rooms together"},
	}
}

func TestRoomsOfTheWorker(t *testing.T) {
	t.Parallel()
	for _, fault := range wrongUses(t, rooms(), workerFiles(t)) {
		t.Error(fault)
	}
}

// The table must refuse the uses that it exists for.
func TestTheRoomsRefuse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ file, code, want string }{
		{"settle.go", "func (s *settler) f(h *hand) {}", "uses hand of hand.go"},
		{"settle.go", "func (s *settler) f(m *message) { _ = m.envelope }", ""},
		{"settle.go", "func (s *settler) f() { var c consumer; c.hand.release(nil) }", "uses release of hand.go"},
		{"delete.go", "type upward struct { notify func() }", "upward.notify of delete.go holds a function"},
		{"delete.go", "type upward struct { notify interface{ notify() } }", "upward.notify of delete.go holds a function"},
		{"hand.go", "func (h *hand) f(m *message) { h.settler.giveBack(nil, m) }", ""},
		{"hand.go", "func (h *hand) f(in *intake) { in.fit() }", "uses fit of intake.go"},
		{"intake.go", "func (in *intake) f(m *message) { in.hand.settler.finisher.done(m) }", "uses done of finish.go"},
		{"intake.go", "func (in *intake) f() { in.hand.setClosed(true) }", ""},
		{"message.go", "func (m *message) f(r *reporter) {}", "uses reporter of log.go"},
		{"consumer.go", "func (c *consumer) f(m *message) { c.hand.settler.finisher.done(m) }", ""},
		{"new.go", "type new struct{}", "new.go is in no room"},
	} {
		files := workerFiles(t)
		if files[c.file] == "" {
			files[c.file] = "package worker\n"
		}
		files[c.file] += c.code + "\n"
		faults := wrongUses(t, rooms(), files)
		if c.want == "" && len(faults) > 0 || c.want != "" && !slices.ContainsFunc(faults, func(f string) bool { return strings.Contains(f, c.want) }) {
			t.Errorf("%s with %s: got %q, want %q", c.file, c.code, faults, c.want)
		}
	}
}

// workerFiles returns the files of package worker without its tests.
func workerFiles(t *testing.T) map[string]string {
	t.Helper()
	names, err := filepath.Glob("worker/*.go")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files[filepath.Base(name)] = string(text)
	}
	return files
}

// noImporter finds no package. The types of a package are checked without those that it imports: all that it declares
// itself is known.
type noImporter struct{}

func (noImporter) Import(string) (*types.Package, error) { return nil, errors.New("not needed") }

// wrongUses returns the uses between rooms that the table doesn't allow.
func wrongUses(t *testing.T, table []room, files map[string]string) (faults []string) {
	t.Helper()
	home, set := map[string]room{}, token.NewFileSet()
	for _, r := range table {
		for _, file := range strings.Fields(r.files) {
			home[file] = r
			if files[file] == "" {
				faults = append(faults, fmt.Sprintf("room %s has no file %s", r.name, file))
			}
		}
	}
	var trees []*ast.File
	for _, name := range slices.Sorted(maps.Keys(files)) {
		tree, err := parser.ParseFile(set, name, files[name], parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := home[name]; !ok {
			faults = append(faults, name+" is in no room: say in arch_worker_test.go where it belongs")
		}
		faults = append(faults, hiddenCalls(home[name], name, tree)...)
		trees = append(trees, tree)
	}
	info := types.Info{Uses: map[*ast.Ident]types.Object{}}
	cfg := types.Config{Importer: noImporter{}, Error: func(error) {}} // errors come from what is imported
	pkg, _ := cfg.Check("worker", set, trees, &info)
	for used, object := range info.Uses {
		if object.Pkg() != pkg || !object.Pos().IsValid() {
			continue
		}
		from, to := set.Position(used.Pos()).Filename, set.Position(object.Pos()).Filename
		if r := home[from]; r.name != home[to].name && !slices.Contains(strings.Fields(r.may), home[to].name) {
			faults = append(faults, fmt.Sprintf("%s uses %s of %s: the %s may use %s only; %s", set.Position(used.Pos()), used.Name, to, r.name, r.may, r.why))
		}
	}
	slices.Sort(faults)
	return faults
}

// hiddenCalls returns the fields of a file's structs that hold a function, or an interface of the package's own, and
// are not in the table.
func hiddenCalls(r room, name string, tree *ast.File) (faults []string) {
	for n := range ast.Preorder(tree) {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			continue
		}
		fields, ok := spec.Type.(*ast.StructType)
		if !ok {
			continue
		}
		for _, f := range fields.Fields.List {
			switch f.Type.(type) {
			case *ast.FuncType, *ast.InterfaceType:
			default:
				continue
			}
			for _, id := range f.Names {
				if field := spec.Name.Name + "." + id.Name; !slices.Contains(strings.Fields(r.calls), field) {
					faults = append(faults, fmt.Sprintf("%s of %s holds a function, by which the %s may call another room", field, name, r.name))
				}
			}
		}
	}
	return faults
}
