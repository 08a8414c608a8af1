package guard

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/millrace-go/millrace/internal/contain"
)

// panicked returns the error of a call that has panicked or has ended its goroutine. A panic that ends here is logged.
func panicked(ctx context.Context, g *Guard, m message, p *contain.Panic) error {
	if m.Handling == nil || p.Exited {
		return p
	}
	err := fmt.Errorf("the guarded call: %w", p)
	g.logger().LogAttrs(ctx, slog.LevelError, "a guarded call panics", slog.String("guard", g.name), slog.Any("error", err), slog.String("stack", contain.Stack(p.Frames)))
	return err
}

// judgePanic says what a call means that hasn't returned. unsure says that nobody may make a call again that had no
// answer: a call whose answer is missing often panics.
func judgePanic(ctx, within context.Context, sent *exchanges, unsure bool) Fault {
	cutOff := ctx.Err() != nil
	switch {
	case sent.mayBeDone(), unsure && within.Err() != nil: // as for the error that it may have passed over
		return Fault{Kind: Unknown, cutOff: cutOff}
	case cutOff:
		return Fault{Kind: Mine}
	}
	return Fault{Kind: Transient, NotInPlace: true}
}

// judge says what the error of a call means. asking says that it is the error of Verify, which may be asked again.
func (g *Guard) judge(ctx context.Context, err error, asking bool) Fault {
	switch {
	case err == nil:
		return Fault{Kind: Done}
	case isVerdict(err):
		return Fault{Kind: Mine, decided: true}
	case ctx.Err() != nil:
		return judgeCutOff(&g.cfg, err, asking)
	}
	fault := g.cfg.fault(err)
	switch {
	case fault.Kind <= Done || fault.Kind > Mine:
		fault.Kind, fault.NotInPlace = Transient, true
	case asking && (fault.Kind == Unknown || fault.Kind == Permanent): // a question that is refused says nothing of the call
		fault.Kind = Transient
	}
	fault.After = min(max(0, fault.After), longestWait)
	return fault
}

// fault is Fault, or the default's judgement where the program's own doesn't return.
func (c *Config) fault(err error) (f Fault) {
	if contain.Apart(func() error { f = c.Fault(err); return nil }) != nil {
		f = Usual(err)
	}
	return f
}

// judgeCutOff says what the error of a call means whose handler was told to end. The service isn't to blame. But it may
// have done a call that it was sent, and nobody may guess that it hasn't.
func judgeCutOff(c *Config, err error, asking bool) Fault {
	if asking || c.Repeatable || c.Verify != nil || c.fault(cutOff{err}).Kind != Unknown {
		return Fault{Kind: Mine}
	}
	return Fault{Kind: Unknown, cutOff: true}
}

// leavesUnsure reports that nobody may make a call again that was given up without an answer.
func leavesUnsure(c *Config) bool {
	return judgeCutOff(c, context.DeadlineExceeded, false).Kind == Unknown
}

// cutOff is the error of a call whose handler was told to end. Like one whose time ran out, it may have been done.
type cutOff struct{ error }

func (e cutOff) Unwrap() error { return e.error }

func (cutOff) Is(target error) bool { return target == context.DeadlineExceeded }
