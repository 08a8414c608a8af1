package settings

import (
	"errors"
	"os"
	"os/user"

	"github.com/millrace-go/millrace/internal/storecall"
)

const maxBy = storecall.MaxBy // bytes

// A Note tells others who changes settings, and why. Both texts are valid UTF-8 without control characters.
type Note struct {
	By  string // at most 100 bytes. Defaults to user@host, or the process
	Why string // at most 256 bytes; may be empty
	Now bool   // once all have said yes, the change comes into force everywhere at once, and not in stages
}

// By returns a note.
func By(by, why string) Note { return Note{By: by, Why: why} }

// withDefaults returns a complete copy, or all that is wrong with it.
func (n Note) withDefaults() (Note, error) {
	if n.By == "" {
		n.By = self()
	}
	return n, errors.Join(checkText("By", n.By, maxBy), checkText("Why", n.Why, storecall.MaxWhy))
}

// self names the user and host of this process, or the process.
func self() string {
	host, err := os.Hostname()
	if err != nil {
		return storecall.ProcessName()
	}
	u, err := user.Current()
	if err != nil || checkText("name", u.Username+"@"+host, maxBy) != nil {
		return storecall.ProcessName()
	}
	return u.Username + "@" + host
}
