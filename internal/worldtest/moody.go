package worldtest

import (
	"errors"
	"runtime"
	"time"

	"github.com/millrace-go/millrace/channel"
)

// Moody is a message whose check misbehaves: it panics, ends, hangs for an hour, or refuses.
type Moody struct {
	Mood string `json:"mood"`
}

// Kind is the name on the wire.
func (Moody) Kind() channel.Kind { return "test.moody.v1" }

// Check does what the mood says.
func (m Moody) Check() error {
	switch m.Mood {
	case "panics":
		panic("in the check")
	case "ends":
		runtime.Goexit()
	case "hangs":
		<-time.After(time.Hour)
	case "refuses":
		return errors.New("not in this mood")
	}
	return nil
}
