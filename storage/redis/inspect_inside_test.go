package redis

import (
	"strings"
	"testing"
	"time"
)

// Each fault of the files is told by its cause, and the cause that stops most is told alone.
func TestFaultOfFile(t *testing.T) {
	t.Parallel()
	const good = "aof_enabled:1\r\naof_last_write_status:ok\r\naof_last_bgrewrite_status:ok\r\nrdb_last_bgsave_status:ok\r\n"
	for _, c := range []struct {
		change, to string
		durable    bool
		want       string // "" is none
	}{
		{"", "", true, ""},
		{"write_status:ok", "write_status:err", true, "can't write its append-only file"},
		{"write_status:ok", "write_status:err", false, "can't write its append-only file"},
		{"enabled:1", "enabled:0", true, "no append-only file"},
		{"enabled:1", "enabled:0", false, ""},
		{"bgsave_status:ok", "bgsave_status:err", true, "last snapshot failed"},
		{"rewrite_status:ok", "rewrite_status:err", true, "can't rewrite its append-only file"},
		{"status:ok", "status:err", true, "can't write its append-only file"},
	} {
		f := faultOfFile(readInfo(strings.ReplaceAll(good, c.change, c.to)), c.durable)
		if (f == nil) != (c.want == "") || f != nil && !strings.Contains(f.Text, c.want) {
			t.Errorf("%s, durable %v: got %+v, want %q", c.to, c.durable, f, c.want)
		}
	}
}

// A loss is a fault for a day, good to know for a month, and then past.
func TestFaultOfLoss(t *testing.T) {
	t.Parallel()
	for age, want := range map[time.Duration]string{time.Minute: "wrong", 25 * time.Hour: "note", 31 * 24 * time.Hour: "none"} {
		got := "none"
		if f := faultOfLoss(7, time.Now().Add(-age), age); f != nil {
			got = map[bool]string{false: "wrong", true: "note"}[f.Note]
		}
		if got != want {
			t.Errorf("after %v: got %s, want %s", age, got, want)
		}
	}
	if f := faultOfLoss(0, time.Time{}, time.Since(time.Time{})); f != nil {
		t.Errorf("without a loss: got %+v", f)
	}
}
