package members_test

import (
	"errors"
	"testing"

	"github.com/millrace-go/millrace/coord/members"
	"github.com/millrace-go/millrace/storage"
)

func TestAStoreThatIsNilIsRefused(t *testing.T) {
	t.Parallel()
	for call, err := range withoutStore() {
		if !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", call, err)
		}
	}
}

func withoutStore() map[string]error {
	_, join := members.Join(nil, "a", members.Config{})
	return map[string]error{"Join": join}
}
