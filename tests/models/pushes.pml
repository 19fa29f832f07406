/* pushes.pml: servers that allow units before the store counts them, and push them later.
 *
 * A server admits a unit if its mirror of the store says that one is left, and if less than AHEAD of its units wait for
 * a reply to a push. Otherwise it asks the store, which charges the units that wait in the same call. A push charges in
 * full, into debt if need be. Its reply overwrites the mirror: what the store said, and what was admitted since. Calls
 * and replies arrive late or never. A push without a reply is sent again. Up to CRASHES servers lose what they have not
 * pushed, at any time, and hear from the store before they admit again.
 *
 * A bucket of BURST units refills one unit a tick. -DWINDOW: a tick is the end of a window, whose units are dropped. All
 * times are relative, so time has no end, and all states are searched.
 *
 * Checked: `fill`, an exact limit that is charged when a unit is admitted, never has more than BURST + (SERVERS - 1) *
 * AHEAD units used. A server that has crashed counts as one more.
 *
 * check.py lists the sizes that are searched and the faults, each a -D, that must be found:
 *   -DSMALLER      the bound is one unit smaller: it is reached
 *   -DNO_DEBT      a push charges only what is left
 *   -DSENT_IS_DONE units no longer count as waiting when their push is sent
 *   -DOLD_MIRROR   a reply overwrites the mirror without the units that were admitted since */

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
	bool is_sent, is_reply;
	byte units, reply /* of the push under way */
};

server_state servers[SERVERS];
byte used, fill, crashes;

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
		:: i < SERVERS -> sink(servers[i].seen); sink(servers[i].reply); i++
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
			servers[i].waiting = 0;
			servers[i].units = 0;
			servers[i].reply = 0;
			servers[i].seen = (servers[i].seen == UNKNOWN -> UNKNOWN : 0);
			i++
		:: else -> break
		od;
		i = 0
	}
}

inline charge(charged) {
#ifdef NO_DEBT
	used = (used + charged < BURST -> used + charged : (used > BURST -> used : BURST))
#else
	used = used + charged
#endif
}

inline forget_push(n) {
	servers[n].is_sent = false;
	servers[n].is_reply = false;
	servers[n].units = 0;
	servers[n].reply = 0
}

inline act(n) {
	if
	/* A unit is admitted here. */
	:: atomic {
		servers[n].seen < BURST && servers[n].waiting < AHEAD ->
		servers[n].seen++;
		servers[n].waiting++;
		spend()
	}
	/* The store is asked: it charges what waits, and decides on one unit more. */
	:: atomic {
		!servers[n].is_sent && used < USED_MOST ->
		charge(servers[n].waiting);
		servers[n].waiting = 0;
		if
		:: used < BURST -> used++; spend()
		:: else
		fi;
		servers[n].seen = used
	}
	/* A push is sent, is executed, is confirmed or is lost, before or after it was executed. */
	:: d_step {
		!servers[n].is_sent ->
		servers[n].is_sent = true;
		servers[n].units = servers[n].waiting;
#ifdef SENT_IS_DONE
		servers[n].waiting = 0
#endif
	}
	:: d_step {
		servers[n].is_sent && !servers[n].is_reply && used < USED_MOST ->
		charge(servers[n].units);
		servers[n].is_reply = true;
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
		servers[n].seen = servers[n].reply + servers[n].waiting;
#endif
		forget_push(n)
	}
	:: d_step { servers[n].is_sent -> forget_push(n) }
	/* A crash. */
	:: d_step {
		crashes < CRASHES ->
		crashes++;
		servers[n].waiting = 0;
		servers[n].seen = UNKNOWN;
		forget_push(n)
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
