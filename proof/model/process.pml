/* A process of several steps, as a model that spin checks: no success is lost, none is taken twice, and nothing that
   is open is forgotten, whatever stops at any time. It is the protocol of package process. fold.pml has the fold of
   the document; this file has what goes on around it. model_test.go checks several sizes of both, and that each
   BREAK_ makes them fail. By hand:

	spin -a -DFAULTS=1 process.pml && cc -w -O2 -DSAFETY -DCOLLAPSE -o pan pan.c && ./pan

   There is one instance of a plan with two steps. A fold begins a step: it sends a message to an agent. The agent has
   a bank charge money, and sends the end of the attempt to the instance. A failed attempt is followed by another. The
   first step has an undo. Each step has a deadline, and one alarm is under way for all that is open. A client may
   cancel. With PARENT=1 the instance is a page of two children. A parent, another document, has started it, and waits
   for its words.

   The store is that of promise.pml: a write is guarded by the ETag of what was read, emissions are pending until they
   are sent, and a message comes until it is ended. promise.pml shows that this works, so here a message is in a set
   of those that were sent. But here the record has no entry of a message: the fold itself recognises repeats. A
   message whose emissions are pending isn't folded again: they are sent.

   A worker does a delivery in one atomic block, and may stop after each call to the store or the bank. What others do
   between two calls makes no difference, as SPLIT=1 shows for a small world, but in two cases. A worker may have
   judged by an old document (LATE=1). And its message may have been given to another: it comes again, even long after
   its end.

   An agent may fail. It tells a failure only if nothing has happened under its key that nobody has told. With UNKNOWN=1
   there is no such rule. Then a step that has ended without a success is undone as well, if it can be, and the bank
   refuses the key of what was undone.

   Not in the model: time (an alarm comes at any time after it was sent), several messages in one fold, a second run,
   versions, retention, the poison queue, the undo of children.

   Each break, with the shortest run:

   - BREAK_BEGIN_BEFORE_WRITE: A worker sends the begin and stops. An agent works for a step that no document has
     begun.
   - BREAK_CANCEL_PASSED_ON_FIRST: A worker sends the page the cancel and stops. The parent doesn't know of it.
   - BREAK_REPLAY_SILENT: A worker writes and stops. The message comes again and changes nothing. Its begin is never
     sent.
   - BREAK_NOTE_UNPROVEN: A worker remembers the document from before the start. So the alarm changes nothing, and is
     ended.
   - BREAK_OLD_DOCUMENT_WRITTEN: A worker remembers the document from before the cancel, and begins a step.
   - BREAK_END_BY_ATTEMPT: Attempt 1 fails, comes again, and charges. By then attempt 2 is begun, so the success is
     dropped. Attempt 2 fails.
   - BREAK_VOUCH_FOR_BEGUN: The end of a step that is begun counts as known. A success is dropped.
   - BREAK_LATE_SUCCESS_DROPPED: The deadline passes, then the agent charges.
   - BREAK_LATE_UNDONE_TWICE: A success comes late, and comes again. Each is undone, under a key of its own.
   - BREAK_KEY_HAS_ATTEMPT: Attempt 1 fails, comes again, and charges. Attempt 2 charges as well.
   - BREAK_FAILURE_GUESSED: An agent charges and stops. Its message comes again after the deadline. Now the agent
     fails without asking the bank. Nobody tells of the charge.
   - BREAK_UNKNOWN_KEPT: The answer of the bank is lost, and the agent fails. Nothing is undone, for nothing was a
     success.
   - BREAK_KEY_STAYS_OPEN: The deadline passes, and the undo finds nothing. Then an agent charges, and the answer is
     lost.
   - BREAK_UNDO_IN_PLAN_ORDER: Of two steps side by side the first ends first, and is undone first.
   - BREAK_UNDO_CANCELLABLE: The second step fails. A cancel ends the undo of the first.
   - BREAK_ALARM_NOT_REARMED: The second step's deadline passes. No alarm is set for the undo of the first.
   - BREAK_EARLIEST_FORGOTTEN: A cancel leaves the open step little time, but the alarm is set for its deadline.
   - BREAK_PARENT_BY_COUNT: One child's attempt fails, the other child ends. These are two messages, and the parent
     ends.
   - BREAK_WORD_COUNTED: The word that one child has ended comes twice, and the parent ends.
   - BREAK_EARLY_CANCEL_DROPPED, BREAK_EARLY_SIGNAL_DROPPED: A message overtakes the start, and is lost. */

