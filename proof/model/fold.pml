/* How a message advances a document of process.pml: a pure function. n is the document, first before it and then after
   it. out is what the fold emits. Nothing of this lives longer than one step of a worker. */

hidden Doc n;
hidden int out;				/* what the fold emits */
hidden byte changed, any;
hidden byte s, a, o;			/* step, attempt and outcome */
hidden byte e;				/* the earliest deadline */

#define emit(m)		out = out | bit(m)
#define least(t)	if :: (t) < e -> e = (t) :: else fi

inline copy(to, from) {
	to.status = from.status; to.alarm = from.alarm; to.heard = from.heard;
	to.step[0] = from.step[0]; to.step[1] = from.step[1]; to.undo[0] = from.undo[0]; to.undo[1] = from.undo[1];
	to.first = from.first; to.halt = from.halt; to.wait = from.wait; to.signal = from.signal
}

inline earliest(k) {
	e = NEVER;
	if
	:: k == 0 -> least(stepBy(0)); least(stepBy(1)); least(waitBy); least(undoBy(0)); least(undoBy(1))
	:: k == 1 -> if :: n.status == GOING -> e = 1 + n.halt :: else fi
	fi
}

inline endStep(how) {
	n.step[s] = how; changed = 1;
	if :: n.step[1 - s] < OK -> n.first = s :: else fi
}

inline foldDone() {
	if
#ifdef BREAK_END_BY_ATTEMPT
	:: o == 0 && n.step[s] == a -> endStep(OK)
#elif !defined(BREAK_VOUCH_FOR_BEGUN)
	:: o == 0 && open(n.step[s]) -> endStep(OK)
#endif
#ifndef BREAK_LATE_SUCCESS_DROPPED
	:: o == 0 && n.step[s] == BAD && n.undo[s] == 0 && has(UNDOS, s) -> n.undo[s] = 2; emit(undo(s, 1)); changed = 1
#endif
#ifdef BREAK_LATE_UNDONE_TWICE
	:: o == 0 && n.step[s] == BAD && n.undo[s] == GONE && a == 2 -> n.undo[s] = 3; emit(undo(s, 2)); changed = 1
#endif
	:: o == 1 && n.step[s] == a && (a == TRIES || n.halt) -> endStep(BAD); n.halt = 1
	:: o == 1 && n.step[s] == a && a < TRIES && !n.halt -> n.step[s] = a + 1; emit(begin(s, a + 1)); changed = 1
	:: else
	fi
}

inline foldUndone() {
	if
	:: o == 0 && (undoing(n.undo[s]) || n.undo[s] == LOST) -> n.undo[s] = GONE; changed = 1
	:: o == 1 && n.undo[s] == a + 1 && a == TRIES -> n.undo[s] = LOST; changed = 1
	:: o == 1 && n.undo[s] == a + 1 && a < TRIES -> n.undo[s] = a + 2; emit(undo(s, a + 1)); changed = 1
	:: else
	fi
}

/* It is time t, or later. */
inline foldAlarm(t) {
	any = (waitBy <= t);
	do
	:: s < 2 ->
		if :: stepBy(s) <= t -> endStep(BAD); any = 1 :: else fi;
		if :: undoBy(s) <= t -> n.undo[s] = LOST; changed = 1 :: else fi;
		s++
	:: else -> break
	od;
	if :: any -> n.halt = 1; changed = 1 :: else fi;
	if :: n.alarm == t -> n.alarm = 0; changed = 1 :: else fi
}

inline foldCancel() {
	if
#ifdef BREAK_EARLY_CANCEL_DROPPED
	:: n.status == GOING && !n.halt -> n.halt = 1; changed = 1
#else
	:: n.status <= GOING && !n.halt -> n.halt = 1; changed = 1
#endif
#ifdef BREAK_UNDO_CANCELLABLE
	:: n.status == UNDOING -> n.undo[0] = 0; n.undo[1] = 0; changed = 1
#endif
	:: else
	fi
}

inline foldSignal() {
	if
#ifdef BREAK_EARLY_SIGNAL_DROPPED
	:: n.status == GOING && !n.signal -> n.signal = 1; changed = 1
#else
	:: n.status <= GOING && !n.signal -> n.signal = 1; changed = 1
#endif
	:: else
	fi
}

inline beginStep(x) { if :: n.step[x] == 0 -> n.step[x] = 1; emit(begin(x, 1)) :: else fi }
inline beginUndo(x) { if :: n.undo[x] == ARMED && !any -> n.undo[x] = 2; emit(undo(x, 1)); any = 1 :: else fi }

#ifdef BREAK_UNKNOWN_KEPT
#define mayHaveEffect(x)	(n.step[x] == OK)
#else
#define mayHaveEffect(x)	(n.step[x] == OK || (UNKNOWN && n.step[x] == BAD))
#endif
inline arm(x) { if :: has(UNDOS, x) && n.undo[x] == 0 && mayHaveEffect(x) -> n.undo[x] = ARMED :: else fi }

