package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/internal/chart"
)

// TestMain lets the test binary be a child of the curves.
func TestMain(m *testing.M) {
	if spec := os.Getenv(childVar); spec != "" {
		os.Exit(beChild(spec, os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

func TestCell(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   any
		want string
	}{
		{1234567, "1,234,567"}, {12345.678, "12,300"}, {"text", "text"},
	} {
		if got := cell(c.in); got != c.want {
			t.Errorf("%v: got %s, want %s", c.in, got, c.want)
		}
	}
}

func TestMarkdown(t *testing.T) {
	t.Parallel()
	x := &table{Title: "Title", Note: "Note.", Machine: "A machine", Columns: []string{"a", "b"}}
	x.add(1000, "x")
	x.add(math.NaN(), math.Inf(1))
	const want = "### Title\n\nNote.\n\nA machine.\n\n| a | b |\n|---|---|\n| 1,000 | x |\n| - | - |\n"
	if got := x.markdown(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if _, err := json.Marshal(x); err != nil {
		t.Error(err)
	}
}

func TestLines(t *testing.T) {
	t.Parallel()
	x := &table{Columns: []string{"x", "y", "by"}}
	x.add(1, 2.0, "a")
	x.add(10, 3, "b")
	x.add(100, 4.0, "a")
	x.add("later", 5.0, "a")
	got := x.lines(plot{x: "x", y: "y", by: []string{"by"}})
	want := []chart.Line{{Name: "a", X: []float64{1, 100}, Y: []float64{2, 4}}, {Name: "b", X: []float64{10}, Y: []float64{3}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestNumbers(t *testing.T) {
	t.Parallel()
	if got := median([]float64{3, 1, 2}); got != 2 {
		t.Errorf("median of three: got %v, want 2", got)
	}
	if got := median([]float64{4, 1, 2, 3}); got != 2.5 {
		t.Errorf("median of four: got %v, want 2.5", got)
	}
	if got := median(nil); !math.IsNaN(got) {
		t.Errorf("median of none: got %v", got)
	}
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(i+1) * time.Millisecond
	}
	for q, want := range map[float64]float64{0: 1, 0.5: 50, 0.99: 99, 1: 100} {
		if got := quantile(hundred, q); got != want {
			t.Errorf("quantile %v: got %v, want %v", q, got, want)
		}
	}
	if got := powers(100, 99_999); !slices.Equal(got, []int{100, 1000, 10_000}) {
		t.Errorf("powers: got %v", got)
	}
	a := counts{1, 2, 3, 4, 5, 6, 7, 8}
	if got := a.plus(a).minus(a); got != a {
		t.Errorf("plus and minus: got %v, want %v", got, a)
	}
}

func TestAnswer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in, err string
		status  int
	}{
		{in: "HTTP/1.1 200 OK\r\ncontent-length: 3\r\nX: y\r\n\r\nabcrest", status: 200},
		{in: "HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\n", status: 304},
		{in: "HTTP/1.1 202 Accepted\r\n\r\n", status: 202},
		{in: "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab", err: "EOF"},
		{in: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", err: "Content-Length"},
		{in: "SMTP\r\n\r\n", err: "not an HTTP answer"},
		{in: "", err: "EOF"},
	} {
		status, err := answer(bufio.NewReader(strings.NewReader(c.in)))
		if c.err == "" && (err != nil || status != c.status) {
			t.Errorf("%q: got %d, %v, want %d", c.in, status, err, c.status)
		}
		if c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%q: got %d, %v, want an error with %s", c.in, status, err, c.err)
		}
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"-curves", "straight"}, {"-curves", ""}, {"-n", "0"}, {"-max", "99"}, {"-windows", "a"}, {"-for", "0"}, {"-stolen", "-1"}, {"-json", "/dev/null/x"}, {"-svg", "/dev/null/x"}, {"more"}, {"-unknown"}} {
		var errs strings.Builder
		if got := run(t.Context(), args, io.Discard, &errs); got != 2 || errs.Len() == 0 {
			t.Errorf("%v: got %d and %q, want 2 and a reason", args, got, errs.String())
		}
	}
}

// Every curve works, with numbers too small to mean anything.
func TestSmoke(t *testing.T) {
	if testing.Short() {
		t.Skip("starts servers and some forty processes")
	}
	for _, c := range curves() {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			numbers := filepath.Join(dir, "numbers.json")
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			var out strings.Builder
			args := []string{"-curves", c.name, "-n", "20", "-max", "1000", "-rounds", "1", "-for", "100ms", "-settle", "100ms", "-json", numbers, "-svg", filepath.Join(dir, "svg")}
			if code := run(ctx, args, &out, t.Output()); code != 0 {
				t.Fatalf("got %d, want 0", code)
			}
			b, err := os.ReadFile(numbers)
			if err != nil {
				t.Fatal(err)
			}
			var tables []table
			if err := json.Unmarshal(b, &tables); err != nil || len(tables) == 0 {
				t.Fatalf("%v in %s", err, b)
			}
			if c.name == "hot" && os.Getenv("CI") != "" && len(tables) < 2 {
				t.Error("without Azurite")
			}
			for _, x := range tables {
				if !strings.Contains(out.String(), "### "+x.Title) {
					t.Errorf("no table %q in\n%s", x.Title, out.String())
				}
				if len(x.Rows) == 0 {
					t.Errorf("table %s has no row", x.Name)
				}
				for _, row := range x.Rows {
					checkRow(t, x, row)
				}
			}
		})
	}
}

// checkRow checks what must hold even for the smallest numbers.
func checkRow(t *testing.T, x table, row []any) {
	t.Helper()
	for column, want := range map[string]float64{"doubled": 0, "too old, refused": 1, "doubled or lost": 0} {
		if i := slices.Index(x.Columns, column); i >= 0 && row[i] != want {
			t.Errorf("%s of %v: got %v, want %v", column, row, row[i], want)
		}
	}
	for i, c := range row {
		if f, ok := c.(float64); ok && strings.HasSuffix(x.Columns[i], "/s") && f <= 0 {
			t.Errorf("%s of %v: got %v, want more than 0", x.Columns[i], row, f)
		}
	}
}
