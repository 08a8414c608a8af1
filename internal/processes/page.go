package processes

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/seldom"
	"github.com/millrace-go/millrace/process"
	"github.com/millrace-go/millrace/storage"
)

//go:embed templates
var files embed.FS

var (
	listPage = template.Must(template.ParseFS(files, "templates/page.html", "templates/list.html"))
	showPage = template.Must(template.ParseFS(files, "templates/page.html", "templates/show.html"))
	textPage = template.Must(template.ParseFS(files, "templates/page.html", "templates/text.html"))
)

// Bounds of pages.
const (
	mostInstances = 200
	mostRead      = 5000 // of which these are the most urgent ones
	mostRows      = 1000
	lookWithin    = 10 * time.Second
	endedSince    = 48 * time.Hour // of a list of instances that have ended
)

// Plans are the plans whose instances the routes start, sorted.
func Plans(routes *channel.Routes) (plans []string) {
	for _, queue := range routes.Queues() {
		for _, kind := range routes.Kinds(queue) {
			if plan, ok := process.PlanOf(kind); ok {
				plans = append(plans, plan)
			}
		}
	}
	slices.Sort(plans)
	return slices.Compact(plans)
}

// pages serves the pages.
type pages struct {
	store   *storage.Store
	plans   []string
	lookers map[string]*process.Looker
	log     *slog.Logger
	lines   seldom.Lines // of log
	command string       // of the program, as typed
}

// Pages returns the handler of the pages of some plans. They tell of operators' verbs of a program's command.
func Pages(store *storage.Store, plans []string, command string, log *slog.Logger) (http.Handler, error) {
	p := &pages{store: store, plans: plans, lookers: map[string]*process.Looker{}, log: log, command: command}
	for _, plan := range plans {
		l, err := process.Look(store, plan, "/millrace")
		if err != nil {
			return nil, err
		}
		p.lookers[plan] = l
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /processes", p.list)
	mux.HandleFunc("GET /processes/{plan}/{id...}", p.show)
	mux.HandleFunc("GET /processes/style.css", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=300")
		http.ServeFileFS(w, r, files, "templates/style.css")
	})
	mux.Handle("GET /processes/{$}", http.RedirectHandler("/processes", http.StatusMovedPermanently))
	return headed(mux), nil
}

// headed sets the headers of all answers. A page needs its own style sheet and nothing else.
func headed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// shown is what every page has.
type shown struct {
	Title string
	Now   string
}

// textOf is a page that only says something.
type textOf struct {
	shown
	Text string
}

