/* A change of settings that comes into force in stages, as a model that spin checks. It is the protocol of package
   settings. Nobody runs a change before each live node has agreed, a change with which a node is ill or dies comes into
   force nowhere, and a node that has seen a roll-back never runs that change again, whatever stops at any time.
   model_test.go checks it, and that each BREAK_ makes it fail. By hand:

	spin -a rollout.pml && cc -w -O2 -DSAFETY -DCOLLAPSE -o pan pan.c && ./pan

   There are three nodes, one current document and one change. A node looks when there are news: it reads the document,
   runs what it shall run, answers, writes its row, reads the rows, and writes the next state of the document if that is
   still the one it has read. Any node may do that; the one that is first drives. Between two calls of the store anything
   may happen. A node may die, or be cut off for a while, and others learn that from its silence. An operator may go
   back. A node that has seen a roll-back may read the document of before once more, as from a backup.

   The last node starts late: at any time before the change is proposed, while it is checked or rolled out, or after. It
   reads the document, runs what is in force, writes its row, and joins: it reads the document again, and while there is
   a candidate it writes that once more, as it is. A node that comes back after a silence joins, too. Here the read and
   the write of a join are one step: if another node writes between them, both are repeated.

   Two stages: one node, then all. A bake is two writes: the stage begins, and its time is over. After the second each
   canary must have written its row once more. Each node may refuse the change, or be ill with it.

   Not in the model: time, numbers of calls, nodes that stop in order, forced changes, caches, several changes, and what
   a node remembers of changes that have ended.

   Each break, with the shortest run:

   - BREAK_APPLY_BEFORE_LAST_VERDICT: The second node has yet to answer. The roll-out begins.
   - BREAK_LATE_NODE_UNASKED: A node starts during the roll-out and refuses. The change comes into force.
   - BREAK_JOIN_LEFT_OUT: A node has read the rows, and is about to begin the roll-out. A late node writes its row, and
     has started. The roll-out begins, and the late node refuses.
   - BREAK_JOIN_WITHOUT_WRITE: The same, although the late node reads the document after it has written its row.
   - BREAK_SILENCE_IS_HEALTH: The canary dies, and the roll-out goes on.
   - BREAK_CANARY_BURIED: The canary dies. A node deletes its row like that of others, so nobody learns of it.
   - BREAK_RUN_BEFORE_TOLD: A late node runs the change before its row has said yes, and dies of it. Nobody learns of it.
   - BREAK_STEP_WITHOUT_HEALTH: The canary is ill and says so in its row. The next stage begins.
   - BREAK_BACK_WITHOUT_EPOCH: A node has gone back. Then it reads the document of the roll-out, and its epoch is the same.
   - BREAK_BLIND_WRITE: A node reads, an operator goes back, and the node writes the next stage. */

#define N	3
#define LATE	2		/* the node that starts late */

#ifndef DEATHS
#define DEATHS	1
#endif
#ifndef CUTS
#define CUTS	1		/* how often a node is cut off */
#endif
#ifndef BACKS
#define BACKS	1		/* how often an operator goes back */
#endif
#ifndef STALE
#define STALE	1		/* how many reads may bring a document from before */
#endif

#define bit(i)		(1 << (i))
#define has(set, i)	(((set) >> (i)) & 1)
#define all		(bit(N) - 1)

/* Phases of the document. */
#define NONE	0
#define CHECK	1
#define ROLL	2

typedef Doc {
	byte epoch;
	byte phase;
	byte stage;		/* 0: one node, 1: all */
	byte upto;		/* nodes of this rank, and of lower ones, run the change */
	bit baked;		/* the time of the stage is over */
	bit stable;		/* the change is in force */
	bit ended
};

Doc doc, old;			/* the current document, and one from before */
byte behind;			/* nodes that have not read it since it was written, so their ETag is an older one */
bit proposed;			/* the change */

/* Rows. */
byte listed, yes, no, runsIt, illRow;
byte fresh;			/* written since the time of the stage was over */
byte still[N];			/* by node: those that were silent at its last look, and have not been written since */

byte turn;			/* of the ranks */
#define rank(i)		(((i) + turn) % N)
byte refuses, sick;		/* nodes that refuse the change, or are ill with it */

