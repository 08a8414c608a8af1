// Package views keeps read models: one JSON document per key, folded from events, read far more often than written.
//
//	seats := views.New(channels, "seats", views.Config[Seats]{})
//	views.Project(registry, seats, func(e SeatTaken) string { return e.Date }, Seats.Take)
//	http.Handle("GET /seats/{date}", seats.Handler(
//		func(r *http.Request) string { return r.PathValue("date") },
//		func(date string, s Seats) any { return s },
//	))
//
// A view is a collection of documents (package values). So every event is folded exactly once, whatever is delivered
// twice. Events that arrive together for one document are one write. Order is not promised, so a projection is one of
// two kinds:
//
//   - [Project] is order-free. The fold gives the same view whatever order its events arrive in. Package viewstest
//     shuffles and repeats events and compares.
//   - [Latest] is for events that take each other back, such as SoldOut and Reopened. The view keeps the newest
//     sequence per source. It ignores an event that is older than what it has seen from the event's source.
//
// A view's type is stored as that of a value object is, and changes in the same way; see package values.
//
// Readers go through a cache. For Config.Fresh a document is taken from memory. After that it is revalidated by ETag,
// by one reader for all. [View.Handler] serves a view over HTTP with ETag and 304. [View.Server] does the same within a
// handler of one's own. Before its first event a view is served as its initial view, never as null. [View.Keys]
// lists the keys of the documents, page by page. [Content] serves any other bytes, such as static files, in this way.
package views
