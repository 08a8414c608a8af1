package act

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/millrace-go/millrace/ops/audit"
	"github.com/millrace-go/millrace/storage"
)

// ErrUnderWay is the error of an act that is begun again under its ID while this process does the act.
var ErrUnderWay = errors.New("this act is under way: send it again under its ID to learn how it ended")

// errMaybe is the error of an act that can't be begun again under its ID.
var errMaybe = errors.New("this act was begun before, and nobody knows whether it was done: look, and do it under another ID if it was not")

// audited does an act that changes something. The log says what is meant before the effect, and how the act ended after
// the effect. The act isn't done if it has ended under its ID before. An act whose end nobody knows has no end in the
// log, so the act can be begun again under its ID.
func (r *Request) audited(ctx context.Context, c *Call) error {
	if c.ID == "" {
		c.ID = audit.NewID()
	}
	log := audit.Of(c.Store)
	if _, running := c.underWay.LoadOrStore(c.ID, true); running {
		return ErrUnderWay
	}
	defer c.underWay.Delete(c.ID)
	meant := audit.Entry{ID: c.ID, Who: c.By, Said: r.by != "", From: c.From, Act: r.Act.Name(), On: r.subject(), Why: c.Why, Digest: r.digest(c.ID)}
	known, err := log.Begin(ctx, meant)
	if err != nil {
		return fmt.Errorf("the act can't be noted in the audit log, so it is not done: %w", err)
	}
	switch {
	case known.Done():
		if r.Act.Again != nil {
			switch told, err := r.Act.Again(ctx, c); {
			case err != nil:
				return err
			case told && known.Failed:
				return failedBefore(known)
			case told:
				return nil
			}
		}
		return before(c, known)
	case known.Again && r.Act.Once:
		return errMaybe
	}
	heard := &listener{Sink: c.to}
	c.to = heard
	failed := r.binding.run(ctx, c)
	if c.goesOn || unsure(failed) {
		return failed
	}
	result, told := heard.result(), failed
	if failed != nil {
		told = errors.New(noted(failed))
	}
	if r.reveal { // what was found is content, too, and so is how much
		result = "revealed"
		switch {
		case failed != nil && r.Act.Role == Viewer:
			told = errors.New("nothing was revealed")
		case r.Act.Role != Viewer:
			result = "done, and content was revealed"
		}
	}
	meant.Fault, meant.Answer = faultOf(failed), heard.answer(r.reveal)
	if err := log.End(context.WithoutCancel(ctx), meant, result, told); err != nil && failed == nil {
		return fmt.Errorf("the act is done, and the audit log doesn't say so: %w", err)
	}
	return failed
}

// unsure reports that nobody knows whether an act that failed has had its effect, or that it may be done in a moment.
func unsure(failed error) bool {
	return errors.Is(failed, storage.ErrUnavailable) || errors.Is(failed, storage.ErrThrottled) || errors.Is(failed, context.Canceled) || errors.Is(failed, context.DeadlineExceeded)
}

// The faults that the log tells apart.
const (
	faultUsage   = "usage"
	faultNothing = "nothing"
)

// faultOf says whose fault an error is: of the request, or of what isn't there; "" for all else.
func faultOf(err error) string {
	var bad *UsageError
	var none *NothingError
	switch {
	case errors.As(err, &bad), errors.Is(err, storage.ErrInvalid):
		return faultUsage
	case errors.As(err, &none), errors.Is(err, storage.ErrNotFound):
		return faultNothing
	}
	return ""
}

// before tells programs what they were told when the act was done before under its ID, and people how it ended. A
// failure is a failure again, of the same kind.
func before(c *Call, known audit.Entry) error {
	var objects []json.RawMessage
	if known.Answer != "" {
		if err := json.Unmarshal([]byte(known.Answer), &objects); err != nil {
			return fmt.Errorf("what this act told can't be read: %w", err)
		}
	}
	for _, object := range objects {
		if err := c.Say(object, ""); err != nil {
			return err
		}
	}
	if !known.Failed {
		c.Note("This was done before, %s: %s", Ago(known.Ended), known.Result)
		return nil
	}
	return failedBefore(known)
}

// failedBefore is the failure of an act again.
func failedBefore(known audit.Entry) error {
	const failed = "this was done before, %s, and failed: %s"
	switch {
	case known.Fault == faultUsage:
		return Usage(failed, Ago(known.Ended), known.Result)
	case known.Fault == faultNothing:
		return Nothing(failed, Ago(known.Ended), known.Result)
	}
	return fmt.Errorf(failed, Ago(known.Ended), known.Result)
}

// digest is that of all texts of a request, also of those that the log hides or cuts. The reason is one of them: it
// stands in messages, and one message has one content. The ID is in it, so the digests of
// two acts say nothing of one another.
func (r *Request) digest(id string) string {
	h := sha256.New()
	add := func(text string) { fmt.Fprintf(h, "%d:%s,", len(text), text) }
	add(id)
	for _, f := range r.Fields {
		if f.given == nil || f.Name == "yes" {
			continue
		}
		for _, text := range *f.given {
			add(f.Name)
			add(text)
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// unsaid are the fields that don't say what a request is about.
var unsaid = []string{"by", "why", "yes"}

// subject is what a request is about, as a command line says it, without its content.
func (r *Request) subject() string { return r.words(unsaid...) }

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

// A listener hears what an act tells people and programs, for the audit log.
type listener struct {
	Sink

	mu      sync.Mutex
	first   string
	told    int
	objects []json.RawMessage
	size    int // of the objects, and of those that were too many to be kept
}

func (l *listener) Row(object any, cells []any) error {
	l.hear(object, "")
	return l.Sink.Row(object, cells)
}

func (l *listener) Say(object any, text string) error {
	l.hear(object, text)
	return l.Sink.Say(object, text)
}

func (l *listener) Thing(object any, parts []Part, text string) error {
	l.keep(object)
	return l.Sink.Thing(object, parts, text)
}

func (l *listener) hear(object any, text string) {
	l.keep(object)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.told++; l.first == "" {
		l.first = text
	}
}

// keep keeps what programs are told, as long as a row of the log has room for all of it.
func (l *listener) keep(object any) {
	if object == nil {
		return
	}
	raw, err := json.Marshal(object)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size += len(raw) + 1; err == nil && l.size < audit.MostAnswer {
		l.objects = append(l.objects, raw)
	}
}

// answer is what programs were told, for the log. "": they were told nothing, or content, or too much.
func (l *listener) answer(revealed bool) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if revealed || len(l.objects) == 0 || l.size >= audit.MostAnswer {
		return ""
	}
	body, err := json.Marshal(l.objects)
	if err != nil || len(body) > audit.MostAnswer {
		return ""
	}
	return string(body)
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
