package act

import (
	"errors"
	"regexp"
	"strings"
)

// A Surface is where people or programs do acts: a command line, the pages or the API. Each has its own word for a
// field. Acts name a field in their texts as a command line does, as in --why TEXT, and the surface puts its own word
// there.
type Surface struct {
	Command string             // of the command lines that texts have in them, which stay as they are
	Word    func(Field) string // names a field within a sentence
	Values  bool               // the word for the value of a field stays behind its name
	Before  func(Field) string // names a field in front of what is wrong with it
}

// aField is a field as texts name it, with the word in capitals that stands for its value.
var aField = regexp.MustCompile(`--([a-z][a-z-]*[a-z]|[a-z])( [A-Z][A-Z=]+\b)?`)

// Text is what a request tells, in the words of the surface. Text leaves alone what stands in quotes, such as a name,
// and command lines. A request that reveals may tell content, so Text leaves alone all that such a request tells.
func (s Surface) Text(r *Request, text string) string {
	if r.reveal {
		return text
	}
	return s.worded(r, text)
}

func (s Surface) worded(r *Request, text string) string {
	if !strings.Contains(text, "--") {
		return text
	}
	var b strings.Builder
	done := 0
	for _, at := range aField.FindAllStringSubmatchIndex(text, -1) {
		f := r.Field(text[at[2]:at[3]])
		if f == nil || s.inCommand(text[:at[0]]) || strings.Count(text[:at[0]], `"`)%2 == 1 || at[0] > 0 && strings.ContainsAny(text[at[0]-1:at[0]], `'-`) {
			continue
		}
		b.WriteString(text[done:at[0]])
		b.WriteString(s.Word(*f))
		if done = at[1]; s.Values && at[4] >= 0 {
			done = at[4]
		}
	}
	b.WriteString(text[done:])
	return b.String()
}

// inCommand reports that a text ends within a command line, which ends at the next mark of punctuation outside of a
// shell's quotes.
func (s Surface) inCommand(before string) bool {
	at := strings.LastIndex(before, s.Command+" ")
	if s.Command == "" || at < 0 {
		return false
	}
	quoted := false
	for line := before[at:]; line != ""; line = line[1:] {
		switch {
		case line[0] == '\'':
			quoted = !quoted
		case quoted:
		case line[0] == '\n', len(line) > 1 && line[1] == ' ' && strings.Contains(",;.:", line[:1]):
			return false
		}
	}
	return true
}

// Error is an error of a request in the words of the surface. It names the field that a UsageError is about. The text
// of such an error, and of a NothingError, has no content.
func (s Surface) Error(r *Request, err error) error {
	if err == nil {
		return nil
	}
	text := s.Text(r, err.Error())
	bad, none := (*UsageError)(nil), (*NothingError)(nil)
	if errors.As(err, &bad) || errors.As(err, &none) {
		text = s.worded(r, err.Error())
	}
	if bad != nil && bad.Field != "" {
		if f := r.Field(bad.Field); f != nil {
			text = s.Before(*f) + ": " + text
		}
	}
	if text == err.Error() {
		return err
	}
	return &worded{err, text}
}

// worded is an error with another text.
type worded struct {
	error
	text string
}

func (w *worded) Error() string { return w.text }

// Unwrap returns the error as the act has told it.
func (w *worded) Unwrap() error { return w.error }
