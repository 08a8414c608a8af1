package settings_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/settings"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/driver"
)

// A newerStore is a store behind a newer release, which adds members to each object that it writes of its own.
type newerStore struct {
	driver.Store
	added *atomic.Int64
}

func (s newerStore) Blobs(container string) driver.Blobs {
	return newerBlobs{s.Store.Blobs(container), s}
}

func (s newerStore) Table(name string) driver.Table { return newerTable{s.Store.Table(name), s} }

type newerBlobs struct {
	driver.Blobs
	newerStore
}

func (b newerBlobs) Put(ctx context.Context, key string, body []byte, cond storage.Condition) (storage.ETag, error) {
	return b.Blobs.Put(ctx, key, b.newer(body), cond)
}

type newerTable struct {
	driver.Table
	newerStore
}

func (t newerTable) Put(ctx context.Context, partition, key string, data []byte, cond storage.Condition) (storage.ETag, error) {
	return t.Table.Put(ctx, partition, key, t.newer(data), cond)
}

// newer returns an object with more members. The values are the program's, not the release's.
func (s newerStore) newer(data []byte) []byte {
	var own map[string]json.RawMessage
	if json.Unmarshal(data, &own) != nil {
		panic("this is no object: " + string(data))
	}
	for _, name := range []string{"verdict", "health", "candidate", "roll"} {
		if below := own[name]; len(below) > 0 {
			own[name] = s.newer(below)
		}
	}
	own["newer"] = json.RawMessage(`{"epoch":[1]}`)
	s.added.Add(1)
	data, err := json.Marshal(own)
	if err != nil {
		panic(err)
	}
	return data
}

// Law: rows, versions and the document of a newer release are read without the members that this one doesn't know. So a
// change settles in a fleet of both, whoever proposes it, at once and in stages. A program refuses what it doesn't
// know of its own settings, as before.
func TestLawMembersOfANewerReleaseHoldUpNoChange(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		newer := newerStore{s.Driver(), new(atomic.Int64)}
		cfg := settings.Config{Name: "old", Stages: settings.InStages(time.Minute, 50, 100)}
		old := node(t, s, cfg)
		cfg.Name = "new"
		young := node(t, storage.New(newer), cfg)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		for i, by := range []*settings.Settings[shop]{young, old, young} {
			e, err := by.Propose(ctx, ada, seats(60+2*i))
			must(t, err)
			_, err = ledger(t, s).Await(ctx, e.Version)
			must(t, err)
			time.Sleep(2 * poll)
			wantSeats(t, 60+2*i, old, young)
		}
		nodes, err := ledger(t, s).Nodes(t.Context())
		if err != nil || len(nodes) != 2 || nodes[0].Name != "new" || nodes[1].Name != "old" {
			t.Errorf("got nodes %+v, %v", nodes, err)
		}
		for v, err := range ledger(t, s).History(t.Context()) {
			if err != nil || v.By != "ada" {
				t.Errorf("got version %+v, %v", v, err)
			}
		}
		if newer.added.Load() < 10 {
			t.Errorf("the newer release has written %d objects", newer.added.Load())
		}
		_, err = ledger(t, s).Set(ctx, ada, settings.Patch{Set: map[string]jsonText{"newer": jsonText("1")}})
		if wantErr(t, err, settings.ErrRefused); !strings.Contains(err.Error(), `"newer"`) {
			t.Errorf("got %v", err)
		}
	})
}
