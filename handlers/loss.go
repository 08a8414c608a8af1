package handlers

import (
	"log/slog"
	"reflect"

	"github.com/millrace-go/millrace/internal/jsonform"
)

// warnOfLoss logs, once for each type, the fields whose content is lost when it is encoded. The route or the collection
// refuses a type that can't be used at all.
func (r *Registry) warnOfLoss(t reflect.Type) {
	if t == nil || r.judged[t] {
		return
	}
	r.judged[t] = true
	if lost, err := jsonform.Check(t); err == nil && len(lost) > 0 {
		r.cfg.Logger.Warn("fields get lost when this type is encoded; export them, or leave them out by json:\"-\"",
			slog.String("type", t.String()), slog.Any("fields", lost))
	}
}
