/* The promise, as a model that spin checks: every command is decided once, its events are sent, each view reflects each
   event once, and a message that fails is kept, whatever stops at any time. It is the protocol of the packages values,
   storage (Commit) and worker for a store without an atomic Commit. docs/promise.md has the laws, and what goes wrong
   without each. model_test.go checks several sizes of this file, and that each BREAK_ makes it fail. By hand:

	spin -a -DDUP=1 promise.pml && cc -w -O2 -DSAFETY -DCOLLAPSE -o pan pan.c && ./pan -m100000

   There is one value object and, with STAGES=2, one view: documents of the same kind. A message is a small number.
   Command i emits event i; both have the time i + 1. A set of messages is the bits of a byte.

   With PROCESS=1 both documents are value objects, and there is one command, 0, for the first of them. It emits a
   command for the second, 0, and a timer, 3, which comes back to the first when it is due. The second emits an event,
   which one or two subscriber groups bring to the first, as 1 and 2.

   An atomic block is at most one storage call. Other processes may act between two blocks. A stop may come before each
   block: a crash, an error, or a lost answer to the call before. After a stop the code forgets its document, and its
   messages come back. */

/* Sizes. */
#ifndef PROCESS
#define PROCESS	0
#endif
#if PROCESS
#define NC	1
#define STAGES	2
#endif
#ifndef NC
#define NC	2	/* commands */
#endif
#ifndef STAGES
#define STAGES	1	/* 2: the events are folded into a view */
#endif
#ifndef TIMERS
#define TIMERS	1	/* 0: no timer is emitted */
#endif
#ifndef GROUPS
#define GROUPS	1	/* that take the event */
#endif
#ifndef BATCH
#define BATCH	1	/* 2: up to two messages are folded into one write */
#endif
#ifndef DUP
#define DUP	0	/* 1: the client sends command 0 twice */
#endif
#ifndef CACHE
#define CACHE	0	/* 1: workers remember the document; with STAGES=1 only */
#endif
#ifndef WINDOW
#define WINDOW	8	/* how many messages the document remembers; older ones become rows */
#endif
#ifndef BEHIND
#define BEHIND	0	/* 1: a message newer than all commands has become a row before */
#endif
#ifndef KEYED
#define KEYED	0	/* the set of commands whose IDs carry no time */
#endif
#ifndef AGING
#define AGING	0	/* 1: messages may pass retention, and their rows be forgotten */
#endif
#ifndef FAILS
#define FAILS	0	/* how often a message may be refused */
#endif
#ifndef ACTS
#define ACTS	0	/* the number of actions of two operators of the poison queue together */
#endif
#ifndef STOPS
#define STOPS	1
#endif
#ifndef LATE
#define LATE	1	/* how often a visibility ends while a slow worker still has the message */
#endif

#if PROCESS
#define NI	5		/* IDs: one for each message of a document, and one that a break gives to the timer as well */
#define FRESH	4
#define TIMER	3
#define ALL	(3 + (GROUPS - 1) * 4 + TIMERS * 8)
#else
#define NI	(NC + 1)	/* IDs: one for each command, and one that some breaks give to command 0 as well */
#define FRESH	NC
#define ALL	((1 << NC) - 1)
#endif
#define NONE	15
#define bit(i)			(1 << (i))
#define has(set, i)		(((set) >> (i)) & 1)
#define without(set, gone)	((set) & (255 - (gone)))
#if PROCESS
#define meant(ids)		(((ids) | (has(ids, FRESH) << TIMER)) & ALL)	/* the messages that they stand for */
#define brought(set)		(((set) & 1) * (s -> 2 * GROUPS - 1 : 1 + TIMERS * 8))	/* what the messages emit: two events, or a command and the timer */
#define emits			1
#else
#define meant(ids)		(((ids) | ((ids) >> FRESH)) & ALL)
#define brought(set)		(s -> 0 : (set))
#define emits			(s == 0)
#endif
#define size(set)		(((set) & 1) + has(set, 1) + has(set, 2) + has(set, 3) + has(set, 4))

