package login

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A name stands in the file once, and beside it once for the proxy that names the person: with two lines nobody can
// tell which token or role holds.
func TestANameStandsInTheFileOnce(t *testing.T) {
	t.Parallel()
	_, ada, err := NewToken("ada", "viewer")
	if err != nil {
		t.Fatal(err)
	}
	_, again, err := NewToken("ada", "admin")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		ada + "\n" + again + "\n":                        "line 2: line 1 has this name already. Take one",
		ada + "\n# x\n\nada:viewer:proxy\n" + again:      "line 5: line 1",
		"ada:viewer:proxy\nada:admin:proxy\n":            "line 2: line 1",
		"ada:admin:proxy\n" + ada:                        "",
		ada + "\n" + strings.Replace(again, "a", "A", 1): "",
	} {
		path := filepath.Join(t.TempDir(), "tokens")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := readTokens(path)
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "ada")) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}
