package valet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"mime"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/files/valet/internal/key"
	"github.com/millrace-go/millrace/guard"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/storage"
)

const (
	grants      = "file-grants"      // the collection of [File]
	revocations = "file-revocations" // the collection of owners whose keys were revoked, and of keys of folders, by digests
	inboxName   = "file-inbox"       // bytes that nobody has checked
	storeName   = "file-store"       // bytes that were accepted
	heldName    = "file-held"        // the table of files that wait for an operator
	logName     = "file-log"         // the table of what was done with keys
	usesName    = "file-uses"        // the table of how often a key was used that has a number

	program = "program"

	readFor  = 2 * time.Minute  // a key of the store that reads
	writeFor = 15 * time.Minute // a key of the store that writes
	slack    = 5 * time.Minute  // between the end of a key and that of a use that has begun

	keepEnded = 7 * 24 * time.Hour // the document of a file that has ended

	defaultTTL = time.Hour
	maxTTL     = 30 * 24 * time.Hour    // secrets are kept for longer
	smallPart  = 8 << 20                // bytes
	maxSize    = storage.MaxParts << 30 // bytes: what fits into the parts
	mostFolder = 150                    // bytes of a folder, so that an ID in it is a key of the store
	mostText   = 255                    // bytes of a name and of an owner

	defaultURL = "/files/"
)

// Rules are what one kind of upload allows.
type Rules struct {
	// MaxSize is how many bytes a file may have. Required.
	MaxSize int64

	// Types are the media types that a file may have, such as "image/png". The declared type must be among them, and the
	// content must have it. Any content has the type application/octet-stream. Defaults to all types; then, too, the
	// content must have the type that was declared.
	Types []string
}

// A Verdict is what a scanner says of a file. The zero Verdict is [Unclear].
type Verdict struct {
	kind   verdictKind
	reason string
}

type verdictKind int

const (
	unclear verdictKind = iota
	pass
	refuse
)

// Pass says that a file is good.
func Pass() Verdict { return Verdict{kind: pass} }

// Refuse says that a file is bad, and why, in words for its owner.
func Refuse(reason string) Verdict { return Verdict{refuse, reason} }

// Unclear says that the scanner can't judge a file, such as one with a password. An operator decides.
func Unclear(reason string) Verdict { return Verdict{unclear, reason} }

// Config says what a Valet allows. The zero Config works for reading, and for an operator's tools.
type Config struct {
	// Rules are what uploads may be, by the name in [Upload].Rule. Defaults to none, and no uploads.
	Rules map[string]Rules

	// Scan judges the content of a file. It may be called again for one file. An error means that it couldn't tell; the
	// file is checked again later. Defaults to none.
	Scan func(ctx context.Context, f File, content io.Reader) (Verdict, error)

	// Guard stands around the calls of Scan. So a scanner that is away costs no attempts. Give it to
	// host.Program.Guards for [CheckQueue], too. Defaults to none.
	Guard *guard.Guard

	// URL is where clients find the Valet: a path, or with a scheme and a host where keys are used outside of the
	// program's own pages, as in mails. It ends with a slash. Defaults to "/files/".
	URL string

	// Proxies are addresses, or ranges of them such as "10.0.0.0/8", from which a request may say by X-Forwarded-Proto
	// that it came over HTTPS. Requests over plain HTTP are refused, but for those from this machine. Defaults to none.
	Proxies []string

	// Owner returns who makes a request, as the session of the program says. A key then works for its own owner alone,
	// so a key that has leaked is worth nothing without the session; the store's key behind it lives for minutes.
	// Defaults to none: whoever has a key may use it.
	Owner func(r *http.Request) string

	// Files is the store that has the bytes, where that isn't the store of the channels. Defaults to that one.
	Files *storage.Store

	// Audited says that the caller itself notes what it does by Revoke, RevokeOwner, RevokeAll, Release and Delete, as
	// an operator's tools do. Defaults to notes by the name "program".
	Audited bool

	// Logger defaults to that of the channels.
	Logger *slog.Logger
}

// A Valet gives keys, and answers whoever has them. Its methods may be called concurrently.
type Valet struct {
	book    *book
	issuer  *issuer
	checker *checker
	web     *web
}

// New returns a Valet over a program's channels. It makes no request. The error says all that is wrong with cfg, and
// matches storage.ErrUnsupported where there are Rules, and no bytes can come to the store.
func New(c *channel.Channels, cfg Config) (*Valet, error) {
	cfg.URL = cmp.Or(cfg.URL, defaultURL)
	if cfg.Files == nil {
		cfg.Files = c.Store()
	}
	if cfg.Logger == nil {
		cfg.Logger = c.Logger()
	}
	path, proxies, err := cfg.check()
	if err != nil {
		return nil, fmt.Errorf("valet: %w", err)
	}
	b, ring := newBook(c, cfg.Audited), key.NewRing(c.Store())
	inbox, store, uses := cfg.Files.Files(inboxName), cfg.Files.Files(storeName), c.Store().Table(usesName)
	i := &issuer{book: b, ring: ring, rules: cfg.Rules, url: cfg.URL}
	return &Valet{
		book: b, issuer: i, checker: &checker{cfg: cfg, book: b, inbox: inbox, store: store, uses: uses, held: c.Store().Table(heldName)},
		web: &web{cfg: cfg, path: path, proxies: proxies, book: b, issuer: i, inbox: inbox, store: store, uses: uses},
	}, nil
}

