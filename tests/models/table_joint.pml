/* table_joint.pml: requests that must pass two limits at once, on a table without locks.
 *
 * A request looks at both limits, then charges one after the other. If the second is used up meanwhile, the request
 * takes back its charge of the first. It must take back only its own charge, although others may have charged the slot
 * since, or the key may have been forgotten and charged again.
 *
 * PROCESSES make REQUESTS each: through both limits in either order, or through one of them alone. RESETS times a limit
 * is forgotten, by a reset or an eviction, and `forgiven` counts it. table_slots.pml shows that a key has one slot and
 * that a charge is one swap, so here a limit is one word. A forgotten key returns to the same slot, which is the worst
 * case.
 *
 * Checked after every change:
 *  - Windows (the default; WINDOWS of them follow each other): the word counts at least the requests that were allowed,
 *    or may still be, since the limit was last forgotten. Without RESETS, in one window, it counts exactly these plus
 *    the charges that CRASHES left behind. A live process leaves none.
 *  - Buckets (-DBUCKET): the word has at least the usage that it would have if the requests that were taken back had
 *    never come. Clocks are as in table_slots.pml. Units that have leaked since the charge, or may have leaked by
 *    another clock, are not given back.
 * A crashed process is one that takes no more steps, so all of this holds after any number of crashes.
 *
 * A load and the dependent swap of the same word are one step, as in table_slots.pml, except where something else is
 * read in between: when a charge is taken back, and in a reset.
 *
 * Assumption: no word returns to the same bits between such a load and its swap. Swaps compare bits, so with -DABA,
 * which lets words do that, a charge can be lost. A window loses one to a reset followed by as many charges as before,
 * all between two instructions of a request that takes back. A bucket loses one if others take back and charge the same
 * to the nanosecond. -DSTAMP, a separate number for each insertion, would prevent the first.
 *
 * Differences from the table: the table restores the word before the charge if it finds the word unchanged
 * (-DBACK_TO_BEFORE). For windows this is checked and holds. For buckets it does not hold: others may have taken back
 * and charged, and arrived at the same word. Only shared tables add the clock margin to what has leaked. A private
 * table treats the threads' clocks as one, as with DRIFT 0.
 *
 * Not checked: refunds, more than two limits, costs other than one, sliding counters, bursts that refill at once.
 *
 * check.py lists the sizes that are searched and the faults, each a -D, that must be found. */

#ifndef PROCESSES
#define PROCESSES 3
#endif
#ifndef REQUESTS
#define REQUESTS 1
#endif
#ifndef RESETS
#define RESETS 0
#endif
#ifndef CRASHES
#define CRASHES 0
#endif
#ifndef WINDOWS
#define WINDOWS 1
#endif
#ifndef LAST
#define LAST 3
#endif
#ifndef DRIFT
#define DRIFT 0
#endif

#define LIMITS 2

#define WORD(value, window, stamp) ((value) | ((window) << 4) | ((stamp) << 6))
#define VALUE(word) ((word) & 15)
#define WINDOW(word) (((word) >> 4) & 3)
#define STAMP_OF(word) ((word) >> 6)
#define STALE WORD(0, 0, 15)
#define LATER(a, b) ((a) > (b) -> (a) : (b))

mtype:step = { begin, peek, note, charge, clock, load, recall, put, gone };
mtype:reset = { idle, counted, found };

short word[LIMITS];
byte forgiven;
byte time = 1 + DRIFT;

mtype:step step[PROCESSES] = begin;
byte left[PROCESSES] = REQUESTS; /* requests to come */
byte now[PROCESSES];             /* the window, or the instant */
byte first[PROCESSES];           /* the limit that is charged first */
byte parts[PROCESSES];           /* limits to pass */
byte part[PROCESSES];            /* index of the next one */
byte noted[PROCESSES];           /* `forgiven` before the first charge */
byte later[PROCESSES];           /* the clock when it is taken back */
short before[PROCESSES];         /* the word before the first charge */
short after[PROCESSES];          /* and after */
short seen[PROCESSES];           /* the word that a smaller one will replace */

mtype:reset reset_step = idle;
byte resets;
byte reset_limit;
short reset_seen;
byte crashes;

byte me, chosen;
hidden byte i, stamp, limit, value, sum;
hidden short next;

