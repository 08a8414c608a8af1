package ops

import (
	"html/template"
	"net/url"
	"regexp"
	"strings"

	"github.com/millrace-go/millrace/ops/act"
)

// A prose writes texts of acts and of findings as HTML. Such texts have command lines in them, because people who type
// read them, too. On a page a command line is what the page has for it: the words of a button beside the text, the way
// to what the act shows, or else code.
type prose struct {
	table   table
	command string            // with which a command line begins
	root    string            // the way to the first page; "" where no text is a way
	buttons map[string]string // the words of buttons beside the text, by command lines; "" for a line that has no button
}

// html is a text as HTML. It escapes all that the text has.
func (p prose) html(text string) template.HTML {
	var b strings.Builder
	for {
		at := p.begin(text)
		if at < 0 {
			b.WriteString(template.HTMLEscapeString(text))
			return template.HTML(b.String())
		}
		b.WriteString(template.HTMLEscapeString(text[:at]))
		first := at == 0 && b.Len() == 0 || strings.HasSuffix(text[:at], ". ") || strings.HasSuffix(text[:at], "\n")
		text = text[at:]
		n := p.button(&b, text)
		if n == 0 {
			n = p.line(&b, text, first)
		}
		text = text[n:]
	}
}

// begin returns where the first command line of a text begins; -1 if it has none.
func (p prose) begin(text string) int {
	for at := 0; ; {
		i := strings.Index(text[at:], p.command+" ")
		if i < 0 {
			return -1
		}
		at += i
		if a, _ := p.act(text[at+len(p.command)+1:]); a != nil && (at == 0 || strings.ContainsRune(" \n(\"", rune(text[at-1]))) {
			return at
		}
		at += len(p.command)
	}
}

// aWord is a word of a command line.
var aWord = regexp.MustCompile(`^ ?((?:'[^']*'|\\'|[^\s'])+)`)

// word returns the first word of a text as a shell reads it, and how long it is with the space before it. last: a mark
// of punctuation follows, so the command line has no more words.
func word(text string) (word string, n int, last bool) {
	m := aWord.FindStringSubmatch(text)
	if m == nil {
		return "", 0, true
	}
	word, n = m[1], len(m[0])
	if bare := strings.TrimRight(word, `.,;:)?"`); !strings.HasSuffix(word, "'") && len(bare) < len(word) {
		n -= len(word) - len(bare)
		word, last = bare, true
	}
	word = strings.ReplaceAll(word, `'\''`, "\x00")
	return strings.ReplaceAll(strings.ReplaceAll(word, "'", ""), "\x00", "'"), n, last
}

// act returns the act whose name a text begins with, and how long the name is; nil for none.
func (p prose) act(text string) (*act.Act, int) {
	noun, n, last := word(text)
	if verb, more, _ := word(text[n:]); !last && more > 0 {
		if a := p.table.find(noun, verb); a != nil {
			return a, n + more
		}
	}
	return p.table.find(noun, ""), n
}

// button writes the words of a button in place of the command line that a text begins with, and a known command line
// without a button as code. It returns how long the command line is; 0 for a line that buttons doesn't have.
func (p prose) button(b *strings.Builder, text string) (n int) {
	name := ""
	for line, words := range p.buttons {
		if len(line) > n && strings.HasPrefix(text, line) {
			n, name = len(line), words
		}
	}
	switch {
	case name != "":
		b.WriteString("<strong>" + template.HTMLEscapeString(name) + "</strong>")
	case n > 0:
		b.WriteString("<code>" + template.HTMLEscapeString(text[:n]) + "</code>")
	}
	return n
}

// line writes the command line that a text begins with, and returns how long the command line is. first: a sentence
// begins with it.
func (p prose) line(b *strings.Builder, text string, first bool) int {
	n := len(p.command) + 1
	a, named := p.act(text[n:])
	n += named
	with, more, whole := given(a.Request(), text[n:])
	n += more
	code := "<code>" + template.HTMLEscapeString(text[:n]) + "</code>"
	if !whole || a.Role != act.Viewer || p.root == "" {
		b.WriteString(code)
		return n
	}
	if a.Verb == "show" {
		code = "the page of " + template.HTMLEscapeString(act.Short(thingOf(a, with)))
		if first {
			code = title(code)
		}
	}
	b.WriteString(`<a href="` + template.HTMLEscapeString(p.table.readPath(p.root, a, with)) + `">` + code + "</a>")
	return n
}

// aStandIn is a word of a command line in whose place a person puts a text.
var aStandIn = regexp.MustCompile(`^[A-Z][A-Z=]*$`)

// given reads the arguments and flags of a command line at the begin of a text, and returns how long they are. Words of
// the sentence follow them, so a word for a place that may be left out counts only in front of a flag. whole: a person
// has nothing to add.
func given(q *act.Request, text string) (with url.Values, n int, whole bool) {
	with, whole = url.Values{}, true
	var open, free []string // fields with a place: that have to be given, and that may be left out
	for _, f := range q.Fields {
		switch {
		case f.Place != "" && !f.Optional:
			open = append(open, f.Name)
		case f.Place != "":
			free = append(free, f.Name)
		}
	}
	set := func(name, text string) {
		with.Add(name, text)
		whole = whole && !aStandIn.MatchString(text) && text != "…"
	}
	for last := len(text) == 0 || text[0] != ' '; !last; {
		var one string
		var more int
		one, more, last = word(text[n:])
		name, isFlag := strings.CutPrefix(one, "--")
		f := q.Field(name)
		switch {
		case !isFlag && len(open) == 0 && len(free) > 0 && strings.HasPrefix(text[n+more:], " --"):
			set(free[0], one)
			free = free[1:]
		case isFlag && f == nil, !isFlag && len(open) == 0, more == 0:
			last, more = true, 0
		case isFlag && f.Kind == act.KindFlag:
			set(name, "true")
		case isFlag:
			n += more
			one, more, last = word(text[n:])
			set(name, one)
		default:
			set(open[0], one)
			open = open[1:]
		}
		n += more
	}
	return with, n, whole && len(open) == 0
}
