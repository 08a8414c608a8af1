package poisoned

import (
	"encoding/json"
	"strings"

	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/internal/known"
	"github.com/millrace-go/millrace/poison"
)

// checkContent refuses a search in content by somebody who may not see the content: an answer tells of it.
func (in *Selection) checkContent(c *act.Call) error {
	switch {
	case in.Text == "" && in.Data == "":
		return nil
	case !c.Revealed():
		return act.Usage("who looks for content learns of it: add --reveal and --why TEXT")
	case in.Data != "" && !strings.Contains(in.Data, "="):
		return act.UsageOf("data", `want PATH=VALUE, such as guest.name=Ada`)
	}
	return nil
}

// has reports that an entry has the content that is looked for. A secret is in no content, and neither is a body that
// lies beside its message.
func (in *Selection) has(k *known.Programs, m poison.Entry) bool {
	if in.Text == "" && in.Data == "" {
		return true
	}
	e, err := wire.Decode(m.Body)
	if err != nil {
		return in.Data == "" && strings.Contains(m.Error, in.Text)
	}
	data := k.Bodies(e.Kind).Open(e.Data)
	if in.Text != "" && !strings.Contains(string(data), in.Text) && !strings.Contains(m.Error, in.Text) {
		return false
	}
	path, value, wanted := strings.Cut(in.Data, "=")
	return !wanted || memberIs(data, strings.Split(path, "."), value)
}

// memberIs reports that a member of JSON has a value: as text, or as JSON has it. A list has the members of each item.
func memberIs(data json.RawMessage, path []string, value string) bool {
	var list []json.RawMessage
	if json.Unmarshal(data, &list) == nil && list != nil {
		for _, x := range list {
			if memberIs(x, path, value) {
				return true
			}
		}
		return false
	}
	if len(path) == 0 {
		var text string
		if json.Unmarshal(data, &text) == nil && strings.HasPrefix(strings.TrimSpace(string(data)), `"`) {
			return text == value
		}
		return strings.TrimSpace(string(data)) == value
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(data, &members) != nil {
		return false
	}
	x, ok := members[path[0]]
	return ok && memberIs(x, path[1:], value)
}
