package lanes

import (
	"crypto/sha256"
	"encoding/binary"
)

// A key stands for a tenant. It is of the same size, however long the name is.
type key uint64

// keyOf returns the key of a tenant, or of a message that has none.
func keyOf(name string) key {
	sum := sha256.Sum256([]byte(name))
	return key(binary.BigEndian.Uint64(sum[:]))
}

// choose returns the lane of a key among n. It takes the highest of n numbers (rendezvous hashing), so that a change of
// n moves as few keys as possible.
func choose(k key, n int) int {
	best, lane := uint64(0), 0
	for i := range n {
		if x := mix(uint64(k) ^ mix(uint64(i)+1)); x > best {
			best, lane = x, i
		}
	}
	return lane
}

// mix spreads a number over all bits: the last step of SplitMix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// placer finds the lanes of messages.
type placer struct {
	division Queue
	lanes    []*lane
	read     func(body []byte) Mark
	noisy    *noisyTenants
}

// place returns the lane that a message is sent into.
func (p *placer) place(body []byte) *lane {
	m := p.read(body)
	first := 0
	if p.division.Priorities {
		switch m.Priority {
		case High:
			first = Most
		case Low:
			first = 2 * Most
		}
	}
	if p.division.Lanes == 0 {
		return p.lanes[first]
	}
	if m.Tenant == "" {
		return p.lanes[first+choose(keyOf(m.ID), p.division.Lanes)]
	}
	k := keyOf(m.Tenant)
	if l := p.slow(k); l != nil {
		return l
	}
	return p.lanes[first+choose(k, p.division.Lanes)]
}

// slow returns the lane of a tenant that is noisy, or nil.
func (p *placer) slow(k key) *lane {
	i, noisy := p.noisy.lane(k)
	if !noisy {
		return nil
	}
	return p.lanes[len(p.lanes)-slowLanes+i]
}
