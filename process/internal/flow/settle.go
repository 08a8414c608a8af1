package flow

// settler ends a fold.
type settler struct{ fold *fold }

// settle sets the status, makes room in the document, sees to the next alarm, and says what the program, the parent,
// the index and the trail are to know.
func (s settler) settle() {
	d, a := s.fold.doc, announcer(s)
	if now := d.status(); now != d.Status {
		d.Status, s.fold.moved = now, true
		a.tellProgram()
	}
	s.compact()
	shelf(s).put()
	alarms(s).arm()
	a.tellStuck()
	a.tellIndex()
}

// compact shrinks steps that have ended, and sends the oldest of many to the trail.
func (s settler) compact() {
	d, t := s.fold.doc, tree{s.fold.plan, s.fold.doc}
	small := 0
	for _, ev := range d.Events {
		if t.needed(ev) {
			continue
		}
		small++
		if f := ev.Fan; f != nil {
			f.letGo()
		}
	}
	most := s.fold.plan.whole.bounds.lines
	if small <= most {
		return
	}
	kept := make([]*Event, 0, len(d.Events))
	for _, ev := range d.Events {
		if small > most/2 && !t.needed(ev) && !t.hears(ev) {
			s.fold.leave(ev)
			small--
			continue
		}
		kept = append(kept, ev)
	}
	d.Events = kept
}
