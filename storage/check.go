package storage

import (
	"fmt"
	"time"
	"unicode/utf8"
)

// Limits that hold for every driver, so that a program that runs on one runs on all. They are the
// narrowest of the engines foreseen (Azure Storage's, where nothing else is said).
const (
	MinVisibility = time.Second
	MaxVisibility = 7 * 24 * time.Hour
	MaxDelay      = 7*24*time.Hour - time.Second
	MaxKey        = 256 // bytes
	MaxBatchRows  = 100
	MaxBatchBytes = 2 << 20
	minName       = 3
	maxName       = 50 // leaves room for an application's prefix
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

// Quote makes untrusted text fit for an error or a log line: quoted, escaped, shortened.
func Quote(s string) string {
	const most = 80
	if len(s) > most {
		return fmt.Sprintf("%q… (%d bytes)", s[:most], len(s))
	}
	return fmt.Sprintf("%q", s)
}

// CheckMessages checks what Queue.Send is given; the error names the first bad item.
func (p Props) CheckMessages(messages []Message) error {
	for i, m := range messages {
		if err := p.checkMessage(m); err != nil {
			return fmt.Errorf("message %d of %d: %w", i+1, len(messages), err)
		}
	}
	return nil
}

func (p Props) checkMessage(m Message) error {
	if len(m.Body) > p.MaxMessage {
		return fmt.Errorf("%w: a body of %d bytes; at most %d", ErrTooLarge, len(m.Body), p.MaxMessage)
	}
	return CheckDelay(m.Delay)
}

// CheckBatch checks what BatchTable.PutBatch is given; the error names a bad row.
func (p Props) CheckBatch(partition string, rows []RowPut) error {
	if len(rows) > MaxBatchRows {
		return fmt.Errorf("%w: %d rows in a batch; at most %d", ErrInvalid, len(rows), MaxBatchRows)
	}
	bytes := 0
	for i, r := range rows {
		if bytes += len(r.Data); bytes > MaxBatchBytes {
			return fmt.Errorf("row %d of %d: %w: more than %d bytes in a batch", i+1, len(rows), ErrInvalid, MaxBatchBytes)
		}
	}
	return p.checkRows(partition, rows)
}

func (p Props) checkRows(partition string, rows []RowPut) error {
	if err := CheckKey(partition); err != nil {
		return err
	}
	seen := make(map[string]bool, len(rows))
	for i, r := range rows {
		err := CheckKey(r.Key)
		switch {
		case err != nil:
		case len(r.Data) > p.MaxRow:
			err = fmt.Errorf("%w: data of %d bytes; at most %d", ErrTooLarge, len(r.Data), p.MaxRow)
		case seen[r.Key]:
			err = fmt.Errorf("%w: key %s stands there twice", ErrInvalid, Quote(r.Key))
		}
		if err != nil {
			return fmt.Errorf("row %d of %d: %w", i+1, len(rows), err)
		}
		seen[r.Key] = true
	}
	return nil
}

// CheckDeleteBatch checks what BatchDeleter.DeleteBatch is given; the error names the first bad row.
func CheckDeleteBatch(partition string, keys []string) error {
	rows := make([]RowPut, len(keys))
	for i, key := range keys {
		rows[i].Key = key
	}
	return Props{}.CheckBatch(partition, rows)
}

// CheckDelay checks a delay: 0 to [MaxDelay].
func CheckDelay(d time.Duration) error {
	if d < 0 || d > MaxDelay {
		return fmt.Errorf("%w: a delay of %v; want 0 to %v", ErrInvalid, d, MaxDelay)
	}
	return nil
}

// CheckReceive checks what Queue.Receive is given.
func CheckReceive(max int, visibility time.Duration) error {
	if max < 1 {
		return fmt.Errorf("%w: receive at most %d messages; want at least 1", ErrInvalid, max)
	}
	return checkVisibility(visibility)
}

// CheckExtend checks the visibility that Queue.Extend is given.
func CheckExtend(visibility time.Duration) error {
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

// Check refuses a condition that can't hold.
func (c Condition) Check() error {
	if c.IfAbsent && c.IfMatch != "" {
		return fmt.Errorf("%w: a condition with both IfAbsent and IfMatch", ErrInvalid)
	}
	return nil
}

// CheckDelete refuses a condition that a deletion can't have.
func (c Condition) CheckDelete() error {
	if c.IfAbsent {
		return fmt.Errorf("%w: a deletion with IfAbsent", ErrInvalid)
	}
	return nil
}

// Check refuses a unit of work for its content.
func (w Work) Check(p Props) error {
	if x := w.Rows; x != nil {
		err := CheckName(x.Table)
		if err == nil {
			err = p.checkRows(x.Partition, x.Puts)
		}
		if err != nil {
			return &Error{Op: "commit", Resource: "partition " + x.Table + "/" + Quote(x.Partition), Err: err}
		}
	}
	if x := w.Write; x != nil {
		if err := checkWrite(p, x); err != nil {
			return &Error{Op: "commit", Resource: "blob " + Quote(x.Container) + "/" + Quote(x.Key), Err: err}
		}
	}
	for _, s := range w.Send {
		err := CheckName(s.Queue)
		if err == nil {
			err = p.checkMessage(s.Message)
		}
		if err != nil {
			return &Error{Op: "commit", Resource: "queue " + Quote(s.Queue), Err: err}
		}
	}
	for _, c := range w.Delete {
		if err := CheckName(c.Queue); err != nil {
			return &Error{Op: "commit", Resource: "queue " + Quote(c.Queue), Err: err}
		}
	}
	return nil
}

func checkWrite(p Props, w *Write) error {
	if err := CheckName(w.Container); err != nil {
		return err
	}
	if err := CheckKey(w.Key); err != nil {
		return err
	}
	if len(w.Body) > p.MaxBlob {
		return fmt.Errorf("%w: a body of %d bytes; at most %d", ErrTooLarge, len(w.Body), p.MaxBlob)
	}
	return w.If.Check()
}
