package valet

import (
	"cmp"
	"context"
	"fmt"
	"mime"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/files/valet/internal/key"
	"github.com/millrace-go/millrace/storage"
)

// An Upload says which file may be put.
type Upload struct {
	Rule   string        // among Config.Rules
	Owner  string        // who puts it, as the program knows people; required
	Name   string        // as people see it; a path before it is left out. Required
	Type   string        // its media type; required
	Size   int64         // bytes, exactly; at least 1
	SHA256 string        // hexadecimal, if it is known
	For    string        // any text, which comes back in [Uploaded] and [Rejected]
	Folder string        // small letters, digits, hyphens and slashes; see [Valet.Folder]
	TTL    time.Duration // until all bytes must be there, at most 30 days. Defaults to an hour
}

// A Download says how a file may be read.
type Download struct {
	Owner  string        // who reads it; required
	TTL    time.Duration // at most 30 days. Defaults to an hour
	Uses   int           // how many requests, at most 65,535; 0: any number. A player may ask for a file in many requests
	Inline bool          // a browser may show it, if its type can't have scripts; else it saves it
}

// A Folder says what a key of a folder allows.
type Folder struct {
	Path  string        // small letters, digits, hyphens and slashes
	Rule  string        // of the uploads; empty: the key lists and reads alone
	Owner string        // required
	TTL   time.Duration // at most 30 days. Defaults to an hour
}

// A Key is a URL that allows one thing to everybody who has it.
type Key struct {
	ID    string    `json:"id"`  // of the file for an upload, and else of the key; see [Valet.Revoke]
	URL   string    `json:"url"` // a secret
	Until time.Time `json:"until"`

	// PartSize is how many bytes each part of an upload has but the last, and Parts how many there are.
	PartSize int64 `json:"partSize,omitempty"`
	Parts    int   `json:"parts,omitempty"`
}

// The marks of downloads.
const (
	inlineMark = "inline"
	listedMark = "listed" // from the list of a folder, by the folder's key
)

// keySign is between the ID of a file and that of a key.
const keySign = "~"

// An issuer makes keys.
type issuer struct {
	book  *book
	ring  *key.Ring
	rules map[string]Rules
	url   string
}

// upload makes a grant for a file; see [Valet.Upload].
func (i *issuer) upload(ctx context.Context, u Upload) (Key, error) {
	if err := i.settleUpload(&u); err != nil {
		return Key{}, err
	}
	now := time.Now().UTC().Truncate(time.Millisecond)
	id := channel.IDAt(now)
	f := File{
		ID: strings.TrimPrefix(u.Folder+"/"+id, "/"), Rule: u.Rule, Owner: u.Owner, Name: u.Name, Type: u.Type, Size: u.Size, SHA256: u.SHA256,
		For: u.For, Made: now, Until: now.Add(u.TTL).Truncate(time.Second), State: StateGranted, PartSize: partSize(u.Size),
	}
	k, err := i.sign(ctx, key.Token{Verb: key.ToWrite, Until: f.Until, ID: uuid.MustParse(id), File: f.ID}, u.Owner)
	if err != nil {
		return Key{}, err
	}
	row, err := i.book.row(issued(f.ID, u.Owner, f.Until))
	if err != nil {
		return Key{}, err
	}
	k.ID, k.PartSize, k.Parts = f.ID, f.PartSize, len(f.parts())
	return k, i.book.files.Insert(ctx, f.ID, f, channel.At(f.Until, expire{ID: f.ID}), row)
}

// download returns a key that reads a file; see [Valet.Download].
func (i *issuer) download(ctx context.Context, id string, d Download) (Key, error) {
	ttl := cmp.Or(d.TTL, defaultTTL)
	err := cmp.Or(storage.CheckKey(id), checkText("Owner", d.Owner), checkTTL(ttl))
	if err == nil && (d.Uses < 0 || d.Uses > 65_535) {
		err = fmt.Errorf("%w: Uses is %d; want 0 to 65535", storage.ErrInvalid, d.Uses)
	}
	t := key.Token{Verb: key.ToRead, File: id, Uses: uint16(d.Uses), Holder: d.Owner}
	if d.Inline {
		t.Mark = inlineMark
	}
	return i.short(ctx, "download", t, d.Owner, ttl, err)
}

// folder returns a key for several files; see [Valet.Folder].
func (i *issuer) folder(ctx context.Context, f Folder) (Key, error) {
	ttl := cmp.Or(f.TTL, defaultTTL)
	err := cmp.Or(checkFolder(f.Path), checkText("Owner", f.Owner), checkTTL(ttl))
	if _, ok := i.rules[f.Rule]; err == nil && f.Rule != "" && !ok {
		err = i.noRule(f.Rule)
	}
	return i.short(ctx, "folder", key.Token{Verb: key.ToFolder, File: f.Path, Mark: f.Rule, Holder: f.Owner}, f.Owner, ttl, err)
}

// short issues a key that is no grant by itself.
func (i *issuer) short(ctx context.Context, what string, t key.Token, owner string, ttl time.Duration, err error) (Key, error) {
	now := time.Now().UTC()
	t.ID, t.Until = uuid.MustParse(channel.IDAt(now)), now.Add(ttl).Truncate(time.Second)
	id := t.File + keySign + t.ID.String()
	var k Key
	if err == nil {
		k, err = i.sign(ctx, t, owner)
	}
	if err == nil {
		err = i.book.note(ctx, issued(id, owner, t.Until))
	}
	if err != nil {
		return Key{}, fmt.Errorf("valet: %s: %w", what, err)
	}
	k.ID = id
	return k, nil
}

