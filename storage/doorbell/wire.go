package doorbell

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"hash"
	"net/netip"
	"time"

	"github.com/millrace-go/millrace/storage"
)

const (
	version      = 1
	keySize      = 32
	macSize      = 16
	headSize     = 1 + 8 + 8 // version, sender, time
	maxQueue     = 50        // of a queue's name
	maxRing      = headSize + maxQueue + macSize
	maxAddresses = 8 // of one listener
)

// A ring is the content of a datagram:
//
//	version (1 byte) · sender (8) · time in µs since 1970 (8) · queue · first 16 bytes of their HMAC-SHA256
//
// A sender gives each ring a later time than the one before. Numbers are big-endian; the key is the listener's.
type ring struct {
	sender uint64
	at     int64
	queue  string
}

func newMAC(key []byte) hash.Hash { return hmac.New(sha256.New, key) }

func appendRing(b []byte, mac hash.Hash, r ring) []byte {
	begin := len(b)
	b = append(b, version)
	b = binary.BigEndian.AppendUint64(b, r.sender)
	b = binary.BigEndian.AppendUint64(b, uint64(r.at))
	b = append(b, r.queue...)
	return append(b, sum(mac, b[begin:])...)
}

func sum(mac hash.Hash, b []byte) []byte {
	mac.Reset()
	mac.Write(b)
	return mac.Sum(nil)[:macSize]
}

// readRing returns the ring in a datagram, if it was made with the key.
func readRing(b []byte, mac hash.Hash) (ring, bool) {
	if len(b) <= headSize+macSize || len(b) > maxRing || b[0] != version {
		return ring{}, false
	}
	text, proof := b[:len(b)-macSize], b[len(b)-macSize:]
	if !hmac.Equal(sum(mac, text), proof) {
		return ring{}, false
	}
	return ring{
		sender: binary.BigEndian.Uint64(text[1:]),
		at:     int64(binary.BigEndian.Uint64(text[9:])),
		queue:  string(text[headSize:]),
	}, true
}

// A row tells how to ring a listener, and until when that is valid.
type row struct {
	Version   int      `json:"v"`
	Addresses []string `json:"addresses"`
	Queues    []string `json:"queues"`
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
	r.Queues = validNames(r.Queues)
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
