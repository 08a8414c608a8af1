package storage

import (
	"fmt"
	"time"
	"unicode/utf8"
)

const (
	minName = 3
	maxName = 50 // leaves room for an application's prefix
)

// CheckName checks the name of a queue, container or table: 3 to 50 lower-case letters, digits and
// single hyphens, beginning with a letter and ending with a letter or digit.
func CheckName(name string) error {
	bad := len(name) < minName || len(name) > maxName || name[0] < 'a' || name[0] > 'z' || name[len(name)-1] == '-'
	for i := 0; i < len(name) && !bad; i++ {
		c := name[i]
		bad = !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' && name[i-1] != '-')
	}
	if bad {
		return fmt.Errorf("%w: name %s: want %d to %d lower-case letters, digits and single hyphens, beginning with a letter, ending with a letter or digit",
			ErrInvalid, Quote(name), minName, maxName)
	}
	return nil
}

// CheckKey checks the key of a blob, or a partition or key of a row: 1 to [MaxKey] bytes of valid UTF-8
// without control characters. Nothing else about a key means anything: "a/../b" is a key like any other.
func CheckKey(key string) error {
	if key == "" || len(key) > MaxKey || !utf8.ValidString(key) {
		return fmt.Errorf("%w: key %s: want 1 to %d bytes of valid UTF-8", ErrInvalid, Quote(key), MaxKey)
	}
	for _, r := range key {
		if r < 0x20 || r >= 0x7f && r < 0xa0 {
			return fmt.Errorf("%w: key %s: control characters are not allowed", ErrInvalid, Quote(key))
		}
	}
	return nil
}

// checkMessages names the first bad message.
func checkMessages(messages []Message, limit int) error {
	for i, m := range messages {
		if err := checkMessage(m, limit); err != nil {
			return fmt.Errorf("message %d of %d: %w", i+1, len(messages), err)
		}
	}
	return nil
}

func checkMessage(m Message, limit int) error {
	if len(m.Body) > limit {
		return fmt.Errorf("%w: a body of %d bytes; at most %d", ErrTooLarge, len(m.Body), limit)
	}
	if m.Key != "" {
		if err := CheckKey(m.Key); err != nil {
			return err
		}
	}
	return CheckDelay(m.Delay)
}

// CheckDelay checks the delay of a message: 0 to [MaxDelay].
func CheckDelay(d time.Duration) error {
	if d < 0 || d > MaxDelay {
		return fmt.Errorf("%w: a delay of %v; want 0 to %v", ErrInvalid, d, MaxDelay)
	}
	return nil
}

// checkBatch checks rows that are written or deleted together, and names a bad row.
func checkBatch(partition string, rows []RowPut, limit int) error {
	if len(rows) > MaxBatchRows {
		return fmt.Errorf("%w: %d rows in a batch; at most %d", ErrInvalid, len(rows), MaxBatchRows)
	}
	bytes := 0
	for i, r := range rows {
		if bytes += len(r.Data); bytes > MaxBatchBytes {
			return fmt.Errorf("row %d of %d: %w: more than %d bytes in a batch", i+1, len(rows), ErrInvalid, MaxBatchBytes)
		}
	}
	return checkRows(partition, rows, limit)
}

func checkRows(partition string, rows []RowPut, limit int) error {
	if err := CheckKey(partition); err != nil {
		return err
	}
	seen := make(map[string]bool, len(rows))
	for i, r := range rows {
		err := CheckKey(r.Key)
		switch {
		case err != nil:
		case len(r.Data) > limit:
			err = fmt.Errorf("%w: data of %d bytes; at most %d", ErrTooLarge, len(r.Data), limit)
		case seen[r.Key]:
			err = fmt.Errorf("%w: key %s occurs twice", ErrInvalid, Quote(r.Key))
		}
		if err != nil {
			return fmt.Errorf("row %d of %d: %w", i+1, len(rows), err)
		}
		seen[r.Key] = true
	}
	return nil
}

func checkReceive(max int, visibility time.Duration) error {
	if max < 1 {
		return fmt.Errorf("%w: receive at most %d messages; want at least 1", ErrInvalid, max)
	}
	return checkVisibility(visibility)
}

func checkExtend(visibility time.Duration) error {
	if visibility == 0 {
		return nil
	}
	return checkVisibility(visibility)
}

func checkVisibility(v time.Duration) error {
	if v < MinVisibility || v > MaxVisibility {
		return fmt.Errorf("%w: a visibility of %v; want %v to %v", ErrInvalid, v, MinVisibility, MaxVisibility)
	}
	return nil
}

// checkWork refuses a unit of work for its content.
func checkWork(w Work, p Props) error {
	wrong := func(resource string, err error) error {
		return &Error{Op: "commit", Resource: resource, Err: err}
	}
	if x := w.Rows; x != nil {
		err := CheckName(x.Table)
		if err == nil {
			err = checkRows(x.Partition, x.Puts, p.MaxRow)
		}
		if err != nil {
			return wrong("partition "+Quote(x.Table)+"/"+Quote(x.Partition), err)
		}
	}
	if x := w.Write; x != nil {
		err := CheckName(x.Container)
		if err == nil {
			err = checkPut(CheckKey(x.Key), len(x.Body), p.MaxBlob, x.If)
		}
		if err != nil {
			return wrong("blob "+Quote(x.Container)+"/"+Quote(x.Key), err)
		}
	}
	for _, s := range w.Send {
		err := CheckName(s.Queue)
		if err == nil {
			err = checkMessage(s.Message, p.MaxMessage)
		}
		if err != nil {
			return wrong("queue "+Quote(s.Queue), err)
		}
	}
	for _, x := range w.Delete {
		if err := CheckName(x.Queue); err != nil {
			return wrong("queue "+Quote(x.Queue), err)
		}
	}
	return nil
}
