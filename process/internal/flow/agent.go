package flow

// agentStep is a step that an agent does.
type agentStep struct{ baseStep }

func (k agentStep) begin() {
	k.s.ev.Attempt++
	k.s.sendBegin(k.s.beginMessage(), 0)
}

func (k agentStep) cancel() { k.cancelAtWork() }

func (k agentStep) waitOn() {
	k.s.reopen()
	k.begin()
}
