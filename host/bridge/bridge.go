// Package bridge gives cmd/millrace what it needs of package boot, until it is a program of package host.
package bridge

import (
	"io"
	"log/slog"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/host/internal/boot"
	"github.com/millrace-go/millrace/sample/reservations"
	"github.com/millrace-go/millrace/storage"
)

// Exit codes of a program.
const (
	ExitOK            = boot.ExitOK
	ExitError         = boot.ExitError
	ExitUsage         = boot.ExitUsage
	ReasonMailRefused = "mail refused"
)

// Types of programs.
type (
	Flags      = boot.Flags
	Process    = boot.Process
	Settings   = boot.Settings
	UsageError = boot.UsageError
)

// NewFlags is that of package boot.
func NewFlags(program, about string, getenv func(string) string) *Flags {
	return boot.NewFlags(program, about, getenv)
}

// AddSettings is that of package boot.
func AddSettings(f *Flags) Settings { return boot.AddSettings(f, "data/reservations.db") }

// Channels is that of package boot.
func Channels(s *storage.Store, source string) (*channel.Channels, error) {
	routes, err := reservations.Routes()
	if err != nil {
		return nil, err
	}
	return channel.New(s, routes, source)
}

// Clean is that of package boot.
func Clean(s string) string { return boot.Clean(s) }

// CleanJSON is that of package boot.
func CleanJSON(raw []byte) string { return boot.CleanJSON(raw) }

// CleanLines is that of package boot.
func CleanLines(s string) string { return boot.CleanLines(s) }

// Close is that of package boot.
func Close(s *storage.Store, err *error) { boot.Close(s, err) }

// Drivers is that of package boot.
func Drivers(log *slog.Logger) storage.Drivers { return boot.Drivers(log) }

// FlagError is that of package boot.
func FlagError(err error) error { return boot.FlagError(err) }

// NewLogger is that of package boot.
func NewLogger(w io.Writer, level slog.Level, getenv func(string) string) *slog.Logger {
	return boot.NewLogger(w, level, getenv)
}

// Variable is that of package boot.
func Variable(flag string) string { return boot.Variable(flag) }

// Word is that of package boot.
func Word(arg string) string { return boot.Word(arg) }