/* What is stored, by stage: 0 commands and the value object, 1 events and the view. */
byte queue[8];		/* visible copies; those of message i of stage s are at s * NI + i */
byte value[STAGES];	/* what the document reflects, */
byte applied[STAGES];	/* the window of its record, */
byte mark[STAGES];	/* its watermark (0 nothing has left, else 1 + the newest time that has; a key's counts as 0), */
byte rows[STAGES];	/* the messages that have left it, */
byte pending[1 + PROCESS];	/* and the emissions that are not known to be sent */
byte waiting;		/* copies of the timer that aren't due */
byte poison;		/* the entries of the poison queue */

/* The state of workers and operators. */
byte held[4];		/* two for each worker: 1 + the place in queue, as long as its receipt is valid */
bit fresh[STAGES * 2];	/* the document that a worker knows is the one stored: the ETags are the same */
bit proved[2];		/* a worker has just made sure that its messages stay its own for long enough */
byte seen[2];		/* 1 + the poison entry that an operator has read, until it changes */

/* Facts that no program can see. */
byte sent[1 + PROCESS];	/* emissions that were sent */
byte discarded;		/* commands that an operator discarded */
bit due;		/* the timer's time has come */
byte copied;		/* commands of which another copy may be on its way, for a reason in docs/promise.md */
byte old;		/* messages past retention */
byte stops, lates, fails, acts, busy;

#define stop	stops < STOPS -> stops++; goto stopped

/* Only a row can tell whether message i is new: it may have left the window. */
#if defined(BREAK_WINDOW_ONLY)
#define outside(i)	false
#elif defined(BREAK_KEY_HAS_TIME)
#define outside(i)	(i != NONE && !has(ap, i) && wm > i + 1 && !has(KEYED, i))
#else
#define outside(i)	(i != NONE && !has(ap, i) && wm && (wm > i + 1 || has(KEYED, i)))
#endif
#ifdef BREAK_GUESS_TOO_OLD
#define tooold(i)	false
#else
#define tooold(i)	has(old, i)
#endif

/* The worker with the valid receipt decides message i after a discard, and no other copy was known. */
#define revived(i, slot)	(s == 0 && held[2 * _pid + slot] && has(new, i) && (meant(bit(i)) & without(discarded, copied)))

inline lowest(set) { x = 0; do :: has(set, x) -> break :: else -> x++ od }

#define first(n)	:: queue[n] -> x = n
#define second(n)	:: n >= x && n / NI == s && queue[n] -> b = n % NI

/* A message may be refused unread: it can't be decoded, or has been delivered too often. */
inline take(i, slot) {
	x = s * NI + i; queue[x]--; held[2 * _pid + slot] = x + 1;
#if PROCESS
	assert(s || i < TIMER || due);	/* never before it is due */
#endif
	if :: fails < FAILS -> fails++; unread = unread | bit(slot) :: true fi
}

/* Is message i a replay, too old to tell, or new? A new one may be refused by its handler, for good or for now. */
inline judge(i, slot) {
	if
	:: i == NONE || has(failed, slot)
	:: else ->
		if
#ifdef BREAK_FOLD_JUDGES_LOADED
		:: has(without(ap, new), i) -> again = again | bit(i)
#else
		:: has(ap, i) -> again = again | bit(i)
#endif
#ifdef BREAK_GROUPS_SHARE_RECORD
		:: s == 0 && (i == 1 || i == 2) && has(ap, 3 - i) -> again = again | bit(i)
#endif
		:: outside(i) && tooold(i) -> failed = failed | bit(slot); unproven = unproven | known
		:: outside(i) && !tooold(i) && has(rows[s], i) -> again = again | bit(i);
#ifndef BREAK_ROW_UNPROVEN
			unproven = 1
#endif
		:: else ->
			if
			:: fails < FAILS -> fails++; failed = failed | bit(slot); unproven = unproven | known
			:: fails < FAILS -> back = back | bit(slot); unproven = unproven | known;
#ifndef BREAK_ATTEMPTS_UNCOUNTED
				fails++
#endif
			:: true -> assert(!has(new, i)); new = new | bit(i);
#ifdef BREAK_FOLD_RECORDS_FIRST
				if :: slot == 0 -> ap = ap | bit(i) :: else fi
#else
				ap = ap | bit(i)
#endif
			fi
		fi
	fi
}

