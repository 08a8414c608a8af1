// Package jsonform encodes Go values by encoding/json's rules. It knows which fields of a type get lost on the way,
// which values come back exactly, and what schema their JSON has.
//
//   - [Encode], [Decode] and [DecodeKnown] are the encoding of bodies and values. Text that is not UTF-8 is refused in
//     both directions, where encoding/json would put U+FFFD in its place.
//   - [Check] judges a type: which fields get lost, and which can't be encoded or read back at all.
//   - [Exact] tells whether the JSON form of a value gives back the same value, so that decoding can be skipped.
//   - [RedactError] says why JSON can't be decoded, and repeats nothing of the JSON.
//   - [Schema] describes the JSON form of a type, and [Example] makes a value that shows all of its members.
//   - [KeepUnknown] carries the members that a type doesn't know from the old form of a document to its new one.
package jsonform
