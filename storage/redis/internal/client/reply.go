package client

import "github.com/redis/rueidis"

// A Reply is what the server answers: nothing, a number, a text, or a list of replies. The zero Reply is nothing.
type Reply struct{ m rueidis.RedisMessage }

// IsNil reports that the reply is nothing.
func (r Reply) IsNil() bool { return r.m.IsNil() }

// Int returns a number, or 0.
func (r Reply) Int() int64 {
	n, err := r.m.AsInt64()
	if err != nil {
		return 0
	}
	return n
}

// Text returns a text, or "". It may hold any bytes.
func (r Reply) Text() string {
	s, err := r.m.ToString()
	if err != nil {
		return ""
	}
	return s
}

// List returns the replies in a list, or none.
func (r Reply) List() List {
	l, err := r.m.ToArray()
	if err != nil {
		return nil
	}
	return l
}

// A List is a reply that holds replies.
type List []rueidis.RedisMessage

// At returns the reply at a place. It is nothing where the list is shorter.
func (l List) At(i int) Reply {
	if i >= len(l) {
		return Reply{}
	}
	return Reply{l[i]}
}