/* The oldest leave the window, but none that no stored document holds yet. */
inline age() {
	do
	:: size(ap) > WINDOW ->
#ifdef BREAK_EVICT_UNCOMMITTED
		lowest(ap);
#else
		if :: without(ap, new) :: else -> break fi;
		lowest(without(ap, new));
#endif
		gone = gone | bit(x); ap = without(ap, bit(x));
		if
		:: has(KEYED, x) && wm == 0 -> wm = 1
		:: !has(KEYED, x) && wm < x + 2 -> wm = x + 2
		:: else
		fi
	:: else -> break
	od
}

inline putRows() {
	if
	:: gone -> atomic { if :: stop :: rows[s] = rows[s] | gone; gone = 0 fi }
	:: else
	fi
}

#if PROCESS
inline emit(i) {
	if
	:: s == 0 && i == 0 -> queue[NI]++
#ifdef BREAK_TIMER_AT_ONCE
	:: s == 0 && i > 0 -> queue[i]++
#else
	:: s == 0 && i > 0 && due -> queue[i]++
	:: s == 0 && i > 0 && !due -> waiting++
#endif
	:: s == 1 -> queue[1 + i]++
	fi;
	sent[s] = sent[s] | meant(bit(i))
}
#else
inline emit(i) {
	if
	:: STAGES == 1
#ifdef BREAK_EVENT_ID_FRESH
	:: STAGES == 2 && i == 0 && has(sent[0], 0) -> queue[NI + FRESH]++
	:: STAGES == 2 && !(i == 0 && has(sent[0], 0)) -> queue[NI + i]++
#else
	:: STAGES == 2 -> queue[NI + i]++
#endif
	fi;
	sent[0] = sent[0] | meant(bit(i))
}
#endif

/* Each emission is a step of its own: those of one write may go to several queues. */
inline send(set) {
	do
	:: set -> atomic {
		if
		:: stop
		:: lowest(set); set = without(set, bit(x)); emit(x); x = 0
		fi }
	:: else -> break
	od
}

/* The end of a message that was applied. */
inline end(i, slot) {
	if
#ifdef BREAK_FOLD_ENDS_FAILED
	:: i == NONE
#else
	:: i == NONE || has(failed | back, slot)
#endif
	:: else -> atomic {
		if
		:: stop
		:: held[2 * _pid + slot] ->
#if !defined(BREAK_DELETE_FIRST) && !defined(BREAK_FOLD_ENDS_FAILED)
			assert((meant(bit(i)) & value[s]) && !without(meant(brought(bit(i))), sent[s * PROCESS]));	/* never early */
#endif
			held[2 * _pid + slot] = 0
		:: else		/* stale: another worker has received or ended it */
		fi }
	fi
}

inline changed(i) {
	if :: seen[0] == i + 1 -> seen[0] = 0 :: else fi;
	if :: seen[1] == i + 1 -> seen[1] = 0 :: else fi
}

/* The end of a message that was refused: it is tried again, or goes to the poison queue. */
inline settle(i, slot) {
	if
	:: has(back, slot) -> atomic {
		if
		:: held[2 * _pid + slot] -> queue[held[2 * _pid + slot] - 1]++; held[2 * _pid + slot] = 0
		:: else
		fi }
	:: has(failed, slot) ->
#ifndef BREAK_POISON_UNPROVEN
		atomic {
			if
			:: stop
			:: held[2 * _pid + slot] -> proved[_pid] = 1
			:: else -> failed = without(failed, bit(slot))	/* the worker that has it now decides */
			fi }
#endif
		if
		:: has(failed, slot) ->
#ifdef BREAK_POISON_DELETE_FIRST
			atomic { if :: stop :: held[2 * _pid + slot] = 0 fi };
#endif
			atomic { if :: stop :: poison = poison | bit(i); changed(i) fi };
			atomic {
				if
				:: stops < STOPS -> stops++; copied = copied | meant(bit(i)); goto stopped
				:: held[2 * _pid + slot] = 0; proved[_pid] = 0
				fi }
		:: else
		fi
	:: else
	fi
}

