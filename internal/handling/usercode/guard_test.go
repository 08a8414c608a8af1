package usercode_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/internal/handling/usercode"
	"github.com/millrace-go/millrace/internal/handling/verdict"
)

// A call under Guard that hangs is given up, and its result is not used when it comes after all.
func TestGuardGivesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var used []int
		failed := map[int]error{}
		began := time.Now()
		usercode.Guard("what hangs", 4, func(i int) int {
			if i == 2 {
				<-release
			}
			return 10 * i
		}, func(i, result int) { used = append(used, i, result) }, func(i int, err error) { failed[i] = err })
		if took := time.Since(began); took < 20*time.Second || took > 30*time.Second {
			t.Errorf("it took %v, want 20 to 30 s", took)
		}
		hang, ok := failed[2].(*verdict.HangError)
		if !ok || !strings.Contains(hang.Error(), "what hangs hangs") || !strings.Contains(hang.Stack, "TestGuardGivesUp") {
			t.Fatalf("got error %v with %+v, want a hang with its stack", failed[2], hang)
		}
		if v := verdict.Judge(failed[3]); len(failed) != 2 || v.Action != verdict.HandBack {
			t.Errorf("got errors %v, want that the call behind the hang hands its message back", failed)
		}
		close(release)
		<-hang.Ended
		if want := []int{0, 0, 1, 10}; !slices.Equal(used, want) {
			t.Errorf("got results %v used, want %v", used, want)
		}
	})
}
