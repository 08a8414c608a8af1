package wire

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/driver"
)

// form is a body with members of many types.
type form struct {
	Name    string         `json:"name"`
	Seats   int            `json:"seats"`
	At      time.Time      `json:"at"`
	By      map[string]int `json:"by"`
	Picture []byte         `json:"picture"`
	Parts   []struct {
		Share float32 `json:"share"`
	} `json:"parts"`
}

func (form) Kind() Kind { return "test.form.v1" }

const personal = "ada@example.org"

// checkUnfit demands that errors about JSON with a personal address between two texts don't repeat the address.
func checkUnfit(t *testing.T, before, after string) {
	t.Helper()
	body := before + personal + after
	_, whole := decodeBody[form]([]byte(body))
	_, byName := decodeBody[counts]([]byte(body))
	_, envelope := Decode([]byte(`{"specversion":"1.0","id":"a","source":"/x","type":"a.v1","data":` + body + "}"))
	if !errors.Is(envelope, ErrMalformed) {
		envelope = nil // errors do quote attributes
	}
	for what, err := range map[string]error{"struct": whole, "map": byName, "envelope": envelope} {
		if err != nil && strings.Contains(err.Error(), "example.org") {
			t.Errorf("%s: %s: the error repeats it: %v", what, body, err)
		}
	}
}

// counts is a body whose members have any names.
type counts map[string]int

func (counts) Kind() Kind { return "test.counts.v1" }

var unfitting = [][2]string{
	{`{"seats":"`, `"}`}, {`{"at":"`, `"}`}, {`{"by":{"`, `":"x"}}`}, {`{"by":{"`, `":1,"ada@example.org":2}}`}, {`{"by":{"`, `" 1}}`}, {`{"picture":"`, `"}`},
	{`{"parts":[{"share":"`, `"}]}`}, {`"`, `"`}, {`{"`, `":"x"}`}, {`{"name":"`, ``}, {`{"name":"\u00`, `"}`}, {`[`, `]`}, {``, ``}, {`{"Seats":true,"x":"`, `"}`},
}

// Errors end in logs, so they repeat nothing of a body.
func TestErrorsRepeatNoBody(t *testing.T) {
	t.Parallel()
	for _, x := range unfitting {
		checkUnfit(t, x[0], x[1])
	}
	for body, want := range map[string]string{
		`{"seats":"x"}`: "member seats can't be decoded into int", `{"at":"x"}`: "*time.ParseError", `{"by":{"x":"y"}}`: "member by can't be decoded into int",
		`{"name":"x`: "", `7`: "the JSON can't be decoded into wire.form",
	} {
		if _, err := decodeBody[form]([]byte(body)); !errors.Is(err, ErrBody) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want it to say %q", body, err, want)
		}
	}
	for body, want := range map[string]string{
		`{"specversion":"1.0","id":7}`: "member id can't be decoded into string", `{"id":"a","id":"b"}`: "two members with one name", `{"id":`: "ends too early", `{"id" 1}`: "invalid JSON at byte 6",
	} {
		if _, err := Decode([]byte(body)); !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want it to say %q", body, err, want)
		}
	}
}

func FuzzBody(f *testing.F) {
	for _, x := range unfitting {
		f.Add(x[0], x[1])
	}
	f.Fuzz(checkUnfit)
}

// touched is a store that notes which blobs are requested.
type touched struct {
	driver.Store
	keys *[]string
}

func (s touched) Props() (p driver.Props)     { return p }
func (s touched) Committer() driver.Committer { return nil }
func (s touched) Listener() driver.Listener   { return nil }
func (s touched) Finder() driver.Finder       { return nil }
func (s touched) Peeker() driver.Peeker       { return nil }
func (s touched) Inspector() driver.Inspector { return nil }
func (s touched) Blobs(container string) driver.Blobs {
	return touchedBlobs{container: container, keys: s.keys}
}

type touchedBlobs struct {
	driver.Blobs
	container string
	keys      *[]string
}

func (b touchedBlobs) Get(_ context.Context, key string, _ storage.ETag) (storage.Blob, error) {
	*b.keys = append(*b.keys, b.container+"/"+key)
	return storage.Blob{Body: []byte("{}")}, nil
}

func (b touchedBlobs) Delete(_ context.Context, key string, _ storage.Condition) error {
	*b.keys = append(*b.keys, b.container+"/"+key)
	return nil
}

// checkReference follows a reference as a worker of a queue does. It demands that only a body of that queue is reached.
func checkReference(t *testing.T, queue, ref string) {
	t.Helper()
	if storage.CheckName(queue) != nil {
		return
	}
	e := Envelope{ID: "a", Source: "/x", Kind: "a.v1", DataRef: ref}
	body, err := e.Encode()
	if err != nil {
		return
	}
	if e, err = Decode(body); err != nil || e.CheckDataRef(queue) != nil || e.DataRef == "" {
		return
	}
	var keys []string
	o := NewOutbox(storage.New(touched{keys: &keys}), nil)
	if err := errors.Join(o.FetchBody(t.Context(), &e), o.DeleteBody(t.Context(), e.DataRef)); err != nil {
		t.Errorf("%q passes for queue %s, but: %v", ref, queue, err)
	}
	id, ok := strings.CutPrefix(ref, "claims/"+queue+"/")
	if !ok || len(id) != 36 || uuid.Validate(id) != nil || !slices.Equal(keys, []string{ref, ref}) {
		t.Errorf("%q passes for queue %s and reaches %q", ref, queue, keys)
	}
}

// A message can refer to a body of its own queue only. No queue has the name under which documents keep their bodies.
func TestReferencesStayInTheirQueue(t *testing.T) {
	t.Parallel()
	const id = "0190b6a2-7b1c-7def-8123-456789abcdef"
	for _, ref := range []string{
		"claims/mails/" + id, "claims/mailsx/" + id, "claims/mails/../other/" + id, "claims//" + id, "claims/mails/{" + id + "}", "claims/mails/urn:uuid:" + id,
		"claims/mails/" + strings.ToUpper(id), "poison/mails/" + id, "/claims/mails/" + id, "claims/mails/" + id + "/", "claims/mails/" + id[:35] + "\x00", "claims/stowed/" + id,
	} {
		for _, queue := range []string{"mails", "other", "mailsx"} {
			checkReference(t, queue, ref)
		}
	}
}

func FuzzDataRef(f *testing.F) {
	f.Add("mails", "claims/mails/0190b6a2-7b1c-7def-8123-456789abcdef")
	f.Add("mails", "claims/mails/../x/0190b6a2-7b1c-7def-8123-456789abcdef")
	f.Add("a-b", "claims/a-b/{190b6a2-7b1c-7def-8123-456789abcdef}")
	f.Fuzz(checkReference)
}