byte runs;			/* nodes that run the change */
byte dead, away, silent;	/* silent: others know */
byte news, busy;		/* nodes that have something to look at, and those that are looking */
byte deaths, cuts, backs, stales;
bit ready;

/* For the assertions. */
byte up;			/* nodes that have started */
byte agreed, gone;		/* gone: died, or others know its silence, so they needn't wait */
byte left;			/* they were silent, and have not joined again */
byte passed;			/* they were passed over, so their fault is that they can't run what is in force */
byte seenBack;			/* nodes that have seen the roll-back */
bit hurt;			/* a canary has died within its bake */
bit bad;			/* the change was refused or taken back */

#define reach(i)	(!has(dead | away, i))
#define included(d, i)	(d.phase == ROLL && rank(i) <= d.upto)
#define live		(listed & ~silent)

#define copy(to, from)	to.epoch = from.epoch; to.phase = from.phase; to.stage = from.stage; to.upto = from.upto; \
			to.baked = from.baked; to.stable = from.stable; to.ended = from.ended

/* The steps of a node with the document. */
#define WAIT	0
#define REFUSE	1
#define BEGIN	2
#define BACK	3
#define CHOOSE	4
#define BAKED	5
#define NEXT	6

/* The rank of the first live node. */
inline lowest() {
	low = 0;
	do
	:: low < N - 1 && !((rank(0) == low && has(live, 0)) || (rank(1) == low && has(live, 1)) || (rank(2) == low && has(live, 2))) -> low++
	:: else -> break
	od
}

#define canary(i)	(has(listed, i) && has(yes, i) && included(d, i))
#define canaries	(canary(0) | (canary(1) << 1) | (canary(2) << 2))

/* Epochs matter where somebody may read a document from before. */
inline count() {
#if STALE
	doc.epoch++
#else
	skip
#endif
}

inline wrote() {
	behind = all;
	news = all
}

#define i	_pid

inline apply() {
	if
	:: !has(runs, i) ->
		assert(!has(seenBack, i));			/* nobody goes back to what was bad */
		runs = runs | bit(i)
	:: else
	fi
}

/* The node looks at a document. */
inline heed() {
	if
	:: d.epoch < epoch			/* from before */
	:: else ->
		epoch = d.epoch;
		if :: d.ended && !d.stable -> seenBack = seenBack | bit(i) :: else fi;
		if
		:: has(runs, i) && included(d, i)
		:: else ->
			if
			:: d.stable && has(refuses, i)		/* its fault: it can't run that */
			:: d.stable && !has(refuses, i) -> apply()
			:: else -> runs = runs & ~bit(i)
			fi
		fi;
		if
		:: d.phase != NONE && !said -> said = 1 + has(refuses, i)
		:: else
		fi;
#ifdef BREAK_RUN_BEFORE_TOLD
		if :: said == 1 && included(d, i) -> agreed = agreed | bit(i); apply() :: else fi
#else
		if :: said == 1 && has(yes & ~left, i) && included(d, i) -> apply() :: else fi
#endif
	fi
}

inline writeRow() {
	silent = silent & ~bit(i);
	still[0] = still[0] & ~bit(i); still[1] = still[1] & ~bit(i); still[2] = still[2] & ~bit(i);
	was = listed | (yes << 3);
	now = no | (runsIt << 3);
	low = illRow | (fresh << 3);
	listed = listed | bit(i);
	if :: said == 1 -> yes = yes | bit(i); agreed = agreed | bit(i) :: said == 2 -> no = no | bit(i) :: else fi;
	if :: has(runs, i) -> runsIt = runsIt | bit(i) :: else -> runsIt = runsIt & ~bit(i) fi;
	if :: has(runs, i) && has(sick, i) -> illRow = illRow | bit(i) :: else -> illRow = illRow & ~bit(i) fi;
	if :: doc.baked -> fresh = fresh | bit(i) :: else fi;
	if
	:: proposed && (was != (listed | (yes << 3)) || now != (no | (runsIt << 3)) || low != (illRow | (fresh << 3))) -> news = all
	:: else
	fi;
	was = 0; now = 0; low = 0
}

