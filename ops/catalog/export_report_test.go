package catalog

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace-go/millrace/storage"
)

// The bounds that tests know.
const (
	MaxRow    = maxRow
	SweepMost = sweepMost
)

// Encode is encode.
func (p Report) Encode() ([]byte, error) { return p.encode() }

// KeyOf is keyOf.
func KeyOf(at time.Time, id string, n int) string { return keyOf(at, id, n) }

// Publish publishes a report now.
func (p *Reporter) Publish(ctx context.Context) { p.publish(ctx, reportWithin, false) }

// ReadAll returns all reports of a store, from all hours, as ReadReports does.
func ReadAll(ctx context.Context, s *storage.Store) ([]Report, error) {
	var all []Report
	for hour := range 24 {
		for row, err := range s.Table(table).Query(ctx, fmt.Sprintf("%02d", hour), storage.RowRange{}) {
			if err != nil {
				return nil, err
			}
			p, err := decodeReport(row)
			if err != nil {
				return nil, err
			}
			all = append(all, p)
		}
	}
	return withoutCovered(all), nil
}

// Decode returns the reports of rows, given as key and body in turn.
func Decode(rows ...string) (all []Report) {
	for i := 0; i < len(rows); i += 2 {
		if p, err := decodeReport(storage.Row{Key: rows[i], Data: []byte(rows[i+1])}); err == nil {
			all = append(all, p)
		}
	}
	return withoutCovered(all)
}
