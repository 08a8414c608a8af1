package ops

import (
	"cmp"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/millrace-go/millrace/files/assets"
	"github.com/millrace-go/millrace/internal/processes"
	"github.com/millrace-go/millrace/ops/act"
)

// A navigation is the way to all pages: first to what people look at each day, and to the others in a menu.
type navigation struct {
	First []string
	Rest  []navGroup
	Other string // the noun of this page, if the menu has it
}

// A navGroup is a part of the menu.
type navGroup struct {
	Name  string
	Nouns []string
}

// firstNouns are those that people look at each day.
var firstNouns = []string{"queues", "poison", "messages", "processes"}

// navGroups says where the other nouns stand. Those that stand nowhere are in the last group.
func navGroups() []navGroup {
	return []navGroup{
		{"Data", []string{"values", "views", "files", "schedules"}},
		{"Coordination", []string{"gates", "locks", "leaders", "guards", "turns", "ids"}},
		{"Programs", nil},
	}
}

func newNavigation(nouns []string, noun string) (n navigation) {
	groups := navGroups()
	rest := make([]navGroup, len(groups))
	for _, x := range nouns {
		if slices.Contains(firstNouns, x) || x == "find" { // each page has the field to find something
			continue
		}
		i := slices.IndexFunc(groups, func(g navGroup) bool { return slices.Contains(g.Nouns, x) })
		if i < 0 {
			i = len(groups) - 1
		}
		rest[i].Name, rest[i].Nouns = groups[i].Name, append(rest[i].Nouns, x)
		if x == noun {
			n.Other = x
		}
	}
	n.First = slices.DeleteFunc(slices.Clone(firstNouns), func(x string) bool { return !slices.Contains(nouns, x) })
	n.Rest = slices.DeleteFunc(rest, func(g navGroup) bool { return len(g.Nouns) == 0 })
	return n
}

// title is a word of the pages as a heading. The name of a thing is shown as it is.
func title(s string) string {
	switch s {
	case "":
		return ""
	case "id", "ids", "ID":
		return "ID" + s[2:]
	}
	first, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(first)) + s[size:]
}

// heading is the name of a column as people read it on a page: the table has it in capitals.
func heading(s string) string {
	if s != strings.ToUpper(s) {
		return s
	}
	words := strings.Fields(strings.ToLower(s))
	for i, w := range words {
		if w == "id" || w == "ids" {
			words[i] = title(w)
		}
	}
	return title(strings.Join(words, " "))
}

// titleOf is an act as a heading, and as a button.
func titleOf(a *act.Act) string {
	if a.Verb == "" {
		return title(a.Noun)
	}
	if a.Noun == "ids" {
		return title(a.Verb) + " IDs"
	}
	return title(a.Verb) + " " + a.Noun
}

// A link is an act that a page offers.
type link struct {
	Name, About, Path string
	Destroys          bool
}

// linkTo is the way to an act.
func linkTo(a *act.Act, root, query string) link {
	path := root + "do/" + strings.ReplaceAll(a.Name(), " ", "/")
	if query != "" {
		path += "?" + query
	}
	return link{Name: cmp.Or(a.Verb, a.Noun), About: a.About, Path: path, Destroys: a.Sure == act.Must || a.Undoes}
}

// Of a longer word of a table people read the beginning and the end.
const longest, beginning, ending = 26, 9, 8

// short cuts a long word in its middle: of IDs of one time the beginnings are the same.
func short(s string) string {
	r := []rune(s)
	if len(r) <= longest || strings.Contains(s, " ") {
		return s
	}
	return string(r[:beginning]) + "…" + string(r[len(r)-ending:])
}

// aNumber is what stands right: a number, an age, a size.
var aNumber = regexp.MustCompile(`^(≥ )?-?\d[\d,.]*%?$|^(\d+(\.\d+)?(ns|µs|ms|s|m|h|d))+( ago)?$|^\d+(\.\d+)? [kKMGT]?i?B$`)

