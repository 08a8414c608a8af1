package settings_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/settings"
	"github.com/millrace-go/millrace/storage"
)

// names are those of the live nodes.
func names(t *testing.T, s *storage.Store) (all []string) {
	t.Helper()
	nodes, err := ledger(t, s).Nodes(t.Context())
	must(t, err)
	for _, n := range nodes {
		all = append(all, n.Name)
	}
	return all
}

// An operator can tell two nodes of one name apart: in the list of nodes, and in the reason why a change was refused.
func TestNodesOfOneNameAreToldApart(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		a, b := node(t, s, settings.Config{Name: "shop"}), node(t, s, settings.Config{Name: "shop"})
		node(t, s, settings.Config{Name: "other"})
		b.Changing(func(context.Context, shop, shop) error { return errors.New("no room") })
		before := names(t, s)
		if len(before) != 3 || before[0] != "other" || before[1] == before[2] || !strings.HasPrefix(before[1], "shop/") || !strings.HasPrefix(before[2], "shop/") {
			t.Fatalf("got nodes %q; want two that begin with shop/, and other", before)
		}
		_, err := a.Propose(t.Context(), ada, seats(60))
		wantErr(t, err, settings.ErrRefused, ": this program: no room")
		refused := current(t, s).Ended[0].Reasons
		if len(refused) != 1 || refused[0].Node != before[1] && refused[0].Node != before[2] {
			t.Errorf("got reasons %+v; want one of %q", refused, before)
		}
		must(t, b.Close(t.Context()))
		after := names(t, s)
		if len(after) != 2 || after[1] != "shop" {
			t.Errorf("got nodes %q; want other and shop, which is one of its name", after)
		}
	})
}

// The name of a node that has none says which process it is.
func TestANodeWithoutANameIsNamedByItsProcess(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		n, err := settings.Open(t.Context(), s, name, defaults(), settings.Config{})
		must(t, err)
		defer func() { must(t, n.Close(t.Context())) }()
		if got := names(t, s); len(got) != 1 || !strings.HasSuffix(got[0], fmt.Sprintf("-%d", os.Getpid())) {
			t.Errorf("got names %q; want one with this process's ID", got)
		}
	})
}
