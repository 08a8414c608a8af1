// Package host hosts a program of the framework: its settings, logs, signals, store and the order of stopping.
package host

import (
	"context"
	"io"
	"log/slog"
	"net"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/host/internal/boot"
	"github.com/millrace-go/millrace/storage"
)

// The names below serve the programs in cmd until those use Main.

// Exit codes of a program.
const (
	ExitOK            = boot.ExitOK
	ExitError         = boot.ExitError
	ExitUsage         = boot.ExitUsage
	ReasonMailRefused = boot.ReasonMailRefused
)

// Types of programs.
type (
	App        = boot.App
	Flags      = boot.Flags
	Part       = boot.Part
	Process    = boot.Process
	Settings   = boot.Settings
	UsageError = boot.UsageError
)

// NewFlags is that of package boot.
func NewFlags(program, about string, getenv func(string) string) *Flags {
	return boot.NewFlags(program, about, getenv)
}

// AddSettings is that of package boot.
func AddSettings(f *Flags) Settings { return boot.AddSettings(f) }

// Channels is that of package boot.
func Channels(s *storage.Store, source string) (*channel.Channels, error) {
	return boot.Channels(s, source)
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

// Listen is that of package boot.
func Listen(ctx context.Context, flag, addr string) (net.Listener, error) {
	return boot.Listen(ctx, flag, addr)
}

// Main is that of package boot.
func Main(ctx context.Context, p Process, f *Flags, run func(context.Context, *slog.Logger) error) int {
	return boot.Main(ctx, p, f, run)
}

// NewLogger is that of package boot.
func NewLogger(w io.Writer, level slog.Level, getenv func(string) string) *slog.Logger {
	return boot.NewLogger(w, level, getenv)
}

// URL is that of package boot.
func URL(ln net.Listener) string { return boot.URL(ln) }

// Variable is that of package boot.
func Variable(flag string) string { return boot.Variable(flag) }

// Word is that of package boot.
func Word(arg string) string { return boot.Word(arg) }
