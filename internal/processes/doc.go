// Package processes shows the instances of plans to people: as pages, as a drawing of text, and in the words of both.
//
//	GET /processes             the instances, by plan, status and the beginning of their IDs
//	GET /processes/PLAN/ID     the steps of one, as a tree with a timeline; ID may be that of a part
//	GET /processes/style.css
//
// The pages are for operators: they show IDs, tags and the errors of agents, which may be personal. So they belong on
// an address that only operators reach. They show no state and no result, change nothing, and need no script. A page
// has 200 instances or 1,000 lines at most, and says what it leaves out.
package processes
