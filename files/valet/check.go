package valet

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"strings"
	"time"

	"github.com/gabriel-vasile/mimetype"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/files/valet/internal/key"
	"github.com/millrace-go/millrace/guard"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/storage"
)

// head is how many bytes tell the type of a file.
const head = 3 << 10

// A checker is the worker's part.
type checker struct {
	cfg          Config
	book         *book
	inbox, store *storage.Files
	uses, held   *storage.Table
}

// examine is the check of a file. Its repeats are harmless: the inbox's file is made of the same parts, and the copy
// has the same name.
func (c *checker) examine(ctx context.Context, m check) ([]channel.Message, error) {
	f, err := c.book.file(ctx, m.ID)
	switch {
	case errors.Is(err, storage.ErrNotFound), err == nil && f.State.Ended():
		return cleanAll(m.ID, m.Round), nil // a worker may have died after its copy
	case err != nil:
		return nil, err
	case f.State != StateArrived || f.Round != m.Round:
		return nil, nil // an old copy
	}
	verdict, err := c.judge(ctx, f)
	if err != nil {
		return nil, err
	}
	verdict.ID, verdict.Round = f.ID, f.Round
	if verdict.State != StateClean {
		c.cfg.Logger.LogAttrs(ctx, slog.LevelInfo, "a file isn't accepted", slog.String("file", f.ID), slog.String("state", string(verdict.State)), slog.String("reason", verdict.Reason))
	}
	return []channel.Message{verdict}, nil
}

// judge makes the file of its parts, and says what it is.
func (c *checker) judge(ctx context.Context, f File) (settle, error) {
	reason, err := c.book.ended(ctx, ownerKey(key.DigestOf(f.Owner)), f.Made)
	if err != nil {
		return settle{}, err
	}
	if reason != "" && !f.Force {
		return settle{State: StateRevoked, Reason: reason}, nil
	}
	info, err := c.gather(ctx, f)
	if errors.Is(err, storage.ErrPrecondition) {
		return settle{State: StateGranted, Reason: "not all bytes are there"}, nil
	}
	if err != nil {
		return settle{}, err
	}
	if info.Size != f.Size { // a driver's promise, looked at once more, because all that follows stands on it
		return settle{}, fmt.Errorf("valet: %s: the bytes have changed", storage.Quote(f.ID))
	}
	etag := string(info.ETag)
	if f.Force && etag != f.ETag {
		return settle{State: StateHeld, Reason: "the bytes have changed since the file was held", ETag: etag}, nil
	}
	found, sum, err := c.read(ctx, f, info)
	switch {
	case err != nil:
		return settle{}, err
	case f.SHA256 != "" && f.SHA256 != sum:
		return settle{State: StateRejected, Reason: "the content isn't what was declared: its SHA-256 differs"}, nil
	case !fits(f.Type, found):
		return settle{State: StateRejected, Reason: "the content is " + kindOf(found) + ", and not " + f.Type + " as declared"}, nil
	}
	if c.cfg.Scan != nil && !f.Force {
		verdict, err := c.scan(ctx, f, info)
		switch {
		case err != nil:
			return settle{}, err
		case verdict.kind == refuse:
			return settle{State: StateRejected, Reason: short(verdict.reason)}, nil
		case verdict.kind == unclear:
			return settle{State: StateHeld, Reason: short(verdict.reason), ETag: etag}, nil
		}
	}
	copied, err := c.inbox.Copy(ctx, f.ID, info.ETag, c.store, f.ID)
	if err == nil && copied.Size != f.Size {
		err = fmt.Errorf("valet: %s: the copy has %d bytes", storage.Quote(f.ID), copied.Size)
	}
	if err != nil {
		return settle{}, err // also where the bytes have changed: then all is looked at again
	}
	return settle{State: StateClean, Type: f.Type, UTF8: strings.Contains(found.String(), "charset=utf-8"), SHA256: sum}, nil
}

// gather makes one file of the parts. Bytes that an operator has released stay as they are.
func (c *checker) gather(ctx context.Context, f File) (storage.FileInfo, error) {
	if f.Force {
		return c.inbox.Stat(ctx, f.ID)
	}
	return c.inbox.Commit(ctx, f.ID, f.parts())
}

// read returns the type and the digest of what lies in the inbox.
func (c *checker) read(ctx context.Context, f File, info storage.FileInfo) (found *mimetype.MIME, sum string, err error) {
	r, err := c.inbox.Open(ctx, f.ID, info.ETag, 0, info.Size)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = r.Close() }() // it was read
	hash := sha256.New()
	first := make([]byte, min(head, info.Size))
	if _, err := io.ReadFull(r, first); err != nil {
		return nil, "", fmt.Errorf("valet: read %s: %w", storage.Quote(f.ID), err)
	}
	n, err := io.Copy(hash, io.MultiReader(bytes.NewReader(first), r))
	if err == nil && n != info.Size {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, "", fmt.Errorf("valet: read %s: %w", storage.Quote(f.ID), err)
	}
	return mimetype.Detect(first), hex.EncodeToString(hash.Sum(nil)), nil
}

