package wire

import (
	"fmt"
	"reflect"
	"slices"
)

// A Codec turns envelopes into messages of the types that are registered for their kinds. The zero value knows no kind.
// Don't register while it decodes.
type Codec struct {
	kinds map[Kind]decoder
}

type decoder struct {
	message reflect.Type
	current Kind // the kind after all upgrades
	decode  func([]byte) (any, error)
	lift    func(any) any // from this kind's type to the current one
}

// Register registers a type of message for its kind. Registering the same type again is harmless; one kind can't have
// two types.
func Register[M Message](c *Codec) error { return RegisterAs[M](c, KindOf[M]()) }

// RegisterAs registers a type of message for a kind. A type whose Kind depends on its value may have several.
func RegisterAs[M Message](c *Codec, k Kind) error {
	t := reflect.TypeFor[M]()
	if err := k.Check(); err != nil {
		return fmt.Errorf("channel: %w", err)
	}
	if err := CheckType(k, t); err != nil {
		return fmt.Errorf("channel: %w", err)
	}
	if old, ok := c.kinds[k]; ok && (old.message != t || old.current != k) {
		return fmt.Errorf("channel: kind %s: can't register type %v: the kind is registered already, for type %v", k, t, old.message)
	}
	c.add(k, decoder{
		message: t,
		current: k,
		decode:  func(b []byte) (any, error) { return decodeBody[M](b) },
		lift:    func(m any) any { return m },
	})
	return nil
}

// Upgrade registers an older type of message for its kind. A message of that kind becomes the newer type when it is
// decoded. The newer type must be registered already, by Register or by another Upgrade.
func Upgrade[Old, New Message](c *Codec, f func(Old) New) error {
	from, to := KindOf[Old](), KindOf[New]()
	if err := from.Check(); err != nil {
		return fmt.Errorf("channel: %w", err)
	}
	if f == nil {
		return fmt.Errorf("channel: upgrade from %s to %s: the function is nil", from, to)
	}
	next, ok := c.kinds[to]
	if !ok {
		return fmt.Errorf("channel: upgrade from %s: register %s first", from, to)
	}
	if t := reflect.TypeFor[New](); next.message != t {
		return fmt.Errorf("channel: upgrade from %s to type %v: kind %s is registered for type %v", from, t, to, next.message)
	}
	if _, ok := c.kinds[from]; ok {
		return fmt.Errorf("channel: upgrade from %s: that kind is registered already", from)
	}
	if err := CheckType(from, reflect.TypeFor[Old]()); err != nil {
		return fmt.Errorf("channel: upgrade: %w", err)
	}
	lift := func(old any) any { return next.lift(f(old.(Old))) }
	c.add(from, decoder{message: reflect.TypeFor[Old](), current: next.current, lift: lift, decode: func(b []byte) (any, error) {
		old, err := decodeBody[Old](b)
		if err != nil {
			return nil, err
		}
		return lift(old), nil
	}})
	return nil
}

func (c *Codec) add(k Kind, d decoder) {
	if c.kinds == nil {
		c.kinds = map[Kind]decoder{}
	}
	c.kinds[k] = d
}

// Current returns the kind that messages of kind k become. That is k itself unless an upgrade from k is registered.
func (c *Codec) Current(k Kind) (Kind, bool) {
	d, ok := c.kinds[k]
	return d.current, ok
}

// Kinds returns the kinds that become kind k: that is k itself, and those with an upgrade to it. They are sorted.
func (c *Codec) Kinds(k Kind) (all []Kind) {
	for from, d := range c.kinds {
		if d.current == k {
			all = append(all, from)
		}
	}
	slices.Sort(all)
	return all
}

// Decode turns an envelope's data into its message. The error matches [ErrUnknownKind] or [ErrBody]. Decode
// ignores members that the type doesn't have, so that an older program reads the messages of a newer one.
func (c *Codec) Decode(e *Envelope) (any, error) {
	d, ok := c.kinds[e.Kind]
	if !ok {
		return nil, fmt.Errorf("%w %s", ErrUnknownKind, e.Kind)
	}
	m, err := d.decode(e.Data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.Kind, err)
	}
	return m, nil
}
