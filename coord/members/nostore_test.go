package members_test

import (
	"testing"

	"github.com/millrace-go/millrace/coord/members"
	"github.com/millrace-go/millrace/internal/agreetest"
)

func TestAStoreThatIsNilIsRefused(t *testing.T) {
	t.Parallel()
	agreetest.Refused(t, withoutStore())
}

func withoutStore() map[string]error {
	_, join := members.Join(nil, "a", members.Config{})
	return map[string]error{"Join": join}
}
