package login

import (
	"bufio"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/millrace-go/millrace/ops/act"
)

// tokenPrefix tells a scanner for secrets what it has found.
const tokenPrefix = "mlr_"

// roles are the roles by the names that the file has.
var roles = map[string]act.Role{"viewer": act.Viewer, "operator": act.Operator, "admin": act.Admin}

// RoleOf returns a role by its name: viewer, operator or admin.
func RoleOf(name string) (act.Role, error) {
	role, ok := roles[name]
	if !ok {
		return 0, fmt.Errorf("want a role: viewer, operator or admin")
	}
	return role, nil
}

// NewToken makes a token, and the line of the file that lets it in.
func NewToken(name, role string) (token, line string, err error) {
	if _, err := RoleOf(role); err != nil {
		return "", "", err
	}
	if err := checkName(name); err != nil {
		return "", "", err
	}
	raw := make([]byte, 32)
	_, _ = rand.Read(raw) // it never fails
	token = tokenPrefix + base64.RawURLEncoding.EncodeToString(raw)
	return token, fmt.Sprintf("%s:%s:%s", name, role, digest(token)), nil
}

func digest(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// byProxy stands in the place of a digest, for a person whom a proxy names.
const byProxy = "proxy"

// checkName refuses a name that others can't read in the audit log, or that would break the file.
func checkName(name string) error {
	if name == "" || strings.Contains(name, ":") || strings.HasPrefix(name, "#") || strings.TrimSpace(name) != name {
		return errors.New("want a name without colons, which doesn't begin with #")
	}
	return act.CheckNote(name, act.MaxBy)
}

// A tokenLine is a line of the file.
type tokenLine struct {
	name   string
	role   act.Role
	digest string
}

// readTokens reads the lines of a file. An error names the line and never what is in it.
func readTokens(path string) (all []tokenLine, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	names := map[string]int{} // the line of each name, once for a token and once for a proxy
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		parts := strings.Split(text, ":")
		if len(parts) != 3 {
			return nil, fmt.Errorf("%s: line %d: want NAME:ROLE:DIGEST, as the command ops token prints it", path, n)
		}
		role, err := RoleOf(parts[1])
		if err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", path, n, err)
		}
		if err := checkName(parts[0]); err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", path, n, err)
		}
		named := parts[0]
		if parts[2] == byProxy {
			named += ":" + byProxy
		}
		if before := names[named]; before > 0 {
			return nil, fmt.Errorf("%s: line %d: line %d has this name already. Take one of the two out, or give each a name of its own, such as NAME-laptop", path, n, before)
		}
		names[named] = n
		if parts[2] == byProxy {
			all = append(all, tokenLine{parts[0], role, byProxy})
			continue
		}
		if raw, err := hex.DecodeString(parts[2]); err != nil || len(raw) != sha256.Size {
			return nil, fmt.Errorf("%s: line %d: the digest is not 64 hexadecimal digits; a token itself doesn't belong there", path, n)
		}
		all = append(all, tokenLine{parts[0], role, strings.ToLower(parts[2])})
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no token; the command ops token makes one", path)
	}
	return all, nil
}

// lookEvery is how often the file is looked at for a change.
const lookEvery = 5 * time.Second

// tokens are those of a file, which may change.
type tokens struct {
	path string

	mu       sync.Mutex
	all      []tokenLine
	looked   time.Time
	modified time.Time
	size     int64
}

// newTokens reads a file.
func newTokens(path string) (*tokens, error) {
	t := &tokens{path: path}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	t.modified, t.size, t.looked = info.ModTime(), info.Size(), time.Now()
	t.all, err = readTokens(path)
	return t, err
}

// now returns the tokens of the file as it is. A file that can't be read any more lets nobody in: its owner may have
// taken somebody out.
func (t *tokens) now() ([]tokenLine, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if since := time.Since(t.looked); since >= 0 && since < lookEvery {
		return t.all, nil
	}
	info, err := os.Stat(t.path)
	if err != nil {
		return nil, err
	}
	if !info.ModTime().Equal(t.modified) || info.Size() != t.size || t.all == nil {
		all, err := readTokens(t.path)
		if err != nil {
			t.all = nil
			return nil, err
		}
		t.all, t.modified, t.size = all, info.ModTime(), info.Size()
	}
	t.looked = time.Now()
	return t.all, nil
}

// who returns whose a token is. All lines are compared, so the time says nothing about them.
func (t *tokens) who(token string) (Person, bool, error) {
	all, err := t.now()
	if err != nil {
		return Person{}, false, err
	}
	got := []byte(digest(token))
	var found Person
	ok := false
	for _, line := range all {
		if subtle.ConstantTimeCompare(got, []byte(line.digest)) == 1 {
			found, ok = Person{Name: line.name, Role: line.role, token: line.digest}, true
		}
	}
	return found, ok, nil
}

// role returns the role of a person whom a proxy names; ok is false if no line has them.
func (t *tokens) role(name string) (role act.Role, ok bool, err error) {
	all, err := t.now()
	for _, line := range all {
		if line.name == name && line.digest == byProxy {
			return line.role, true, nil
		}
	}
	return 0, false, err
}

// still returns the person of a cookie as the file has them now.
func (t *tokens) still(name, digestPart string) (Person, bool, error) {
	all, err := t.now()
	if err != nil {
		return Person{}, false, err
	}
	for _, line := range all {
		if line.name == name && line.digest != byProxy && strings.HasPrefix(line.digest, digestPart) {
			return Person{Name: line.name, Role: line.role, token: line.digest}, true, nil
		}
	}
	return Person{}, false, nil
}
