package storagetest

import (
	"context"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/driver"
)

// WithProps wraps a store with changed Props.
func WithProps(s *storage.Store, change func(p *storage.Props)) *storage.Store {
	p := s.Props()
	change(&p)
	return storage.New(otherProps{s.Driver(), p})
}

type otherProps struct {
	driver.Store
	props storage.Props
}

func (s otherProps) Props() storage.Props { return s.props }

// WithRings wraps a store so that its topics ring when the test sends to rings, and never otherwise. Publications
// are s's, if it rings.
func WithRings(s *storage.Store, rings chan struct{}) *storage.Store {
	return storage.New(rung{s.Driver(), rings})
}

type rung struct {
	driver.Store
	rings chan struct{}
}

func (s rung) Listener() driver.Listener         { return s }
func (s rung) Listen(string) driver.Subscription { return rungSubscription(s) }
func (s rung) Ring(string)                       {}

func (s rung) Subscribe(ctx context.Context, topic string, receiver driver.Receiver) (driver.Registration, error) {
	if l := s.Store.Listener(); l != nil {
		return l.Subscribe(ctx, topic, receiver)
	}
	return nil, storage.ErrUnsupported
}

func (s rung) Publish(ctx context.Context, topic string, data []byte, one bool) (int, error) {
	if l := s.Store.Listener(); l != nil {
		return l.Publish(ctx, topic, data, one)
	}
	return 0, storage.ErrUnsupported
}

type rungSubscription rung

func (s rungSubscription) Rings() <-chan struct{} { return s.rings }
func (s rungSubscription) Close()                 {}

func (s rungSubscription) Claim(int, time.Duration) (<-chan struct{}, func(context.Context) ([]driver.Delivery, time.Time)) {
	return nil, nil
}
