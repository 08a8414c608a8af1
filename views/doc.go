// Package views keeps read models: one JSON document per key, folded from events, read far more often than
// written.
//
// A view is a collection of documents (package values), so that every event is folded exactly once, whatever is
// delivered twice. Events that arrive together for one document are one write. Order is not promised, so a
// projection is one of two kinds:
//
//   - [Project]: order-free. The fold gives the same view whatever order its events arrive in.
//     Package viewstest shuffles and repeats events and compares.
//   - [Latest]: for events that take each other back, such as SoldOut and Reopened. The view keeps the newest
//     sequence per source, and an event older than what it has seen from its source is ignored.
//
// A view's type is stored as that of a value object is, and changes in the same way; see package values.
//
// Readers go through a cache: a document is taken from memory for Config.Fresh, and after that revalidated by
// ETag, by one reader for all. [View.Handler] serves a view over HTTP with ETag and 304; with [View.Server] a handler of
// one's own does. Before its first event a view is served as its initial view, never
// as null. [Content] serves any bytes in this way, such as static files.
package views
