package operator

import (
	"context"
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
		contains(t, "wrong type", x.want(t, 1, "", "settings", "set", path+"=many"), "member "+path+" can't be decoded into int")
		contains(t, "no name", x.want(t, 1, "", "settings", "set", `rates."api.example.com.most=1`), "a name with a dot is in quotes")
		contains(t, "unset", x.want(t, 0, "", "settings", "set", "-default", path), "is in force")
		worldtest.Want(t, "rates", len(n.Now().Rates), 0)
		if _, _, told := x.do(t, "", "settings", "set", "-default", "rates.api.example.com.most"); told == "" {
			t.Error("no note of a path that no program has")
		}
	})
}
