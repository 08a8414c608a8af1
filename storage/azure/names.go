package azure

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"strings"

	"github.com/millrace-go/millrace/storage/driver"
)

// maxPrefix leaves room for the longest name: the service allows 63 characters in all.
const maxPrefix = 12

const maxServiceName = 63

// checkPrefix checks an application's prefix.
func checkPrefix(prefix string) error {
	bad := len(prefix) > maxPrefix || prefix != "" && (prefix[0] < 'a' || prefix[0] > 'z')
	for i := 0; i < len(prefix) && !bad; i++ {
		c := prefix[i]
		bad = !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9')
	}
	if bad {
		return fmt.Errorf("%w: the prefix: want at most %d lower-case letters and digits, beginning with a letter",
			driver.ErrInvalid, maxPrefix) // the error leaves out the prefix, which may be a secret in the wrong place
	}
	return nil
}

// plainName is the service's name of a queue or container. Package storage has checked the name, with rules at
// least as strict as the service's. The longest prefix and the longest name have 63 characters together.
func plainName(prefix, name string) string {
	if prefix == "" {
		return name
	}
	return prefix + "-" + name
}

func forTables() *strings.Replacer { return strings.NewReplacer("-", "zx", "z", "zz") }

// tableName is the service's name of a table, which can't hold hyphens: "zx" is a hyphen and "zz" a z. A name that
// gets too long by that ends in "zh" and a hash of the whole.
func tableName(prefix, name string) string {
	plain := plainName(prefix, name)
	t := forTables().Replace(plain)
	if len(t) > maxServiceName {
		sum := sha256.Sum256([]byte(plain))
		hash := strings.ToLower(base32.StdEncoding.EncodeToString(sum[:10]))
		t = t[:maxServiceName-2-len(hash)] + "zh" + hash
	}
	if t == "tables" { // reserved
		t += "zh"
	}
	return t
}
