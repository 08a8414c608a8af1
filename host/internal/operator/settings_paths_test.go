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
		contains(t, "doctor", out, text, "millrace settings back --of fleet takes it back.")
		if _, err := settings.Open(t.Context(), x.Store, "fleet", fleet{}, settings.Config{}); err == nil || !strings.Contains(err.Error(), `"settings back --of fleet"`) {
			t.Errorf("a program that can't run it: got %v", err)
		}
		x.want(t, 0, "", "settings", "back")
		if _, out, _ = x.do(t, "", "doctor"); strings.Contains(out, "forced") {
			t.Errorf("after going back: %s", out)
		}
	})
}

// A misspelt -of with -force can be undone: once its values are back at the defaults, the name stands in nobody's way.
func TestSettingsUnderAMisspeltNameCanBeTakenBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := newStranger(t, worldtest.OpenStore(t, worldtest.Virtual))
		n := openHall(t, x.Store, "hall", "a")
		x.want(t, 0, "", "settings", "set", "-of", "hall", "seats=50")
		x.want(t, 0, "", "settings", "set", "-of", "halll", "seats=60", "-force")
		contains(t, "two", x.want(t, 2, "", "settings", "show"), "there are several settings: add --of with one of hall, halll")
		x.want(t, 0, "", "settings", "back", "-of", "halll")
		contains(t, "taken back", x.want(t, 0, "", "settings", "set", "seats=70"), "Settings hall: version 2 is in force.")
		contains(t, "its history", x.want(t, 0, "", "settings", "history", "-of", "halll"), "back to 0, seats 60→default")

		x.want(t, 0, "", "settings", "set", "-default", "seats")
		contains(t, "a program has it", x.want(t, 0, "", "settings", "show"), "Settings hall, version 3")
		if err := n.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		contains(t, "no program has either", x.want(t, 2, "", "settings", "show"), "add --of with one of hall, halll")
		putBlob(t, x.Store, "settings", "halll/current", "junk")
		contains(t, "a damaged one counts", x.want(t, 1, "", "settings", "show"), "halll/current")
		x.want(t, 0, "", "settings", "back", "-to", "1")
		contains(t, "repaired", x.want(t, 0, "", "settings", "show"), "Settings halll, version 3", `"seats": 60`)
	})
}
