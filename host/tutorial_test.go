package host_test

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-go/millrace/internal/boottest"
)

const tutorial = "../docs/first-program.md"

// A reader follows a page: files are written, commands run, and their output is compared. An … in the output stands for
// anything.
type reader struct {
	module  *boottest.Module
	program *boottest.Program
	says    string // the line that the page promises of the reaction
}

// The page for beginners works as it stands, in a module elsewhere.
func TestFirstProgram(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(tutorial)
	if err != nil {
		t.Fatal(err)
	}
	says := regexp.MustCompile("The shop prints `([^`]+)`").FindStringSubmatch(string(page))
	if says == nil {
		t.Fatal("the page promises no line of the reaction")
	}
	r := &reader{module: boottest.EmptyModule(t), says: says[1]}
	files, commands := 0, 0
	for _, block := range regexp.MustCompile("(?s)([^\n]*)\n\n```([a-z]+)\n(.*?)```\n").FindAllStringSubmatch(string(page), -1) {
		switch before, kind, text := block[1], block[2], block[3]; kind {
		case "go":
			name := regexp.MustCompile("`([a-z_]+\\.go)`:$").FindStringSubmatch(before)
			if name == nil {
				t.Fatalf("no file is named before a block: %s", before)
			}
			r.module.Write(t, name[1], text)
			files++
		case "console":
			commands += r.console(t, text)
		default:
			t.Fatalf("a block of kind %s", kind)
		}
	}
	if files != 3 || commands != 15 {
		t.Errorf("got %d files and %d commands; want 3 and 15, or the page is read wrongly", files, commands)
	}
	if code := r.program.Wait(t); code != 0 {
		t.Errorf("got exit code %d, want 0", code)
	}
	if _, err := os.Stat(filepath.Join(r.module.Dir, "data", "shop.db")); err != nil {
		t.Error(err)
	}
}

// console runs the commands of a block, and returns how many there are.
func (r *reader) console(t *testing.T, text string) (commands int) {
	t.Helper()
	for part := range strings.SplitSeq("\n"+text, "\n$ ") {
		command, output, _ := strings.Cut(part, "\n")
		if command == "" { // before the first one
			command, output, _ = strings.Cut(strings.TrimPrefix(part, "\n"), "\n")
			if command == "" {
				continue
			}
		}
		commands++
		r.run(t, command, output)
	}
	return commands
}

func (r *reader) run(t *testing.T, command, output string) {
	t.Helper()
	words := strings.Fields(command)
	switch words[0] {
	case "git", "mkdir": // the clone is this checkout, and the folder is there
	case "go":
		for i := range words {
			words[i] = strings.ReplaceAll(words[i], "../millrace", r.module.Root)
		}
		got := r.module.Go(t, words[1:]...)
		for want := range strings.Lines(output) {
			if !like(want).MatchString(got) {
				t.Errorf("%s: got\n%s\nwant %q", command, got, want)
			}
		}
	case "./shop":
		if len(words) > 1 {
			r.operate(t, command, output, words[1:]...)
			return
		}
		r.program = boottest.Start(t, filepath.Join(r.module.Dir, "shop"), r.module.Dir, nil, "-addr", "127.0.0.1:0")
		for want := range strings.Lines(strings.ReplaceAll(output, "http://localhost:8080", r.program.URL(t))) {
			r.program.Line(t, strings.TrimSpace(want))
		}
	case "curl":
		url := strings.Replace(words[len(words)-1], "localhost:8080", r.program.URL(t), 1)
		method := http.MethodGet
		if words[1] == "-X" {
			method = words[2]
		}
		r.request(t, method, url, strings.TrimSpace(output))
	case "^C":
		r.program.Line(t, r.says)
		r.program.Signal(t, syscall.SIGINT)
		r.program.Wait(t)
		if !like(output).MatchString(r.program.Output()) {
			t.Errorf("got\n%s\nwant a line %s", r.program.Output(), output)
		}
	default:
		t.Fatalf("unknown command %s", command)
	}
}

// operate runs a verb of the operator's.
func (r *reader) operate(t *testing.T, command, output string, verb ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(r.module.Dir, "shop"), verb...)
	cmd.Dir = r.module.Dir
	got, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v", command, err)
	}
	for want := range strings.Lines(output) {
		if !like(want).Match(got) {
			t.Errorf("%s: got\n%s\nwant %q", command, got, want)
		}
	}
}

// request sends a request until the answer is the wanted one: a view is a moment behind.
func (r *reader) request(t *testing.T, method, url, want string) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(time.Minute); ; {
		req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		got := strings.TrimSpace(string(body))
		if err == nil && res.StatusCode < 300 && got == want {
			return
		}
		if method == http.MethodPost {
			t.Fatalf("%s: got %d %q (%v), want %q", url, res.StatusCode, got, err, want)
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("%s: got %d %q (%v), want %q", url, res.StatusCode, got, err, want)
		}
	}
}

// like makes a pattern of a line.
func like(line string) *regexp.Regexp {
	words := strings.Fields(line)
	for i, w := range words {
		words[i] = strings.ReplaceAll(regexp.QuoteMeta(w), "…", ".*")
	}
	return regexp.MustCompile(`(?m)^\s*` + strings.Join(words, `\s+`))
}

// The page is one page.
func TestFirstProgramIsShort(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(tutorial)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(strings.Fields(string(page))); n > 800 {
		t.Errorf("it has %d words; want 800 at most", n)
	}
}