/* The expected state. */
#ifdef BUCKET
/* ideal[8 * limit + set]: the usage without the charges of the processes in the set (bit 1 << process each). */
byte ideal[8 * LIMITS];
#define PRICE 2
#define ROOM(l) ((l) == 0 -> 2 * PRICE : PRICE)
#define CHARGED(owed) (LATER(owed, now[me]) + PRICE)
#define IS_DENIED(w, l) (CHARGED(VALUE(w)) > now[me] + ROOM(l))
#else
byte admitted[LIMITS];               /* requests allowed since the limit was forgotten */
byte stuck[LIMITS];                  /* charges of denied requests that remain */
bool is_charged[PROCESSES * LIMITS]; /* an undecided request has charged it since it was forgotten */
#define ROOM(l) ((l) == 0 -> 2 : 1)
#define TURNS(w) (WINDOW(w) < now[me])
#define IS_DENIED(w, l) (!TURNS(w) && VALUE(w) + 1 > ROOM(l))
#endif

inline check(l)
{
#ifdef BUCKET
    assert(VALUE(word[l]) >= ideal[8 * l])
#else
    sum = admitted[l];
    i = 0;
    do
    :: i < PROCESSES -> sum = sum + is_charged[LIMITS * i + l]; i++
    :: else -> break
    od;
    assert(VALUE(word[l]) >= sum);
    assert(RESETS > 0 || WINDOWS > 1 || VALUE(word[l]) == sum + stuck[l]);
    assert(RESETS > 0 || WINDOWS > 1 || CRASHES > 0 || stuck[l] == 0)
#endif
}

inline record_forgotten(l)
{
#ifdef BUCKET
    i = 0;
    do
    :: i < 8 -> ideal[8 * l + i] = 0; i++
    :: else -> break
    od
#else
    admitted[l] = 0;
    stuck[l] = 0;
    i = 0;
    do
    :: i < PROCESSES -> is_charged[LIMITS * i + l] = false; i++
    :: else -> break
    od
#endif
}

inline record_charge(l)
{
#ifdef BUCKET
    i = 0;
    do
    :: i < 8 && (i & (1 << me)) == 0 -> ideal[8 * l + i] = CHARGED(ideal[8 * l + i]); i++
    :: i < 8 && (i & (1 << me)) != 0 -> i++
    :: else -> break
    od
#else
    is_charged[LIMITS * me + l] = true
#endif
}

/* Ends the request: with `is_taken` its charges were taken back, otherwise they remain. */
inline record_outcome(l, is_taken, is_admitted)
{
#ifdef BUCKET
    i = 0;
    do
    :: i < 8 && (i & (1 << me)) == 0 ->
        if
        :: is_taken -> ideal[8 * l + i] = ideal[8 * l + i + (1 << me)]
        :: else -> ideal[8 * l + i + (1 << me)] = ideal[8 * l + i]
        fi;
        i++
    :: i < 8 && (i & (1 << me)) != 0 -> i++
    :: else -> break
    od
#else
    if
    :: is_charged[LIMITS * me + l] && is_admitted -> admitted[l]++
    :: is_charged[LIMITS * me + l] && !is_admitted && !is_taken -> stuck[l]++
    :: else
    fi;
    is_charged[LIMITS * me + l] = false
#endif
}

inline stop()
{
    now[me] = 0;
    first[me] = 0;
    parts[me] = 0;
    part[me] = 0;
    noted[me] = 0;
    later[me] = 0;
    before[me] = 0;
    after[me] = 0;
    seen[me] = 0;
    step[me] = (left[me] == 0 -> gone : begin)
}

inline end_request(is_admitted)
{
    record_outcome(0, false, is_admitted);
    record_outcome(1, false, is_admitted);
    stop()
}

/* The smallest number that no word and no process has. Real stamps are never reused, so unused ones are equivalent. */
inline choose_stamp()
{
    stamp = 0;
#ifdef STAMP
    stamp = 1;
    i = 0;
    do
    :: i < LIMITS && (STAMP_OF(word[i]) == stamp || STAMP_OF(reset_seen) == stamp) -> stamp++; i = 0
    :: i < PROCESSES && (STAMP_OF(before[i]) == stamp || STAMP_OF(after[i]) == stamp || STAMP_OF(seen[i]) == stamp) ->
        stamp++;
        i = 0
    :: i >= LIMITS && i >= PROCESSES -> break
    :: else -> i++
    od
#endif
}