/* Sizes. */
#ifndef UNDOS
#define UNDOS	1	/* the set of the steps that can be undone */
#endif
#ifndef ALL
#define ALL	0	/* 1: both steps are begun at once; else one after the other */
#endif
#ifndef WAIT
#define WAIT	0	/* 1: after both steps the plan waits for a signal */
#endif
#ifndef PARENT
#define PARENT	0	/* 1: the instance is a page, its steps are the page's children; they can't be undone */
#endif
#if PARENT
#undef UNDOS
#define UNDOS	0
#endif
#ifndef UNKNOWN
#define UNKNOWN	0	/* 1: an agent that fails or stops may have had its effect, and nobody tells */
#endif
#ifndef ATOMIC
#define ATOMIC	0	/* 1: the store writes, sends and ends a message at once */
#endif
#ifndef LATE
#define LATE	0	/* 1: another worker judges by a document that it remembers, and acts later */
#endif
#ifndef SPLIT
#define SPLIT	0	/* 1: two workers act in turns, call by call */
#endif
#ifndef FAILS
#define FAILS	2	/* how often an agent may fail */
#endif
#ifndef FAULTS
#define FAULTS	2	/* how often a worker stops or is late, or a message comes again after its end */
#endif

/* Messages. Folds emit those below NE. */
#define START		0
#define alarm(t)	(t)			/* the time is 1 to 4 */
#define begin(s, a)	(4 + 2 * (s) + (a))	/* step 0 or 1, attempt 1 or 2 */
#define undo(s, a)	(8 + 2 * (s) + (a))
#define CANCEL		13
#if PARENT
#define PROGRESS	14			/* the page's words: a child has ended, */
#define ENDED		15			/* all have, */
#define BROKEN		16			/* or it has failed */
#define palarm(t)	(16 + (t))		/* the parent's, time 1 or 2 */
#define NE		19
#define PSTART		19
#define PCANCEL		20
#define DONE		21
#define ofParent(m)	((m) >= PROGRESS && (m) <= PCANCEL)
#else
#define NE		13
#define SIGNAL		14
#define DONE		15
#define ofParent(m)	0
#endif
#define done(s, a, o)	(DONE + 4 * (s) + 2 * (a) - 2 + (o))	/* outcome 0 is a success, 1 a failure */
#define UNDONE		(DONE + 8)
#define undone(s, a, o)	(UNDONE + 4 * (s) + 2 * (a) - 2 + (o))
#define isAlarm(m)	((m) >= alarm(1) && (m) <= alarm(4))
#define isBegin(m)	((m) >= begin(0, 1) && (m) <= begin(1, 2))
#define isUndo(m)	((m) >= undo(0, 1) && (m) <= undo(1, 2))
#define BEGINS		(15 << begin(0, 1))
#define ONCE		(BEGINS | (15 << undo(0, 1)))
#define TRIES		2

typedef Doc {
	byte status;
	byte alarm;	/* the earliest alarm that is under way, or 0 */
	byte step[2];	/* 0: not begun; 1 or 2: this attempt is open; OK; BAD: ended without a success */
	byte undo[2];	/* 0: none; ARMED; 2 or 3: attempt 1 or 2 is open; GONE: undone; LOST: it couldn't be undone */
	byte heard;	/* a parent's: the newest word of its page */
	bit first;	/* the step that ended first */
	bit halt;	/* it was cancelled, or something has failed: nothing is begun any more */
	bit wait, signal
}

#define NEW		0
#define GOING		1
#define UNDOING		2
#define STUCK		3	/* until somebody acts, or the word that was missing comes after all */
#define COMPLETED	4
#define FAILED		5
#define final(status)	((status) >= COMPLETED)
#define OK		3
#define BAD		4
#define open(step)	((step) == 1 || (step) == 2)
#define ARMED		1
#define GONE		4
#define LOST		5
#define undoing(undo)	((undo) == 2 || (undo) == 3)

/* Deadlines. The second step's is earlier than the first's, so the alarm that is under way then comes too late. */
#define GRACE		1	/* of an open step when something has failed, or was cancelled */
#define within(s)	((s) == 1 && !ALL -> 1 : 2)
#define stepBy(s)	(open(n.step[s]) -> (n.halt -> GRACE : within(s)) : NEVER)
#define waitBy		(n.wait -> 2 : NEVER)
#define undoBy(s)	(undoing(n.undo[s]) -> 3 + (s) : NEVER)
#define NEVER		9