// scan asks the program's scanner.
func (c *checker) scan(ctx context.Context, f File, info storage.FileInfo) (verdict Verdict, err error) {
	call := func(ctx context.Context) error {
		r, err := c.inbox.Open(ctx, f.ID, info.ETag, 0, info.Size)
		if err != nil {
			return err
		}
		defer func() { _ = r.Close() }() // it was read
		verdict, err = c.cfg.Scan(ctx, f, r)
		return err
	}
	if c.cfg.Guard == nil {
		return verdict, call(ctx)
	}
	err = c.cfg.Guard.Do(ctx, call)
	if e := (*guard.Error)(nil); errors.As(err, &e) && e.Fault.Kind == guard.Unknown {
		return Verdict{}, again(c.cfg.Guard, err)
	}
	return verdict, err
}

// again lets a scan come again whose outcome is unknown, also where the guard doesn't know that its calls may. That
// spends an attempt, unless the scanner is away for all.
func again(g *guard.Guard, err error) error {
	if g.Open() {
		return handlers.Later(time.Minute, "the scanner doesn't answer")
	}
	return errors.New(err.Error()) // without the guard's verdict
}

// fits reports whether a content may have the type that was declared. Content of which nothing more can be told than
// that it is text may be any kind of text.
func fits(declared string, found *mimetype.MIME) bool {
	for m := found; m != nil; m = m.Parent() {
		if m.Is(declared) {
			return true
		}
	}
	return found.Is("text/plain") && strings.HasPrefix(declared, "text/")
}

func kindOf(found *mimetype.MIME) string {
	kind, _, _ := strings.Cut(found.String(), ";")
	return kind
}

// short bounds a text of the user's code.
func short(s string) string {
	s = strings.ToValidUTF8(s, "")
	if len(s) > mostText {
		s = strings.ToValidUTF8(s[:mostText], "")
	}
	return s
}

// giveUp holds a file whose check has failed too often.
func giveUp(m check, why handlers.Poisoned) []channel.Message {
	return []channel.Message{settle{ID: m.ID, Round: m.Round, State: StateHeld, Reason: "its check has failed: " + why.Reason}}
}

// cleanUp deletes bytes that nobody needs any more.
func (c *checker) cleanUp(ctx context.Context, m cleanUp) error {
	f, err := c.book.file(ctx, m.ID)
	switch {
	case errors.Is(err, storage.ErrNotFound): // forgotten; so it has ended
	case err != nil:
		return err
	case f.State != StateClean && !f.State.Ended():
		return nil // a copy from elsewhere
	}
	if err := c.inbox.Delete(ctx, m.ID); err != nil {
		return err
	}
	if f.State == StateClean || !m.All {
		return nil
	}
	if err := c.store.Delete(ctx, m.ID); err != nil {
		return err
	}
	return c.forgetUses(ctx, m.ID)
}

// forgetUses deletes how often the keys of a file were used.
func (c *checker) forgetUses(ctx context.Context, id string) error {
	var keys []string
	for row, err := range c.uses.Query(ctx, id, storage.RowRange{}) {
		if err != nil {
			return err
		}
		keys = append(keys, row.Key)
	}
	return c.uses.DeleteRows(ctx, id, keys)
}

// forget deletes the document of a file that has ended.
func (c *checker) forget(ctx context.Context, m forget) error {
	f, err := c.book.file(ctx, m.ID)
	if errors.Is(err, storage.ErrNotFound) {
		return nil
	}
	if err == nil && f.State.Ended() {
		err = c.book.files.Delete(ctx, m.ID)
	}
	return err
}

// heldPartition has the rows of all files that are held.
const heldPartition = "held"

// mark keeps the row of a file that is held, or deletes the row. It looks at the file, so marks may come in any order.
// It looks again after it has put a row: the mark of another worker may have deleted it in between.
func (c *checker) mark(ctx context.Context, m mark) error {
	for range 2 {
		f, err := c.book.file(ctx, m.ID)
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			return err
		}
		if f.State != StateHeld {
			if err = c.held.Delete(ctx, heldPartition, m.ID, storage.Condition{}); errors.Is(err, storage.ErrNotFound) {
				err = nil
			}
			return err
		}
		if _, err := c.held.Put(ctx, heldPartition, m.ID, []byte(f.Reason), storage.Condition{}); err != nil {
			return err
		}
	}
	return nil
}

// A HeldFile waits for an operator.
type HeldFile struct {
	ID, Reason string
}

// Held yields the files of a store that wait for an operator, for an operator's tools. It lags behind by a moment.
func Held(ctx context.Context, s *storage.Store) iter.Seq2[HeldFile, error] {
	return func(yield func(HeldFile, error) bool) {
		for row, err := range s.Table(heldName).Query(ctx, heldPartition, storage.RowRange{}) {
			if !yield(HeldFile{row.Key, string(row.Data)}, err) || err != nil {
				return
			}
		}
	}
}
