package act

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/millrace-go/millrace/ops/audit"
)

// A Done is what an act tells that was done before under the same ID.
type Done struct {
	ID     string    `json:"id"`
	Ended  time.Time `json:"ended"`
	Result string    `json:"result"`
	Failed bool      `json:"failed"`
}

// audited does an act that changes something. The log says what is meant before the effect, and how the act ended after
// it. The act isn't done if it has ended under its ID before.
func (r *Request) audited(ctx context.Context, c *Call) error {
	if c.ID == "" {
		c.ID = audit.NewID()
	}
	log := audit.Of(c.Store)
	meant := audit.Entry{ID: c.ID, Who: c.By, Said: r.by != "", From: c.From, Act: r.Act.Name(), On: r.subject(), Why: c.Why}
	known, err := log.Begin(ctx, meant)
	if err != nil {
		return fmt.Errorf("the act can't be noted in the audit log, so it is not done: %w", err)
	}
	if known.Done() {
		return c.Say(Done{known.ID, known.Ended, known.Result, known.Failed}, "This was done before, %s: %s", Ago(known.Ended), known.Result)
	}
	heard := &listener{Sink: c.to}
	c.to = heard
	failed := r.binding.run(ctx, c)
	if c.goesOn {
		return failed
	}
	if err := log.End(context.WithoutCancel(ctx), meant, heard.result(), failed); err != nil && failed == nil {
		return fmt.Errorf("the act is done, and the audit log doesn't say so: %w", err)
	}
	return failed
}

// subject is what a request is about, as a command line says it, without its content.
func (r *Request) subject() string { return r.words("by", "why", "yes") }

// Line is the command line that makes the same request, without its content.
func (r *Request) Line(command string) string {
	return strings.TrimSpace(command + " " + r.Act.Name() + " " + r.words("by"))
}

// words are the texts that were given, but those of some fields.
func (r *Request) words(but ...string) string {
	var words []string
	for _, f := range r.Fields {
		if f.given == nil || slices.Contains(but, f.Name) {
			continue
		}
		for i, text := range *f.given {
			switch {
			case f.Kind == KindContent && i > 0:
				continue // a command line gives a stand-in first
			case f.Kind == KindContent:
				text = "…"
			case f.Shown != nil:
				text = f.Shown(text)
			}
			if f.Place == "" {
				words = append(words, "--"+f.Name)
			}
			if f.Kind != KindFlag {
				words = append(words, ShellWord(text))
			}
		}
	}
	return strings.Join(words, " ")
}

// A listener hears what an act tells people, for the audit log.
type listener struct {
	Sink

	mu    sync.Mutex
	first string
	told  int
}

func (l *listener) Row(object any, cells []any) error {
	l.hear("")
	return l.Sink.Row(object, cells)
}

func (l *listener) Say(object any, text string) error {
	l.hear(text)
	return l.Sink.Say(object, text)
}

func (l *listener) hear(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.told++; l.first == "" {
		l.first = text
	}
}

// result is the first sentence that was told, and how many things were.
func (l *listener) result() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.told > 1:
		return strings.TrimSpace(fmt.Sprintf("%d told; %s", l.told, l.first))
	case l.first == "":
		return "done"
	}
	return l.first
}