/* What follows from a change. */
inline advance() {
	if
	:: n.status == GOING && !n.halt ->
		beginStep(0);
		if :: ALL || n.step[0] == OK -> beginStep(1) :: else fi;
		if
		:: n.step[0] == OK && n.step[1] == OK -> n.wait = (WAIT && !n.signal); n.status = (n.wait -> GOING : COMPLETED)
		:: else
		fi
	:: n.status == GOING && n.halt ->
		n.wait = 0;
		if :: !open(n.step[0]) && !open(n.step[1]) -> n.status = UNDOING; arm(0); arm(1) :: else fi
	:: else
	fi;
	any = 0;
	if
	:: n.undo[0] == LOST || n.undo[1] == LOST -> n.status = STUCK
	:: else ->
		if
		:: n.status < UNDOING || final(n.status)
		:: !(n.status < UNDOING || final(n.status)) && (undoing(n.undo[0]) || undoing(n.undo[1])) -> n.status = UNDOING
		:: else ->
#ifdef BREAK_UNDO_IN_PLAN_ORDER
			beginUndo(0); beginUndo(1);
#else
			beginUndo(1 - n.first); beginUndo(n.first);
#endif
			n.status = (any -> UNDOING : FAILED)
		fi
	fi
}

inline foldInstance(m) {
	if
	:: m == START -> if :: n.status == NEW -> n.status = GOING; changed = 1 :: else fi
	:: m == CANCEL -> foldCancel()
	:: isAlarm(m) -> foldAlarm(m)
	:: m >= DONE && m < UNDONE -> s = (m - DONE) / 4; a = (m - DONE) % 4 / 2 + 1; o = (m - DONE) % 2; foldDone()
	:: m >= UNDONE -> s = (m - UNDONE) / 4; a = (m - UNDONE) % 4 / 2 + 1; o = (m - UNDONE) % 2; foldUndone()
#if !PARENT
	:: m == SIGNAL -> foldSignal()
#endif
	fi;
#ifdef BREAK_PARENT_BY_COUNT
	if
	:: m >= DONE && n.status == GOING -> n.heard++; changed = 1; if :: n.heard == 2 -> n.status = COMPLETED :: else fi
	:: else
	fi;
#endif
	if :: changed -> advance() :: else fi;
#if PARENT
	if
	:: n.status == COMPLETED && !final(doc[0].status) -> emit(ENDED)
	:: n.status == FAILED && !final(doc[0].status) -> emit(BROKEN)
	:: n.status == GOING && m >= DONE && o == 0 && changed -> emit(PROGRESS)
	:: else
	fi
#endif
}

#if PARENT
/* A parent that is cancelled, or whose time is over, cancels its page, and waits for the page's word. */
inline foldParent(m) {
	if
	:: m == PSTART && n.status == NEW -> changed = 1;
		if :: n.halt -> n.status = FAILED :: else -> n.status = GOING; emit(START) fi
	:: m == PCANCEL && n.status <= GOING && !n.halt -> changed = 1;
		n.halt = 1;
		if :: n.status == GOING -> emit(CANCEL) :: else fi
	:: m == palarm(1) || m == palarm(2) ->
		earliest(1);
		if
		:: e <= m - palarm(0) && !n.halt -> n.halt = 1; emit(CANCEL); changed = 1
		:: e <= m - palarm(0) && n.halt -> n.status = STUCK; changed = 1
		:: else
		fi;
		if :: n.alarm == m - palarm(0) -> n.alarm = 0; changed = 1 :: else fi
#ifdef BREAK_WORD_COUNTED
	:: (m == PROGRESS || m == ENDED) && !final(n.status) -> changed = 1;
		n.heard++;
		if :: n.heard == 2 -> n.status = (n.halt -> FAILED : COMPLETED) :: else fi
#else
	:: m == PROGRESS && n.heard == 0 -> n.heard = 1; changed = 1
	:: m == ENDED && !final(n.status) -> n.heard = 2; n.status = (n.halt -> FAILED : COMPLETED); changed = 1
#endif
	:: m == BROKEN && !final(n.status) -> n.heard = 2; n.halt = 1; n.status = FAILED; changed = 1
	:: else
	fi
}
#endif

inline fold(k, m) {
	changed = 0; out = 0; s = 0; o = 0;
#if PARENT
	if :: k == 0 -> foldInstance(m) :: k == 1 -> foldParent(m) fi;
#else
	foldInstance(m);
#endif
	earliest(k);
	if
	:: !changed || e == NEVER
#ifdef BREAK_ALARM_NOT_REARMED
	:: changed && e < NEVER && isAlarm(m)
	:: changed && e < NEVER && !isAlarm(m) && (n.alarm == 0 || e < n.alarm) -> n.alarm = e; emit(alarm(e))
#elif defined(BREAK_EARLIEST_FORGOTTEN)
	:: changed && e < NEVER && n.alarm == 0 -> n.alarm = e; emit(alarm(e))
#elif PARENT
	:: changed && e < NEVER && (n.alarm == 0 || e < n.alarm) -> n.alarm = e; emit((k == 0 -> alarm(e) : palarm(e)))
#else
	:: changed && e < NEVER && (n.alarm == 0 || e < n.alarm) -> n.alarm = e; emit(alarm(e))
#endif
	:: else
	fi
}