/* The node looks at the rows. */
inline judge() {
	act = WAIT;
	c = canaries;
	if
	:: d.epoch < epoch || d.phase == NONE
	:: else ->
		if
		:: d.phase == CHECK && (live & no) -> act = REFUSE
#ifdef BREAK_APPLY_BEFORE_LAST_VERDICT
		:: d.phase == CHECK && !(live & no) && (live & yes) -> act = BEGIN
#else
		:: d.phase == CHECK && !(live & no) && live && (live & ~yes) == 0 -> act = BEGIN
#endif
#ifndef BREAK_SILENCE_IS_HEALTH
		:: d.phase == ROLL && (c & silent) -> act = BACK
#endif
#ifndef BREAK_LATE_NODE_UNASKED
		:: d.phase == ROLL && (live & no) -> act = BACK
#endif
#ifndef BREAK_STEP_WITHOUT_HEALTH
		:: d.phase == ROLL && (c & live & illRow) -> act = BACK
#endif
		:: else ->
			if
#ifndef BREAK_LATE_NODE_UNASKED
			:: d.phase == ROLL && (live & ~(yes | no))	/* somebody has to answer first */
#endif
			:: d.phase == ROLL && (c & live) == 0 && live -> lowest(); act = (low > d.upto -> CHOOSE : WAIT)
			:: d.phase == ROLL && (c & live & ~runsIt)	/* doesn't run it yet */
			:: else ->
				if
				:: d.phase == ROLL && !d.baked -> act = BAKED
				:: d.phase == ROLL && d.baked && (c & live & ~fresh) == 0 -> act = NEXT
				:: else
				fi
			fi
		fi
	fi;
	low = 0; c = 0;
	still[i] = silent & listed
}

/* Rows that were those of dead nodes at the last look, before the document was read, are deleted, if they are the same
   still. But those that may have died with the change stay. */
inline bury() {
	c = still[i] & silent & listed;
#ifndef BREAK_CANARY_BURIED
	c = c & ~canaries;
#endif
	if
	:: c && d.epoch >= epoch ->
		listed = listed & ~c; yes = yes & ~c; no = no & ~c; runsIt = runsIt & ~c; illRow = illRow & ~c; fresh = fresh & ~c;
		news = all
	:: else
	fi;
	c = 0; still[i] = 0
}

/* Nothing comes into force, or into more nodes, without the yes of each node that has started and is alive. */
inline allAgreed() {
	assert((up & ~gone & ~agreed) == 0)
}

/* A node that starts runs what is in force, or doesn't start. */
inline start() {
	epoch = d.epoch;
	if :: d.ended && !d.stable -> seenBack = seenBack | bit(i) :: else fi;
	if
	:: d.stable && has(refuses, i) -> listed = listed & ~bit(i); dead = dead | bit(i); silent = silent | bit(i); news = all
	:: d.stable && !has(refuses, i) -> agreed = agreed | bit(i); runs = runs | bit(i)
	:: else
	fi
}

/* The write of the document by which whoever has read the rows too early loses. */
inline join() {
#if !defined(BREAK_JOIN_LEFT_OUT) && !defined(BREAK_JOIN_WITHOUT_WRITE)
	if :: doc.phase != NONE -> count(); wrote() :: else fi;
#endif
	copy(d, doc)
}

inline back() {
#ifdef BREAK_BACK_WITHOUT_EPOCH
	doc.epoch--;
#endif
	doc.phase = NONE; doc.ended = 1; doc.baked = 0; bad = 1
}

inline forget() {
	d.epoch = 0; d.phase = 0; d.stage = 0; d.upto = 0; d.baked = 0; d.stable = 0; d.ended = 0
}

inline write() {
	copy(old, doc);
#ifdef BREAK_BLIND_WRITE
	copy(doc, d);
#endif
	count();
	if
	:: act == REFUSE -> back()
	:: act == BACK -> back()
	:: act == BEGIN -> allAgreed(); lowest(); doc.phase = ROLL; doc.upto = low; low = 0
	:: act == CHOOSE -> lowest(); doc.upto = low; doc.baked = 0; hurt = 0; low = 0
	:: act == BAKED -> doc.baked = 1; fresh = 0
	:: act == NEXT ->
		assert(!hurt && !bad);
		allAgreed();
		doc.baked = 0;
		if
		:: doc.stage == 0 -> doc.stage = 1; doc.upto = N - 1
		:: else ->
			assert((up & ~gone & sick) == 0);
			passed = up & gone & ~agreed;
			doc.phase = NONE; doc.stable = 1; doc.ended = 1
		fi
	fi;
	wrote()
}

