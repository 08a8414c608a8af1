// Package processes shows the instances of plans to people: as parts of a page, as a drawing of text, and in the words
// of both.
//
//	ways := processes.Ways{Whole: func(id string) string { return "?id=" + id }}
//	head, steps, err := processes.HTML(stream, time.Now(), "shop", ways)
//
// All three show IDs, tags and the errors of agents, which may be personal. They show no state and no result. A page
// has 1,000 steps at most, and says what it leaves out.
package processes
