package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/internal/parttest"
)

func TestSummary(t *testing.T) {
	t.Parallel()
	const (
		begin = `{"Action":"start","Package":"p"}` + "\n"
		pass  = `{"Action":"output","Package":"p","Test":"TestA","Output":"noise\n"}` + "\n" + `{"Action":"pass","Package":"p","Test":"TestA"}` + "\n"
		fail  = `{"Action":"output","Package":"p","Test":"TestB","Output":"got 1, want 2\n"}` + "\n" + `{"Action":"fail","Package":"p","Test":"TestB"}` + "\n"
		skip  = `{"Action":"output","Package":"p","Test":"TestC","Output":"=== RUN   TestC\n"}` + "\n" +
			`{"Action":"output","Package":"p","Test":"TestC","Output":"    x_test.go:1: no Chromium\n"}` + "\n" +
			`{"Action":"output","Package":"p","Test":"TestC","Output":"--- SKIP: TestC (0.00s)\n"}` + "\n" +
			`{"Action":"skip","Package":"p","Test":"TestC"}` + "\n"
		turn  = `{"Action":"output","Package":"p","Test":"TestE","Output":"    x_test.go:1: ` + parttest.Reason + `the runs of part 1 of 5 have it\n"}` + "\n" + `{"Action":"skip","Package":"p","Test":"TestE"}` + "\n"
		good  = `{"Action":"pass","Package":"p"}` + "\n"
		bad   = `{"Action":"output","Package":"p","Output":"exit status 2\n"}` + "\n" + `{"Action":"fail","Package":"p"}` + "\n"
		none  = `{"Action":"skip","Package":"empty"}` + "\n"
		stuck = `{"Action":"output","Package":"p","Test":"TestD","Output":"panic: test timed out\n"}` + "\n"
		check = `{"Action":"output","Package":"p","Test":"TestA","Output":"ThreadSanitizer: CHECK failed: x\n"}` + "\n"
		crash = `{"Action":"output","Package":"p","Test":"TestA","Output":"SIGSEGV: segmentation violation\nPC=0x1\n\ngoroutine 9 [running]:\nruntime.(*timer).maybeRunChan(0x1)\n\ngoroutine 1 gp=0x1\n"}` + "\n"
		other = `{"Action":"output","Package":"p","Test":"TestA","Output":"SIGSEGV: segmentation violation\nPC=0x1\n\ngoroutine 9 [running]:\nmine()\n\ngoroutine 1 gp=0x1\nruntime.(*timer).maybeRunChan(0x1)\n"}` + "\n"
		build = `{"ImportPath":"q","Action":"build-output","Output":"q.go:1: undefined: x\n"}` + "\n" + `{"ImportPath":"q","Action":"build-fail"}` + "\n"
	)
	for name, c := range map[string]struct {
		in     string
		strict bool
		again  bool
		list   string
		code   int
		want   []string
		not    string
	}{
		"passed":                       {in: begin + pass + good + none, want: []string{"ok    p", "1 passed, 0 failed, 0 skipped"}, not: "noise"},
		"failed":                       {in: begin + pass + fail + bad, code: 1, want: []string{"got 1, want 2", "1 passed, 1 failed, 0 skipped", "FAIL  p"}},
		"skipped":                      {in: begin + pass + skip + good, want: []string{"skip  p TestC: x_test.go:1: no Chromium", "1 passed, 0 failed, 1 skipped"}},
		"skipped, strict":              {in: begin + pass + skip + good, strict: true, code: 1, want: []string{"1 skipped", "counts as failed"}},
		"another run has it, strict":   {in: begin + pass + turn + good, strict: true, want: []string{"1 passed, 0 failed, 0 skipped", "1 take turns"}, not: "skip  "},
		"passed, strict":               {in: begin + pass + good + none, strict: true, want: []string{"1 passed"}},
		"process died":                 {in: begin + pass + stuck + bad, code: 1, want: []string{"panic: test timed out", "exit status 2", "1 packages failed"}},
		"output ends early":            {in: begin + pass, code: 1, want: []string{"its tests did not end"}},
		"does not build":               {in: build, code: 1, want: []string{"undefined: x", "q does not build"}},
		"nothing":                      {code: 1, want: []string{"no package was tested"}},
		"the detector checks":          {in: begin + pass + check + bad, code: 1, want: []string{"CHECK failed", "again p"}},
		"the detector crashes":         {in: begin + pass + crash + bad, code: 1, want: []string{"PC=0x1", "again p"}},
		"the detector, again":          {in: begin + pass + crash + bad, again: true, list: "p", want: []string{"again p", "1 passed, 0 failed"}},
		"the detector, and a failure":  {in: begin + fail + crash + bad, again: true, code: 1, want: []string{"again p", "1 failed"}},
		"another crash":                {in: begin + pass + other + bad, again: true, code: 1, want: []string{"1 packages failed"}, not: "again"},
		"none to test again":           {in: begin + pass + good, again: true},
		"something else between lines": {in: begin + "go: downloading\n" + pass + good, want: []string{"go: downloading", "1 passed"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var args []string
			if c.strict {
				args = []string{"-strict"}
			}
			list := filepath.Join(t.TempDir(), "list")
			if c.again {
				args = append(args, "-again", list)
			}
			var out, errs bytes.Buffer
			if code := run(args, strings.NewReader(c.in), &out, &errs); code != c.code {
				t.Errorf("got exit code %d, want %d", code, c.code)
			}
			for _, want := range c.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("got %q, want %q in it", &out, want)
				}
			}
			if got, err := os.ReadFile(list); c.again && c.code == 0 && (err != nil || string(got) != c.list) {
				t.Errorf("got %q, %v to test again, want %q", got, err, c.list)
			}
			if c.not != "" && strings.Contains(out.String(), c.not) {
				t.Errorf("got %q, want no %q in it", &out, c.not)
			}
		})
	}
}
