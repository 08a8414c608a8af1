package spool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"time"

	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage"
)

// reports is the table of reports, and the one partition of it.
const reports = "spools"

const (
	reportEvery = time.Minute
	mostReports = 1000
)

// A Report is what a program tells in the store about messages in its spool that the store, which is there, does not
// take, and about a file that has failed. While the store is away nobody can tell or read it; look at the file then, by
// [Look].
type Report struct {
	Program string    `json:"program"` // the source of its messages
	Host    string    `json:"host"`
	File    string    `json:"file"`
	Waiting int64     `json:"waiting,omitempty"` // as in State
	Oldest  time.Time `json:"oldest,omitzero"`
	Refused int64     `json:"refused,omitempty"`
	Reason  string    `json:"reason,omitempty"`
	Fault   string    `json:"fault,omitempty"` // why the spool takes nothing
	At      time.Time `json:"at"`              // by the program's clock
}

// Reports returns the reports in a store. A report that can't be read is left out.
func Reports(ctx context.Context, store *storage.Store) (all []Report, err error) {
	for row, err := range store.Table(reports).Query(ctx, reports, storage.RowRange{Limit: mostReports}) {
		if err != nil {
			return nil, err
		}
		var r Report
		if json.Unmarshal(row.Data, &r) == nil {
			all = append(all, r)
		}
	}
	return all, nil
}

// A reporter publishes the report of one spool.
type reporter struct {
	table               *storage.Table
	key                 string
	program, host, path string
	log                 *slog.Logger

	reported  time.Time // when a report was published last
	fault     string    // in it
	mayReport bool      // there may be a report
}

func newReporter(table *storage.Table, program, path string, log *slog.Logger) *reporter {
	host, err := os.Hostname()
	if err != nil {
		host = "?"
	}
	digest := sha256.Sum256([]byte(host + "\x00" + path))
	return &reporter{table: table, key: hex.EncodeToString(digest[:16]), program: program, host: host, path: path, log: log, mayReport: true}
}

// publish publishes what is wrong although the store is there, at most once a minute, and removes the report when
// nothing is. A failure to do so is made good later, or at the next start.
func (r *reporter) publish(ctx context.Context, st State) {
	fault := ""
	if st.Failed != nil {
		fault = shorten(st.Failed.Error())
	}
	clear := st.Waiting == 0 && st.Refused == 0 && fault == ""
	if !st.Away.IsZero() || clear && !r.mayReport || !clear && fault == r.fault && time.Since(r.reported) < reportEvery {
		return
	}
	limited, cancel := storecall.Limit(ctx, storeTime)
	defer cancel()
	if clear {
		if err := r.table.Delete(limited, reports, r.key, storage.Condition{}); err == nil || errors.Is(err, storage.ErrNotFound) {
			r.mayReport, r.fault = false, ""
		}
		return
	}
	data, err := json.Marshal(Report{
		Program: r.program, Host: r.host, File: r.path, Waiting: st.Waiting, Oldest: st.Oldest,
		Refused: st.Refused, Reason: shorten(st.Reason), Fault: fault, At: time.Now(),
	})
	if err == nil {
		_, err = r.table.Put(limited, reports, r.key, data, storage.Condition{})
	}
	r.mayReport = true
	if err != nil { // the next pass tries again: the store may be about to come back
		r.log.DebugContext(ctx, "the state of the spool can't be published", "error", err)
		return
	}
	r.reported, r.fault = time.Now(), fault
}
