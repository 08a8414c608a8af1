package azure

import (
	"fmt"
	"strings"
)

// The service gives some characters in keys a meaning of its own and refuses others. It documents the order of the
// rest for ASCII only. So keys are written in letters, digits and harmless signs. Each key has one written form,
// and the forms keep the order of keys and their prefixes:
//
//   - A forbidden character is written as a lower ASCII character and "1". That lower character itself is written with
//     "0" behind it. So '.' is ".0" and, in tables, '/' is ".1".
//   - '|' and every higher byte are written as two characters: one of "|}~" and a letter or digit.
//   - A blob's key keeps its slashes, which portals show as folders. A key that ends with one gets a "!".
//
// A written key is at most twice as long as the key, 512 bytes, which both services allow.

const (
	below = `"$&+.>[` // each with "0" is itself, and with "1" the character at the same index of above
	above = "#%',/?\\"

	leads  = "|}~"
	digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefgh"
)

// encodeKey writes a blob's key, or a prefix of one.
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

// rowBound writes one end of a range of rows. It may hold any bytes.
func rowBound(key string) string {
	for i := range len(key) {
		if key[i] < ' ' {
			// No key has such a character, so the bound is "after every key that begins like this".
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
		default: // the lower character in ASCII leads
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
