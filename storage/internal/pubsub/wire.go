package pubsub

import (
	"encoding/binary"

	"github.com/millrace-go/millrace/storage/driver"
)

const (
	headSize = 1 + len(ID{}) + 1 // kind, ID, length of the topic
	maxTopic = 50

	// MaxRequest is the length of the longest request, and AnswerSize that of each answer.
	MaxRequest = headSize + maxTopic + driver.MaxPublish
	AnswerSize = len(ID{}) + 4
)

// Append encodes a request:
//
//	kind (1 byte) · ID (16) · length of the topic (1) · topic · data
func (r Request) Append(b []byte) []byte {
	b = append(b, byte(r.Kind))
	b = append(b, r.ID[:]...)
	b = append(b, byte(len(r.Topic)))
	b = append(b, r.Topic...)
	return append(b, r.Data...)
}

// ReadRequest decodes a request that anybody may have written. Its data is part of b.
func ReadRequest(b []byte) (r Request, ok bool) {
	if len(b) < headSize || len(b) > MaxRequest {
		return Request{}, false
	}
	r.Kind = Kind(b[0])
	copy(r.ID[:], b[1:])
	topic := int(b[headSize-1])
	rest := b[headSize:]
	if r.Kind < Ask || r.Kind > GiveAll || topic == 0 || topic > maxTopic || len(rest) < topic || len(rest)-topic > driver.MaxPublish {
		return Request{}, false
	}
	r.Topic, r.Data = string(rest[:topic]), rest[topic:]
	return r, true
}

// AppendAnswer encodes the answer to a request: its ID and a count of 4 bytes. Numbers are big-endian.
func AppendAnswer(b []byte, id ID, n int) []byte {
	b = append(b, id[:]...)
	return binary.BigEndian.AppendUint32(b, uint32(min(max(n, 0), driver.Everyone)))
}

// ReadAnswer decodes an answer.
func ReadAnswer(b []byte) (id ID, n int, ok bool) {
	if len(b) != AnswerSize {
		return ID{}, 0, false
	}
	copy(id[:], b)
	count := binary.BigEndian.Uint32(b[len(id):])
	return id, int(count), count <= driver.Everyone
}