// check returns what cfg means, or all that is wrong with it.
func (cfg Config) check() (path string, proxies []netip.Prefix, err error) {
	var faults []error
	bad := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("%w: "+format, append([]any{storage.ErrInvalid}, args...)...))
	}
	for name, r := range cfg.Rules {
		if !goodRule.MatchString(name) {
			bad("Rules: the name %s; want 1 to 40 small letters, digits and hyphens", storage.Quote(name))
		}
		if r.MaxSize < 1 || r.MaxSize > maxSize {
			bad("Rules %s: MaxSize is %d; want 1 to %d bytes", storage.Quote(name), r.MaxSize, int64(maxSize))
		}
		for _, t := range r.Types {
			if base, params, err := mime.ParseMediaType(t); err != nil || len(params) > 0 || base != t || !strings.Contains(t, "/") {
				bad("Rules %s: the type %s; want one such as image/png, in small letters", storage.Quote(name), storage.Quote(t))
			}
		}
	}
	u, err := url.Parse(cfg.URL)
	switch {
	case err != nil, u.RawQuery != "", u.Fragment != "", !strings.HasPrefix(u.Path, "/"), !strings.HasSuffix(u.Path, "/"), u.User != nil,
		u.Scheme == "" && u.Host != "", u.Scheme != "" && u.Host == "", u.Scheme != "" && u.Scheme != "https" && !(u.Scheme == "http" && isHere(u.Hostname())):
		bad("URL; want a path such as /files/, or https://example.org/files/")
	default:
		path = u.Path
	}
	for _, p := range cfg.Proxies {
		prefix, err := netip.ParsePrefix(p)
		if addr, e := netip.ParseAddr(p); e == nil {
			prefix, err = addr.Prefix(addr.BitLen())
		}
		if err != nil {
			bad("Proxies: %s; want an address, or a range such as 10.0.0.0/8", storage.Quote(p))
		}
		proxies = append(proxies, prefix)
	}
	if cfg.Guard != nil {
		faults = append(faults, cfg.Guard.Err())
		if cfg.Scan == nil {
			bad("there is a Guard, and no Scan")
		}
	}
	if err := cfg.Files.Files(inboxName).Takes(); err != nil && len(cfg.Rules) > 0 {
		faults = append(faults, fmt.Errorf("%w; or Config.Files names another store", err))
	}
	return path, proxies, errors.Join(faults...)
}

var goodRule = regexp.MustCompile(`^[a-z0-9-]{1,40}$`)

