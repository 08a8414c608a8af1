package draft

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// CheckObject refuses a text that is not one JSON object, and members that occur twice.
func CheckObject(body []byte) error {
	if !bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("{")) {
		return errors.New("want a JSON object")
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	switch err := checkValue(dec, nil); {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the JSON object is not closed")
	case err != nil:
		return err
	}
	if _, err := dec.Token(); err != io.EOF {
		return errors.New("unexpected text after the JSON object")
	}
	return nil
}

// mostNested bounds the levels of a body, as encoding/json does.
const mostNested = 10_000

// checkValue reads a value up to its end. at is its place.
func checkValue(dec *json.Decoder, at []string) error {
	t, err := dec.Token()
	switch {
	case err != nil:
		return err
	case len(at) > mostNested:
		return errors.New("the JSON is nested too deeply")
	case t != json.Delim('{') && t != json.Delim('['):
		return nil
	}
	names := map[string]bool{}
	for i := 0; dec.More(); i++ {
		name := strconv.Itoa(i)
		if t == json.Delim('{') {
			member, err := dec.Token()
			if err != nil {
				return err
			}
			name, _ = member.(string) // the decoder accepts nothing else
			if names[name] {
				return fmt.Errorf("member %q occurs twice", place(append(at, name)))
			}
			names[name] = true
		}
		if err := checkValue(dec, append(at, name)); err != nil { // nobody keeps the place
			return err
		}
	}
	_, err = dec.Token()
	return err
}
