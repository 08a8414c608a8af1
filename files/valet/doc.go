// Package valet lets browsers and other clients put files into the store, and read them from there, with keys: URLs
// that allow one thing, for some time, until somebody revokes them. The program decides who, what and how long. On
// Azure Storage the bytes don't go through the program.
//
//	types := []string{"image/png", "application/pdf"}
//	v, err := valet.New(channels, valet.Config{
//		Rules: map[string]valet.Rules{"menu": {MaxSize: 10 << 20, Types: types}},
//		Scan:  scan, Guard: scanner,        // a function of yours behind a guard; nil: checked, and not scanned
//	})
//	v.Register(h)                                  // in the worker
//	mux.Handle("/files/", v)                       // in the web
//
//	up, err := v.Upload(ctx, valet.Upload{Rule: "menu", Owner: "ada", Name: "wish.png", Type: "image/png", Size: n})
//	// up.URL is the key: write it into the page, or answer with it
//
//	handlers.React(h, "thumbnails", func(ctx context.Context, e valet.Uploaded) error { … })
//
//	key, err := v.Download(ctx, up.ID, valet.Download{Owner: "cook", TTL: time.Hour})
//	err = v.Revoke(ctx, up.ID, "left the company") // or of a key.ID, or RevokeOwner
//
// The routes of the program have [Route], and an Event for each of [Uploaded] and [Rejected].
//
// # Two keys
//
// Our key is a URL of the program. It is long-lived, can be revoked at once, and each use of it is a row of a log
// ([Log]). For the bytes our key leads to a second key, which lives for minutes: a shared access signature where the
// store has such signatures, and else one more URL of the program.
//
//	client ── our key ──▶ web: is the file's grant alive? ── a URL for each part ──▶ client ══ bytes ══▶ file-inbox
//	client ── complete ──▶ web ── command ──▶ worker: size, type, digest, scan ══ copy ══▶ file-store ── Uploaded ──▶
//
// # How it works
//
// A file is a value object, [File], in the collection "file-grants". Upload writes its first state together with a
// delayed message that ends it. Every step after that is a message for the document, so each is decided once: a
// completion that comes twice, one that meets the end of its time, two tabs. The worker makes a file of the parts,
// reads it, and copies the very bytes that it has read from the container "file-inbox" to "file-store".
//
//	granted ─complete─▶ arrived ─check─▶ clean ─Delete─▶ deleted
//	   │                   ├───────────▶ rejected
//	   │                   └───────────▶ held ─release─▶ arrived
//	   ├─ its time ends ─▶ expired            (or arrived, if all bytes are there)
//	   └─ Revoke ────────▶ revoked            (also from arrived and held)
//
// # The protocol
//
// URL is a key from Upload. Each answer is JSON; an error has a member "error".
//
//	GET    URL                 state, size, partSize, parts that are there ("1-3,7"), parts in all
//	POST   URL/parts?n=1-8     a URL for each of these parts, good for minutes; PUT the bytes there
//	PUT    URL/3               redirects to the URL of part 3, for curl
//	POST   URL/complete        all bytes are there: 202, or 409 with the parts that are missing
//	DELETE URL                 ends the upload
//
// All parts but the last have partSize bytes. Parts may come in any order, at once and again. A client that was cut off
// asks which are there. A GET of a key from Download answers with the file, or leads to it. [Script] does all that in a
// browser.
//
// # Laws
//
//   - V1: bytes count only through a completion, and a grant that isn't alive can't complete. So a key that was
//     revoked, leaked or is late can at most put garbage into the inbox.
//   - V2: no key that writes names file-store. The bytes that were checked are those that are copied, by their ETag.
//   - V3: the worker compares size, type and digest with what lies there. The type is that of the content.
//   - V4: each use of our key asks the grant. A key of the store reads for 2 minutes at most, or writes for 15, over
//     HTTPS, one file or one part of it.
//   - V5: every grant ends by itself. Where all bytes are there at its end, it completes instead. A file that is held
//     waits for an operator without an end.
//   - V6: issued, used, renewed, completed, refused and revoked are rows of a log ([Log]) before the answer leaves. No
//     row has a key. Repeated refusals, renewals and lists by one key are a row a minute. A text that is no key has no
//     row.
//   - V7: a browser gets an attachment, with a type of ours. Only types that can't have scripts may be shown inline.
//   - V8: nothing but the verdict of the check takes a file out of the inbox. A file that the scanner can't judge waits
//     for an operator. While the scanner is away, nothing is spent.
//   - V9: all times are of this program's machines. A client's clock means nothing. A revocation of all keys counts
//     those that were made until its moment, by the clocks of the machines that made the keys and the revocation.
//
// # Files
//
//	valet.go      Config, and what a program calls
//	file.go       the value object and its decisions
//	messages.go   its messages
//	book.go       what is known of files and keys, and the log
//	issue.go      new keys
//	check.go      the worker's part
//	web.go        the web's part, which knows a key; visit.go is a request with a good one
//	upload.go     requests of uploads; own.go takes bytes where the store has no URLs
//	download.go   requests of downloads; folder.go those of folders
//	answer.go     answers; proxies.go knows whether a request came over HTTPS, and from where
//	script.go     upload.js, for browsers
//	internal/key  the text of a key, and the secrets that sign keys
package valet