/* A pending swap of this word will fail, even if the word has the same bits again by then. */
inline spoil(l)
{
    skip;
#ifndef ABA
    i = 0;
    do
    :: i < PROCESSES && first[i] == l && seen[i] != 0 -> seen[i] = STALE; i++
    :: i < PROCESSES && !(first[i] == l && seen[i] != 0) -> i++
    :: else -> break
    od;
    reset_seen = (reset_limit == l && reset_seen != 0 -> STALE : reset_seen)
#endif
}

inline read_clock(reading)
{
#ifdef BUCKET
    do
    :: time < LAST -> time++
    :: break
    od;
    if
    :: reading = time
    :: DRIFT > 0 -> reading = time - DRIFT
    fi
#else
    do
    :: time < WINDOWS -> time++
    :: break
    od;
    reading = time
#endif
}

#ifdef ANY_WINDOW
#define IS_SAME_WINDOW(a, b) true
#else
#define IS_SAME_WINDOW(a, b) (WINDOW(a) == WINDOW(b))
#endif

/* Only buckets need to know when the charge was made: the clock is read after each load, or once before. */
#ifndef BUCKET
#define TO_TAKE_BACK load
#define AFTER_LOAD recall
#define AFTER_CLOCK recall
#elif defined(CLOCK_FIRST)
#define TO_TAKE_BACK clock
#define AFTER_LOAD recall
#define AFTER_CLOCK load
#else
#define TO_TAKE_BACK load
#define AFTER_LOAD clock
#define AFTER_CLOCK recall
#endif

inline do_begin()
{
    left[me]--;
    if
    :: first[me] = 0
    :: first[me] = 1
    fi;
    if
    :: parts[me] = 1; step[me] = charge
    :: parts[me] = 2; step[me] = peek
    fi;
    read_clock(now[me])
}

#define LIMIT_OF_PART ((first[me] + part[me]) % LIMITS)

inline do_peek()
{
    limit = LIMIT_OF_PART;
    part[me]++;
    if
    :: IS_DENIED(word[limit], limit) -> end_request(false)
    :: !IS_DENIED(word[limit], limit) && part[me] == parts[me] -> part[me] = 0; step[me] = note
    :: else
    fi
}

inline do_note()
{
    noted[me] = forgiven;
    printf("process %d notes that %d were forgiven\n", me, forgiven);
    step[me] = charge
}

inline do_charge()
{
    limit = LIMIT_OF_PART;
    if
    :: IS_DENIED(word[limit], limit) && part[me] == 0 -> end_request(false)
    :: IS_DENIED(word[limit], limit) && part[me] > 0 -> step[me] = TO_TAKE_BACK
    :: else ->
#ifdef BACK_TO_BEFORE
        before[me] = (parts[me] == 2 && part[me] == 0 -> word[limit] : before[me]);
#endif
        stamp = STAMP_OF(word[limit]);
        if
        :: word[limit] == 0 -> choose_stamp()
        :: else
        fi;
#ifdef BUCKET
        word[limit] = WORD(CHARGED(VALUE(word[limit])), 0, stamp);
#else
        if
        :: TURNS(word[limit]) -> record_forgotten(limit); word[limit] = WORD(1, now[me], stamp)
        :: else -> word[limit] = word[limit] + WORD(1, 0, 0)
        fi;
#endif
        spoil(limit);
        record_charge(limit);
        printf("process %d, at %d, charges limit %d: it has %d\n", me, now[me], limit, VALUE(word[limit]));
        part[me]++;
        if
        :: part[me] == parts[me] -> printf("process %d is admitted\n", me); end_request(true)
        :: else -> after[me] = word[limit]
        fi
    fi
}

/* Taking back. */

inline do_clock()
{
    read_clock(later[me]);
    printf("process %d reads the clock again: %d\n", me, later[me]);
    step[me] = AFTER_CLOCK
}

inline do_load()
{
    seen[me] = word[first[me]];
    printf("process %d will take back from limit %d, which has %d\n", me, first[me], VALUE(seen[me]));
    step[me] = AFTER_LOAD;
    if
    :: seen[me] == 0 || STAMP_OF(seen[me]) != STAMP_OF(after[me]) || !IS_SAME_WINDOW(seen[me], after[me]) ->
        end_request(false)
    :: else
    fi
}