// sign makes the key of a token. Nobody gets the key before the log has its row.
func (i *issuer) sign(ctx context.Context, t key.Token, owner string) (Key, error) {
	t.Owner = key.DigestOf(owner)
	text, err := i.ring.Sign(ctx, t)
	return Key{URL: i.url + text, Until: t.Until}, err
}

func issued(on, owner string, until time.Time) entry {
	return entry{act: "issue", on: on, who: owner, result: "until " + until.Format(time.RFC3339)}
}

// HasKey reports whether a text has a key in it, such as a URL, so that nobody should log the text.
func HasKey(text string) bool { return textOfKey(text) != "" }

// textOfKey is the key in a URL, or "".
func textOfKey(url string) string {
	for piece := range strings.SplitSeq(url, "/") {
		if strings.HasPrefix(piece, key.Version+".") {
			return piece
		}
	}
	return ""
}

// revocationOf returns the command that ends what an ID stands for.
func revocationOf(id, why string) (channel.Message, error) {
	file, one, some := strings.Cut(id, keySign)
	if !some {
		return revoke{ID: file, Why: why, At: time.Now().UTC()}, nil
	}
	made, ok := channel.IDTime(one)
	if !ok {
		return nil, fmt.Errorf("%w: %s is no ID of a key", storage.ErrInvalid, storage.Quote(id))
	}
	if _, ok := channel.IDTime(path.Base(file)); !ok {
		return revokeAll{Whose: folderKey(id), At: made, Why: why}, nil
	}
	return revoke{ID: file, Key: one, Made: made, Why: why}, nil
}

var goodSum = regexp.MustCompile(`^[0-9a-f]{64}$`)

// settleUpload fills in what is left out, and returns what is wrong.
func (i *issuer) settleUpload(u *Upload) error {
	rules, ok := i.rules[u.Rule]
	if !ok {
		return i.noRule(u.Rule)
	}
	u.TTL = cmp.Or(u.TTL, defaultTTL)
	u.SHA256 = strings.ToLower(u.SHA256)
	u.Name = strings.TrimSpace(path.Base(strings.ReplaceAll(u.Name, `\`, "/")))
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{storage.ErrInvalid}, args...)...)
	}
	base, _, err := mime.ParseMediaType(u.Type)
	switch {
	case err != nil:
		return bad("the type %s; want one such as image/png", storage.Quote(u.Type))
	case len(rules.Types) > 0 && !slices.Contains(rules.Types, base):
		return bad("the type %s; want one of %s", storage.Quote(base), strings.Join(rules.Types, ", "))
	case u.Size < 1:
		return bad("a size of %d bytes; want 1 or more, an empty file can't be uploaded", u.Size)
	case u.Size > rules.MaxSize:
		return fmt.Errorf("%w: a file of %d bytes; at most %d", storage.ErrTooLarge, u.Size, rules.MaxSize)
	case u.SHA256 != "" && !goodSum.MatchString(u.SHA256):
		return bad("SHA256; want 64 hexadecimal digits")
	case u.Name == "." || u.Name == ".." || u.Name == "/":
		return bad("a file needs a name")
	case u.Folder != "" && checkFolder(u.Folder) != nil:
		return checkFolder(u.Folder)
	case len(u.For) > mostText || !utf8.ValidString(u.For):
		return bad("For; want at most %d bytes of UTF-8", mostText)
	}
	u.Type = base
	return cmp.Or(checkText("Owner", u.Owner), checkText("Name", u.Name), checkTTL(u.TTL))
}

func (i *issuer) noRule(name string) error {
	var known []string
	for k := range i.rules {
		known = append(known, storage.Quote(k))
	}
	slices.Sort(known)
	return fmt.Errorf("%w: there is no rule %s in Config.Rules; known are: %s", storage.ErrInvalid, storage.Quote(name), strings.Join(known, ", "))
}

var goodFolder = regexp.MustCompile(`^[a-z0-9-]+(/[a-z0-9-]+)*$`)

func checkFolder(p string) error {
	if _, like := channel.IDTime(path.Base(p)); like || len(p) > mostFolder || !goodFolder.MatchString(p) {
		return fmt.Errorf("%w: the folder %s; want small letters, digits and hyphens, with slashes between, at most %d bytes, and no UUID at the end", storage.ErrInvalid, storage.Quote(p), mostFolder)
	}
	return nil
}

func checkText(what, s string) error {
	if s == "" || len(s) > mostText || !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }) {
		return fmt.Errorf("%w: %s; want 1 to %d bytes of UTF-8 without control characters", storage.ErrInvalid, what, mostText)
	}
	return nil
}

func checkTTL(ttl time.Duration) error {
	if ttl < time.Minute || ttl > maxTTL {
		return fmt.Errorf("%w: a TTL of %v; want 1m to %v", storage.ErrInvalid, ttl, maxTTL)
	}
	return nil
}

// partSize is how many bytes the parts of a file have.
func partSize(size int64) int64 {
	part := int64(smallPart)
	for part*storage.MaxParts < size {
		part *= 2
	}
	return part
}
