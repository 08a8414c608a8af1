package flow

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// player runs instances without a store or any check: agents succeed at once.
type player struct {
	b     *testing.B
	plan  *Plan
	docs  map[string]*Instance
	queue []any
	now   time.Time
}

func (p *player) give(id string, m any) {
	d := p.docs[id]
	if d == nil {
		d = &Instance{}
		p.docs[id] = d
	}
	out, _, err := p.plan.Advance(id, d, m, p.now)
	if err != nil {
		p.b.Fatal(err)
	}
	for _, m := range out {
		if m, at := due(m, p.now); !at.After(p.now) {
			p.queue = append(p.queue, m)
		}
	}
}

// play starts an instance, and runs it to its end or until so many steps have ended.
func (p *player) play(id string, most int) {
	p.give(id, Start{Plan: "plan", ID: id, State: jsontext.Value("[]")})
	for n := 0; len(p.queue) > 0 && n < most; {
		m := p.queue[0]
		p.queue = p.queue[1:]
		switch m := m.(type) {
		case Begin:
			n++
			p.give(m.ID, answering(m, Done{Outcome: OK, Result: jsontext.Value(`"done"`)}))
		case Start:
			p.give(m.ID, m)
		case Done:
			p.give(m.ID, m)
		case Act:
			p.give(m.ID, m)
		}
	}
}

func newPlayer(b *testing.B, build func(p *Plan)) *player {
	p := NewPlan("plan", 1)
	codec(p)
	build(p)
	if err := p.Finish(); err != nil {
		b.Fatal(err)
	}
	return &player{b: b, plan: p, docs: map[string]*Instance{}, now: time.Date(2026, 11, 27, 8, 0, 0, 0, time.UTC)}
}

// BenchmarkSequence is an instance of three steps, of which two can be undone.
func BenchmarkSequence(b *testing.B) {
	p := newPlayer(b, three)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		clear(p.docs)
		p.play("o1", 3)
	}
	if d := p.docs["o1"]; d.Status != Completed {
		b.Fatal(d.Status)
	}
}

// BenchmarkFan is an item of a fan, in documents of several sizes.
func BenchmarkFan(b *testing.B) {
	for _, items := range []int{10, 1000, 10_000} {
		b.Run(fmt.Sprint(items), func(b *testing.B) {
			p := newPlayer(b, func(p *Plan) { undoable(each(p, p.Root, "each", items)).Apply = nil })
			b.ReportAllocs()
			for b.Loop() {
				clear(p.docs)
				p.play("o1", items)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*items), "ns/item")
		})
	}
}

// Benchmark10000Steps is a step of a long sequence, at its beginning and with many before it.
func Benchmark10000Steps(b *testing.B) {
	for _, steps := range []int{100, 10_000} {
		b.Run(fmt.Sprint(steps), func(b *testing.B) {
			p := newPlayer(b, func(p *Plan) {
				for i := range steps {
					do(p, p.Root, fmt.Sprint("s", i)).Apply = nil
				}
			})
			b.ReportAllocs()
			for b.Loop() {
				clear(p.docs)
				p.play("o1", steps)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*steps), "ns/step")
		})
	}
}
