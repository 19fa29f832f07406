/* table_read.pml: a reader of a history while others write.
 *
 * Events are numbered. An event's number also serves as its time and its total. The newest event is in the root. Before
 * another replaces it, it is written to its cell in a ring of CELLS. Cells hold numbers modulo SPAN. An event counts
 * until PERIOD others have come. After each push the writer advances the oldest event, unless another writer has done
 * so.
 *
 * A reader reads the oldest event, then the newest, then the oldest again, which must be unchanged. Then it reads
 * cells, and the oldest event once more. It accepts a cell that lies between the two events that it knows. It accepts
 * its result if the oldest event has not passed the newest that it has read.
 *
 * Checked when a reader accepts: each cell had the event of its position when the newest event was read, and no event
 * that counted then was missed. A reader that does not accept retries. It accepts if no writer interferes.
 *
 * check.py lists the sizes that are searched and the faults, each a -D, that must be found:
 *   -DNEWEST_FIRST    the newest event is read before the oldest: events that counted may be gone already
 *   -DNO_SECOND_LOOK  the oldest event is not read again after the newest, which may have wrapped around the ring by
 *   then
 *   -DNO_LAST_LOOK    the oldest event is not read after the cells: a cell may have been overwritten several times
 *   -DNO_ORDER        a cell is accepted whatever it holds */

#ifndef WRITERS
#define WRITERS 1
#endif
#ifndef WRITES
#define WRITES 10
#endif
#ifndef CELLS
#define CELLS 4
#endif
#ifndef SPAN
#define SPAN 7
#endif
#ifndef READS
#define READS 1
#endif
#define PERIOD 3

byte newest = 3, oldest = 1;
byte cells[CELLS];
byte is_written; /* how many events the writers have added */
byte ended;      /* writers that have finished */

#define FIRST_LIVE(when) ((when) >= PERIOD -> (when) - PERIOD + 1 : 1)

inline file_newest() {
	atomic {
		if
		:: newest == seen -> cells[seen % CELLS] = seen % SPAN
		:: else
		fi
	}
}

proctype writer() {
	byte seen, oldest_seen;
	bool is_done;

	do
	:: is_written >= WRITES -> break
	:: else ->
		seen = newest;
		oldest_seen = oldest;
		/* no push into a full ring */
		if
		:: seen + 1 - oldest_seen < CELLS ->
			file_newest();
			atomic {
				is_done = (newest == seen && is_written < WRITES);
				if
				:: is_done -> newest = seen + 1; is_written++
				:: else
				fi
			};
			atomic {
				if
				:: is_done && oldest == oldest_seen && oldest < FIRST_LIVE(seen + 1) ->
					oldest = FIRST_LIVE(seen + 1)
				:: else
				fi
			}
		:: else ->
			/* no other writer has advanced the oldest event yet: advance it */
			atomic {
				if
				:: oldest == oldest_seen && oldest < FIRST_LIVE(seen) -> oldest = FIRST_LIVE(seen)
				:: else
				fi
			}
		fi
	od;
	ended++
}

proctype reader() {
	byte first, last, position, cell, number, again, reads;
	bool is_lost, is_alone;

	is_lost = false;
	is_alone = (ended == WRITERS);
#ifdef NEWEST_FIRST
	last = newest;
	first = oldest;
#else
	first = oldest;
	last = newest;
#endif
#ifndef NO_SECOND_LOOK
	if
	:: oldest != first -> is_lost = true
	:: else
	fi;
#endif
	if
	:: first > last -> is_lost = true
	:: else
	fi;
	do
	:: is_lost || reads == READS || first >= last -> break
	:: else ->
		reads++;
		/* any position, as in a binary search */
		position = first;
		do
		:: position + 1 < last -> position++
		:: true -> break
		od;
		cell = cells[position % CELLS];
		number = (last + SPAN - cell) % SPAN; /* distance from the newest event */
#ifndef NO_ORDER
		if
		:: number > last - first -> is_lost = true
		:: else
		fi;
#endif
		if
		:: !is_lost ->
			again = last - number;
#ifndef NO_LAST_LOOK
			if
			:: oldest > last -> is_lost = true
			:: else
			fi;
#endif
			assert(is_lost || again == position)
		:: else
		fi
	od;
	assert(is_lost || first <= FIRST_LIVE(last));
	assert(!is_lost || !is_alone)
}

init {
	byte i;

	atomic {
		cells[1] = 1;
		cells[2] = 2;
		for (i : 1 .. WRITERS) { run writer() }
		run reader()
	}
}