active [2] proctype worker() {
	byte s, a = NONE, b = NONE, x;	/* stage and messages in hand */
	byte ap, pe, wm;		/* the document: as it was read, then as it will be written */
	byte new, again, out, gone;	/* changes, replays, emissions to send, messages that become rows */
	byte stale;			/* pending emissions whose worker must be dead */
	byte mine;			/* pending emissions that this worker has sent */
	byte unread, failed, back;	/* slots of messages: refused unread, refused, to be tried again */
	bit known, unproven;		/* the document is a remembered one; it matters that it isn't outdated */

end_idle:
	atomic {
		if first(0) first(1) first(2) first(3) first(4) first(5) first(6) first(7) fi;
		s = x / NI; a = x % NI; take(a, 0);
#if BATCH == 2
		if second(0) second(1) second(2) second(3) second(4) second(5) second(6) second(7) :: true fi;
		if :: b != NONE -> take(b, 1) :: else fi;
#endif
		x = 0; busy++; failed = unread;
		if :: has(unread, 0) && (b == NONE || has(unread, 1)) -> goto refused :: else fi
	};
load:
	atomic {
		if
		:: stop
		:: known
		:: known -> known = 0; mine = 0		/* there was no room for it */
		:: !known
		fi;
		if
		:: known
		:: !known -> ap = applied[s]; wm = mark[s]; fresh[s * 2 + _pid] = 1; if :: emits -> pe = pending[s] :: else fi
		fi;
		new = 0; again = 0; failed = unread; back = 0; unproven = 0;
		if :: outside(a) || outside(b) :: else -> goto look fi	/* a row is read in a step of its own */
	};
	atomic {
		if :: stop :: true fi;
look:		judge(a, 0); judge(b, 1);
#ifndef BREAK_REPLAY_SILENT
		out = brought(again) & without(pe, mine);
#endif
#ifdef BREAK_TIMER_DUE_AGAIN
		if :: s == 0 && due && has(out, TIMER) -> out = out ^ (bit(TIMER) | bit(FRESH)) :: else fi;
#endif
		if :: new == 0 -> goto prove :: else fi;
		out = out | brought(new);
		stale = without(pe, mine); x = 0;
		do	/* by any clock */
		:: x < NI -> if :: stale = without(stale, bit(x)) :: has(stale, x) fi; x++
		:: else -> break
		od;
		x = 0; pe = without(pe, mine | stale);
#ifndef BREAK_NO_PENDING
#ifdef BREAK_ONLY_EVENTS_PENDING
		if :: s -> pe = pe | brought(new) :: else fi;
#else
		pe = pe | brought(new);
#endif
#endif
		age()
	};
#ifndef BREAK_DROP_STALE
	send(stale);
#endif
#ifndef BREAK_ROWS_AFTER_WRITE
	putRows();
#endif
#ifdef BREAK_SEND_FIRST
	mine = mine | out; send(out);
#endif
	atomic {
		if
		:: stop
		:: !fresh[s * 2 + _pid] ->
#ifdef BREAK_BLIND_WRITE
			value[s] = value[s] & meant(without(ap, new) | rows[s])
#else
			known = 0; goto load	/* another worker wrote first */
#endif
		:: fresh[s * 2 + _pid]
		fi;
		assert(!(value[s] & meant(new)));	/* never twice */
		assert(!revived(a, 0) && !revived(b, 1));
		value[s] = value[s] | meant(new); mark[s] = wm;
#ifdef BREAK_VIEW_WITHOUT_RECORD
		if :: s == 0 -> applied[s] = ap :: else fi;
#elif defined(BREAK_ON_WITHOUT_RECORD)
		applied[s] = (s -> ap : ap & 9);
#else
		applied[s] = ap;
#endif
		if :: emits -> pending[s] = pe :: else fi;
		fresh[s * 2 + 1 - _pid] = 0; fresh[s * 2 + _pid] = 1
	};
	goto tell;
prove:	/* Without a write no ETag tells that the document is outdated. */
	if
	:: unproven -> atomic {
		if
		:: stop
		:: fresh[s * 2 + _pid]
		:: else -> known = 0; goto load
		fi }
	:: else
	fi;
tell:
#ifdef BREAK_ROWS_AFTER_WRITE
	putRows();
#endif
#ifndef BREAK_DELETE_FIRST
	mine = mine | out; send(out);
#endif
	end(a, 0); end(b, 1);
#ifdef BREAK_DELETE_FIRST
	mine = mine | out; send(out);
#endif
	known = CACHE;
refused:
	settle(a, 0); settle(b, 1);
	goto rest;
stopped:
	atomic {
		known = 0; proved[_pid] = 0; x = 2 * _pid;
		if :: held[x] -> queue[held[x] - 1]++; held[x] = 0 :: else fi;
		if :: held[x + 1] -> queue[held[x + 1] - 1]++; held[x + 1] = 0 :: else fi
	};
rest:
	atomic {
		if
		:: known -> mine = mine & pe
		:: !known -> ap = 0; pe = 0; wm = 0; mine = 0; fresh[s * 2 + _pid] = 0
		fi;
		s = 0; a = NONE; b = NONE; x = 0; new = 0; again = 0; out = 0; gone = 0; stale = 0;
		unread = 0; failed = 0; back = 0; unproven = 0; busy--;
		goto end_idle
	}
}

