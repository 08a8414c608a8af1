package schedule

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/storage"
)

// QueueName is the queue of [Route]. It is never empty: a schedule always waits there for its next due time. A test of
// your own that waits for empty queues leaves it out; package millracetest knows it.
const QueueName = "schedules"

// Route returns the routes of the messages that make schedules run. They go to the queue "schedules".
func Route() channel.Route { return RouteTo(QueueName) }

// RouteTo is Route for another queue. Several programs that have one store need a queue each: the workers of one don't
// know the schedules of another.
func RouteTo(queue string) channel.Route {
	return wire.Together(channel.Command[wake](queue), channel.Command[register](queue), channel.Command[order](queue), channel.Command[Done](queue))
}

// wake tells a schedule that a time has come, or that there is something to do. Its document says what that is, so a
// copy does nothing.
type wake struct {
	Schedule string    `json:"schedule"`
	Due      time.Time `json:"due,omitzero"`   // zero: there is something to do
	Again    bool      `json:"again,omitzero"` // that is to send another wake: the clock that has delayed the last one may have been wrong
}

const wakeKind channel.Kind = "millrace.schedule.wake.v1"

// Kind is the name on the wire.
func (wake) Kind() channel.Kind { return wakeKind }

// Subject is the schedule's name.
func (m wake) Subject() string { return m.Schedule }

// register says that a worker that starts has a schedule.
type register struct {
	Schedule   string     `json:"schedule"`
	Queue      string     `json:"queue"`
	Definition definition `json:"definition"`
}

// Kind is the name on the wire.
func (register) Kind() channel.Kind { return "millrace.schedule.register.v1" }

// Subject is the schedule's name.
func (m register) Subject() string { return m.Schedule }

// order is what an operator wants of a schedule.
type order struct {
	ID       string    `json:"-"`
	Schedule string    `json:"schedule"`
	Do       string    `json:"do"`
	By       string    `json:"by"`
	Why      string    `json:"why,omitempty"`
	From     time.Time `json:"from,omitzero"` // of a backfill
	To       time.Time `json:"to,omitzero"`
	Pause    string    `json:"pause,omitempty"` // that a resume ends; empty: any
}

// These are the orders.
const (
	pause    = "pause" // older versions send it as a message
	resume   = "resume"
	runNow   = "run"
	backfill = "backfill"
)

// Kind is the name on the wire.
func (order) Kind() channel.Kind { return "millrace.schedule.order.v1" }

// MessageID is the ID that the changes of the schedule name.
func (m order) MessageID() string { return m.ID }

// Subject is the schedule's name.
func (m order) Subject() string { return m.Schedule }

// Check refuses an order that can't be carried out.
func (m order) Check() error {
	faults := []error{checkName(m.Schedule), checkText("By", m.By, maxBy), checkText("Why", m.Why, maxWhy)}
	if m.By == "" {
		faults = append(faults, errors.New("say who wants it: By is empty"))
	}
	switch m.Do {
	case pause, resume, runNow:
	case backfill:
		if m.From.IsZero() || m.To.Before(m.From) {
			faults = append(faults, errors.New("want a backfill from a time to a later one"))
		}
	default:
		faults = append(faults, fmt.Errorf("the order is %s; want pause, resume, run or backfill", storage.Quote(m.Do)))
	}
	return errors.Join(faults...)
}

// A RunID tells a run of a schedule from all others.
type RunID string

func runID(schedule, id string) RunID { return RunID(schedule + "/" + id) }

// split returns the schedule's name and what tells its runs apart.
func (id RunID) split() (schedule, run string) {
	i := strings.LastIndexByte(string(id), '/')
	return string(id[:max(i, 0)]), string(id[i+1:])
}

// Done is the command that says that a run has ended: all that it was to do is done, or nobody will do it any more. A
// decision emits it, a reaction sends it by channel.Send, and handlers.OnPoison returns it for a command that is given
// up. A second Done of a run has no effect. Done with Overlap: Allow tells operators when the run ended, no more.
type Done struct {
	Run    RunID  `json:"run"`              // Tick.Run
	Failed string `json:"failed,omitempty"` // why the run has failed, for operators; it is cut to 500 bytes
}

// Kind is the name on the wire.
func (Done) Kind() channel.Kind { return "millrace.schedule.done.v1" }

// Subject is the schedule's name.
func (m Done) Subject() string {
	name, _ := m.Run.split()
	return name
}

// Check refuses a Done of nothing.
func (m Done) Check() error {
	if name, run := m.Run.split(); checkName(name) != nil || run == "" {
		return fmt.Errorf("the run is %s; want the Run of a tick", storage.Quote(string(m.Run)))
	}
	return nil
}

// The longest texts, in bytes.
const (
	maxName = 100
	maxBy   = 100
	maxWhy  = 500
)

func checkName(name string) error {
	if len(name) > maxName {
		return fmt.Errorf("%w: the name has %d bytes; want at most %d", storage.ErrInvalid, len(name), maxName)
	}
	return storage.CheckKey(name)
}

// checkText refuses text that can't be shown to an operator.
func checkText(what, text string, most int) error {
	if len(text) > most || !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
		return fmt.Errorf("%w: %s is %s; want at most %d bytes of valid UTF-8 without control characters", storage.ErrInvalid, what, storage.Quote(text), most)
	}
	return nil
}

// cut returns text that an operator can be shown.
func cut(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "�"))
	if len(text) > maxWhy {
		text = strings.ToValidUTF8(text[:maxWhy], "")
	}
	return text
}
