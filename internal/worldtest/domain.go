// Package worldtest is shared by the tests of the framework's packages: a small domain, and helpers for it.
//
// The domain is accounts. The command [Add] asks an [Account], which is a value object, to add an amount. The account
// emits the event [Added], which the view [Total] sums up, or the event [Refused]. A [World] is this domain on a store,
// with a registry for handlers, and runs a worker. A test registers anything else itself.
//
// The tests of a package with other messages make a world without the domain by [NewBare], or use only the functions: a
// store in a temporary folder, IDs of a time, the content of a queue, a log that keeps its lines.
package worldtest

import "github.com/millrace-go/millrace/channel"

// Queues and groups of the domain.
const (
	Accounts = "accounts" // the queue of Add, and the collection
	Totals   = "totals"   // a group of Added, and the view
	Audits   = "audits"   // a group of Added and Refused; the domain has no handler for it
)

// Add asks an account to add an amount; a negative amount beyond its balance is refused.
type Add struct {
	Key    string `json:"key,omitempty"` // the message's ID, if it isn't empty
	To     string `json:"to"`            // the account
	Amount int    `json:"amount"`
	Note   string `json:"note,omitempty"`
}

// Added says that an account has added an amount.
type Added struct {
	To      string `json:"to"`
	Amount  int    `json:"amount"`
	Balance int    `json:"balance"`
	Note    string `json:"note,omitempty"`
}

// Refused says that an account has not added an amount.
type Refused struct {
	To string `json:"to"`
}

// These are the names on the wire.
const (
	AddKind     channel.Kind = "test.add.v1"
	AddedKind   channel.Kind = "test.added.v1"
	RefusedKind channel.Kind = "test.refused.v1"
)

// Kind is the name on the wire.
func (Add) Kind() channel.Kind { return AddKind }

// MessageID is the idempotency key.
func (a Add) MessageID() string { return a.Key }

// Subject is the account's key.
func (a Add) Subject() string { return a.To }

// Kind is the name on the wire.
func (Added) Kind() channel.Kind { return AddedKind }

// Subject is the account's key.
func (a Added) Subject() string { return a.To }

// Kind is the name on the wire.
func (Refused) Kind() channel.Kind { return RefusedKind }

// Account is a value object.
type Account struct {
	Balance int `json:"balance"`
	Count   int `json:"count"` // accepted commands
}

// Add decides the command. It is pure.
func (a Account) Add(m Add) (Account, []channel.Message, error) {
	if a.Balance+m.Amount < 0 {
		return a, []channel.Message{Refused{To: m.To}}, nil
	}
	a.Balance += m.Amount
	a.Count++
	return a, []channel.Message{Added{To: m.To, Amount: m.Amount, Balance: a.Balance, Note: m.Note}}, nil
}

// Total is a view of an account's events, in any order.
type Total struct {
	Sum   int `json:"sum"`
	Count int `json:"count"`
}

// Add projects the event. It is pure.
func (t Total) Add(e Added) Total { return Total{Sum: t.Sum + e.Amount, Count: t.Count + 1} }
