package ops

import (
	"cmp"
	"net/url"
	"strconv"
	"time"

	"github.com/millrace-go/millrace/ops/act"
)

// A request of a page is bounded. A command line may ask for more, because its person waits for it alone.
const (
	mostListed = mostRows         // things in a list
	mostWait   = 30 * time.Second // for an answer of programs. A connection ends after a minute
)

// bound refuses a request that asks for more than a page can bear, and lowers the defaults of fields to the bounds.
func bound(q *act.Request, values url.Values) error {
	if f := q.Field("limit"); f != nil {
		n, err := strconv.Atoi(cmp.Or(values.Get("limit"), f.Default, "0"))
		switch {
		case err != nil || 0 < n && n <= mostListed:
		case values.Get("limit") == "": // 0 is all that there are
			return f.Set(strconv.Itoa(mostListed))
		default:
			return act.UsageOf("limit", "want %d at most; a command line lists more", mostListed)
		}
	}
	if f := q.Field("wait"); f != nil {
		d, err := time.ParseDuration(cmp.Or(values.Get("wait"), f.Default))
		switch {
		case err != nil || d <= mostWait:
		case values.Get("wait") == "":
			return f.Set(mostWait.String())
		default:
			return act.UsageOf("wait", "want %v at most; a command line waits for longer", mostWait)
		}
	}
	return nil
}