// isHere reports whether a host is this machine.
func isHere(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// Register registers the handlers of the files' messages, for a worker. The routes need [Route].
func (v *Valet) Register(h *handlers.Registry) {
	files, c := v.book.files, v.checker
	handlers.Decide(h, files, complete.file, File.complete, check{})
	handlers.Decide(h, files, expire.file, File.expire, check{})
	handlers.Decide(h, files, settle.file, File.settle, Uploaded{}, Rejected{}, cleanUp{}, mark{}, forget{})
	handlers.Decide(h, files, revoke.file, File.revoke, Rejected{}, cleanUp{}, mark{}, forget{})
	handlers.Decide(h, files, release.file, File.release, check{}, mark{})
	handlers.Decide(h, files, remove.file, File.remove, cleanUp{}, forget{})
	handlers.Decide(h, v.book.revoked, revokeAll.whose, revocation.revoke)
	handlers.Reply(h, CheckQueue, c.examine, settle{}, cleanUp{})
	handlers.OnPoison(h, giveUp, settle{})
	handlers.React(h, Queue, c.cleanUp)
	handlers.React(h, Queue, c.mark)
	handlers.React(h, Queue, c.forget)
}

// ServeHTTP answers clients that have keys, at the path of Config.URL. See the package comment for the protocol.
func (v *Valet) ServeHTTP(w http.ResponseWriter, r *http.Request) { v.web.serve(w, r) }

// Upload makes a grant for a file, and returns its key. Where it returns an error, nobody has a key, and what is left
// ends by itself. Errors that match storage.ErrInvalid or storage.ErrTooLarge are about u.
func (v *Valet) Upload(ctx context.Context, u Upload) (Key, error) {
	k, err := v.issuer.upload(ctx, u)
	if err != nil {
		return Key{}, fmt.Errorf("valet: upload: %w", err)
	}
	return k, nil
}

// Download returns a key that reads a file, also one that isn't there yet. It doesn't look whether there is such a
// file.
func (v *Valet) Download(ctx context.Context, id string, d Download) (Key, error) {
	return v.issuer.download(ctx, id, d)
}

// Folder returns a key for several files. By GET it lists the files of the folder, with a key for each that may be
// read. If there is a Rule, it takes {"name":…, "type":…, "size":…, "sha256":…} by POST, and answers with the key of an
// upload into the folder.
func (v *Valet) Folder(ctx context.Context, f Folder) (Key, error) { return v.issuer.folder(ctx, f) }

// Revoke ends keys before their time: by the ID of an upload the upload, and all keys of the file so far, and by the ID
// of another key, or by the URL of a key, that key. Uploads that a folder's key has begun go on. It is a command: it is
// durable once Revoke returns nil, and takes effect when a worker has taken it. A file that was accepted stays; see
// [Valet.Delete]. A key of the store that was given out already is good for 2 minutes to read, or 15 to write what
// nobody will accept.
func (v *Valet) Revoke(ctx context.Context, id, why string) error {
	if HasKey(id) {
		t, err := v.issuer.ring.Read(ctx, textOfKey(id))
		if err != nil {
			return fmt.Errorf("valet: revoke: %w: this URL is no key of the store", storage.ErrInvalid)
		}
		id = name(t)
	}
	m, err := revocationOf(id, why)
	return v.book.order(ctx, "revoke", id, why, m, cmp.Or(err, storage.CheckKey(id), checkText("why", why)))
}

// RevokeAll ends all keys of the store, within a minute: it deletes the secrets that have signed keys.
func (v *Valet) RevokeAll(ctx context.Context, why string) error {
	if err := v.book.orderNote(ctx, "revoke all", "all keys", why); err != nil {
		return fmt.Errorf("valet: revoke all: %w", err)
	}
	return v.issuer.ring.Forget(ctx)
}

// RevokeOwner ends all keys that an owner has so far. Uploads of the owner that aren't complete end when their time is
// over. Files that were accepted stay.
func (v *Valet) RevokeOwner(ctx context.Context, owner, why string) error {
	m := revokeAll{Whose: ownerKey(key.DigestOf(owner)), At: time.Now().UTC(), Why: why}
	return v.book.order(ctx, "revoke owner", owner, why, m, cmp.Or(checkText("owner", owner), checkText("why", why)))
}

// Delete deletes a file that was accepted. Nothing happens to a file in another state.
func (v *Valet) Delete(ctx context.Context, id, why string) error {
	return v.book.order(ctx, "delete", id, why, remove{ID: id, Why: why}, cmp.Or(storage.CheckKey(id), checkText("why", why)))
}

// Release lets a file pass that the scanner couldn't judge; its size, type and digest are checked again. A file whose
// check has failed is scanned again.
func (v *Valet) Release(ctx context.Context, id, why string) error {
	return v.book.order(ctx, "release", id, why, release{ID: id, Why: why}, cmp.Or(storage.CheckKey(id), checkText("why", why)))
}

// File returns what is known of a file. Its error matches storage.ErrNotFound if nobody has made it, or if it ended
// more than a week ago.
func (v *Valet) File(ctx context.Context, id string) (File, error) { return v.book.file(ctx, id) }

// List yields files by their IDs: those that begin with prefix and are above after. Both may be empty. A file that
// can't be read has an error beside its ID, and the list goes on.
func (v *Valet) List(ctx context.Context, prefix, after string) iter.Seq2[File, error] {
	return v.book.list(ctx, prefix, after)
}

// Open reads a file that was accepted, for the program itself. The caller closes the reader.
func (v *Valet) Open(ctx context.Context, id string) (io.ReadCloser, File, error) {
	f, err := v.File(ctx, id)
	if err != nil {
		return nil, File{}, err
	}
	if f.State != StateClean {
		return nil, f, fmt.Errorf("valet: file %s: %w: it is %s", storage.Quote(id), storage.ErrNotFound, f.State)
	}
	info, err := v.web.store.Stat(ctx, id)
	if err != nil {
		return nil, f, err
	}
	r, err := v.web.store.Open(ctx, id, info.ETag, 0, info.Size)
	return r, f, err
}

// Origins are the origins of the pages whose scripts may send bytes to the store itself. With a list it sets them
// first. Where the program takes the bytes, the error matches storage.ErrUnsupported: then nothing has to be set.
func (v *Valet) Origins(ctx context.Context, set []string) ([]string, error) {
	return v.web.inbox.Origins(ctx, set)
}

// Sources are the origins of the store's keys, for a Content-Security-Policy: connect-src for uploads, and img-src for
// pictures. There are none where the program takes the bytes itself.
func (v *Valet) Sources(ctx context.Context) ([]string, error) {
	text, err := v.web.store.Key(ctx, "sources", storage.FileKey{For: readFor})
	if errors.Is(err, storage.ErrUnsupported) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("valet: sources: %w", err)
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("valet: sources: a key of the store is no URL")
	}
	return []string{u.Scheme + "://" + u.Host}, nil
}
