package driver

import (
	"context"
	"io"
	"time"
)

// The bounds of files, which all engines keep.
const (
	MaxParts = 10_000  // of a file
	MaxPart  = 1 << 30 // bytes of a part
)

// Files keeps files of any size, which come in parts. A file is in a container, under a key; both are names like those
// of [Blobs], and nothing else has them in common.
//
// Parts come in any order, from several processes at once, and each again and again. A part counts once it is there as
// a whole. Commit makes a file of the parts. Nothing that comes later changes a file: it changes what the next Commit
// makes. So a reader who names the ETag of a file reads that file, or gets an error.
type Files interface {
	// Takes returns nil if bytes of parts can come, by PutPart or by Key. Else the error matches [ErrUnsupported], and
	// says to an operator what to change: the files that are there can be read, but none comes. It makes no request.
	Takes() error

	// PutPart keeps a part, 1 to [MaxParts], of size bytes from body. It takes the place of the same part that came
	// before. A body that ends early is an error that matches io.ErrUnexpectedEOF, and an error of the body comes back as
	// it is; then nothing is kept. Where bytes can't go through the program, the error matches [ErrUnsupported], and Key
	// lets others put them.
	PutPart(ctx context.Context, container, key string, number int, size int64, body io.Reader) error

	// Parts lists the parts that Commit would take, by number: those that have come since the last Commit, and else
	// those of the file.
	Parts(ctx context.Context, container, key string) ([]FilePart, error)

	// Commit makes the file of the parts 1 to len(sizes). A part that is missing, or has another size, is an error that
	// matches [ErrPrecondition], and changes nothing, unless whoever has a Key changes parts at the same time. A Commit
	// that comes again, without new parts between, changes nothing, but perhaps the ETag. Sizes has no 0, unless the file
	// has one part. The size that it returns is the sum of sizes, and that of the file with the ETag.
	Commit(ctx context.Context, container, key string, sizes []int64) (FileInfo, error)

	// Stat tells about a file, or [ErrNotFound].
	Stat(ctx context.Context, container, key string) (FileInfo, error)

	// Open reads size bytes of a file from an offset on; both lie within the file. If the file's ETag is another one, the
	// error matches [ErrPrecondition]; without a file it matches [ErrNotFound]. A reader fails, if anything, before it
	// gives what isn't of the file. The caller closes the reader.
	Open(ctx context.Context, container, key string, etag ETag, offset, size int64) (io.ReadCloser, error)

	// Copy makes the file under the key to, in another container, of the one with the ETag; else the error matches
	// [ErrPrecondition]. It takes the place of a file that is there. Nobody sees half of it. Bytes don't go through the
	// program.
	Copy(ctx context.Context, container, key string, etag ETag, toContainer, to string) (FileInfo, error)

	// Delete removes the file and all parts. Where there is nothing, it does nothing. Parts of a PutPart under way, or of
	// whoever has a Key, may come after it.
	Delete(ctx context.Context, container, key string) error

	// Key returns a URL with which anybody can do one thing, for some time, by plain HTTPS: GET the file, or PUT a part.
	// The URL is a secret. Where the engine has no such URLs, the error matches [ErrUnsupported]. It makes no request for
	// each key.
	Key(ctx context.Context, container, key string, k FileKey) (url string, err error)

	// Origins are the origins of the web pages whose scripts may use the URLs of Key. With a list it sets them first.
	// Where there are no such URLs, the error matches [ErrUnsupported].
	Origins(ctx context.Context, set []string) ([]string, error)
}

// A FileKey says what a URL allows.
type FileKey struct {
	Part int           // the part that may be put; 0: the file may be read
	For  time.Duration // how long, at least; at most an hour. It begins at once, also where the engine's clock is behind

	// The fields of the answer to a reader. Defaults to the engine's own.
	Type, Disposition string
}

// A FilePart is a part of a file.
type FilePart struct {
	Number int
	Size   int64
}

// FileInfo tells about a file.
type FileInfo struct {
	Size int64
	ETag ETag // changes whenever the bytes may have changed
}
