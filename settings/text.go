package settings

import (
	"fmt"
	"unicode"
	"unicode/utf8"

	"github.com/millrace-go/millrace/storage"
)

// checkText refuses a text that people can't read safely.
func checkText(what, text string, most int) error {
	if len(text) > most || clean(text, most) != text {
		return fmt.Errorf("%w: %s is %s; want at most %d bytes of valid UTF-8 without control characters", storage.ErrInvalid, what, storage.Quote(text), most)
	}
	return nil
}

// clean makes a text fit for a terminal and for storage: no control characters, valid UTF-8, at most so many bytes.
func clean(text string, most int) string {
	var b []byte
	for _, r := range text {
		if unicode.IsControl(r) {
			r = ' '
		}
		if len(b)+utf8.RuneLen(r) > most {
			break
		}
		b = utf8.AppendRune(b, r)
	}
	return string(b)
}
