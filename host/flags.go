package host

import (
	"time"

	"github.com/millrace-go/millrace/host/internal/boot"
)

// Flags define a program's own settings. The flag -seats of the program shop is also the environment variable
// SHOP_SEATS. A word in `back quotes` in a usage names the value in -help.
type Flags struct{ own *boot.Flags }

// String defines a setting that is text. The text may be secret: no error and no help repeats it.
func (f *Flags) String(name, value, usage string) *string { return f.own.String(name, value, usage) }

// Int defines a setting that is a whole number from least to most.
func (f *Flags) Int(name string, value, least, most int, usage string) *int {
	return f.own.Int(name, value, least, most, usage)
}

// Bool defines a setting that is true or false.
func (f *Flags) Bool(name string, value bool, usage string) *bool {
	return f.own.Bool(name, value, usage)
}

// Duration defines a setting that is a time from least to most.
func (f *Flags) Duration(name string, value, least, most time.Duration, usage string) *time.Duration {
	return f.own.Duration(name, value, least, most, usage)
}

// Check adds a check of a setting, which runs when all settings have their values and before anything is opened. Its
// error ends the program with [ExitUsage]. The error is shown with the flag's name, so it may hold no secret.
func (f *Flags) Check(name string, check func() error) { f.own.Check(name, check) }
