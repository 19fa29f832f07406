/* leases.pml: servers that hold units which Redis has lent them, and spend these without a call.
 *
 * A bucket of BURST units refills one unit a tick. SERVERS take from it directly, or ask for a grant of up to WANTED
 * units, spend them, and return the rest. With -DREFUNDS, a unit that was spent may be refunded: into the lot that it
 * came from, as long as the server has the lot, or by the store, from the used units. A server counts DURATION ticks
 * from before it sent the call; the store counts as many from when the call arrived. Calls and replies arrive late or
 * never. Up to CRASHES servers lose what they hold and start again, at any time. All times are relative, so time has no
 * end, and all states are searched.
 *
 * The store has `used`, and the lent units by the ticks until their lease ends. Used units refill; lent units do not.
 * When a lease ends, its units are used as of that tick. This is src/store/redis/leases.lua.
 *
 * Checked: what is left and what is lent are never more than the burst; and `fill`, an exact bucket that is charged
 * when a unit is really spent, never has more than BURST units used. So no interval allows more than an exact limit
 * could allow. A refund takes a unit from `fill`.
 *
 * check.py lists the sizes that are searched and the faults, each a -D, that must be found:
 *   -DDEBIT_ONLY      a grant is charged at once, and refills while it is lent
 *   -DDROP_AT_END     the units of a lease that ends are not charged
 *   -DLATE_START      a server counts the duration from the reply
 *   -DSHORT_STORE     the store counts two ticks less than the server
 *   -DLATE_RETURN     a return counts although the lease has ended
 *   -DREPEAT_RETURN   a return without a reply is sent again
 *   -DKEEP_SPENDING   a server returns units that it still spends
 *   -DREFUND_MORE     (with REFUNDS) a lot gets more units than were lent
 *   -DREFUND_RETURNED (with REFUNDS) a unit that was returned is refunded into the lot
 *   -DREFUND_LENT     (with REFUNDS) the store takes a refund from lent units */

#ifndef SERVERS
#define SERVERS 2
#endif
#ifndef BURST
#define BURST 3
#endif
#ifndef DURATION
#define DURATION 2
#endif
#ifndef WANTED
#define WANTED 2
#endif
#ifndef CRASHES
#define CRASHES 2
#endif
#ifdef SHORT_STORE
#define STORED (DURATION - 2)
#else
#define STORED DURATION
#endif

typedef server_state {
	byte held, hold_for, end_in; /* units; ticks that they may be spent; ticks until the store's lease ends */
	byte lot;                    /* units that were lent and not returned: those held and those spent */
	bool waits; /* for the reply to a grant */
	byte wait_for /* ticks since the call that are left of the duration */
};

typedef message {
	bool is_sent, is_reply, is_void; /* void: its server has crashed since */
	byte units, end_in
};

server_state servers[SERVERS];
message grants[SERVERS], returns[SERVERS];
byte used, lent, lots[STORED + 1]; /* lots[k]: units whose lease ends in k ticks */
byte fill, crashes;

inline check() {
	assert(used + lent <= BURST);
	assert(fill <= BURST)
}

inline forget(which) {
	which.held = 0;
	which.hold_for = 0;
	which.end_in = 0;
	which.lot = 0
}

inline refund() {
	fill = (fill > 0 -> fill - 1 : 0)
}

inline spend() {
	fill++;
	check()
}

inline clear(which) {
	which.is_sent = false;
	which.is_reply = false;
	which.is_void = false;
	which.units = 0;
	which.end_in = 0
}

/* --- time -------------------------------------------------------------------------------------------------------- */

inline tick_message(which) {
	if
	:: which.end_in > 0 -> which.end_in--
	:: else
	fi
}

inline tick() {
	d_step {
		fill = (fill > 0 -> fill - 1 : 0);
		used = (used > 0 -> used - 1 : 0);
		i = 1;
		do
		:: i <= STORED ->
			if
			:: i == 1 ->
				lent = lent - lots[1];
#ifndef DROP_AT_END
				used = used + lots[1]
#endif
			:: else -> lots[i - 1] = lots[i]
			fi;
			i++
		:: else -> break
		od;
		lots[STORED] = 0;
		i = 0;
		do
		:: i < SERVERS ->
			servers[i].wait_for = (servers[i].wait_for > 0 -> servers[i].wait_for - 1 : 0);
			servers[i].end_in = (servers[i].end_in > 0 -> servers[i].end_in - 1 : 0);
			if
			:: servers[i].hold_for > 1 -> servers[i].hold_for--
			:: else -> forget(servers[i])
			fi;
			tick_message(grants[i]);
			tick_message(returns[i]);
			i++
		:: else -> break
		od;
		i = 0;
		check()
	}
}

/* --- the store --------------------------------------------------------------------------------------------------- */

