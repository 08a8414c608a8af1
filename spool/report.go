package spool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage"
)

// reports is the table of reports, and the one partition of it.
const reports = "spools"

const (
	reportEvery = time.Minute
	mostReason  = 300 // bytes
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

// report publishes what is wrong although the store is there, at most once a minute, and removes the report when
// nothing is. A failure to do so is made good later, or at the next start.
func (s *forwarder) report(ctx context.Context) {
	st, fault := s.State(), ""
	if st.Failed != nil {
		fault = shorten(st.Failed.Error())
	}
	clear := st.Waiting == 0 && st.Refused == 0 && fault == ""
	if !st.Away.IsZero() || clear && !s.mayReport || !clear && fault == s.fault && time.Since(s.reported) < reportEvery {
		return
	}
	limited, cancel := storecall.Limit(ctx, storeTime)
	defer cancel()
	host, err := os.Hostname()
	if err != nil {
		host = "?"
	}
	digest := sha256.Sum256([]byte(host + "\x00" + s.path))
	table, key := s.channels.Store().Table(reports), hex.EncodeToString(digest[:16])
	if clear {
		if err := table.Delete(limited, reports, key, storage.Condition{}); err == nil || errors.Is(err, storage.ErrNotFound) {
			s.mayReport, s.fault = false, ""
		}
		return
	}
	r := Report{Program: s.outbox.Source, Host: host, File: s.path, Waiting: st.Waiting, Oldest: st.Oldest, Refused: st.Refused, Reason: shorten(st.Reason), Fault: fault, At: time.Now()}
	data, err := json.Marshal(r)
	if err == nil {
		_, err = table.Put(limited, reports, key, data, storage.Condition{})
	}
	s.mayReport = true
	if err != nil { // the next pass tries again: the store may be about to come back
		s.cfg.Logger.DebugContext(ctx, "the state of the spool can't be published", "spool", s.path, "error", err)
		return
	}
	s.reported, s.fault = time.Now(), fault
}

func shorten(reason string) string {
	if len(reason) > mostReason {
		reason = strings.ToValidUTF8(reason[:mostReason], "") + "…"
	}
	return reason
}
