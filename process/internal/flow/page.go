package flow

import (
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// mostPages is how many pages of a fan work at a time at most. They share its AtOnce.
const mostPages = 4

// pagesAtOnce is how many pages of a fan work at a time.
func (n *Node) pagesAtOnce() int { return max(1, min(mostPages, n.AtOnce)) }

// addPage starts a page of a fan, of which so many share its AtOnce. It begins nothing until it is told to, if enough
// others are at work.
func (f fan) addPage(items []jsontext.Value, share int) {
	x := f.ev.Fan
	i, hold := x.N, x.Next < x.N || f.ev.Fan.atWork() >= f.n.pagesAtOnce()
	if x.N, x.Left, x.Items = x.N+1, x.Left+1, x.Items+len(items); !hold {
		x.Next++
	}
	first := x.Items - len(items)
	page := &Page{Items: items, First: first, AtOnce: max(1, f.n.AtOnce/share), Hold: hold}
	parts(f).start(i, Start{Part: f.doc.Part, Page: page})
}

// startPage begins the items of a page, unless it is to wait.
func (t *turn) startPage(page Page) {
	d := t.doc
	n := t.plan.Node(d.Parent.Path)
	ev := &Event{ID: n.Path, Verb: n.Verb, Name: n.Name, Status: InProcess, Created: t.now, Fan: newFan(page.Items)}
	page.Items, page.Hold = nil, page.Hold && !d.Going
	d.Page, d.Events = &page, []*Event{ev}
	fan{step{t, ev, n}}.more()
}

// listed is a fan whose items an agent lists.
type listed struct{ fan }

// listing is the result of such an agent.
type listing struct {
	Items []jsontext.Value `json:"items"`
	Next  jsontext.Value   `json:"next,omitempty"`
}

// Listing encodes the result of an agent that lists items; without next it was the last list.
func Listing(items []jsontext.Value, next jsontext.Value) (jsontext.Value, error) {
	return json.Marshal(listing{items, next})
}

// ask asks the agent for the next list of items, if there is room for a page.
func (l listed) ask() {
	x := l.ev.Fan
	if !x.Listing || x.Asked || l.ev.Ending != "" || !l.ev.goesOn() || x.Left > mostPages {
		return
	}
	x.Misses = 0
	l.sendBegin(l.next(), 0)
}

// next returns the begin of the next attempt at a list.
func (l listed) next() Begin {
	x := l.ev.Fan
	x.Asked, l.touched = true, true
	l.ev.Attempt++
	m := l.beginMessage()
	m.List, m.Key, m.Input = true, l.key(listStep, 0), x.Cursor
	return m
}

// answer takes a list of items.
func (l listed) answer(m Done) {
	ev, x := l.ev, l.ev.Fan
	if !ev.open() || x == nil || !x.Asked || m.Attempt != ev.Attempt {
		return
	}
	x.Asked, l.touched = false, true
	if m.Outcome == Unknown {
		doubtful{l.step}.doubt(outcomeUnknown + m.Error)
		return
	}
	if m.Outcome != OK {
		ev.Failures = noteFailure(ev.Failures, Failure{N: m.Attempt, At: l.now, Msg: shorten(m.Error)})
		x.Misses++
		if delay, again := (pace{l.step}).again(m, x.Misses); again {
			l.sendBegin(l.next(), delay)
			return
		}
		l.stop(m.Error)
		return
	}
	var list listing
	if err := json.Unmarshal(m.Result, &list); err != nil {
		l.stop(fmt.Sprintf("a list of items: %v", err))
		return
	}
	if err := checkItems(list.Items); err != nil {
		l.stop(err.Error())
		return
	}
	x.Cursor, x.Listing = list.Next, list.Next != nil
	if len(list.Items) > 0 {
		for _, page := range chunks(list.Items, l.plan.whole.bounds.page) {
			l.addPage(page, l.n.pagesAtOnce())
		}
	}
	l.goOn()
}
