// Command testsum reads the output of go test -json and prints what matters to people: the output of failed tests,
// the skipped tests with their reasons, and the count. With -strict a skipped test is a failure: CI uses it, because
// everything that tests need is there.
//
//	go test -json ./... | go run ./cmd/internal/testsum -strict -again list
//
// A test that takes turns with the runs of other revisions (package parttest) isn't missing, so it is counted apart.
//
// With -again, packages in which the race detector itself crashed are no failures, but are written into a file, so that
// they can be tested again. In Go 1.26 it crashes when two goroutines in one bubble of synctest receive from timers
// that are due: both use the bubble's one state of the detector.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// event is a line of go test -json; see go doc test2json.
type event struct {
	Action     string
	Package    string
	ImportPath string // only for a build that failed
	Test       string
	Output     string
	Elapsed    float64
}

func run(args []string, in io.Reader, out, errs io.Writer) int {
	flags := flag.NewFlagSet("testsum", flag.ContinueOnError)
	flags.SetOutput(errs)
	strict := flags.Bool("strict", false, "a skipped test is a failure")
	again := flags.String("again", "", "the file for the names of packages in which the race detector crashed")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	s := summary{out: out, output: map[string]*strings.Builder{}, open: map[string]bool{}}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		s.line(lines.Bytes())
	}
	if err := lines.Err(); err != nil {
		fmt.Fprintln(errs, "testsum: the tests' output can't be read:", err)
		return 1
	}
	code := s.end(*strict, *again != "")
	if *again != "" && code == 0 {
		if err := os.WriteFile(*again, []byte(strings.Join(s.crashed, "\n")), 0o600); err != nil {
			fmt.Fprintln(errs, "testsum: can't write the list of packages to test again:", err)
			return 1
		}
	}
	return code
}

type summary struct {
	out                                       io.Writer
	passed, failed, skipped, broken, packages int
	inTurn                                    int // tests that the runs of other revisions have
	skips                                     []string
	output                                    map[string]*strings.Builder // output of tests that have not ended yet
	open                                      map[string]bool             // packages that have begun
	crashed                                   []string                    // packages in which the race detector crashed
}

func (s *summary) printf(format string, args ...any) {
	_, _ = fmt.Fprintf(s.out, format, args...) // the exit code tells as well
}

func (s *summary) line(b []byte) {
	var e event
	if err := json.Unmarshal(b, &e); err != nil {
		s.printf("%s\n", b) // not from a test
		return
	}
	key := e.Package + " " + e.Test
	switch e.Action {
	case "start":
		s.open[e.Package] = true
	case "output":
		if s.output[key] == nil {
			s.output[key] = &strings.Builder{}
		}
		s.output[key].WriteString(e.Output)
	case "build-output":
		s.printf("%s", e.Output)
	case "build-fail":
		s.printf("FAIL  %s does not build\n", e.ImportPath)
		s.broken++
	case "pass", "fail", "skip":
		s.ended(e, key)
	}
}

// ended counts a test. An event without a test is a package's, whose end it prints.
func (s *summary) ended(e event, key string) {
	text := ""
	if o := s.output[key]; o != nil {
		text = o.String()
	}
	delete(s.output, key)
	if e.Test == "" {
		delete(s.open, e.Package)
		s.packages++
		switch e.Action {
		case "pass":
			s.printf("ok    %s  %.1fs\n", e.Package, e.Elapsed)
		case "fail":
			if s.detectorCrashed(e.Package, text) {
				s.crashed = append(s.crashed, e.Package)
			} else {
				s.broken++
			}
			s.rest(e.Package)
			s.printf("%sFAIL  %s  %.1fs\n", text, e.Package, e.Elapsed)
		}
		return
	}
	switch e.Action {
	case "pass":
		s.passed++
	case "fail":
		s.failed++
		s.printf("%s", text)
	case "skip":
		if strings.Contains(reason(text), ": in turn: ") {
			s.inTurn++
			return
		}
		s.skipped++
		s.skips = append(s.skips, fmt.Sprintf("%s %s: %s", e.Package, e.Test, reason(text)))
	}
}

// detectorCrashed reports whether the race detector ended a package's process, and no test of ours.
func (s *summary) detectorCrashed(pkg, text string) bool {
	crash := func(text string) bool {
		_, fault, _ := strings.Cut(text, "SIGSEGV: segmentation violation\nPC=")
		top, _, _ := strings.Cut(fault, "\ngoroutine 1 ")
		return strings.Contains(top, "runtime.(*timer).maybeRunChan(") || strings.Contains(text, "ThreadSanitizer: CHECK failed")
	}
	found := crash(text)
	for key, o := range s.output {
		found = found || strings.HasPrefix(key, pkg+" ") && crash(o.String())
	}
	return found
}

// rest shows the output of tests that never ended, because their process did: a panic or a timeout.
func (s *summary) rest(pkg string) {
	for key, o := range s.output {
		if p, test, _ := strings.Cut(key, " "); p == pkg && test != "" {
			if reason(o.String()) != "" {
				s.printf("%s", o)
			}
			delete(s.output, key)
		}
	}
}

// reason is a test's own text on one line, without what go test puts around it.
func reason(output string) string {
	var said []string
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "=== ") && !strings.HasPrefix(line, "--- ") {
			said = append(said, line)
		}
	}
	return strings.Join(said, " ")
}

// end writes the summary and returns the exit code.
func (s *summary) end(strict, again bool) int {
	for pkg := range s.open {
		s.broken++
		s.printf("FAIL  %s: its tests did not end\n", pkg)
	}
	for _, skip := range s.skips {
		s.printf("skip  %s\n", skip)
	}
	s.printf("%d passed, %d failed, %d skipped\n", s.passed, s.failed, s.skipped)
	if s.inTurn > 0 {
		s.printf("%d take turns, and other runs have them\n", s.inTurn)
	}
	bad := false
	for _, pkg := range s.crashed {
		s.printf("again %s: the race detector crashed\n", pkg)
		bad = bad || !again
	}
	if s.broken > 0 {
		s.printf("%d packages failed or do not build\n", s.broken)
		bad = true
	}
	if s.packages == 0 {
		s.printf("no package was tested\n")
		bad = true
	}
	if strict && s.skipped > 0 {
		s.printf("with -strict a skipped test counts as failed: install what it needs by scripts/setup.sh\n")
		bad = true
	}
	if bad || s.failed > 0 {
		return 1
	}
	return 0
}
