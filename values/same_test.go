package values_test

import (
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/values"
)

// Two collections are the same if they keep the same documents in the same way.
func TestSameAs(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, worldtest.Virtual)
	c, elsewhere := worldtest.New(t, s, worldtest.Config{}).Channels, worldtest.New(t, s, worldtest.Config{}).Channels
	seats := func(n int) func(string) int { return func(string) int { return n } }
	dated := func(n int) func(string) int {
		return func(key string) int {
			if _, err := time.Parse(time.DateOnly, key); err != nil {
				panic("not a date")
			}
			return n
		}
	}
	of := func(cfg values.Config[int]) *values.Collection[int] { return values.New(c, "seats", cfg) }
	plain := of(values.Config[int]{})
	for name, test := range map[string]struct {
		a     *values.Collection[int]
		b     any
		fault string // "" for none
	}{
		"itself":                {plain, plain, ""},
		"defaults":              {plain, of(values.Config[int]{}), ""},
		"a default by its name": {plain, of(values.Config[int]{Window: 32}), ""},
		"one function":          {of(values.Config[int]{Initial: seats(10)}), of(values.Config[int]{Initial: seats(10)}), ""},
		"one function of dates": {of(values.Config[int]{Initial: dated(10)}), of(values.Config[int]{Initial: dated(10)}), ""},
		"a number":              {plain, of(values.Config[int]{Window: 16}), "Config.Window differ: 16 and 32"},
		"a time":                {plain, of(values.Config[int]{Retention: time.Hour}), "Config.Retention"},
		"a function or none":    {plain, of(values.Config[int]{Initial: seats(10)}), "Config.Initial"},
		"two functions":         {of(values.Config[int]{Initial: seats(10)}), of(values.Config[int]{Initial: dated(10)}), "Config.Initial"},
		"what a function holds": {of(values.Config[int]{Initial: seats(10)}), of(values.Config[int]{Initial: seats(20)}), "Config.Initial"},
		"for dates only":        {of(values.Config[int]{Initial: dated(10)}), of(values.Config[int]{Initial: dated(20)}), "Config.Initial"},
		"types":                 {plain, values.New(c, "seats", values.Config[string]{}), "types"},
		"channels":              {plain, values.New(elsewhere, "seats", values.Config[int]{}), "channels"},
		"names":                 {plain, values.New(c, "tables", values.Config[int]{}), "two names"},
		"no collection":         {plain, 1, "types"},
	} {
		err := test.a.SameAs(test.b)
		if (err == nil) != (test.fault == "") || err != nil && !strings.Contains(err.Error(), test.fault) {
			t.Errorf("%s: got %v, want %q", name, err, test.fault)
		}
	}
}
