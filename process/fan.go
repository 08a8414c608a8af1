package process

import (
	"context"
	"fmt"
	"reflect"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace-go/millrace/internal/jsonform"
	"github.com/millrace-go/millrace/process/internal/flow"
)

// Each has an agent work on each item. items is pure. gather is pure, too, and takes the result of an item into the
// state; nil leaves the state as it is. Results come in any order. Up to a million items lie in pages of up to 1,024,
// which are documents of their own. An agent gets its item and nothing else.
func Each[S, I, R any](p *Plan[S], name string, items func(S) []I, agent func(context.Context, I) (R, error), gather func(S, R) S) *Step[S, I, R] {
	n := each(p, name, agent, gather)
	n.Items = itemising(p, n, items)
	return &Step[S, I, R]{p, n}
}

// EachFrom is Each for items that no state holds: another agent lists them. list returns up to 1,024 items and where
// the next list goes on, or "" if there is none. It gets "" first.
func EachFrom[S, I, R any](p *Plan[S], name string, list func(ctx context.Context, s S, from string) (items []I, next string, err error), agent func(context.Context, I) (R, error), gather func(S, R) S) *Step[S, I, R] {
	n := each(p, name, agent, gather)
	n.Listed = true
	if list = replaced(p.plan, p.hear, "list "+name, list); list == nil {
		p.plan.Fault("step %s: the agent that lists items is nil", name)
	}
	n.List = func(ctx context.Context, raw, cursor jsontext.Value) (jsontext.Value, error) {
		s, err := decode[S](raw)
		if err != nil {
			return nil, err
		}
		from := ""
		if cursor != nil {
			if from, err = decode[string](cursor); err != nil {
				return nil, err
			}
		}
		items, next, err := list(ctx, s, from)
		if err != nil {
			return nil, err
		}
		forms, err := encodeAll(items)
		if err != nil {
			return nil, err
		}
		var at jsontext.Value
		if next != "" {
			if at, err = jsonform.Encode(next); err != nil {
				return nil, err
			}
		}
		return flow.Listing(forms, at)
	}
	return &Step[S, I, R]{p, n}
}

func each[S, I, R any](p *Plan[S], name string, agent func(context.Context, I) (R, error), gather func(S, R) S) *flow.Node {
	n := p.add(flow.Each, name)
	n.Structure = jsonform.Print(reflect.TypeFor[I](), reflect.TypeFor[R]())
	n.Gathered = gather != nil
	n.Apply = applying(gather)
	checkType[I](p.plan, n)
	checkType[R](p.plan, n)
	if agent = replaced(p.plan, p.hear, name, agent); agent == nil {
		p.plan.Fault("step %s: the agent is nil", name)
	}
	n.Agent = func(ctx context.Context, _, raw jsontext.Value) (jsontext.Value, string, error) {
		item, err := decode[I](raw)
		if err != nil {
			return nil, "", err
		}
		r, err := agent(ctx, item)
		if err != nil {
			return nil, "", err
		}
		return encodeResult(r)
	}
	return n
}

// Split runs another plan for each item, as an instance of its own, in this one's tree. start makes its state; gather
// takes its last state into this one's. See [Each] for the rest.
func Split[S, I, T any](p *Plan[S], name string, items func(S) []I, start func(I) T, plan func(*Plan[T]), gather func(S, T) S) *Step[S, I, T] {
	n := p.add(flow.Split, name)
	n.Structure = jsonform.Print(reflect.TypeFor[I]())
	n.Gathered = gather != nil
	n.Apply = applying(gather)
	n.Items = itemising(p, n, items)
	checkType[I](p.plan, n)
	if start == nil {
		p.plan.Fault("step %s: the function that makes the state is nil", name)
	}
	n.Start = func(_ any, raw jsontext.Value) (jsontext.Value, error) {
		item, err := decode[I](raw)
		if err != nil {
			return nil, err
		}
		return jsonform.Encode(start(item))
	}
	part(p, n, plan)
	return &Step[S, I, T]{p, n}
}

func itemising[S, I any](p *Plan[S], n *flow.Node, items func(S) []I) func(any) ([]jsontext.Value, error) {
	if items == nil {
		p.plan.Fault("step %s: the function that returns the items is nil", n.Name)
		return nil
	}
	return func(v any) ([]jsontext.Value, error) { return encodeAll(items(v.(*state[S]).value)) }
}

func encodeAll[I any](items []I) ([]jsontext.Value, error) {
	forms := make([]jsontext.Value, len(items))
	for i, x := range items {
		form, err := jsonform.Encode(x)
		if err != nil {
			return nil, fmt.Errorf("item %d: %w", i, err)
		}
		forms[i] = form
	}
	return forms, nil
}
