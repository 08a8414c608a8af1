package doctor

import (
	"fmt"

	"github.com/millrace-go/millrace/ops/act"
)

// mended says what to do about a finding. A hint among the arguments stands in the text as its command line, and is one
// of the finding's acts.
func (f Finding) mended(desk *act.Desk, format string, args ...any) Finding {
	for i, x := range args {
		if h, ok := x.(act.Hint); ok {
			args[i] = h.Line(desk.Command)
			f.Acts = append(f.Acts, h)
		}
	}
	f.Fix = fmt.Sprintf(format, args...)
	return f
}

// and adds an act that helps, of which the text tells without a command line.
func (f Finding) and(h act.Hint) Finding {
	f.Acts = append(f.Acts, h)
	return f
}
