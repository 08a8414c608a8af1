package draft

import (
	"reflect"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/internal/jsonform"
)

type treeNode struct {
	Name  string      `json:"name"`
	Left  *treeNode   `json:"left,omitempty"`
	Lines []lineOf    `json:"lines,omitempty"`
	ByDay map[int]int `json:"byDay,omitempty"`
}

type lineOf struct {
	Article string `json:"article"`
	Count   int8   `json:"count"`
}

// Each fault has a line of its own, with its place and what is wanted there, in the order of the places.
func TestFaultsHavePlaces(t *testing.T) {
	t.Parallel()
	schema, err := jsonform.Schema(reflect.TypeFor[treeNode]())
	if err != nil {
		t.Fatal(err)
	}
	for body, want := range map[string]string{
		`{"name":"a"}`:                     "",
		`{"name":"a","left":null}`:         "",
		`{"name":"a","left":{"name":"b"}}`: "",
		`{}`:                               `member "name" is missing`,
		`{"name":7}`:                       `name: want string, got number`,
		`{"name":"a","left":7}`:            `left: want object, got number`,
		`{"name":"a","left":{"left":{}}}`:  "left: member \"name\" is missing\n  left.left: member \"name\" is missing",
		`{"name":"a","lines":[{"article":"x","count":1},{"article":"y","count":1000,"z":1}]}`: "lines[1]: unknown member \"z\"\n  lines[1].count: maximum: got 1,000, want 127",
		`{"name":"a","lines":"x"}`:                                         `lines: want array or null, got string`,
		`{"name":"a","byDay":{"x":1}}`:                                     `byDay: member "x" can't have that name`,
		`{"name":"a","byDay":{"x":1},"left":{"name":"b","byDay":{"x":1}}}`: "byDay: member \"x\" can't have that name\n  left.byDay: member \"x\" can't have that name",
		`{"name":"a","left":{"name":"b","byDay":{"x":1},"left":{"x":1}}}`:  "member \"x\" can't have that name\n  left.left: member \"name\" is missing\n  left.left: unknown member \"x\"",
		`{"name":"a","byDay":{"1":"x"}}`:                                   `byDay[1]: want integer, got string`,
		`{"name":"a","left":{"name":"b","name":"c"}}`:                      `member "left.name" occurs twice`,
		`{"name":"a","lines":[{},{"article":"x","article":"x"}]}`:          `member "lines[1].article" occurs twice`,
		`{"name":"a","x\u001b[31m":1}`:                                     `unknown member "x\x1b[31m"`,
		`{"name":"a","lines":[1,2`:                                         `not closed`,
		`{"name":"a"} x`:                                                   `unexpected text`,
		`{"name":"a",}`:                                                    `invalid character`,
		strings.Repeat(`{"left":`, 20_000):                                 `nested too deeply`,
		`null`:                                                             `want a JSON object`,
	} {
		got := ""
		if err := Check([]byte(body), schema); err != nil {
			got = err.Error()
		}
		if (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%.80s:\ngot  %q\nwant %q", body, got, want)
		}
	}
}

// A schema comes from the store: it names no files, and one that can't be used says so.
func TestSchemasAreNotTrusted(t *testing.T) {
	t.Parallel()
	for schema, want := range map[string]string{
		`{"$ref":"file:///etc/passwd"}`:       `refers to "file:///etc/passwd"`,
		`{"$ref":"https://example.org/x"}`:    `refers to "https://example.org/x"`,
		`{"type":7}`:                          "can't be used",
		`{"$ref":"#"}`:                        "",
		`{"pattern":"("}`:                     "can't be used",
		`junk`:                                "not JSON",
		``:                                    "",
		`true`:                                "",
		`false`:                               "false schema",
		`{"maxProperties":0}`:                 "maxProperties",
		`{"properties":{"a":{"const":"b"}}}`:  "a: ",
		`{"$schema":"https://example.org/x"}`: "refers to",
	} {
		err := Check([]byte(`{"a":1}`), []byte(schema))
		if want == "" && schema != `{"$ref":"#"}` && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", schema, err, want)
		}
	}
}
