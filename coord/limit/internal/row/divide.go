package row

// plan is what a write would make of the document.
type plan struct {
	doc    document
	row    row   // the member's
	use    int64 // in force when the write is acknowledged
	target int64
	fresh  bool // it is a renewal
	must   bool // the write is needed
}

// divide divides the number anew in a document without the dead, where a member's row stands as it is to be, except its
// share. use is what the member has in force. fresh says that a renewal is due.
func divide(d document, id string, use int64, fresh bool) plan {
	p := plan{doc: d, row: d.Members[id], target: d.targets()[id], fresh: fresh}
	free := d.limit() - d.given(id)
	p.use = min(p.target, max(use, free))
	if less := use - p.use; !fresh && use <= free && (less > 0 && !d.short(id, use) || !matters(max(less, -less), p.target)) {
		p.use = use // at the next renewal
	}
	return p
}

// hold writes the member's share in the plan: what is to be in force, and what calls under way still have of the share
// that was written before.
func (p *plan) hold(id string, underWay, before int64) {
	p.row.Share = max(p.use, min(underWay, before))
	p.doc.Members[id] = p.row
}