func (p *pages) write(w http.ResponseWriter, r *http.Request, status int, page *template.Template, data any) {
	var b bytes.Buffer
	if err := page.ExecuteTemplate(&b, "page.html", data); err != nil {
		p.lines.Log(r, p.log, slog.LevelError, "a page can't be made", "", slog.String("path", r.URL.Path), slog.Any("error", err))
		http.Error(w, "the page can't be made; see the log", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // the client may have gone
}

// fail says that something could not be read.
func (p *pages) fail(w http.ResponseWriter, r *http.Request, err error) {
	status, text := http.StatusServiceUnavailable, "The store can't be read; the log says why."
	switch {
	case errors.Is(err, storage.ErrNotFound):
		status, text = http.StatusNotFound, "There is no such instance. Its time may be over."
	case errors.Is(err, process.ErrNotInstance):
		status, text = http.StatusNotFound, "The document with this ID is not an instance of the plan."
	case errors.Is(err, storage.ErrInvalid):
		status, text = http.StatusNotFound, "No instance can have this ID."
	case r.Context().Err() != nil:
		return // nobody waits any more
	default:
		p.lines.Log(r, p.log, slog.LevelWarn, "processes can't be shown", "", slog.String("path", r.URL.Path), slog.Any("error", err))
	}
	p.write(w, r, status, textPage, textOf{shown{"Not shown", clock(time.Now())}, text})
}

// clock is a moment as the pages show it.
func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// listed is the page of many instances.
type listed struct {
	shown
	Plans, Statuses      []string
	Plan, Status, Prefix string
	Rows                 []listRow
	More                 bool   // there are more than these
	Unknown              string // what the address asks for, and nobody knows
	Cut                  bool   // the time was over before all were read
}

// listRow is an instance in a list.
type listRow struct {
	Plan, ID, Link, Status, Class string
	Took, Label, Is, Error, Tags  string

	entry process.Entry
}

// open stands for the statuses of instances that have not ended.
const open = "open"

func statuses() []string {
	return []string{open, string(process.InProcess), string(process.Undoing), string(process.Stuck), string(process.Completed), string(process.Aborted), string(process.Canceled)}
}

// list shows instances. A choice that the form doesn't offer counts as none, and the page says so.
func (p *pages) list(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	ask := r.URL.Query()
	data := listed{shown: shown{"Processes", clock(now)}, Plans: p.plans, Statuses: statuses(), Plan: ask.Get("plan"), Status: ask.Get("status"), Prefix: ask.Get("id")}
	data.choose(p)
	q := process.Query{Prefix: data.Prefix, Now: now}
	if data.Status != open {
		q.Status = process.Status(data.Status)
	}
	if q.Status.Final() {
		q.Since = now.Add(-endedSince)
	}
	ctx, cancel := context.WithTimeout(r.Context(), lookWithin)
	defer cancel()
	for _, plan := range p.plans {
		if data.Plan != "" && plan != data.Plan {
			continue
		}
		for x, err := range p.lookers[plan].Find(ctx, q) {
			switch {
			case err != nil && ctx.Err() != nil && r.Context().Err() == nil:
				data.Cut = true
			case err != nil:
				p.fail(w, r, err)
				return
			case len(data.Rows) == mostRead:
				data.More = true
			default:
				data.Rows = append(data.Rows, newListRow(plan, x, now))
				continue
			}
			break
		}
	}
	slices.SortStableFunc(data.Rows, func(a, b listRow) int { return byUrgency(a.entry, b.entry) })
	if len(data.Rows) > mostInstances {
		data.Rows, data.More = data.Rows[:mostInstances], true
	}
	p.write(w, r, http.StatusOK, listPage, data)
}

// choose takes back what the address asks for and the form doesn't offer.
func (l *listed) choose(p *pages) {
	say := func(format string, args ...any) {
		l.Unknown = strings.TrimSpace(l.Unknown + " " + fmt.Sprintf(format, args...))
	}
	if l.Plan != "" && p.lookers[l.Plan] == nil {
		say("There is no plan %s: these are of all plans.", storage.Quote(l.Plan))
		l.Plan = ""
	}
	if l.Status == "" {
		l.Status = open
	} else if !slices.Contains(l.Statuses, l.Status) {
		say("There is no status %s: these are the open ones. Choose one of %s.", storage.Quote(l.Status), strings.Join(l.Statuses, ", "))
		l.Status = open
	}
}

// byUrgency orders instances: first those that are stuck, the longest first, then by when they must do something, and
// last those that have ended, the latest first.
func byUrgency(a, b process.Entry) int {
	class := func(x process.Entry) int {
		switch {
		case x.Status == process.Stuck:
			return 0
		case !x.Ended.IsZero():
			return 3
		case x.Due.IsZero():
			return 2
		}
		return 1
	}
	switch c := class(a); {
	case c != class(b):
		return c - class(b)
	case c == 0:
		return a.Since.Compare(b.Since)
	case c == 3:
		return b.Ended.Compare(a.Ended)
	}
	return a.Due.Compare(b.Due)
}

func newListRow(plan string, x process.Entry, now time.Time) listRow {
	row := listRow{entry: x, Label: "Waits for", Plan: plan, ID: x.ID, Status: string(x.Status), Class: class(x.Status), Error: x.Error, Tags: Tags(x.Tags), Took: TookUntil(x.Created, x.Ended, now)}
	whole, _, _ := strings.Cut(x.ID, "/")
	row.Link = link(plan, whole)
	switch {
	case !x.Ended.IsZero():
		row.Label, row.Is = "Ended", Took(now.Sub(x.Ended))+" ago"
	case x.Status == process.Stuck:
		row.Label, row.Is = "Stuck at", At(x)
	case len(x.Waits) > 0:
		row.Is = strings.Join(x.Waits, ", ")
	}
	return row
}

func link(plan, id string) string { return "/processes/" + plan + "/" + url.PathEscape(id) }

// class is the class of a status in the style sheet.
func class(s process.Status) string {
	switch s {
	case process.Completed, "skipped":
		return "good"
	case process.Stuck, process.Aborted:
		return "bad"
	case process.Undoing, process.Undone, process.Canceled:
		return "back"
	}
	return "on"
}

// show shows an instance.
func (p *pages) show(w http.ResponseWriter, r *http.Request) {
	plan, id := r.PathValue("plan"), r.PathValue("id")
	l := p.lookers[plan]
	if l == nil || id == "" {
		http.Redirect(w, r, "/processes", http.StatusFound)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), lookWithin)
	defer cancel()
	s, err := l.Stream(ctx, id)
	if err != nil {
		p.fail(w, r, err)
		return
	}
	p.write(w, r, http.StatusOK, showPage, newDetail(s, time.Now(), p.command))
}