#define bit(i)		(1 << (i))
#define has(set, i)	(((set) >> (i)) & 1)
#define without(set, i)	((set) & ~bit(i))

/* What is stored. */
Doc doc[1 + PARENT];
int sent;		/* messages that are or were in a queue */
int ended;		/* those of them that are there no more */
int owed;		/* pending emissions that were never sent, */
byte cause[NE];		/* and the message that emits each */
bit fresh[6];		/* the document that a worker has read is the one stored: the ETags are the same */
byte held[2];		/* with SPLIT=1: 1 + the message that a worker has */
#define current(k, w)	fresh[3 * (k) + (w)]

/* What the bank knows: two keys of each step. */
byte paid, refunded;
#define paidFor(s)	((paid >> 2 * (s)) & 3)
#define refundedFor(s)	((refunded >> 2 * (s)) & 3)
#ifdef BREAK_KEY_HAS_ATTEMPT
#define key(s, a)	(2 * (s) + (a) - 1)
#else
#define key(s, a)	(2 * (s))
#endif
#ifdef BREAK_LATE_UNDONE_TWICE
#define undoKey(s, a)	(2 * (s) + (a) - 1)
#else
#define undoKey(s, a)	(2 * (s))
#endif

/* Facts that no program can see. */
int emitted;		/* begins, of steps and undos */
byte told;		/* steps of which a success was sent */
byte taken, latest;	/* steps whose success the instance has taken; the last of them */
byte fails, faults;

#define underWay(m)	((has(sent, m) && !has(ended, m)) || has(owed, m))
#define stop		faults < FAULTS -> faults++; goto rest
#define stopWithin	!ATOMIC && faults < FAULTS -> faults++; goto rest	/* a unit of work */

#include "fold.pml"

/* An alarm is under way for all that is open in n. */
inline watched(k) {
	earliest(k);
#if PARENT
	if
	:: k == 1 -> assert(e == NEVER || underWay(palarm(1)) || (e > 1 && underWay(palarm(2)))); e = NEVER
	:: else
	fi;
#endif
	assert(e == NEVER || underWay(alarm(1)) || (e > 1 && underWay(alarm(2)))
		|| (e > 2 && underWay(alarm(3))) || (e > 3 && underWay(alarm(4))))
}

/* The document may become n, by message m. */
inline lawful(k, m) {
	/* What is final stays so. A late success that can't be undone is for somebody to act on. */
	assert(!final(doc[k].status) || n.status == doc[k].status || (doc[k].status == FAILED && n.status == STUCK));
	assert(!(out & emitted & ONCE));	/* each attempt is begun once, */
	if
	:: k == 0 ->
		/* and none after the end. */
		assert(!(out & BEGINS) || (doc[0].status <= GOING && !doc[0].halt && !n.halt));
		/* Nothing that has ended has something open. */
		assert(!final(n.status) || !(open(n.step[0]) || open(n.step[1]) || n.wait));
		assert(n.status != COMPLETED || (n.step[0] == OK && n.step[1] == OK));
		/* Only its own end ends an undo. */
		assert(m >= UNDONE || ((!doc[0].undo[0] || n.undo[0]) && (!doc[0].undo[1] || n.undo[1])));
#if PARENT
		assert(!(out & BEGINS) || !final(doc[1].status));
		assert(m != CANCEL || doc[1].halt)	/* only its parent cancels a page */
	:: k == 1 ->
		assert(!final(n.status) || doc[1].status == NEW || final(doc[0].status))
#endif
	fi
}

inline write(k, m) {
	lawful(k, m);
	copy(doc[k], n);
	x = 0;
	do
	:: x < NE -> if :: has(out, x) -> cause[x] = m :: else fi; x++
	:: else -> break
	od;
	x = 0; current(k, 0) = 0; current(k, 1) = 0; current(k, 2) = 0;
	owed = owed | out; send = out; emitted = emitted | (out & ONCE);
#if UNDOS == 3
	if :: n.step[0] == OK && !has(taken, 0) -> taken = taken | 1; latest = 0 :: else fi;
	if :: n.step[1] == OK && !has(taken, 1) -> taken = taken | 2; latest = 1 :: else fi;
#endif
	watched(k)
}

