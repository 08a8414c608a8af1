// Package cost shows a program's requests to its store, where every request is billed: as metrics, and as a summary
// for an operator. The driver counts each request that it makes, including repeated and refused ones; see
// [storage.Store.Requests].
//
// The code holds no prices. A price file turns counts into money, by the billing class that the driver gives each
// request; see [Classes]. docs/operating.md has a complete file:
//
//	{"currency": "EUR", "per10000": {"queue write": 0.01, "blob write": 0.1, "blob read": 0.01}}
package cost

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-go/millrace/storage"
)

// Prices are an engine's prices.
type Prices struct {
	Currency string             // as it is printed
	Per10000 map[string]float64 // by billing class, for 10,000 requests; see [Classes]
}

// Classes are the billing classes that drivers give their requests.
func Classes() []string {
	return []string{
		"queue read", "queue write",
		"blob read", "blob list", "blob write", "blob delete",
		"table read", "table list", "table write", "table delete", "table batch",
	}
}

// ReadPrices reads a price file in JSON. It may leave classes out. The error tells all that is wrong with it.
func ReadPrices(r io.Reader) (*Prices, error) {
	var file struct {
		Currency string              `json:"currency"`
		Per10000 map[string]*float64 `json:"per10000"`
	}
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	if err := d.Decode(&file); err != nil {
		return nil, fmt.Errorf(`%w; want JSON like {"currency": "EUR", "per10000": {"blob write": 0.1}}`, err)
	}
	var faults []error
	if d.More() {
		faults = append(faults, errors.New("unexpected text after the prices; want one JSON object"))
	}
	if file.Currency == "" {
		faults = append(faults, errors.New(`the currency is missing; want one like "currency": "EUR"`))
	}
	if len(file.Per10000) == 0 {
		faults = append(faults, errors.New(`the prices are missing; want some like "per10000": {"blob write": 0.1}`))
	}
	p := &Prices{Currency: file.Currency, Per10000: map[string]float64{}}
	for _, class := range slices.Sorted(maps.Keys(file.Per10000)) {
		price := file.Per10000[class]
		switch {
		case !slices.Contains(Classes(), class):
			faults = append(faults, fmt.Errorf("unknown class %q; want some of %s", class, strings.Join(Classes(), ", ")))
		case price == nil || *price < 0:
			faults = append(faults, fmt.Errorf("%q: want a price of 0 or more, or leave it out", class))
		default:
			p.Per10000[class] = *price
		}
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	return p, nil
}

// Collector offers a store's requests as metrics: millrace_storage_requests_total and millrace_storage_throttled_total,
// by op, kind, target and class, unless the store doesn't count its requests. It also offers
// millrace_publications_total, by topic (signals, gates, leases or leaders) and what: published, failed, received or
// taken; see [storage.Publications].
func Collector(store *storage.Store) prometheus.Collector {
	labels := []string{"op", "kind", "target", "class"}
	c := collector{
		requests:  prometheus.NewDesc("millrace_storage_requests_total", "Requests to the store's engine.", labels, nil),
		throttled: prometheus.NewDesc("millrace_storage_throttled_total", "Requests that the engine refused because there were too many.", labels, nil),
	}
	c.publications = prometheus.NewDesc("millrace_publications_total", "What was published to those that subscribe to a topic, in this process and in others.", []string{"topic", "what"}, nil)
	c.store = store
	return c
}

type collector struct {
	store                             *storage.Store
	requests, throttled, publications *prometheus.Desc
}

func (c collector) Describe(d chan<- *prometheus.Desc) {
	d <- c.requests
	d <- c.throttled
	d <- c.publications
}

func (c collector) Collect(m chan<- prometheus.Metric) {
	for _, r := range c.store.Requests() {
		labels := []string{r.Op, r.Kind, r.Target, r.Class}
		m <- prometheus.MustNewConstMetric(c.requests, prometheus.CounterValue, float64(r.Count), labels...)
		m <- prometheus.MustNewConstMetric(c.throttled, prometheus.CounterValue, float64(r.Throttled), labels...)
	}
	for _, t := range c.store.Publications() {
		for what, n := range map[string]int64{"published": t.Published, "failed": t.Failed, "received": t.Received, "taken": t.Taken} {
			m <- prometheus.MustNewConstMetric(c.publications, prometheus.CounterValue, float64(n), t.Topic, what)
		}
	}
}

// Summary writes the number of requests for a number of units of work, by operation and by billing class. one names
// a unit, and may say what was done to it ("command", "command handled"). prices may be nil. Summary writes nothing
// for a store that was asked for nothing, or doesn't count its requests.
func Summary(w io.Writer, store *storage.Store, units int64, one string, prices *Prices) error {
	list := store.Requests()
	var total, throttled int64
	classes := map[string]int64{}
	for _, r := range list {
		total += r.Count
		throttled += r.Throttled
		if r.Class != "" {
			classes[r.Class] += r.Count
		}
	}
	if total == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(cells ...string) { fmt.Fprintln(t, strings.Join(cells, "\t")+"\t") }

	one, done, _ := strings.Cut(one, " ")
	fmt.Fprintf(w, "%s for %s: %s\n", plural(total, "storage request"), strings.TrimSpace(plural(units, one)+" "+done), each(total, units, one))
	slices.SortStableFunc(list, func(a, b storage.Requests) int { return cmp.Compare(b.Count, a.Count) })
	row("requests", "for each "+one, "what", "of")
	for _, r := range list {
		row(fmt.Sprint(r.Count), ratio(r.Count, units), r.Op, r.Kind+" "+r.Target)
	}
	if throttled > 0 {
		row(fmt.Sprint(throttled), ratio(throttled, units), "throttled", "")
	}
	if err := t.Flush(); err != nil || prices == nil || len(classes) == 0 {
		return err
	}
	return bill(t, classes, units, one, prices)
}

// bill writes the prices of the classes. If a class has no price, the sums are a lower bound.
func bill(t *tabwriter.Writer, classes map[string]int64, units int64, one string, p *Prices) error {
	sum := 0.0
	var unknown []string
	fmt.Fprintf(t, "requests\t%s\tclass\t\n", p.Currency)
	for _, class := range slices.Sorted(maps.Keys(classes)) {
		price, ok := p.Per10000[class]
		if !ok {
			unknown = append(unknown, class)
			continue
		}
		money := float64(classes[class]) / 10_000 * price
		sum += money
		fmt.Fprintf(t, "%d\t%.6f\t%s\t\n", classes[class], money, class)
	}
	least := ""
	if len(unknown) > 0 {
		least = "at least "
	}
	fmt.Fprintf(t, "\t%s%.6f\tin all\t\n", least, sum)
	if units > 0 {
		fmt.Fprintf(t, "\t%s%.6f\tfor a million %ss\t\n", least, sum/float64(units)*1e6, one)
	}
	if len(unknown) > 0 {
		fmt.Fprintf(t, "There is no price for: %s.\n", strings.Join(unknown, ", "))
	}
	return t.Flush()
}

func plural(n int64, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

func ratio(n, units int64) string {
	if units == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", float64(n)/float64(units))
}

func each(n, units int64, one string) string {
	if units == 0 {
		return "none to share them"
	}
	return ratio(n, units) + " a " + one
}
