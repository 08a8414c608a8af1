package boottest

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// framework is the path of the module that users depend on.
const framework = "github.com/millrace-go/millrace"

// A Module is a module of somebody else, in a folder elsewhere, that uses this checkout.
type Module struct {
	Dir  string
	Root string // this checkout
}

// EmptyModule makes a new folder for a module. There is only a go.sum, because the checksums that are known need not be
// fetched.
func EmptyModule(t *testing.T) *Module {
	t.Helper()
	file, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		t.Fatal(err)
	}
	m := &Module{Dir: t.TempDir(), Root: filepath.Dir(strings.TrimSpace(string(file)))}
	m.Write(t, "go.sum", m.read(t, "go.sum"))
	return m
}

// NewModule makes a module without code in a new folder. It depends on the modules that this checkout depends on, in
// the same versions.
func NewModule(t *testing.T, name string) *Module {
	t.Helper()
	m := EmptyModule(t)
	depends := strings.Replace(m.read(t, "go.mod"), "module "+framework+"\n", "module "+name+"\n", 1)
	m.Write(t, "go.mod", depends+"\nrequire "+framework+" v0.0.0\n\nreplace "+framework+" => "+m.Root+"\n")
	return m
}

func (m *Module) read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(m.Root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Write writes a file of the module.
func (m *Module) Write(t *testing.T, name, text string) {
	t.Helper()
	file := filepath.Join(m.Dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Copy copies a folder of this checkout with all below it, and renames import paths. Tests are copied where they are
// asked for.
func (m *Module) Copy(t *testing.T, from, to string, tests bool, rename *strings.Replacer) {
	t.Helper()
	files := os.DirFS(filepath.Join(m.Root, from))
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !tests && strings.HasSuffix(name, "_test.go") {
			return err
		}
		text, err := fs.ReadFile(files, name)
		if err == nil {
			m.Write(t, filepath.Join(to, name), rename.Replace(string(text)))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Go runs the go command in the module, and returns its output. It may fetch what the module cache lacks.
func (m *Module) Go(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = m.Dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod -buildvcs=false", "GOWORK=off", "GOTOOLCHAIN=local")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}
