package flow

import "github.com/go-json-experiment/json/jsontext"

// kind is what a step does. Kinds know neither each other, nor what follows when a step ends. A kind embeds baseStep
// for all that it does as most kinds do.
type kind interface {
	begin()                       // the step, which is open now, begins
	done(m Done)                  // an agent, an item or a part of the step says how it has ended
	late(why string)              // the step's time is over
	cancel()                      // the scope of the open step ends
	undo()                        // what the step has done is to be taken back
	waitOn()                      // an operator gives the step more time: nobody knows what it has done until now, so its key stays
	deny(why string)              // an operator says that the attempt of unknown outcome has not done anything
	skip(result jsontext.Value)   // an operator lets the step count as done, with a result or without
	retake(result jsontext.Value) // an operator has the result taken that could not be taken
}

// kind returns what the step does.
func (s step) kind() kind {
	base := baseStep{s}
	switch s.n.Verb {
	case Do:
		return agentStep{base}
	case Ask:
		return askStep{base}
	case Wait:
		return waitStep{base}
	case Sleep:
		return sleepStep{base}
	case Then:
		return thenStep{base}
	case Pivot:
		return pivotStep{base}
	case If:
		return ifStep{branchStep{base}}
	case Each, Split:
		return fanStep{base}
	case Child:
		return childStep{base}
	default: // All, Any
		return branchStep{base}
	}
}
