/* pushes.pml: servers that allow units before the store counts them, and push them later.
 *
 * A server admits a unit if its mirror of the store says that one is left, and if less than AHEAD of its units wait for
 * a reply to a push. Otherwise it asks the store, which charges the units that wait in the same call, unless a push is
 * under way already. A push charges in full, into debt if need be. Its reply overwrites the mirror: what the store said,
 * and what was admitted since. Calls and replies arrive late, in any order, or never. A push without a reply is sent
 * again, at once or after another reply. Up to CRASHES servers lose what they have not pushed, at any time, and hear from the store before they admit
 * again.
 *
 * The store is asked in one step, when no push is under way. -DAPART: an ask is sent, executed and confirmed like a push, and
 * may be sent without the units that wait.
 * While the store decides it, it keeps as many units free as the server may have admitted without a charge. Either
 * nothing is admitted by the mirror meanwhile, or all of AHEAD is kept free.
 *
 * A bucket of BURST units refills one unit a tick. -DWINDOW: a tick is the end of a window. Then a push charges nothing
 * if none of its units was admitted in the new window. All times are relative, so time has no end, and all states are
 * searched.
 *
 * Checked: `fill`, an exact limit that is charged when a unit is admitted, never has more than BURST + (SERVERS - 1) *
 * AHEAD units used. A server that has crashed counts as one more.
 *
 * check.py lists the sizes that are searched and the faults, each a -D, that must be found:
 *   -DSMALLER      the bound is one unit smaller: it is reached
 *   -DNO_DEBT      a push charges only what is left
 *   -DSENT_IS_DONE units no longer count as waiting when their push is sent
 *   -DOLD_MIRROR   a reply overwrites the mirror without the units that were admitted since
 *   -DNO_RESERVE   with -DAPART, the store is asked without keeping units free */

#ifndef SERVERS
#define SERVERS 2
#endif
#ifndef BURST
#define BURST 3
#endif
#ifndef AHEAD
#define AHEAD 2
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#ifdef SMALLER
#define BOUND (BURST + (SERVERS - 1 + crashes) * AHEAD - 1)
#else
#define BOUND (BURST + (SERVERS - 1 + crashes) * AHEAD)
#endif
#define UNKNOWN 100 /* a mirror that has heard nothing yet */
#define USED_MOST (BURST + SERVERS * AHEAD) /* a store in deeper debt is charged no more */

typedef server_state {
	byte waiting; /* units admitted that no reply has confirmed */
	byte seen;    /* the mirror: used units */
	bool is_sent, is_reply, is_old; /* old: the mirror has a later reply */
	bool is_new, is_push_new, is_ask_new; /* -DWINDOW: some of the units were admitted in this window */
	byte units, reply; /* of the push under way */
	bool asks, is_told, is_told_old, is_frozen, is_ask_newer;
	byte ask_units, reserved, told /* of the ask under way */
};

server_state servers[SERVERS];
byte used, fill, crashes;
byte charged; /* units that a push charges; 0 between steps */
byte level; /* of a reply that is being written into a mirror; 0 between steps */
bool is_late;

inline spend() {
	fill++;
	assert(fill <= BOUND)
}

inline sink(level) {
	if
	:: level > 0 && level != UNKNOWN -> level--
	:: else
	fi
}

inline tick() {
	d_step {
		sink(fill);
		sink(used);
		i = 0;
		do
		:: i < SERVERS -> sink(servers[i].seen); sink(servers[i].reply); sink(servers[i].told); i++
		:: else -> break
		od;
		i = 0
	}
}

inline turn() {
	d_step {
		fill = 0;
		used = 0;
		i = 0;
		do
		:: i < SERVERS ->
			servers[i].is_new = false;
			servers[i].is_push_new = false;
			servers[i].is_ask_new = false;
			servers[i].reply = 0;
			servers[i].told = 0;
			servers[i].seen = (servers[i].seen == UNKNOWN -> UNKNOWN : 0);
			i++
		:: else -> break
		od;
		i = 0
	}
}

inline charge(pushed, is_of_window) {
	charged = (is_of_window -> pushed : 0);
#ifdef NO_DEBT
	used = (used + charged < BURST -> used + charged : (used > BURST -> used : BURST));
#else
	used = used + charged;
#endif
	charged = 0
}

inline forget_push(n) {
	servers[n].is_sent = false;
	servers[n].is_reply = false;
	servers[n].is_old = false;
	servers[n].is_push_new = false;
	servers[n].is_new = servers[n].is_new && servers[n].waiting > 0;
	servers[n].units = 0;
	servers[n].reply = 0;
	servers[n].is_ask_newer = false
}

inline forget_ask(n) {
	servers[n].asks = false;
	servers[n].is_told = false;
	servers[n].is_told_old = false;
	servers[n].is_frozen = false;
	servers[n].is_ask_newer = false;
	servers[n].is_ask_new = false;
	servers[n].is_new = servers[n].is_new && servers[n].waiting > 0;
	servers[n].ask_units = 0;
	servers[n].reserved = 0;
	servers[n].told = 0
}

