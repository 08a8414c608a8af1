package boot

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/millrace-go/millrace/internal/contain"
)

// A Part is something long-lived in a program.
type Part struct {
	Name string

	// Run works until ctx ends, and then stops in order and returns. An error at any time stops the program. The error
	// that ended ctx is none then.
	Run func(ctx context.Context) error
}

// Run runs parts together until ctx ends or one of them does. Then it stops them in the order given, each after the one
// before has ended, and returns the first error. A part that ends before its stop is an error, and so is one that ends
// its goroutine by runtime.Goexit. A panic ends the process.
func Run(ctx context.Context, parts ...Part) error {
	g, stopping := errgroup.WithContext(ctx)
	ended := make([]chan struct{}, len(parts))
	for i := range parts {
		ended[i] = make(chan struct{})
	}
	for i, p := range parts {
		// own isn't a child of ctx: it ends when it is this part's turn.
		own, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
		g.Go(func() error {
			defer close(ended[i])
			defer cancel(nil)
			err := p.run(own)
			switch {
			case StoppedBy(own, err):
				return nil
			case err != nil:
				return of(p.Name, err)
			case stopping.Err() == nil:
				return fmt.Errorf("%s ended before it was stopped", p.Name)
			}
			return nil
		})
		go func() {
			select {
			case <-stopping.Done():
			case <-ended[i]:
				return
			}
			for _, before := range ended[:i] {
				<-before
			}
			cancel(context.Cause(stopping))
		}()
	}
	return g.Wait()
}

// run is Run on a goroutine of its own, which may end without returning.
func (p Part) run(ctx context.Context) error {
	ended := make(chan error, 1)
	go func() {
		returned := false
		defer func() {
			if returned {
				return
			}
			if exit := contain.Caught(nil); exit.Exited { // otherwise the panic goes on, because nobody recovers from it
				ended <- exit
			}
		}()
		err := p.Run(ctx)
		returned = true
		ended <- err
	}()
	return <-ended
}