#ifdef NO_SKEW
#define SKEW 0
#else
#define SKEW DRIFT
#endif

inline do_put()
{
    limit = first[me];
    if
#ifdef BLIND_PUT
    :: false
#else
    :: word[limit] != seen[me] -> seen[me] = 0; step[me] = load
#endif
    :: else ->
#ifdef BUCKET
        value = (later[me] > now[me] -> later[me] - now[me] : 0) + SKEW;
        value = (value < PRICE -> PRICE - value : 0);
        next = seen[me] - WORD(value, 0, 0);
#else
        next = seen[me] - WORD(1, 0, 0);
        next = (VALUE(next) == 0 -> 0 : next);
#endif
#ifdef BACK_TO_BEFORE
        next = (seen[me] == after[me] -> before[me] : next);
#endif
        word[limit] = next;
        spoil(limit);
        printf("process %d takes back from limit %d: it has %d\n", me, limit, VALUE(next));
        record_outcome(limit, true, false);
        end_request(false)
    fi
}

inline do_recall()
{
    if
#ifndef FORGET_FORGIVEN
#ifdef TRUST_SAME
    :: forgiven != noted[me] && seen[me] != after[me] -> end_request(false)
#else
    :: forgiven != noted[me] -> end_request(false)
#endif
#endif
    :: else -> step[me] = put
    fi
}

/* A reset increments `forgiven` before it swaps, but after it has read the word. */

inline do_reset()
{
    if
    :: reset_step == idle ->
        resets++;
        reset_limit = chosen;
#ifdef COUNT_FIRST
        forgiven++;
        printf("reset counts %d\n", forgiven);
        reset_step = counted
#else
        reset_seen = word[chosen];
        printf("reset finds limit %d, which has %d\n", chosen, VALUE(reset_seen));
        reset_step = (reset_seen == 0 -> idle : found)
#endif
    :: reset_step == found ->
#ifndef UNCOUNTED
        forgiven++;
        printf("reset counts %d\n", forgiven);
#endif
        reset_step = counted
    :: reset_step == counted ->
#ifdef COUNT_FIRST
        reset_seen = word[reset_limit];
#endif
        if
        :: word[reset_limit] == reset_seen ->
            printf("reset forgets limit %d, which had %d\n", reset_limit, VALUE(reset_seen));
            word[reset_limit] = 0;
            spoil(reset_limit);
            record_forgotten(reset_limit)
        :: else
        fi;
        reset_seen = 0;
        reset_limit = 0;
        reset_step = idle
    fi
}

inline do_step()
{
    if
    :: step[me] == peek -> do_peek()
    :: step[me] == note -> do_note()
    :: step[me] == charge -> do_charge()
    :: step[me] == load -> do_load()
    :: step[me] == recall -> do_recall()
    :: step[me] == put -> do_put()
    fi
}

/* Processes are alike, so they begin in order. */
#define MAY_BEGIN(p) (step[p] != begin || left[p] < REQUESTS || (p) == 0 || left[(p) - 1] < REQUESTS)
#define RUNS(p) (step[p] != gone && MAY_BEGIN(p))
#if PROCESSES == 3
#define ALL_GONE (step[0] == gone && step[1] == gone && step[2] == gone)
#else
#define ALL_GONE (step[0] == gone && step[1] == gone)
#endif

init
{
    do
    :: atomic {
        if
        :: RUNS(0) -> me = 0
        :: RUNS(1) -> me = 1
#if PROCESSES == 3
        :: RUNS(2) -> me = 2
#endif
        fi;
        if
        :: step[me] == begin -> do_begin()
        :: step[me] == clock -> do_clock()
        :: step[me] != begin && step[me] != clock -> d_step { do_step() }
        :: step[me] != begin && crashes < CRASHES -> crashes++; d_step { left[me] = 0; end_request(false) }
        fi;
        d_step { check(0); check(1); me = 0 }
    }
    :: atomic {
        reset_step != idle || resets < RESETS ->
        if
        :: chosen = 0
        :: reset_step == idle -> chosen = 1
        fi;
        d_step { do_reset(); check(0); check(1); chosen = 0 }
    }
    :: ALL_GONE && reset_step == idle -> break
    od
}