/* Only a later reply lowers the mirror. */
inline overwrite(n) {
	if
	:: is_late && servers[n].seen != UNKNOWN && servers[n].seen > level
	:: else -> servers[n].seen = level
	fi;
	level = 0;
	is_late = false
}

inline act(n) {
	if
	/* A unit is admitted here. */
	:: atomic {
		servers[n].seen < BURST && servers[n].waiting < AHEAD && !servers[n].is_frozen ->
		servers[n].seen++;
		servers[n].waiting++;
		servers[n].is_new = true;
		spend()
	}
	/* The store is asked: it charges what waits, and decides on one unit more. */
#ifndef APART
	:: atomic {
		!servers[n].is_sent && used < USED_MOST ->
		charge(servers[n].waiting, servers[n].is_new);
		servers[n].waiting = 0;
		servers[n].is_new = false;
		if
		:: used < BURST -> used++; spend()
		:: else
		fi;
		servers[n].seen = used
	}
#else
	:: atomic {
		!servers[n].asks ->
		servers[n].asks = true;
		if
		:: servers[n].ask_units = (servers[n].is_sent -> 0 : servers[n].waiting)
		:: servers[n].ask_units = 0 /* a push had no reply: these units are not sent again before there is one */
		fi;
		servers[n].is_ask_new = servers[n].ask_units > 0 && servers[n].is_new;
#ifndef NO_RESERVE
		if
		:: servers[n].is_frozen = true; servers[n].reserved = servers[n].waiting - servers[n].ask_units
		:: servers[n].reserved = AHEAD - servers[n].ask_units
		fi
#endif
	}
	:: atomic {
		servers[n].asks && !servers[n].is_told && used < USED_MOST ->
		charge(servers[n].ask_units, servers[n].is_ask_new);
		if
		:: used + servers[n].reserved < BURST -> used++; spend()
		:: else
		fi;
		servers[n].is_told = true;
		servers[n].is_ask_newer = servers[n].is_reply;
		servers[n].told = used
	}
	:: d_step {
		servers[n].is_told ->
		servers[n].waiting = servers[n].waiting - servers[n].ask_units;
		level = servers[n].told +
			(servers[n].reserved > servers[n].waiting -> servers[n].reserved : servers[n].waiting);
		is_late = servers[n].is_told_old;
		overwrite(n);
		servers[n].is_old = servers[n].is_reply && servers[n].is_ask_newer;
		forget_ask(n)
	}
	/* Without a reply, the request was not admitted. The store may have charged it. */
	:: d_step { servers[n].asks && !servers[n].is_told -> forget_ask(n) }
	:: d_step {
		servers[n].asks && !servers[n].is_told && used < USED_MOST ->
		charge(servers[n].ask_units, servers[n].is_ask_new);
		used = (used + servers[n].reserved < BURST -> used + 1 : used);
		forget_ask(n)
	}
#endif
	/* A push is sent, is executed, is confirmed or is lost, before or after it was executed. */
	:: atomic {
		!servers[n].is_sent && servers[n].ask_units == 0 ->
		servers[n].is_sent = true;
		if
		:: servers[n].units = servers[n].waiting
		:: servers[n].units = 0 /* only reads, for the same reason */
		fi;
		servers[n].is_push_new = servers[n].units > 0 && servers[n].is_new;
#ifdef SENT_IS_DONE
		servers[n].waiting = 0
#endif
	}
	:: d_step {
		servers[n].is_sent && !servers[n].is_reply && used < USED_MOST ->
		charge(servers[n].units, servers[n].is_push_new);
		servers[n].is_reply = true;
		servers[n].is_ask_newer = false;
		servers[n].reply = used
	}
	:: d_step {
		servers[n].is_reply ->
#ifndef SENT_IS_DONE
		servers[n].waiting = servers[n].waiting - servers[n].units;
#endif
#ifdef OLD_MIRROR
		servers[n].seen = servers[n].reply;
#else
		level = servers[n].reply + servers[n].waiting;
		is_late = servers[n].is_old;
		overwrite(n);
#endif
		servers[n].is_told_old = servers[n].is_told && !servers[n].is_ask_newer;
		forget_push(n)
	}
	:: d_step { servers[n].is_sent -> forget_push(n) }
	/* A crash. */
	:: d_step {
		crashes < CRASHES ->
		crashes++;
		servers[n].waiting = 0;
		servers[n].seen = UNKNOWN;
		forget_push(n);
		forget_ask(n)
	}
	fi
}

init {
	byte i, n;

	d_step {
		do
		:: i < SERVERS -> servers[i].seen = UNKNOWN; i++
		:: else -> break
		od;
		i = 0
	}
	do
#ifdef WINDOW
	:: turn()
#else
	:: tick()
#endif
	:: d_step {
		if
		:: n < SERVERS - 1 -> n++
		:: else -> n = 0
		fi
	}
	:: act(n)
	od
}
