package deploy

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Paths in the image.
const (
	binFolder  = "/usr/local/bin/"
	homeFolder = "/home/nonroot"
)

// instructions reads a Dockerfile: the word and the rest of each instruction.
func instructions(t *testing.T) [][2]string {
	t.Helper()
	var list [][2]string
	for line := range strings.Lines(read(t, "../Dockerfile")) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if strings.HasSuffix(line, `\`) {
			t.Fatalf("%s: this test reads one instruction a line", line)
		}
		word, rest, _ := strings.Cut(line, " ")
		list = append(list, [2]string{word, rest})
	}
	return list
}

func TestDockerfile(t *testing.T) {
	t.Parallel()
	digest := regexp.MustCompile(`@sha256:[0-9a-f]{64}`) // with which a user may pin an image
	var froms []string
	var stage []string // instructions since the last FROM
	env := map[string]string{}
	built, copied := "", ""
	last := map[string]string{}
	for _, in := range instructions(t) {
		word, rest := in[0], in[1]
		if strings.Contains(rest, "--mount") || strings.Contains(rest, "--platform") || word == "ADD" || word == "ARG" {
			t.Errorf("%s %s: not every builder can, or it fetches from elsewhere", word, rest)
		}
		switch word {
		case "FROM":
			froms = append(froms, digest.ReplaceAllString(rest, ""))
			stage, last = nil, map[string]string{}
		case "ENV":
			name, value, _ := strings.Cut(rest, "=")
			env[name] = value
		case "RUN":
			if strings.HasPrefix(rest, "go build") {
				built = rest
				if env["CGO_ENABLED"] != "0" {
					t.Error("the programs are built before CGO is off")
				}
			}
		case "COPY":
			if strings.HasPrefix(rest, "--from=build /out/") {
				copied = rest
			}
		}
		stage = append(stage, word)
		last[word] = rest
	}
	if len(froms) != 2 || froms[1] != "gcr.io/distroless/static:nonroot" {
		t.Fatalf("got stages %q, want a builder and distroless/static:nonroot", froms)
	}
	if slices.Contains(stage, "RUN") {
		t.Error("the last stage has nothing to RUN with")
	}
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(read(t, "../go.mod"))
	if want := "golang:" + version[1] + " AS build"; froms[0] != want {
		t.Errorf("got builder %q, want %q as go.mod says", froms[0], want)
	}
	for _, want := range []string{"-trimpath", "-o /out/", "./cmd/web", "./cmd/worker", "./cmd/millrace"} {
		if !slices.Contains(strings.Fields(built), strings.Fields(want)[0]) || !strings.Contains(built, want) {
			t.Errorf("go build without %s: %q", want, built)
		}
	}
	if want := "--from=build /out/web /out/worker /out/millrace " + binFolder; copied != want {
		t.Errorf("got COPY %s, want %s", copied, want)
	}
	user, group, _ := strings.Cut(last["USER"], ":")
	for _, id := range []string{user, group} {
		if n, err := strconv.Atoi(id); err != nil || n == 0 {
			t.Errorf("got USER %q, want two numbers, of nobody with rights", last["USER"])
		}
	}
	if last["WORKDIR"] != homeFolder || last["VOLUME"] != homeFolder+"/data" {
		t.Errorf("got WORKDIR %s and VOLUME %s; the programs write to data/ below the former", last["WORKDIR"], last["VOLUME"])
	}
	if !slices.ContainsFunc(instructions(t), func(in [2]string) bool {
		return in[0] == "COPY" && strings.Contains(in[1], "--chown="+last["USER"]) && strings.HasSuffix(in[1], last["VOLUME"])
	}) {
		t.Error("the volume doesn't belong to the user")
	}
	if last["ENTRYPOINT"] != "" || last["CMD"] != `["web"]` {
		t.Errorf("got ENTRYPOINT %s, CMD %s; want web, and that the other program can be named", last["ENTRYPOINT"], last["CMD"])
	}
}

// ignored reports that .dockerignore keeps a file from the builder. It knows only the forms of patterns that are
// used.
func ignored(t *testing.T, patterns, file string) bool {
	t.Helper()
	out := false
	for p := range strings.Lines(patterns) {
		if p = strings.TrimSpace(p); p == "" || p[0] == '#' {
			continue
		}
		p, not := strings.CutPrefix(p, "!")
		hit := false
		if any, deep := strings.CutPrefix(p, "**/"); deep {
			for part := range strings.SplitSeq(file, "/") {
				ok, err := path.Match(any, part)
				if err != nil {
					t.Fatal(err)
				}
				hit = hit || ok
			}
		} else if strings.Contains(p, "/") {
			t.Fatalf(".dockerignore: this test doesn't know patterns like %s", p)
		} else {
			top, _, _ := strings.Cut(file, "/")
			hit, _ = path.Match(p, top)
		}
		if hit {
			out = !not
		}
	}
	return out
}

// The builder gets every file of the programs, which can be built without C, and no other files.
func TestBuildContext(t *testing.T) {
	t.Parallel()
	patterns := read(t, "../.dockerignore")
	list := exec.Command("go", "list", "-deps", "-json=Dir,Standard,Module,GoFiles,EmbedFiles,CgoFiles", "./cmd/web", "./cmd/worker", "./cmd/millrace")
	list.Dir = ".."
	list.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := list.Output()
	if err != nil {
		t.Fatalf("%v: %v", list, err)
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	files := []string{"go.mod", "go.sum"}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var pkg struct {
			Dir                           string
			Module                        *struct{ Main bool }
			GoFiles, EmbedFiles, CgoFiles []string
		}
		if err := d.Decode(&pkg); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if len(pkg.CgoFiles) > 0 {
			t.Errorf("%s needs C", pkg.Dir)
		}
		if pkg.Module == nil || !pkg.Module.Main {
			continue
		}
		for _, name := range slices.Concat(pkg.GoFiles, pkg.EmbedFiles) {
			rel, err := filepath.Rel(root, filepath.Join(pkg.Dir, name))
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, filepath.ToSlash(rel))
		}
	}
	if len(files) < 50 {
		t.Fatalf("got files %q only", files)
	}
	for _, file := range files {
		if ignored(t, patterns, file) {
			t.Errorf(".dockerignore leaves out %s, which the programs are built from", file)
		}
	}
	for _, file := range []string{".git/config", ".env", "data/reservations.db", "deploy/names.json", "docs/design.md", "bench/go.mod",
		"worker/fold_test.go", "storage/azure/testdata/x", "Dockerfile", "id_rsa"} {
		if !ignored(t, patterns, file) {
			t.Errorf(".dockerignore lets %s through to the builder", file)
		}
	}
}
