package app

import (
	"strings"
	"testing"
)

func TestLiveCheck(t *testing.T) {
	t.Parallel()
	if err := (Live{PerAddress: maxPerDoor}).Check(); err != nil {
		t.Error(err)
	}
	err := Live{PerAddress: maxPerDoor + 1, PerMail: -5}.Check()
	for _, want := range []string{"perAddress is 1000001; want 1 to 1000000, or 0 for no limit", "perMail is -5"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
