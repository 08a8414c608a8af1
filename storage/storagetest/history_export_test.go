package storagetest

import (
	"context"

	"github.com/millrace-go/millrace/storage"
)

// PlayHistory plays one history of RunHistories and returns what is wrong with it. So a test can demand a failure.
func PlayHistory(ctx context.Context, kind string, stores []*storage.Store, seed uint64, folder string) error {
	return plays()[kind](ctx, stores, seed, folder)
}
