package ops

import (
	"fmt"
	"html/template"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/ops/acts"
)

// A picture of rates ends with what workers have published: a slot that has just begun is no outage. Where workers have
// stopped, it goes down to 0. Its axis has no time to come.
func TestAPictureEndsWithWhatIsPublished(t *testing.T) {
	t.Parallel()
	since := time.Date(2026, 1, 2, 0, 10, 0, 0, time.UTC)
	now := since.Add(24*time.Hour - 30*time.Second)
	r := acts.Rates{Since: since, Until: now.Add(-15 * time.Second)}
	for at := since; at.Before(now); at = at.Add(10 * time.Minute) {
		out := 600.0
		if now.Sub(at) < 10*time.Minute {
			out = 570 - 15
		}
		r.Slots = append(r.Slots, acts.Slot{Begin: at, Out: out})
	}
	const flat, fall = 55.6, 350
	wantEnds(t, "while workers publish", drawRates(r, now), flat)
	r.Until, r.Slots = now.Add(-30*time.Second), r.Slots[:len(r.Slots)-1]
	at := since.Add(23*time.Hour + 50*time.Minute + 20*time.Second) // a slot has begun of which nobody has told
	r.Until = at.Add(-25 * time.Second)
	wantEnds(t, "when a slot has begun", drawRates(r, at), flat)
	wantEnds(t, "when nobody publishes any more", drawRates(r, at.Add(8*time.Minute)), fall)
	body := string(drawRates(r, at))
	for _, label := range regexp.MustCompile(`>(\d\d:\d\d)</text>`).FindAllStringSubmatch(body, -1) {
		if label[1] == "00:10" && strings.Count(body, ">00:10<") > 2 {
			t.Error("the axis goes on where the day ends")
		}
	}
	if !strings.Contains(body, `class="small"`) || !strings.Contains(body, `viewBox="0 0 360 `) {
		t.Error("there is no picture for a phone")
	}
}

// wantEnds checks the height of the last point of the first line.
func wantEnds(t *testing.T, what string, picture template.HTML, want float64) {
	t.Helper()
	lines := regexp.MustCompile(`<path d="M70\.0 [^"]*?([\d.]+)L[\d.]+ ([\d.]+)" fill="none"`).FindStringSubmatch(string(picture))
	if lines == nil {
		t.Fatalf("%s: there is no line", what)
	}
	height := 0.0
	if _, err := fmt.Sscan(lines[2], &height); err != nil || height < want-10 || height > want+10 {
		t.Errorf("%s: the line ends at %v (%v), want about %v", what, height, err, want)
	}
}
