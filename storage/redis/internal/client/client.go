package client

import (
	"context"
	"crypto/sha1"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"time"
)

// A Conn is a client of one server. All methods may be called concurrently.
type Conn interface {
	// Eval runs a script that gets one key and arguments, which args makes just before they are sent. With replicas above
	// 0 the call also waits until so many replicas have what the script wrote; fewer than that are a [Refused] with code
	// [CodeFewReplicas].
	Eval(ctx context.Context, s *Script, key string, args func() []string, replicas int) (Reply, error)

	// Do runs a command. A command of [Large] bytes has a connection of its own, because others would wait.
	Do(ctx context.Context, command ...string) (Reply, error)

	// Look runs a command that changes nothing, and then reads a field of a hash over the same connection. GET has a
	// connection of its own, because what it brings may be large.
	Look(ctx context.Context, hash, field string, command ...string) (value, reply Reply, err error)

	// Publish publishes data on a channel and returns how many subscribers the server has given the data to.
	Publish(ctx context.Context, channel, data string) (int, error)

	// Hear opens a connection for subscriptions. Messages are handed to message one by one, in order.
	Hear(ctx context.Context, message func(channel, data string)) (Ear, error)

	// Close ends all connections. Calls under way fail.
	Close()
}

// An Ear is a connection for subscriptions.
type Ear interface {
	// Subscribe returns when the server has confirmed all channels.
	Subscribe(ctx context.Context, channels ...string) error

	// Unsubscribe returns when the server has confirmed that, or the connection is lost.
	Unsubscribe(channels ...string)

	// Lost is closed when the connection has ended. Then no message comes any more.
	Lost() <-chan struct{}

	// Close ends the connection.
	Close()
}

// Options say how to reach a server.
type Options struct {
	Addrs  []string // HOST:PORT of the server, or of sentinels
	Socket string   // the path of a Unix socket, in place of Addrs
	Master string   // the name by which sentinels know the master; empty without sentinels

	Username, Password                 string
	SentinelUsername, SentinelPassword string

	TLS *tls.Config // nil for plain connections
	DB  int
}

const (
	// dialLimit is how long the opening of a connection may take.
	dialLimit = 5 * time.Second

	// answerLimit is how long the server may stay silent while a call waits for its answer.
	answerLimit = 10 * time.Second

	// waitLimit is how long replicas may take to acknowledge a write.
	waitLimit = 2 * time.Second

	// Large is how many bytes a command of Do has at least that goes over a connection of its own, and what is read at
	// most over the connection that all share.
	Large = 256 << 10

	// mostAside is how many connections there are at most for calls that take long. More such calls wait.
	mostAside = 16

	// lookForMaster is how often sentinels are asked for the master, because the message of a failover may be missed.
	lookForMaster = 5 * time.Second
)

// A Script is a program that the server runs.
type Script struct {
	Name string // for errors
	Text string
	sha  string
}

// NewScript prepares a script.
func NewScript(name, text string) *Script {
	sum := sha1.Sum([]byte(text)) // the server's own name of the script
	return &Script{Name: name, Text: text, sha: hex.EncodeToString(sum[:])}
}

// Reads reports that the script writes nothing, as its first line says.
func (s *Script) Reads() bool { return strings.HasPrefix(s.Text, "#!lua flags=no-writes") }

// Codes of [Refused] that callers distinguish.
const (
	CodeMemory     = "OOM"        // the server has no memory for writes
	CodeWrongType  = "WRONGTYPE"  // a key holds something of another type
	CodePermission = "NOPERM"     // the user may not run the command, or not on that key
	CodeReadOnly   = "READONLY"   // the server is a replica
	CodeLoading    = "LOADING"    // the server reads its file
	CodeBusy       = "BUSY"       // a script has run for seconds
	CodeNoScript   = "NOSCRIPT"   // the server doesn't know the script
	CodeNoReplicas = "NOREPLICAS" // the server has too few replicas, and has written nothing
	// CodeFewReplicas is this package's own: too few replicas have what the server has written.
	CodeFewReplicas = "FEWREPLICAS"
	CodeMisconf     = "MISCONF" // the server can't write its file, so it takes no writes
)

// Refused is an answer of the server that reports a failure.
type Refused struct {
	Code string // its first word
	Text string // the whole, of one line
}

func (e *Refused) Error() string { return "redis: " + e.Text }

// Public implements driver.PublicError: the code tells no address and no name.
func (e *Refused) Public() string { return "redis: " + e.Code }

// refused makes a Refused of a text of the server. The server's errors of scripts name the script and a line, which
// tell a user nothing.
func refused(text string) *Refused {
	text, _, _ = strings.Cut(text, " script: ")
	text = strings.TrimSpace(strings.ReplaceAll(text, "\n", " "))
	text = strings.TrimPrefix(text, "ERR user_script:")
	code, _, _ := strings.Cut(text, " ")
	if strings.Contains(text, "user executing the script can't") { // older servers give no code
		code = CodePermission
	}
	return &Refused{Code: code, Text: text}
}

// HasCode reports whether an error is the server's refusal with that code.
func HasCode(err error, code string) bool {
	var e *Refused
	return errors.As(err, &e) && e.Code == code
}

// ErrClosed is of calls after Close.
var ErrClosed = errors.New("redis: the connection is closed")

// NotSent reports that an error came before anything reached the server, so that the call can be repeated.
func NotSent(err error) bool {
	var late *silence
	if errors.As(err, &late) {
		return late.notSent
	}
	var e *net.OpError
	return errors.As(err, &e) && e.Op == "dial"
}

// Silent reports that a server hasn't answered in time.
func Silent(err error) bool {
	var late *silence
	return errors.As(err, &late)
}

// Foreign reports that the first answer was the end of the connection, or no answer of a Redis server.
func Foreign(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || strings.HasPrefix(err.Error(), "received un") // the library's own texts
}

// Cut reports that a call ended because its connection did. The server may have done what was asked.
func Cut(err error) bool {
	var r *Refused
	return err != nil && !errors.As(err, &r) && !errors.Is(err, ErrClosed) && !Silent(err)
}

// silence is that no answer has come in time. It isn't the end of a caller's context, although it is for the library.
type silence struct {
	text    string
	notSent bool
}

func (e *silence) Error() string { return e.text }
