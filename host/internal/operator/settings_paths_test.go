package operator

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/settings"
)

// fleet is settings with names of the user's own, such as those of hosts.
type fleet struct {
	Rates map[string]struct {
		Most int `json:"most"`
	} `json:"rates,omitempty"`
}

// A name with a dot in it stands in quotes, in every verb.
func TestSettingsWhoseNamesHaveDots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := newStranger(t, worldtest.OpenStore(t, worldtest.Virtual))
		n, err := settings.Open(t.Context(), x.Store, "fleet", fleet{}, settings.Config{Name: "a"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = n.Close(context.WithoutCancel(t.Context())) })
		const path = `rates."api.example.com".most`
		x.want(t, 0, "", "settings", "set", "-of", "fleet", path+"=80")
		worldtest.Want(t, "in force", n.Now().Rates["api.example.com"].Most, 80)
		contains(t, "history", x.want(t, 0, "", "settings", "history"), path+" default→80")
		contains(t, "wrong type", x.want(t, 1, "", "settings", "set", path+"=many"), path+": want a whole number")
		contains(t, "no name", x.want(t, 1, "", "settings", "set", `rates."api.example.com.most=1`), "a name with a dot is in quotes")
		contains(t, "unset", x.want(t, 0, "", "settings", "set", "-default", path), "is in force")
		worldtest.Want(t, "rates", len(n.Now().Rates), 0)
		if _, _, told := x.do(t, "", "settings", "set", "-default", "rates.api.example.com.most"); told == "" {
			t.Error("no note of a path that no program has")
		}
	})
}

// Doctor tells of a change that was forced and that no program has run.
func TestDoctorFindsForcedSettings(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := newStranger(t, worldtest.OpenStore(t, worldtest.Virtual))
		x.want(t, 0, "", "settings", "set", "-of", "fleet", "rates=7", "-force")
		const text = "NOTE version 1 of settings fleet was forced 0s ago, and no program that runs has it A program that can't run it doesn't start"
		_, out, _ := x.do(t, "", "doctor")
		contains(t, "doctor", out, text, "millrace settings back -of fleet takes it back.")
		if _, err := settings.Open(t.Context(), x.Store, "fleet", fleet{}, settings.Config{}); err == nil || !strings.Contains(err.Error(), "millrace settings back") {
			t.Errorf("a program that can't run it: got %v", err)
		}
		x.want(t, 0, "", "settings", "back")
		if _, out, _ = x.do(t, "", "doctor"); strings.Contains(out, "forced") {
			t.Errorf("after going back: %s", out)
		}
	})
}