#if ACTS
#define me	(_pid - 2)

inline remove() {
	atomic {
		if
		:: stop
#ifdef BREAK_RETRY_REMOVE_BLIND
		:: poison = without(poison, bit(i)); changed(i)
#else
		:: seen[me] -> poison = without(poison, bit(i)); changed(i)
		:: !seen[me]
#endif
		fi }
}

active [2] proctype operator() {
	byte i;

end_idle:
	atomic {
		acts < ACTS && poison; acts++; busy++;
		i = 0; do :: has(poison, i) -> break :: poison >> (i + 1) -> i++ od;
		seen[me] = i + 1;
		if :: true -> copied = copied | meant(bit(i)) :: true -> goto discard fi
	};
#ifdef BREAK_RETRY_REMOVE_FIRST
	remove();
#endif
	atomic {
		if
		:: stop
#ifdef BREAK_RETRY_NEW_ID
		:: i == 0 -> queue[FRESH]++
		:: i != 0 -> queue[i]++
#else
		:: queue[i]++
#endif
		fi };
#ifndef BREAK_RETRY_REMOVE_FIRST
	remove();
#endif
	goto rest;
discard:
	atomic {
		if
		:: seen[me] -> poison = without(poison, bit(i)); changed(i); discarded = discarded | meant(bit(i))
		:: else
		fi };
stopped:
rest:
	atomic { seen[me] = 0; i = 0; busy--; goto end_idle }
}
#endif

#define late(k)	:: atomic { lates < LATE && held[k] && !proved[k / 2] -> lates++; queue[held[k] - 1]++; held[k] = 0 }
#define quiet	(busy + waiting + queue[0] + queue[1] + queue[2] + queue[3] + queue[4] + queue[5] + queue[6] + queue[7] == 0)

active proctype world() {
	byte i;

	atomic {
		do :: i < NC -> queue[i] = 1; i++ :: else -> break od;
		queue[0] = 1 + DUP; copied = DUP; mark[0] = BEHIND * (NC + 1); i = 0
	};
	do
	late(0) late(1) late(2) late(3)
#if AGING
	:: atomic { old != ALL -> old = 2 * old + 1 }
	:: atomic { rows[0] & old -> rows[0] = without(rows[0], old) }
#endif
#if PROCESS
	:: atomic { TIMERS && (value[0] & 1) && !due -> due = 1; queue[TIMER] = queue[TIMER] + waiting; waiting = 0 }
#endif
	:: atomic { quiet ->
		/* When nothing is on its way any more, every command is decided, or kept, or discarded; of those decided */
		assert((value[0] | meant(poison) | discarded) == ALL);
#if PROCESS
		/* the emissions were sent, and what they are for reflects them, too. */
		assert(sent[0] == 1 + TIMERS * 8 && value[1] == 1 && sent[1] == 2 * GROUPS - 1);
#else
		/* the events were sent, */
		assert(!without(value[0], sent[0] | meant(poison) | discarded));
		/* of no others, */
		assert(!without(sent[0], value[0]));
#endif
#if STAGES == 2 && !PROCESS
		/* and the view reflects them. */
		assert(value[1] == value[0]);
#endif
		break }
	od
}
