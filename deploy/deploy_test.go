// Package deploy has templates for clouds. Its tests compare them with the programs, as far as possible without a
// cloud.
package deploy

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// files returns all files of this folder and of its documentation.
func files(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, name := range []string{"../Dockerfile", "../.dockerignore", "../docs/azure.md", "../docs/redis.md"} {
		all[name] = read(t, name)
	}
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && filepath.Ext(name) != ".go" {
			all[name] = read(t, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 8 {
		t.Fatalf("got %d files only", len(all))
	}
	return all
}

// secrets finds text that looks like a secret.
func secrets(text string) []string {
	return regexp.MustCompile(`(?i)(account|shared)(access)?key=[^.…\s]|sharedaccesssignature=[^.…\s]|[?&]sig=|-----BEGIN|`+
		`\b(password|secret|token|smtp)\b *[:=] *["']?[a-z0-9+/]{8,}|[A-Za-z0-9+/]{40,}==?|(?-i://[^/\s:@]+:[^/\s@]*[a-z][^/\s@]*@)`).FindAllString(text, -1)
}

func TestNoSecrets(t *testing.T) {
	t.Parallel()
	for name, text := range files(t) {
		for _, s := range secrets(text) {
			t.Errorf("%s: %q looks like a secret", name, s)
		}
	}
	for _, text := range []string{"DefaultEndpointsProtocol=https;AccountKey=abc", "https://x.queue.core.windows.net/?sv=1&sig=abc", "password: hunter2hunter2",
		"Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==", "smtps://ada:hunter2@mx.example.org"} {
		if len(secrets(text)) == 0 {
			t.Errorf("%q doesn't look like a secret, and is one", text)
		}
	}
}

// The documentation names the files and parameters that exist.
func TestDocumentation(t *testing.T) {
	t.Parallel()
	doc := read(t, "../docs/azure.md")
	for _, m := range regexp.MustCompile(`\]\(([^)#:]+)\)`).FindAllStringSubmatch(doc, -1) {
		if _, err := os.Stat(filepath.Join("..", "docs", m[1])); err != nil {
			t.Errorf("docs/azure.md: %v", err)
		}
	}
	// The commands give each template only parameters that it has, and all that it needs.
	for _, template := range []string{"containerapps.bicep", "storage.bicep"} {
		b := readBicep(t, template)
		m := regexp.MustCompile(`--template-file deploy/` + regexp.QuoteMeta(template) + `[^\n]*?--parameters ((?:\\\n|[^\n\\])+)`).FindStringSubmatch(doc)
		if m == nil {
			t.Errorf("docs/azure.md doesn't say how to deploy %s", template)
			continue
		}
		given := map[string]bool{}
		for _, p := range regexp.MustCompile(`(?:^|\s)(\w+)=`).FindAllStringSubmatch(m[1], -1) {
			given[p[1]] = true
			if !b.params[p[1]] {
				t.Errorf("docs/azure.md gives %s the parameter %s, which it doesn't take", template, p[1])
			}
		}
		for name, required := range b.required {
			if required && !given[name] {
				t.Errorf("docs/azure.md doesn't give %s its parameter %s", template, name)
			}
		}
	}
	for name := range readCluster(t).variables {
		if !regexp.MustCompile(`\b` + name + `=`).MatchString(doc) {
			t.Errorf("docs/azure.md doesn't set %s, which stands in deploy/kubernetes", name)
		}
	}
}
