package doorbell

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"hash"
	"net/netip"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/internal/pubsub"
)

const (
	version         = 1 // of a row; also the first byte of a ring
	kindPublication = 2 // the first byte of a publication
	kindAnswer      = 3 // likewise, of an answer to one
	keySize         = 32
	macSize         = 16
	headSize        = 1 + 8 + 8 // version, sender, time
	maxQueue        = 50        // of a queue's name
	maxRing         = headSize + maxQueue + macSize
	maxPublication  = headSize + pubsub.MaxRequest + macSize
	answerSize      = 1 + pubsub.AnswerSize + macSize
	maxAddresses    = 8 // of one listener
)

// A ring is the content of a datagram:
//
//	version (1 byte) · sender (8) · time in µs since 1970 (8) · queue · first 16 bytes of their HMAC-SHA256
//
// A publication has a request of package publication in the place of the queue, and another first byte. A sender gives
// each datagram a later time than the one before, also if it repeats a request. The answer goes to the datagram's
// source:
//
//	kind (1 byte) · answer of package publication (20) · first 16 bytes of their HMAC-SHA256
//
// Numbers are big-endian; the key is the listener's.
type ring struct {
	sender  uint64
	at      int64
	queue   string          // or the request's topic
	request *pubsub.Request // nil for a ring
}

func newMAC(key []byte) hash.Hash { return hmac.New(sha256.New, key) }

func appendRing(b []byte, mac hash.Hash, r ring) []byte {
	begin := len(b)
	kind := byte(version)
	if r.request != nil {
		kind = kindPublication
	}
	b = append(b, kind)
	b = binary.BigEndian.AppendUint64(b, r.sender)
	b = binary.BigEndian.AppendUint64(b, uint64(r.at))
	if r.request != nil {
		b = r.request.Append(b)
	} else {
		b = append(b, r.queue...)
	}
	return append(b, sum(mac, b[begin:])...)
}

func sum(mac hash.Hash, b []byte) []byte {
	mac.Reset()
	mac.Write(b)
	return mac.Sum(nil)[:macSize]
}

// readDatagram returns the ring or the publication in a datagram, if it was made with the key. It keeps nothing of b.
func readDatagram(b []byte, mac hash.Hash) (ring, bool) {
	if len(b) <= headSize+macSize {
		return ring{}, false
	}
	switch {
	case b[0] == version && len(b) <= maxRing:
	case b[0] == kindPublication && len(b) <= maxPublication:
	default:
		return ring{}, false
	}
	text, proof := b[:len(b)-macSize], b[len(b)-macSize:]
	if !hmac.Equal(sum(mac, text), proof) {
		return ring{}, false
	}
	r := ring{sender: binary.BigEndian.Uint64(text[1:]), at: int64(binary.BigEndian.Uint64(text[9:]))}
	if b[0] == version {
		r.queue = string(text[headSize:])
		return r, true
	}
	request, ok := pubsub.ReadRequest(bytes.Clone(text[headSize:]))
	r.queue, r.request = request.Topic, &request
	return r, ok
}

func appendAnswer(b []byte, mac hash.Hash, id pubsub.ID, n int) []byte {
	begin := len(b)
	b = pubsub.AppendAnswer(append(b, kindAnswer), id, n)
	return append(b, sum(mac, b[begin:])...)
}

// readAnswer returns the answer in a datagram. key returns the key of the listener that was asked, or nil.
func readAnswer(b []byte, key func(pubsub.ID) []byte) (id pubsub.ID, n int, ok bool) {
	if len(b) != answerSize || b[0] != kindAnswer {
		return id, 0, false
	}
	text, proof := b[:len(b)-macSize], b[len(b)-macSize:]
	id, n, ok = pubsub.ReadAnswer(text[1:])
	if !ok {
		return id, 0, false
	}
	k := key(id)
	return id, n, k != nil && hmac.Equal(sum(newMAC(k), text), proof)
}

// A row tells how to ring a listener, and until when that is valid.
type row struct {
	Version   int      `json:"v"`
	Addresses []string `json:"addresses"`
	Queues    []string `json:"queues"`
	Received  []string `json:"heard,omitempty"` // the topics to which it subscribes
	Key       []byte   `json:"key"`
	Until     int64    `json:"until"` // seconds since 1970

	addresses []netip.AddrPort // the usable ones of Addresses
}

func (r row) until() time.Time { return time.Unix(r.Until, 0) }

// readRow reads a row that any program may have written.
func readRow(data []byte) (row, bool) {
	var r row
	if json.Unmarshal(data, &r) != nil || r.Version != version || len(r.Key) != keySize {
		return row{}, false
	}
	for _, text := range r.Addresses[:min(len(r.Addresses), maxAddresses)] {
		if a, ok := parseAddress(text, 0); ok {
			r.addresses = append(r.addresses, a)
		}
	}
	r.Queues, r.Received = validNames(r.Queues), validNames(r.Received)
	return r, len(r.addresses) > 0
}

func validNames(names []string) []string {
	valid := names[:0]
	for _, n := range names {
		if storage.CheckName(n) == nil {
			valid = append(valid, n)
		}
	}
	return valid
}

// parseAddress reads "IP:port", or an IP without a port, which gets port. It refuses an address that can't be one
// host's. A ring must not become a broadcast, nor reach a link-local address.
func parseAddress(text string, port uint16) (netip.AddrPort, bool) {
	a, err := netip.ParseAddrPort(text)
	if err != nil {
		ip, err := netip.ParseAddr(text)
		if err != nil {
			return a, false
		}
		a = netip.AddrPortFrom(ip, port)
	}
	ip := a.Addr().Unmap()
	a = netip.AddrPortFrom(ip, a.Port())
	return a, a.Port() != 0 && ip.Zone() == "" && (ip.IsGlobalUnicast() || ip.IsLoopback())
}