// isNumber asks the pattern where the first byte allows it: most cells of a long table are words.
func isNumber(s string) bool {
	return s != "" && (s[0] == '-' || s[0] > '~' || '0' <= s[0] && s[0] <= '9') && aNumber.MatchString(s)
}

// A look is how a table looks.
type look struct {
	Heads []lookHead
	Rows  [][]lookCell
}

// A lookHead is the head of a column.
type lookHead struct{ Text, Class string }

// A lookCell is a cell with its class.
type lookCell struct {
	Cell  cell
	Class string
	Head  string // of its column
	Pill  string // the class of a status
}

// newLook finds how a table looks: numbers stand right, long texts have several lines, and long words are cut.
func newLook(b *block) (l look) {
	for i, head := range b.Head {
		numbers, other := 0, 0
		for _, row := range b.Rows {
			switch {
			case i >= len(row) || row[i].Text == act.Unknown && !row[i].Number:
			case row[i].Number || isNumber(row[i].Text):
				numbers++
			default:
				other++
			}
		}
		h := lookHead{Text: heading(head)}
		if i > 0 && numbers > 0 && other == 0 {
			h.Class = "num"
		}
		l.Heads = append(l.Heads, h)
	}
	for _, row := range b.Rows {
		cells := make([]lookCell, len(row))
		for i, c := range row {
			cells[i] = newLookCell(c, b.Head, i, l.Heads)
		}
		if i := max(0, slices.IndexFunc(row, func(c cell) bool { return c.Link != nil })); i < len(cells) {
			cells[i].Class = strings.TrimSpace(cells[i].Class + " names") // by which people know the row
		}
		l.Rows = append(l.Rows, cells)
	}
	return l
}

func newLookCell(c cell, names []string, i int, heads []lookHead) lookCell {
	x := lookCell{Cell: c}
	if i >= len(heads) {
		return x
	}
	x.Class, x.Head = heads[i].Class, heads[i].Text
	switch head := strings.ToUpper(names[i]); {
	case c.Text == act.Unknown || c.Text == "0" || c.Text == "0s":
		x.Class += " nil"
	case (head == "POISON" || head == "STUCK") && x.Class == "num":
		x.Class += " alarm"
	case head == "STATUS" || head == "STATE" || head == "RESULT" || head == "ANSWER" || head == "HEALTH":
		x.Pill = pillOf(c.Text)
	case head == "BREAKER" && c.Text == "closed": // an open gate is well, an open breaker isn't
		x.Pill = "good"
	case head == "BREAKER":
		x.Pill = "bad"
	case strings.Contains(c.Text, " ") && len(c.Text) > 40:
		x.Class += " text"
	}
	if cut := short(c.Text); cut != c.Text {
		x.Cell.Text, x.Cell.Full = cut, c.Text
	}
	x.Class = strings.TrimSpace(x.Class)
	return x
}

// pillOf is the class of a status; "" for a text that is none.
func pillOf(status string) string {
	switch word, _, _ := strings.Cut(strings.ToLower(status), " "); {
	case strings.Contains(status, " ") && len(status) > 24:
		return ""
	case slices.Contains([]string{"completed", "done", "ok", "open", "active", "healthy", "applied", "on", "good", "runs"}, word):
		return "good"
	case slices.Contains([]string{"stuck", "aborted", "failed", "refused", "corrupt", "bad", "error", "lost", "missed"}, word):
		return "bad"
	case slices.Contains([]string{"paused", "closed", "undoing", "undone", "canceled", "stopped", "skipped", "meant", "held", "waits"}, word):
		return "back"
	case slices.Contains([]string{"inprocess", "new", "waiting", "running", "inbox", "started"}, word):
		return "on"
	}
	return ""
}

// static are the files that browsers keep: the style sheet, the script and the icon.
func static(path string, log *slog.Logger) (*assets.Set, error) {
	steps, err := processes.Style()
	if err != nil {
		return nil, err
	}
	style, err := files.ReadFile("static/style.css")
	if err != nil {
		return nil, err
	}
	return assets.New(files, assets.Config{Dir: "static", Also: map[string][]byte{"style.css": append(style, steps...)}, Path: path, Logger: log})
}