/* What is pending of message m. */
inline pendingOf(m) {
	send = 0; x = 0;
	do
	:: x < NE -> if :: has(owed, x) && cause[x] == m -> send = send | bit(x) :: else fi; x++
	:: else -> break
	od;
	x = 0
}

/* Each is sent by itself, in any order. */
inline sendAll(set) {
	do
	:: set ->
		if
		:: stopWithin
		:: true ->
			x = 0;
			do :: has(set, x) -> break :: set >> (x + 1) -> x++ od;
			set = without(set, x); sent = sent | bit(x); ended = without(ended, x);
			owed = without(owed, x); cause[x] = 0; x = 0
		fi
	:: else -> break
	od
}

inline end(k, m) {
	ended = ended | bit(m);
	d_step {
		copy(n, doc[k]); watched(k);
		if
		:: m == CANCEL -> assert(n.halt || final(n.status))
#if WAIT
		:: m == SIGNAL -> assert(n.signal || n.status > GOING)
#endif
		:: else
		fi
	}
}

#if SPLIT
#define between		}; atomic {
#else
#define between
#endif

active [1 + SPLIT] proctype worker() {
	byte m, x;	/* the message in hand; its step */
	int send;
	bit k, bad;	/* the document; the attempt has failed */

end_idle:
	atomic {
		if
#define again(i)	(has(ended, i) || (SPLIT && held[1 - _pid] == i + 1))
#define take(i)		:: has(sent, i) && (!again(i) || faults < FAULTS) -> m = i
		take(0) take(1) take(2) take(3) take(4) take(5) take(6) take(7) take(8) take(9) take(10) take(11) take(12)
		take(13) take(14) take(15) take(16) take(17) take(18) take(19) take(20) take(21) take(22) take(23) take(24)
		take(25) take(26) take(27) take(28) take(29) take(30)
		fi;
		faults = faults + again(m);
#if SPLIT
		held[_pid] = m + 1;
#endif
		if :: isBegin(m) -> goto work :: isUndo(m) -> goto takeBack :: else fi;
		d_step {
			k = ofParent(m); pendingOf(m);
			copy(n, doc[k]); current(k, _pid) = SPLIT; fold(k, m); x = (changed && !send)
#ifdef BREAK_REPLAY_SILENT
			; send = 0
#endif
		};
		between
		if
		:: x ->
			/* The next writer sends what was pending for long. By any clock, that may be all. */
			if :: owed -> send = owed; sendAll(send) :: true fi;
			x = 0;
#ifdef BREAK_BEGIN_BEFORE_WRITE
			d_step { copy(n, doc[k]); fold(k, m); send = out };
			sendAll(send);
			if :: stop :: true fi;
#endif
#ifdef BREAK_CANCEL_PASSED_ON_FIRST
			d_step { copy(n, doc[k]); fold(k, m); send = out & bit(CANCEL) };
			if :: send -> sendAll(send); if :: stop :: true fi :: else fi;
#endif
			if :: SPLIT && !current(k, _pid) -> goto rest :: else fi;
			d_step { copy(n, doc[k]); fold(k, m); write(k, m) }
		:: else
		fi;
		between
		skip; sendAll(send);
		if :: stopWithin :: true fi;
		end(k, m);
		goto rest;
work:
		x = (m - begin(0, 1)) / 2;
		assert(has(emitted, m));
		if
		:: fails < FAILS && (UNKNOWN || !paidFor(x) || has(told, x)) -> fails++; bad = 1
#ifdef BREAK_FAILURE_GUESSED
		:: fails < FAILS -> fails++; bad = 1
#endif
#ifndef BREAK_KEY_STAYS_OPEN
		:: UNKNOWN && refundedFor(x) -> bad = 1
		:: !(UNKNOWN && refundedFor(x)) ->
#else
		:: true ->
#endif
			if
			:: has(paid, key(x, m - begin(x, 0)))	/* and the answer is the same */
			:: else ->
				assert(!paidFor(x));	/* never twice */
				paid = paid | bit(key(x, m - begin(x, 0))); refunded = without(refunded, key(x, 0))
			fi;
			if :: UNKNOWN && fails < FAILS -> fails++; bad = 1 :: true fi	/* the answer is lost */
		fi;
		between
		if
		:: faults < FAULTS && (UNKNOWN || bad || !has(ended, m) || has(told, x)) -> faults++; goto rest
		:: sent = sent | bit(done(x, m - begin(x, 0), bad)); ended = without(ended, done(x, m - begin(x, 0), bad));
			if :: !bad -> told = told | bit(x) :: else fi
		fi;
		if :: stopWithin :: true fi;
		ended = ended | bit(m);
		goto rest;
takeBack:
		x = (m - undo(0, 1)) / 2;
		assert(has(emitted, m));
		if
#ifndef BREAK_LATE_UNDONE_TWICE
		:: fails < FAILS -> fails++; bad = 1
#endif
		:: true ->
			assert(!(without(refunded, undoKey(x, m - undo(x, 0))) & (3 << (2 * x))));	/* never twice */
			assert(doc[0].status != COMPLETED);
			assert(taken != 3 || latest == x || refundedFor(latest));	/* what was taken last comes first */
			refunded = refunded | bit(undoKey(x, m - undo(x, 0)))
		fi;
		between
		if
		:: stop
		:: sent = sent | bit(undone(x, m - undo(x, 0), bad)); ended = without(ended, undone(x, m - undo(x, 0), bad))
		fi;
		if :: stopWithin :: true fi;
		ended = ended | bit(m);
		goto rest
	};
rest:
	atomic {
#if SPLIT
		held[_pid] = 0; current(k, _pid) = 0;
#endif
		m = 0; x = 0; send = 0; k = 0; bad = 0;
		goto end_idle
	}
}

