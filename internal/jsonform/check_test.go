package jsonform_test

//lint:file-ignore U1000 The tests ask about fields that nothing uses.

import (
	"encoding/json"
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/internal/jsonform"
)

// The types that tests ask about.
type (
	hidden  struct{ sold int }
	half    struct{ Left, sold int }
	inner   struct{ N int }
	nothing struct{}

	own      struct{ sold int }
	ownText  struct{ sold int }
	ownBoth  struct{ *own }
	loop     struct{ Next *loop }
	loopLost struct {
		Next *loopLost
		n    int
	}
	leftOut struct {
		Sold int `json:"-"`
	}
	someLeftOut struct {
		Left int
		Memo func() int `json:"-"`
	}
	locked struct {
		mu sync.Mutex
		N  int
	}
	lockOnly struct{ mu sync.RWMutex }
	lockedUp struct {
		Mu sync.Mutex
		N  int
	}
	counted    struct{ n atomic.Int64 }
	embeds     struct{ inner }
	embedsPart struct{ half }
	embedsMany struct {
		inner
		Other
	}
	Other          struct{ N int }
	embedsManyMore struct {
		inner
		Other
		C int
	}
	shadow struct {
		inner
		N string
	}
	sealed         struct{ *inner }
	blank          struct{ _ [8]byte }
	marker         struct{ mark nothing }
	withTime       struct{ At time.Time }
	withBig        struct{ N *big.Int }
	unkeyed        struct{ M map[float64]int }
	timeKeyed      struct{ M map[time.Time]int }
	face           struct{ S fmt.Stringer }
	anything       struct{ X any }
	generic[T any] struct {
		View T `json:"view"`
	}
)

func (own) MarshalJSON() ([]byte, error)    { return []byte("1"), nil }
func (*ownText) UnmarshalText([]byte) error { return nil }

func TestCheck(t *testing.T) {
	t.Parallel()
	tagTwice := reflect.New(reflect.StructOf([]reflect.StructField{ // go vet would refuse the type in the code
		{Name: "A", Type: reflect.TypeFor[int](), Tag: `json:"a"`}, {Name: "B", Type: reflect.TypeFor[int](), Tag: `json:"a"`},
	})).Elem().Interface()
	for _, test := range []struct {
		of     any
		lost   string // the fields, with spaces between
		refuse string // a text in the error; empty for none
	}{
		{of: 5}, {of: ""}, {of: nothing{}}, {of: []string{}}, {of: map[int]string{}}, {of: anything{}}, {of: blank{}}, {of: marker{}},
		{of: hidden{}, refuse: "no field of jsonform_test.hidden (jsonform_test.hidden.sold): export them"},
		{of: &hidden{}, refuse: "hidden.sold"},
		{of: []hidden{}, refuse: "hidden.sold"},
		{of: map[string]hidden{}, refuse: "hidden.sold"},
		{of: map[string][]*hidden{}, refuse: "hidden.sold"},
		{of: struct{ A, B hidden }{}, refuse: "hidden.sold"},
		{of: struct{ hidden }{}, refuse: "hidden.sold"},
		{of: generic[hidden]{}, refuse: "hidden.sold"},
		{of: generic[struct{ n int }]{}, refuse: "no field of jsonform_test.generic"},
		{of: half{}, lost: "jsonform_test.half.sold"},
		{of: [][]half{}, lost: "jsonform_test.half.sold"},
		{of: struct{ A, B half }{}, lost: "jsonform_test.half.sold"},
		{of: generic[half]{}, lost: "jsonform_test.half.sold"},
		{of: embeds{}}, {of: embedsPart{}, lost: "jsonform_test.half.sold"},
		{of: own{}}, {of: ownText{}}, {of: ownBoth{}}, {of: struct{ A own }{}}, {of: withTime{}}, {of: withBig{}}, {of: timeKeyed{}},
		{of: leftOut{}}, {of: someLeftOut{}},
		{of: loop{}}, {of: loopLost{}, lost: "jsonform_test.loopLost.n"},
		{of: locked{}}, {of: lockOnly{}}, {of: lockedUp{}},
		{of: counted{}, refuse: "counted.n"},
		{of: struct{ N atomic.Int64 }{}, refuse: "atomic.Int64"},
		{of: embedsManyMore{}, lost: "jsonform_test.inner.N jsonform_test.Other.N"},
		{of: embedsMany{}, refuse: "inner.N, jsonform_test.Other.N"},
		{of: embedsMany{}, refuse: `several have the name "N" in JSON: give each field its own`},
		{of: tagTwice, refuse: `(A, B): several have the name "a" in JSON: give each field its own`},
		{of: shadow{}, lost: "jsonform_test.inner.N"},
		{of: sealed{}, refuse: "by a pointer"},
		{of: struct{ F func() }{}, refuse: "F is of type func()"},
		{of: struct{ C *chan int }{}, refuse: "C is of type chan int"},
		{of: struct{ C []complex64 }{}, refuse: "C is of type complex64"},
		{of: func() {}, refuse: "func()"},
		{of: unkeyed{}, refuse: "keys of type float64"},
		{of: face{}, refuse: "face.S is of interface type fmt.Stringer"},
	} {
		lost, err := jsonform.Check(reflect.TypeOf(test.of))
		if got := strings.Join(lost, " "); got != test.lost {
			t.Errorf("%T: got lost %q, want %q", test.of, got, test.lost)
		}
		if refused := err != nil; refused != (test.refuse != "") || refused && !strings.Contains(err.Error(), test.refuse) {
			t.Errorf("%T: got error %v, want one with %q", test.of, err, test.refuse)
		}
	}
}

// encoding/json keeps the same fields as Check.
func TestCheckAgreesWithEncodingJSON(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		of   any
		keep []string
	}{
		{half{1, 2}, []string{"Left"}},
		{embedsPart{half{1, 2}}, []string{"Left"}},
		{embedsManyMore{inner{1}, Other{2}, 3}, []string{"C"}},
		{embedsMany{inner{1}, Other{2}}, nil},
		{shadow{inner{1}, "a"}, []string{"N"}},
		{hidden{1}, nil},
	} {
		b, err := json.Marshal(test.of)
		if err != nil {
			t.Fatal(err)
		}
		var members map[string]any
		if err := json.Unmarshal(b, &members); err != nil {
			t.Fatal(err)
		}
		var got []string
		for name := range members {
			got = append(got, name)
		}
		if slices.Sort(got); !slices.Equal(got, test.keep) {
			t.Errorf("%T: encoding/json keeps %q, want %q", test.of, got, test.keep)
		}
	}
}
