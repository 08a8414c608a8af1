package site

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/sample/reservations"
)

const maxBody = 64 << 10

// fields are the input's fields, in the order of the form.
var fields = []string{"id", "date", "quantity", "name", "email"}

// input is a reservation as it was typed. A form with faults shows it again.
type input struct {
	ID, Date, Name, Email, Quantity string
}

// readInput reads a body. Its errors are problems; the faults are of single fields that have the wrong type.
func readInput(w http.ResponseWriter, r *http.Request) (input, reservations.Faults, error) {
	parse := parseForm
	switch t := mediaType(r); {
	case isJSON(t):
		parse = parseJSON
	case t != "application/x-www-form-urlencoded":
		return input{}, nil, &problem{Status: http.StatusUnsupportedMediaType, Detail: "Send application/json or application/x-www-form-urlencoded."}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return input{}, nil, &problem{Status: http.StatusRequestEntityTooLarge, Detail: "The request is too large: at most 64 KiB."}
	case err != nil:
		return input{}, nil, &problem{Status: http.StatusBadRequest, Detail: "The request ended too early."}
	}
	in, faults, err := parse(body)
	if err != nil {
		return input{}, nil, &problem{Status: http.StatusBadRequest, Detail: "The body does not match its Content-Type."}
	}
	for _, s := range []*string{&in.ID, &in.Date, &in.Name, &in.Email, &in.Quantity} {
		*s = strings.TrimSpace(*s)
	}
	return in, faults, nil
}

func parseForm(body []byte) (input, reservations.Faults, error) {
	v, err := url.ParseQuery(string(body))
	if err != nil {
		return input{}, nil, err
	}
	return input{ID: v.Get("id"), Date: v.Get("date"), Name: v.Get("name"), Email: v.Get("email"), Quantity: v.Get("quantity")}, nil, nil
}

// parseJSON ignores unknown members. A member of the wrong type is a fault of its field, and so is an ID that is
// empty but there. The other fields are still read.
func parseJSON(body []byte) (input, reservations.Faults, error) {
	var members map[string]json.RawMessage
	if !utf8.Valid(body) { // the decoder would replace it by U+FFFD
		return input{}, nil, errors.New("not UTF-8")
	}
	if err := json.Unmarshal(body, &members); err != nil {
		return input{}, nil, err
	}
	var in input
	faults := reservations.Faults{}
	for field, to := range map[string]*string{"id": &in.ID, "date": &in.Date, "name": &in.Name, "email": &in.Email} {
		if raw, ok := members[field]; ok && json.Unmarshal(raw, to) != nil {
			faults[field] = "Send a string."
		}
	}
	if _, ok := members["id"]; ok && faults["id"] == "" && strings.TrimSpace(in.ID) == "" {
		faults["id"] = "Send an ID, or leave it out: without an ID, sending this again books again." // a script's variable was empty
	}
	if raw, ok := members["quantity"]; ok {
		var n int
		if json.Unmarshal(raw, &n) != nil {
			faults["quantity"] = "Send a whole number."
		}
		in.Quantity = strconv.Itoa(n)
	}
	return in, faults, nil
}

// reservation is the command that the input asks for. It makes a missing ID: a client without an ID accepts that a
// second request books a second time.
func (in input) reservation() reservations.MakeReservation {
	quantity, _ := strconv.Atoi(in.Quantity) // 0 has a fault of its own
	m := reservations.MakeReservation{ID: in.ID, Date: in.Date, Name: in.Name, Email: in.Email, Quantity: quantity}
	if m.ID == "" {
		m.ID = channel.NewID()
	}
	return m
}

// traceParent is the form of the header in version 00 of W3C Trace Context.
var traceParent = regexp.MustCompile(`^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

// traced returns a context with the trace of the request, to which sent messages then belong. An invalid traceparent
// is ignored.
func traced(ctx context.Context, r *http.Request) context.Context {
	parent := r.Header.Get("Traceparent")
	if !traceParent.MatchString(parent) {
		return ctx
	}
	return channel.WithTrace(ctx, channel.Trace{Parent: parent})
}