#if LATE
active proctype late() {
	byte m, x;
	int send;
	bit k;
	Doc old;

end_idle:
	atomic {
		faults < FAULTS -> faults++;
		if :: k = 0 :: PARENT -> k = 1 fi;
		copy(old, doc[k]); current(k, 2) = 1
	};
end_remembers:
	atomic {
		if
#define next(i)	:: has(sent & ~ended, i) && !isBegin(i) && !isUndo(i) && ofParent(i) == k -> m = i
		next(0) next(1) next(2) next(3) next(4) next(13) next(14) next(15) next(16) next(17) next(18) next(19) next(20)
		next(21) next(22) next(23) next(24) next(25) next(26) next(27) next(28) next(29) next(30)
		fi;
		d_step { pendingOf(m); copy(n, old); fold(k, m); x = (changed && !send) };
		if
		:: x ->
#ifdef BREAK_OLD_DOCUMENT_WRITTEN
			d_step { copy(n, old); fold(k, m); write(k, m) }
#else
			goto rest	/* the store refuses the write, or it is as good as another worker's */
#endif
		:: else ->
#ifndef BREAK_NOTE_UNPROVEN
			if :: !current(k, 2) -> goto rest :: else fi
#endif
		fi
	};
	atomic { sendAll(send); end(k, m); goto rest };
rest:
	atomic {
		current(k, 2) = 0; m = 0; x = 0; send = 0; k = 0;
		old.status = 0; old.alarm = 0; old.heard = 0; old.first = 0; old.halt = 0; old.wait = 0; old.signal = 0;
		old.step[0] = 0; old.step[1] = 0; old.undo[0] = 0; old.undo[1] = 0;
		goto end_idle
	}
}
#endif

active proctype world() {
	atomic {
#if PARENT
		sent = bit(PSTART); if :: sent = sent | bit(PCANCEL) :: true fi
#elif WAIT
		sent = bit(START); if :: sent = sent | bit(CANCEL) :: true fi; if :: sent = sent | bit(SIGNAL) :: true fi
#else
		sent = bit(START); if :: sent = sent | bit(CANCEL) :: true fi
#endif
	};
	atomic { sent == ended ->
		/* When nothing is on its way any more, nothing is pending, */
		assert(owed == 0);
		/* the instance has ended, or was never started, or waits for somebody, */
#if PARENT
		assert(final(doc[0].status) || (doc[0].status == NEW && doc[1].halt));
		/* its parent as well, as the children have; */
		assert(final(doc[1].status));
		assert((doc[1].status == COMPLETED) == (doc[0].status == COMPLETED) || doc[1].halt);
#else
		assert(final(doc[0].status) || doc[0].status == STUCK);
#endif
		/* and each success is taken, or undone, and not both. */
		if
		:: doc[0].status == COMPLETED -> assert(paidFor(0) && paidFor(1) && !refundedFor(0) && !refundedFor(1))
		:: doc[0].status == FAILED ->
			assert(!has(UNDOS, 0) || !paidFor(0) || refundedFor(0));
			assert(!has(UNDOS, 1) || !paidFor(1) || refundedFor(1))
		:: else
		fi
	}
}
