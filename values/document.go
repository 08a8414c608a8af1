package values

import (
	"fmt"
	"reflect"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace-go/millrace/internal/contain"
	"github.com/millrace-go/millrace/internal/jsonform"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/storage"
)

// document is a value with its replay record, in memory.
type document[V any] struct {
	value   V              // as its JSON form gives it back; see settle
	form    jsontext.Value // the value's JSON form, if settle made it
	raw     jsontext.Value // the value as it is stored; nil before the first write
	foreign bool           // raw has members that V doesn't know
	version uint64         // messages applied
	emitted uint64         // messages emitted
	record  record
	ordered map[string]wire.Stamp // the last emission to each queue in order; it doesn't change, but is replaced
	pending []pending
	etag    storage.ETag // "" before the first write
	size    int          // of the stored form; 0 before the first write

	sent map[messageDigest]bool // messages whose pending emissions this process has sent; not stored
}

// pending holds the emissions of one message that were written but are not known to be sent. Only engines without an
// atomic Commit need it.
type pending struct {
	Message messageDigest    `json:"message"`
	At      time.Time        `json:"at"`     // when it was written, by the writer's clock
	Events  []jsontext.Value `json:"events"` // envelopes
}

// messageDigest is the digest of a message's ID, as in its entry.
type messageDigest = [12]byte

// stored is the document's JSON form.
type stored struct {
	Version uint64 `json:"version"`
	Emitted uint64 `json:"emitted,omitzero"`

	Ordered map[string]wire.Stamp `json:"ordered,omitempty"`

	Value     jsontext.Value `json:"value"`
	Applied   []byte         `json:"applied,omitempty"` // see record
	Watermark int64          `json:"watermark,omitzero"`
	Left      bool           `json:"left,omitzero"`
	Pending   []pending      `json:"pending,omitempty"`
}

func decodeDocument[V any](b storage.Blob) (*document[V], error) {
	var s stored
	if err := json.Unmarshal(b.Body, &s); err != nil {
		return nil, fmt.Errorf("document: %w", jsonform.RedactError[stored](err))
	}
	d := &document[V]{raw: s.Value, version: s.Version, emitted: s.Emitted, ordered: s.Ordered, pending: s.Pending, etag: b.ETag, size: len(b.Body)}
	d.record = record{packed: s.Applied, watermark: s.Watermark, left: s.Left}
	err := d.record.check()
	if err != nil {
		return nil, fmt.Errorf("document: %w", err)
	}
	d.value, d.foreign, err = decodeStored[V](s.Value)
	return d, err
}

// encode sets raw and size, and returns the stored form.
func (d *document[V]) encode() (b []byte, err error) {
	raw := d.form
	if raw == nil {
		if raw, err = encodeValue(d.value); err != nil {
			return nil, err
		}
	}
	if d.foreign {
		if raw, err = jsonform.KeepUnknown(reflect.TypeFor[V](), d.raw, raw); err != nil {
			return nil, fmt.Errorf("value: %w", err)
		}
	}
	d.raw, d.form = raw, nil
	b, err = json.Marshal(&stored{
		Version: d.version, Emitted: d.emitted, Ordered: d.ordered, Value: raw, Applied: d.record.packed,
		Watermark: d.record.watermark, Left: d.record.left, Pending: d.pending,
	})
	d.size = len(b)
	return b, err
}

// settle returns a value as its JSON form gives it back, and that form if it was made. A value that is known to come
// back the same is left as it is (see [jsonform.Exact]). So no decision sees what only one process's memory has: an int
// where there will be a float64, a field that isn't stored, a map that two fields share.
func (c *Collection[V]) settle(v V) (settled V, form jsontext.Value, err error) {
	if c.asIs || c.exact.Same(&v) {
		return v, nil, nil
	}
	if form, err = encodeValue(v); err != nil {
		return v, nil, err
	}
	settled, err = decodeValue[V](form)
	return settled, form, err
}

func encodeValue[V any](v V) (form jsontext.Value, err error) {
	if err = contain.Call(func() (err error) { form, err = jsonform.Encode(v); return err }); err != nil {
		return nil, fmt.Errorf("value: %w", err)
	}
	return form, nil
}

func decodeValue[V any](raw []byte) (v V, err error) {
	if err = contain.Call(func() (err error) { v, err = jsonform.Decode[V](raw); return err }); err != nil {
		return v, fmt.Errorf("value: %w", jsonform.RedactError[V](err))
	}
	return v, nil
}

// decodeStored is decodeValue, and reports whether there are members that V doesn't know.
func decodeStored[V any](raw []byte) (v V, foreign bool, err error) {
	var known bool
	if err = contain.Call(func() (err error) { v, known, err = jsonform.DecodeKnown[V](raw); return err }); err != nil {
		return v, false, fmt.Errorf("value: %w", jsonform.RedactError[V](err))
	}
	return v, !known, nil
}
