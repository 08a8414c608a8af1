package draft

import (
	"bytes"
	"encoding/json"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/ops/act"
)

// Form gives a body one form, whatever the order of its members: its bytes decide whether two messages with one
// ID are the same, and the ID of an edited message follows from them.
func Form(body []byte) ([]byte, error) {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	var sorted bytes.Buffer
	enc := json.NewEncoder(&sorted)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	e := channel.Envelope{ID: "body", Source: act.Source, Kind: "millrace.body", Data: bytes.TrimSpace(sorted.Bytes())}
	raw, err := e.Encode() // and back: that is the form in which every body arrives
	if err == nil {
		e, err = wire.Decode(raw)
	}
	return e.Data, err
}

// Same reports that two bodies say the same.
func Same(a, b []byte) bool {
	x, err := Form(a)
	y, fault := Form(b)
	return err == nil && fault == nil && bytes.Equal(x, y)
}
