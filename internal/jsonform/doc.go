// Package jsonform holds what JSON, by encoding/json's rules, makes of Go values: how messages and documents are
// encoded, which fields of a type get lost on the way, and which values come back exactly as they were.
//
//   - [Encode], [Decode] and [DecodeKnown] are the encoding of bodies and values. Text that is not UTF-8 is refused in
//     both directions, where encoding/json would put U+FFFD in its place.
//   - [Check] reads a type: what gets lost, and what can't be encoded or read back at all.
//   - [Exact] tells whether the JSON form of a value gives back the same value, so that decoding can be saved.
//   - [KeepUnknown] carries the members that a type doesn't know from the old form of a document to its new one.
package jsonform
