package azure

import (
	"testing"

	"github.com/millrace-go/millrace/storage/storagetest"
)

func TestHistories(t *testing.T) {
	t.Parallel()
	storagetest.RunHistories(t, storagetest.Driver(Open, testURL))
}
