package wire

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// A Mark is what decides on the lane of a message; see package storage/lanes.
type Mark struct {
	ID, Tenant, Priority string
	Delayed              bool // it was sent with a delay
	Apart                bool // its body is a blob
}

// ReadMark reads the mark of an encoded envelope, without decoding the rest. It returns what it found up to a fault.
func ReadMark(body []byte) (m Mark) {
	ref := ""
	defer func() { m.Apart = ref != "" }()
	d := jsontext.NewDecoder(bytes.NewReader(body), jsontext.AllowDuplicateNames(true))
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return m
	}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return m
		}
		to := (*string)(nil)
		switch name.String() {
		case "id":
			to = &m.ID
		case "tenantid":
			to = &m.Tenant
		case "priorityclass":
			to = &m.Priority
		case "dataref":
			to = &ref
		case "due":
			m.Delayed = true
		}
		if to == nil || d.PeekKind() != '"' {
			if d.SkipValue() != nil {
				return m
			}
			continue
		}
		value, err := d.ReadToken()
		if err != nil {
			return m
		}
		*to = value.String()
	}
	return m
}
