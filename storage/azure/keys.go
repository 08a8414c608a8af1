package azure

import (
	"fmt"
	"strings"
)

// The service gives some characters in keys a meaning of its own, refuses others, and compares the rest in an order
// that is documented for ASCII only. So keys are written in letters, digits and harmless signs, each key in one way,
// such that the order of keys and what begins with what stay the same:
//
//   - A forbidden character is written as the one below it in ASCII and "1"; that one itself, as it is and "0".
//     So '.' is ".0" and, in tables, '/' is ".1".
//   - '|' and all above it is written in two characters: one of "|}~" and a letter or digit.
//   - Blobs keep the slash, which portals show as folders. A key that ends with one gets a "!".
//
// No key gets longer than twice its bytes, 512, which both services allow.

const (
	below = `"$&+.>[` // followed by "0" they mean themselves, by "1" what stands above them in ASCII:
	above = "#%',/?\\"

	leads  = "|}~"
	digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefgh"
)

// encodeKey writes a blob's key, or the beginning of one.
func encodeKey(key string) string { return encode(key, true) }

// blobKey writes a whole key of a blob.
func blobKey(key string) string {
	k := encodeKey(key)
	if strings.HasSuffix(k, "/") {
		k += "!"
	}
	return k
}

// rowKey writes a partition or key of a row.
func rowKey(key string) string { return encode(key, false) }

// rowBound writes an end of a range of rows, which may hold anything.
func rowBound(key string) string {
	for i := range len(key) {
		if key[i] < ' ' {
			// No key has such a character: what is left to say is "behind what came so far".
			return encode(key[:i], false) + "!"
		}
	}
	return encode(key, false)
}

func encode(key string, slash bool) string {
	plain := true
	for i := 0; i < len(key) && plain; i++ {
		plain = isPlain(key[i], slash)
	}
	if plain {
		return key
	}
	b := make([]byte, 0, 2*len(key))
	for i := range len(key) {
		switch c := key[i]; {
		case isPlain(c, slash):
			b = append(b, c)
		case c == ' ':
			b = append(b, '!', '0')
		case c == '!':
			b = append(b, '!', '1')
		case c >= leads[0]:
			n := int(c - leads[0])
			b = append(b, leads[n/len(digits)], digits[n%len(digits)])
		case strings.IndexByte(below, c) >= 0:
			b = append(b, c, '0')
		default: // the one below it leads
			b = append(b, c-1, '1')
		}
	}
	return string(b)
}

func isPlain(c byte, slash bool) bool {
	switch {
	case c >= '0' && c <= '9', c >= 'A' && c <= 'Z', c >= 'a' && c <= 'z':
		return true
	case c == '/':
		return slash
	}
	return c > '!' && c < leads[0] && strings.IndexByte(below, c) < 0 && strings.IndexByte(above, c) < 0
}

// decodeBlobKey reads what blobKey wrote.
func decodeBlobKey(name string) (string, error) {
	if strings.HasSuffix(name, "/!") {
		name = name[:len(name)-1]
	}
	return decode(name)
}

// decode reads what encode wrote.
func decode(name string) (string, error) {
	b := make([]byte, 0, len(name))
	for i := 0; i < len(name); i++ {
		c := name[i]
		high, low := strings.IndexByte(leads, c), strings.IndexByte(below, c)
		if high < 0 && low < 0 && c != '!' {
			b = append(b, c)
			continue
		}
		i++
		if i == len(name) {
			return "", foreign(name)
		}
		next := name[i]
		switch digit := strings.IndexByte(digits, next); {
		case high >= 0 && digit >= 0 && high*len(digits)+digit < 256-int(leads[0]):
			b = append(b, leads[0]+byte(high*len(digits)+digit))
		case c == '!' && next == '0':
			b = append(b, ' ')
		case c == '!' && next == '1':
			b = append(b, '!')
		case low >= 0 && next == '0':
			b = append(b, c)
		case low >= 0 && next == '1':
			b = append(b, above[low])
		default:
			return "", foreign(name)
		}
	}
	return string(b), nil
}

func foreign(name string) error {
	return fmt.Errorf("%q is not a name that this driver writes: does another program use the container or table?", name)
}
