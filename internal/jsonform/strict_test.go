package jsonform

import (
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
