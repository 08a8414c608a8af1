package flow

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// pages is a fan whose items lie in documents of their own, a page of them in each. An agent may list the items, a list
// at a time.
type pages struct{ s step }

// mostPages is how many pages of a fan work at a time at most. They share its AtOnce.
const mostPages = 4

// pagesAtOnce is how many pages of a fan work at a time.
func (n *Node) pagesAtOnce() int { return max(1, min(mostPages, n.AtOnce)) }

// add starts a page of items; so many pages share the AtOnce of the fan. The page begins nothing until it is told to,
// if enough others are at work.
func (p pages) add(items []jsontext.Value, share int) {
	x, n := p.s.ev.Fan, p.s.n
	i, hold := x.N, x.Next < x.N || x.atWork() >= n.pagesAtOnce()
	if x.N, x.Left, x.Items = x.N+1, x.Left+1, x.Items+len(items); !hold {
		x.Next++
	}
	first := x.Items - len(items)
	page := &Page{Items: items, First: first, AtOnce: max(1, n.AtOnce/share), Hold: hold}
	parts(p).start(i, Start{Part: p.s.fold.doc.Part, Page: page})
}

// listing is the result of an agent that lists items.
type listing struct {
	Items []jsontext.Value `json:"items" millrace:"secret"`
	Next  jsontext.Value   `json:"next,omitempty" millrace:"secret"`
}

// Listing encodes the result of an agent that lists items; without next it was the last list.
func Listing(items []jsontext.Value, next jsontext.Value) (jsontext.Value, error) {
	return json.Marshal(listing{items, next})
}

// ask asks the agent for the next list of items, if there is room for a page.
func (p pages) ask() {
	ev, x := p.s.ev, p.s.ev.Fan
	if !x.Listing || x.Asked || ev.Ending != "" || !ev.goesOn() || x.Left > mostPages {
		return
	}
	x.Misses = 0
	p.s.sendBegin(p.next(), 0)
}

// next returns the begin of the next attempt at a list.
func (p pages) next() Begin {
	x := p.s.ev.Fan
	x.Asked, p.s.fold.touched = true, true
	p.s.ev.Attempt++
	m := p.s.beginMessage()
	m.List, m.Key, m.Input = true, p.s.key(listStep, 0), x.Cursor
	return m
}

// listed takes a list of items. goesOn reports that the fan has new items, or no more to come; an error is why the fan
// fails.
func (p pages) listed(m Done) (goesOn bool, err error) {
	s, ev, x := p.s, p.s.ev, p.s.ev.Fan
	if !ev.open() || x == nil || !x.Asked || m.Attempt != ev.Attempt {
		return false, nil
	}
	x.Asked, s.fold.touched = false, true
	switch m.Outcome {
	case OK:
	case Unknown:
		s.doubt(outcomeUnknown + m.Error)
		return false, nil
	default:
		return false, p.missed(m)
	}
	var list listing
	if err := json.Unmarshal(m.Result, &list); err != nil {
		return false, fmt.Errorf("a list of items: %w", err)
	}
	if err := checkItems(list.Items); err != nil {
		return false, err
	}
	x.Cursor, x.Listing = list.Next, list.Next != nil
	if len(list.Items) > 0 {
		for _, page := range chunks(list.Items, s.fold.plan.whole.bounds.page) {
			p.add(page, s.n.pagesAtOnce())
		}
	}
	return true, nil
}

// missed asks for a list again after a failed attempt. If no attempt is left, it returns why.
func (p pages) missed(m Done) error {
	s, ev, x := p.s, p.s.ev, p.s.ev.Fan
	ev.Failures = noteFailure(ev.Failures, Failure{N: m.Attempt, At: s.fold.now, Msg: shorten(m.Error)})
	x.Misses++
	delay, again := pace(p).again(m, x.Misses)
	if !again {
		return errors.New(m.Error)
	}
	s.sendBegin(p.next(), delay)
	return nil
}