active [N] proctype node() {
	Doc d;
	byte epoch, said, act, c, low, was, now;
	bit stale;

	atomic { ready -> if :: i != LATE -> epoch = doc.epoch; goto end_idle :: else fi };
	atomic { copy(d, doc); start(); if :: has(dead, i) -> forget(); goto over :: else fi };
	atomic { writeRow() };
end_join:
	atomic {
		reach(i) ->
		left = left & ~bit(i);
#ifdef BREAK_JOIN_LEFT_OUT
		skip
#else
		join();
		if
		:: d.stable && !has(up | runs, i) ->
			start();
			if :: has(dead, i) -> forget(); goto over :: else -> writeRow() fi
		:: else
		fi
#endif
		;
		up = up | bit(i); busy = busy & ~bit(i);
		if :: proposed -> news = news | bit(i) :: else fi;
		if :: !has(dead, i) -> gone = gone & ~bit(i) :: else fi;
		forget()
	};
end_idle:
	atomic {
		has(news, i) && reach(i) ->
		news = news & ~bit(i); busy = busy | bit(i);
		if
		:: behind = behind & ~bit(i); copy(d, doc)
		:: stales < STALE && has(seenBack, i) -> stales++; stale = 1; behind = behind | bit(i); copy(d, old); news = news | bit(i)
		fi;
		heed()
	};
end_row:
	atomic {
		reach(i) ->
		d_step { bury(); writeRow() };
		if :: has(left, i) -> stale = 0; forget(); goto end_join :: else fi;
		d_step { judge() };
#ifndef BREAK_BLIND_WRITE
		forget();
#endif
		if :: act == WAIT -> goto rest :: else fi
	};
end_write:
	atomic {
		reach(i) ->
		if
#ifdef BREAK_BLIND_WRITE
		:: !stale -> write()
#else
		:: !has(behind, i) -> d_step { write() }
		:: has(behind, i) -> news = news | bit(i)
#endif
		fi;
rest:
		act = WAIT; stale = 0; busy = busy & ~bit(i);
		forget();
		goto end_idle
	};
over:
	skip
}
#undef i

/* Deaths and late starts of nodes. */
inline fail(i) {
	if
	:: deaths < DEATHS && has(listed, i) && !has(dead, i) -> deaths++; dead = dead | bit(i); away = away & ~bit(i); gone = gone | bit(i);
		if
		:: doc.phase == ROLL && !doc.baked && has(runs, i) -> hurt = 1
		:: else
		fi
	:: cuts < CUTS && has(up, i) && reach(i) -> cuts++; away = away | bit(i)
	:: has(away, i) && !has(dead, i) -> away = away & ~bit(i); news = news | bit(i)
	:: (has(dead, i) || has(away, i)) && !has(silent, i) -> silent = silent | bit(i); gone = gone | bit(i); left = left | bit(i); news = all
	fi
}

active proctype fate() {
end_before:
	atomic { proposed -> skip };	/* what fails before the change is of no account */
end_fate:
	do
	:: atomic { fail(0) }
	:: atomic { fail(1) }
	:: atomic { fail(2) }
	:: atomic { backs < BACKS && doc.phase == ROLL -> backs++; copy(old, doc); count(); back(); wrote() }
	od
}

active proctype world() {
	atomic {
		if :: turn = 0 :: turn = 1 fi;		/* the late node is the last one, or the first */
		if :: true :: refuses = bit(1) :: refuses = bit(LATE) :: sick = bit(1) :: sick = bit(LATE) fi;
		listed = bit(0) | bit(1); up = listed;
		ready = 1
	};
	/* Somebody proposes the change. */
	atomic { proposed = 1; count(); doc.phase = CHECK; wrote() };
	/* When there is nothing to look at any more, */
	atomic {
		ready && !(news & ~dead) && !(busy & ~dead) && !away && !(dead & ~silent) && has(up | dead, LATE) ->
		/* the change has ended, */
		assert(doc.phase == NONE && doc.ended);
		assert(doc.stable != bad);
		/* and each node that is alive runs what is in force. */
		assert((runs & ~dead & ~passed) == (doc.stable -> all & ~dead & ~passed : 0))
	}
}
