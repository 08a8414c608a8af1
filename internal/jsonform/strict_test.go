package jsonform

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
)

// Data from outside is refused where it isn't exactly the type, with the place of the fault.
func TestDecodeStrictly(t *testing.T) {
	t.Parallel()
	type line struct {
		N int `json:"n"`
	}
	type order struct {
		Item  string `json:"item"`
		Lines []line `json:"lines"`
	}
	for body, want := range map[string]string{
		`{"item":"tea","lines":[{"n":2}]}`: "",
		`{}`:                               "",
		`{"item":"` + "\xff" + `"}`:        "invalid JSON at byte",
		`{"item":"a","item":"b"}`:          "two members with one name",
		`{"Item":"a"}`:                     `unknown member "Item"`,
		`{"lines":[{"m":1}]}`:              `unknown member "m"`,
		`{"lines":[{"n":"1"}]}`:            "member lines can't be decoded",
		`{"item":"a"}{}`:                   "invalid JSON at byte",
		`{"item":`:                         "ends too early",
		`[]`:                               "can't be decoded",
	} {
		got, err := DecodeStrictly[order]([]byte(body))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %+v, %v; want an error with %q", body, got, err, want)
		}
		passes := want == "" || strings.HasPrefix(want, "unknown member")
		if newer, err := DecodeNewer[order]([]byte(body)); (err == nil) != passes || want == "" && !reflect.DeepEqual(newer, got) || newer.Item != got.Item {
			t.Errorf("%s: of a newer release: got %+v, %v", body, newer, err)
		}
	}
}

// An error in full names the whole path, and what the type wants there.
func TestErrorsInFull(t *testing.T) {
	t.Parallel()
	type line struct {
		N    int           `json:"n"`
		Size *[]string     `json:"size"`
		At   customOnlyInt `json:"at"`
	}
	type order struct {
		Item  string          `json:"item"`
		Lines map[string]line `json:"lines"`
		Last  *line           `json:"last"`
	}
	for body, want := range map[string]string{
		`{"Item":"a"}`:                   `unknown member "Item"; want one of item, last, lines`,
		`{"lines":{"a.b":{"m":1}}}`:      `unknown member "m" in lines."a.b"; want one of at, n, size`,
		`{"last":{"m":1}}`:               `unknown member "m" in last; want one of at, n, size`,
		`{"last":[]}`:                    "last: want an object with at, n, size",
		`{"lines":{"a":5}}`:              "lines.a: want an object with at, n, size",
		`{"lines":5}`:                    "lines: want an object",
		`{"lines":{"a":{"n":1.5}}}`:      "lines.a.n: want a whole number",
		`{"last":{"size":["a",5]}}`:      "last.size.1: want a text",
		`{"last":{"at":"not a number"}}`: "last.at can't be decoded into jsonform.customOnlyInt",
	} {
		_, err := DecodeStrictly[order]([]byte(body))
		var full interface{ InFull() string }
		if !errors.As(err, &full) || full.InFull() != want {
			t.Errorf("%s: got %v, in full %+v; want %q", body, err, full, want)
		}
	}
}

// customOnlyInt reads its own form.
type customOnlyInt int

func (c *customOnlyInt) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, (*int)(c)) }

func (c customOnlyInt) MarshalJSON() ([]byte, error) { return json.Marshal(int(c)) }