inline store_grant(n) {
	d_step {
		left = BURST - used - lent;
		grants[n].units = (left < WANTED -> left : WANTED);
		grants[n].is_reply = true;
		grants[n].end_in = (grants[n].units > 0 -> STORED : 0);
#ifdef DEBIT_ONLY
		used = used + grants[n].units;
#else
		lent = lent + grants[n].units;
		lots[STORED] = lots[STORED] + grants[n].units;
#endif
		left = 0;
		check()
	}
}

inline store_return(n) {
	d_step {
#ifdef DEBIT_ONLY
		used = (used > returns[n].units -> used - returns[n].units : 0);
#else
		if
		:: returns[n].end_in > 0 ->
			left = (returns[n].units < lots[returns[n].end_in] -> returns[n].units : lots[returns[n].end_in]);
			lots[returns[n].end_in] = lots[returns[n].end_in] - left;
			lent = lent - left
		:: else ->
#ifdef LATE_RETURN
			used = (used > returns[n].units -> used - returns[n].units : 0)
#else
			skip
#endif
		fi;
#endif
		left = 0;
		check()
	}
}

/* --- everything that may happen ---------------------------------------------------------------------------------- */

inline act(n) {
	if
	/* A take that the store decides. */
	:: atomic { used + lent < BURST -> used++; spend() }
	/* A grant is called, is decided, arrives or is lost. */
	:: d_step {
		!grants[n].is_sent && !servers[n].waits && servers[n].held == 0 ->
		grants[n].is_sent = true;
		servers[n].waits = true;
		servers[n].wait_for = DURATION
	}
	:: atomic { grants[n].is_sent && !grants[n].is_reply -> store_grant(n) }
	:: d_step {
		grants[n].is_sent && grants[n].is_reply && !grants[n].is_void && servers[n].waits ->
#ifdef LATE_START
		servers[n].wait_for = DURATION;
#endif
		if
		:: servers[n].wait_for > 0 && grants[n].units > 0 ->
			servers[n].held = grants[n].units;
			servers[n].hold_for = servers[n].wait_for;
			servers[n].end_in = grants[n].end_in;
			servers[n].lot = grants[n].units
		:: else
		fi;
		servers[n].waits = false;
		servers[n].wait_for = 0;
		clear(grants[n])
	}
	:: d_step { grants[n].is_sent && !servers[n].waits -> clear(grants[n]) }
	/* The server gives up waiting: the grant is void, whenever it is decided. */
	:: d_step { servers[n].waits -> servers[n].waits = false; servers[n].wait_for = 0; grants[n].is_void = true }
	/* A unit is spent. */
	:: atomic {
		servers[n].held > 0 ->
		servers[n].held--;
#ifndef REFUNDS
		servers[n].lot--;
		if
		:: servers[n].lot == 0 -> forget(servers[n])
		:: else
		fi;
#endif
		spend()
	}
#ifdef REFUNDS
	/* A unit is refunded, here or by the store. */
	:: d_step {
#ifdef REFUND_MORE
		servers[n].lot > 0 && servers[n].held <= servers[n].lot ->
#else
		servers[n].held < servers[n].lot ->
#endif
		servers[n].held++;
		refund()
	}
#ifdef REFUND_LENT
	:: d_step { lots[STORED] > 0 -> lots[STORED]--; lent--; refund() }
#endif
	:: d_step { used > 0 -> used--; refund() }
#endif
	/* One or all units are returned. The call arrives at any time, or never. */
	:: d_step {
		servers[n].held > 0 && !returns[n].is_sent ->
		returns[n].is_sent = true;
		returns[n].units = 1;
		returns[n].end_in = servers[n].end_in;
#ifndef KEEP_SPENDING
		servers[n].held--;
#ifndef REFUND_RETURNED
		servers[n].lot--;
#endif
		if
		:: servers[n].lot == 0 -> forget(servers[n])
		:: else
		fi
#endif
	}
	:: atomic {
		returns[n].is_sent -> store_return(n);
#ifdef REPEAT_RETURN
		if
		:: true
		:: clear(returns[n])
		fi
#else
		clear(returns[n])
#endif
	}
	:: d_step { returns[n].is_sent -> clear(returns[n]) }
	/* A crash: the server forgets what it holds and what it has called. */
	:: d_step {
		crashes < CRASHES && (servers[n].held > 0 || servers[n].waits) ->
		crashes++;
		forget(servers[n]);
		servers[n].waits = false;
		servers[n].wait_for = 0;
		grants[n].is_void = grants[n].is_sent
	}
	fi
}

active proctype world() {
	byte i, left, n;

	do
	:: tick()
	:: d_step {
		if
		:: n < SERVERS - 1 -> n++
		:: else -> n = 0
		fi
	}
	:: act(n)
	od
}
