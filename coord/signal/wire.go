package signal

import (
	"errors"
	"fmt"

	"github.com/millrace-go/millrace/storage"
)

// MaxData is how many bytes a signal carries at most.
const MaxData = 1024

// version is the first byte of a frame. The length of the name, the name and the data follow.
const version = 1

// encode makes the frame of a signal, or returns all that is wrong with it.
func encode(name string, data []byte) ([]byte, error) {
	faults := []error{checkName(name)}
	if len(data) > MaxData {
		faults = append(faults, fmt.Errorf("%w: data of %d bytes; want at most %d", storage.ErrTooLarge, len(data), MaxData))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	frame := make([]byte, 0, 2+len(name)+len(data))
	frame = append(frame, version, byte(len(name)))
	frame = append(frame, name...)
	return append(frame, data...), nil
}

// decode returns the parts of a frame. ok is false for bytes that encode doesn't make: another program, or a later
// version, may tell things on the same topic.
func decode(frame []byte) (name string, data []byte, ok bool) {
	if len(frame) < 2 || frame[0] != version || len(frame) < 2+int(frame[1]) {
		return "", nil, false
	}
	end := 2 + int(frame[1])
	name, data = string(frame[2:end]), frame[end:]
	return name, data, checkName(name) == nil && len(data) <= MaxData
}
