/* table_slots.pml: how processes share the slots of a table, and what must never happen.
 *
 * A slot is one word that a single compare-and-swap replaces: free (0), settled (a key's, with the instant fresh_at
 * from which the key is full), or a claim (an insertion in progress, identified by its nonce). PROCESSES of them
 * charge, refund and reset KEYS keys without end. Every slot is a candidate of every key. The keys are buckets of BURST
 * that gain one token per unit of time.
 *
 * Checked, after every change of a slot:
 *  1. A key has at most one settled slot.
 *  2. No charge is lost or made twice: the settled slot holds exactly what the key was charged since it was last
 *  forgotten, a key without a slot has no usage, and no charge is made that the key's exact bucket would have denied.
 *  The swap that ends a request charges it. A request that ends otherwise, or crashes before, is never charged.
 *  3. A key is forgotten uncounted only when it is full by every clock.
 *  4. With -DBOUND=n and -DAPART: if all others crash at once, a process ends its operation within n steps.
 * Also, no process is ever stuck.
 *
 * Clocks. `time` is the fastest possible clock. A reading is `time` or DRIFT less, and the next reading, by any
 * process, is again one of the two. This covers any clocks that differ by up to DRIFT, which is at most the table's
 * margin SKEW. An operation reads its clock once, before anything else, and may then sleep for any time. Time advances
 * only when a process reads it, because nothing else could notice. It ends at LAST, which makes the search finite.
 *
 * Crashes. For 1 to 3, a crashed process is one that takes no more steps, which the search tries after every step
 * anyway. CRASHES of them are also explicit: the process is gone, its clock no longer matters, and its claims remain.
 *
 * Steps. With -DAPART each load and each compare-and-swap is a step, and the candidates are read upwards for one key
 * and downwards for the other. Without it, a load and the dependent swap of the same word are one step. If the swap
 * succeeds, the word is what was loaded, so it may as well have been loaded then. If it fails, nothing was written
 * since find or look began, so the process may as well have waited there. In that mode find may miss a settled slot
 * without any reason, not only because it reads one slot after the other.
 *
 * The victim of a claim is any slot except the key's own. Which victim is best is a question of quality; the properties
 * must not depend on it. For the same reason no process pauses before it removes a claim.
 *
 * Processes are alike, so they are sorted after each step: one state stands for all that differ only in their order.
 * -DUNSORTED leaves them as they are, for traces that are easier to follow.
 *
 * With -DREMEMBER the exact bucket is kept when a slot is reclaimed as free, so no process may ever notice the reclaim.
 * This needs -DPROMPT: SKEW must cover the difference of clocks and also the time from reading the clock to the swap
 * that ends the operation. A process that sleeps longer may find that a key was forgotten although it had usage at the
 * time it read.
 *
 * Difference from the table: a refund that leaves a bucket full by the caller's clock frees its slot at once, without
 * SKEW (-DEARLY_ZERO). That breaks 3: a clock that is behind gains its lag, at the limit's rate.
 *
 * Not checked: which slot is evicted; that two processes that insert one key at the same time both succeed (each may
 * remove the other's claim forever, though a pause makes that improbable); weak memory (all loads and swaps have one
 * order); keys with the same fingerprint; nonces that repeat; algorithms other than the bucket. table_joint.pml has
 * several limits at once.
 *
 * check.py lists the sizes that are searched and the faults, each a -D, that must be found. */

#ifndef PROCESSES
#define PROCESSES 3
#endif
#ifndef SLOTS
#define SLOTS 2
#endif
#ifndef KEYS
#define KEYS 2
#endif
#ifndef CRASHES
#define CRASHES 0
#endif
#ifndef LAST
#define LAST 3
#endif
#ifndef DRIFT
#define DRIFT 1
#endif
#ifndef SKEW
#define SKEW 1
#endif

#define BURST 2
#define NOWHERE 15

#define WORD(key, nonce, fresh_at) ((key) | ((nonce) << 2) | ((fresh_at) << 6))
#define KEY(word) ((word) & 3)
#define NONCE(word) (((word) >> 2) & 15)
#define FRESH_AT(word) ((word) >> 6)
#define IS_SETTLED(word, key) (KEY(word) == (key) && NONCE(word) == 0)
#define IS_CLAIM(word, key) (KEY(word) == (key) && NONCE(word) != 0)

#ifdef NO_MARGIN
#define MARGIN 0
#else
#define MARGIN SKEW
#endif
#define IS_FREE(word) (FRESH_AT(word) + MARGIN <= now[me])
#ifdef EARLY_ZERO
#define IS_WORTHLESS(word) (FRESH_AT(word) <= now[me])
#else
#define IS_WORTHLESS(word) IS_FREE(word)
#endif

#define LATER(a, b) ((a) > (b) -> (a) : (b))
#define CHARGED(fresh_at) (LATER(fresh_at, now[me]) + 1)
#define IS_DENIED(fresh_at) (CHARGED(fresh_at) > now[me] + BURST)

/* What a process does, and which step comes next. */
mtype:operation = { charge, refund, reset };
mtype:step = { begin, find, update, remove, claim, look, outrank, withdraw, settle, gone };

short slot[SLOTS];
byte time = 1 + DRIFT;
byte crashes;
byte owed[3]; /* expected: the instant at which each key is full */

mtype:step step[PROCESSES] = begin;
mtype:operation does[PROCESSES];
byte key[PROCESSES];
byte now[PROCESSES];   /* 0: idle */
byte place[PROCESSES]; /* the slot to be replaced */
byte at[PROCESSES];    /* the slot to be read next */
short seen[PROCESSES]; /* the word at `place` */
short met[PROCESSES];  /* another process's claim */
short mine[PROCESSES]; /* the process's own claim */

#ifdef BOUND
bool is_solo; /* all others have crashed */
byte steps;   /* since then */
#endif

/* Scratch variables of one step. */
byte me, chosen;
hidden byte i, settled, nonce;
hidden short word;

inline check(whose)
{
    settled = 0;
    i = 0;
    do
    :: i < SLOTS && IS_SETTLED(slot[i], whose) ->
        settled++;
        assert(FRESH_AT(slot[i]) == owed[whose]);
        i++
    :: i < SLOTS && !IS_SETTLED(slot[i], whose) -> i++
    :: else -> break
    od;
    assert(settled <= 1);
#ifdef REMEMBER
    assert(settled == 1 || owed[whose] <= time - DRIFT)
#else
    assert(settled == 1 || owed[whose] == 0)
#endif
}

inline forget_uncounted(whose)
{
    assert(owed[whose] <= time - DRIFT);
#ifndef REMEMBER
    owed[whose] = 0
#endif
}

inline record_charge()
{
    assert(!IS_DENIED(owed[key[me]]));
    owed[key[me]] = CHARGED(owed[key[me]])
}

/* Clears what no later step reads, so that it does not tell states apart. */
inline drop_words()
{
    place[me] = NOWHERE;
    at[me] = 0;
    seen[me] = 0;
    met[me] = 0;
    mine[me] = 0
}

inline begin_again()
{
    drop_words();
    step[me] = find
}

inline stop(next)
{
    drop_words();
    key[me] = 0;
    now[me] = 0;
    does[me] = 0;
    step[me] = next
}

#ifdef BOUND
#define end_operation() stop((is_solo -> gone : begin))
#else
#define end_operation() stop(begin)
#endif

/* The smallest number that is in no slot and in no process. Real nonces are never reused, so unused ones are
 * equivalent. */
inline choose_nonce()
{
    nonce = 1;
#ifndef NO_NONCE
    i = 0;
    do
    :: i < SLOTS && NONCE(slot[i]) == nonce -> nonce++; i = 0
    :: i < PROCESSES && (NONCE(seen[i]) == nonce || NONCE(met[i]) == nonce || NONCE(mine[i]) == nonce) ->
        nonce++;
        i = 0
    :: i >= SLOTS && i >= PROCESSES -> break
    :: else -> i++
    od
#endif
}

#ifdef PROMPT
#define HAS_TIME(p) (now[p] == 0 || time < now[p] + SKEW)
#if PROCESSES == 3
#define ALL_HAVE_TIME (HAS_TIME(0) && HAS_TIME(1) && HAS_TIME(2))
#else
#define ALL_HAVE_TIME (HAS_TIME(0) && HAS_TIME(1))
#endif
#else
#define ALL_HAVE_TIME true
#endif

/* Reads only the clock. */
inline do_begin()
{
    if
    :: key[me] = 1
    :: KEYS == 2 -> key[me] = 2
    fi;
    if
    :: does[me] = charge
    :: does[me] = refund
    :: does[me] = reset
    fi;
    do
    :: does[me] != reset && time < LAST && ALL_HAVE_TIME -> time++
    :: break
    od;
    if
    :: does[me] == reset
    :: does[me] != reset -> now[me] = time
    :: does[me] != reset -> now[me] = time - DRIFT
    fi;
    printf("process %d, at %d, will %e key %d\n", me, now[me], does[me], key[me]);
    begin_again()
}

/* Swaps: CAS(slot, expected -> new). */

inline do_update()
{
    if
#ifdef BLIND_UPDATE
    :: false
#else
    :: slot[place[me]] != seen[me] -> begin_again()
#endif
    :: else ->
        if
        :: does[me] == charge ->
            record_charge();
            slot[place[me]] = WORD(key[me], 0, CHARGED(FRESH_AT(seen[me])));
            printf("process %d charges slot %d: fresh at %d\n", me, place[me], FRESH_AT(slot[place[me]]))
        :: does[me] == reset ->
            owed[key[me]] = 0;
            slot[place[me]] = 0;
            printf("process %d resets slot %d\n", me, place[me])
        :: does[me] == refund ->
            if
            :: FRESH_AT(seen[me]) > now[me] -> seen[me] = seen[me] - WORD(0, 0, 1); owed[key[me]] = owed[key[me]] - 1
            :: else
            fi;
            slot[place[me]] = seen[me];
            printf("process %d refunds slot %d: fresh at %d\n", me, place[me], FRESH_AT(seen[me]));
            if
            :: IS_WORTHLESS(seen[me]) ->
                printf("process %d frees it\n", me);
                forget_uncounted(key[me]);
                slot[place[me]] = 0
            :: else
            fi
        fi;
        end_operation()
    fi
}

inline do_remove()
{
    if
    :: slot[place[me]] == met[me] ->
        printf("process %d removes the claim on slot %d\n", me, place[me]);
        slot[place[me]] = 0
    :: else
    fi;
    begin_again()
}

inline look_from_start()
{
    at[me] = (place[me] == 0 -> 1 : 0);
    step[me] = look
}

inline do_claim()
{
    if
    :: slot[place[me]] != seen[me] -> begin_again()
    :: else ->
        printf("process %d claims slot %d of key %d, fresh at %d\n", me, place[me], KEY(seen[me]), FRESH_AT(seen[me]));
        if
        :: KEY(seen[me]) != 0 && NONCE(seen[me]) == 0 && IS_FREE(seen[me]) -> forget_uncounted(KEY(seen[me]))
        :: KEY(seen[me]) != 0 && NONCE(seen[me]) == 0 && !IS_FREE(seen[me]) -> owed[KEY(seen[me])] = 0 /* evicted */
        :: else
        fi;
        seen[me] = 0;
        choose_nonce();
        mine[me] = WORD(key[me], nonce, CHARGED(0));
        slot[place[me]] = mine[me];
        look_from_start();
#ifdef NO_LOOK
        at[me] = 0;
        step[me] = settle
#endif
    fi
}

inline look_on()
{
    at[me] = (at[me] + 1 == place[me] -> at[me] + 2 : at[me] + 1);
    if
    :: at[me] >= SLOTS -> at[me] = 0; step[me] = settle
    :: else -> step[me] = look
    fi
}

inline do_outrank()
{
    if
#ifdef BLIND_REMOVE
    :: true -> slot[at[me]] = 0
#else
    :: slot[at[me]] == met[me] ->
        printf("process %d removes the claim on slot %d\n", me, at[me]);
        slot[at[me]] = 0
#endif
    :: else
    fi;
    met[me] = 0;
#ifdef NO_SECOND_LOOK
    look_on()
#else
    look_from_start()
#endif
}

inline do_withdraw()
{
    printf("process %d withdraws its claim on slot %d\n", me, place[me]);
    if
    :: slot[place[me]] == mine[me] -> slot[place[me]] = 0
    :: else
    fi;
    begin_again()
}

inline do_settle()
{
    if
#ifdef BLIND_SETTLE
    :: false
#else
    :: slot[place[me]] != mine[me] -> begin_again()
#endif
    :: else ->
        record_charge();
        slot[place[me]] = WORD(key[me], 0, FRESH_AT(mine[me]));
        printf("process %d settles slot %d: fresh at %d\n", me, place[me], FRESH_AT(mine[me]));
        end_operation()
    fi
}

/* Loads. A swap that follows is a separate step only with -DAPART. */

#ifdef APART
#define THEN(swap) step[me] = swap
#else
#define THEN(swap) do_##swap()
#endif

inline use_found()
{
    if
    :: does[me] == charge && IS_DENIED(FRESH_AT(seen[me])) -> end_operation()
    :: else -> THEN(update)
    fi
}

#ifdef APART
/* Upwards for one key, downwards for the other. `chosen`: whether this slot becomes the victim. */
#define CANDIDATE (key[me] == 1 -> at[me] : SLOTS - 1 - at[me])
inline do_find()
{
    if
    :: IS_SETTLED(slot[CANDIDATE], key[me]) ->
        place[me] = CANDIDATE;
        seen[me] = slot[place[me]];
        met[me] = 0;
        at[me] = 0;
        use_found()
    :: else ->
        if
        :: does[me] != charge
        :: does[me] == charge && IS_CLAIM(slot[CANDIDATE], key[me]) ->
            place[me] = CANDIDATE;
            met[me] = slot[place[me]];
            seen[me] = 0
        :: does[me] == charge && KEY(slot[CANDIDATE]) != key[me] && met[me] == 0 &&
           (chosen == 1 || place[me] == NOWHERE) ->
            place[me] = CANDIDATE;
            seen[me] = slot[place[me]]
        :: else
        fi;
        at[me]++;
        if
        :: at[me] < SLOTS
        :: at[me] == SLOTS && does[me] != charge -> end_operation()
        :: at[me] == SLOTS && does[me] == charge ->
            at[me] = 0;
#ifdef KEEP_CLAIMS
            if
            :: met[me] != 0 -> begin_again()
            :: else -> step[me] = claim
            fi
#else
            step[me] = (met[me] != 0 -> remove : claim)
#endif
        fi
    fi
}
#else
/* `chosen` is the slot at which find ends. */
inline do_find()
{
    place[me] = chosen;
    if
    :: IS_SETTLED(slot[chosen], key[me]) -> seen[me] = slot[chosen]; use_found()
    :: !IS_SETTLED(slot[chosen], key[me]) && does[me] != charge -> end_operation()
    :: IS_CLAIM(slot[chosen], key[me]) && does[me] == charge -> met[me] = slot[chosen]; do_remove()
    :: KEY(slot[chosen]) != key[me] && does[me] == charge -> seen[me] = slot[chosen]; do_claim()
    fi
}
#endif

inline do_look()
{
    if
#ifndef IGNORE_SETTLED
    :: IS_SETTLED(slot[at[me]], key[me]) -> at[me] = 0; step[me] = withdraw
#endif
#ifndef IGNORE_CLAIMS
    :: at[me] < place[me] && IS_CLAIM(slot[at[me]], key[me]) -> at[me] = 0; step[me] = withdraw
    :: at[me] > place[me] && IS_CLAIM(slot[at[me]], key[me]) -> met[me] = slot[at[me]]; THEN(outrank)
#endif
    :: else -> look_on()
    fi
}

inline do_step()
{
    if
    :: step[me] == find -> do_find()
    :: step[me] == update -> do_update()
    :: step[me] == remove -> do_remove()
    :: step[me] == claim -> do_claim()
    :: step[me] == look -> do_look()
    :: step[me] == outrank -> do_outrank()
    :: step[me] == withdraw -> do_withdraw()
    :: step[me] == settle -> do_settle()
    fi
}

#define RANK(p) (((((step[p] * 4 + key[p]) * 8 + now[p]) * 16 + place[p]) * 4 + at[p]) * 16 + does[p])

inline sort(p, q)
{
    if
    :: RANK(p) > RANK(q) ->
        i = step[p]; step[p] = step[q]; step[q] = i;
        i = does[p]; does[p] = does[q]; does[q] = i;
        i = key[p]; key[p] = key[q]; key[q] = i;
        i = now[p]; now[p] = now[q]; now[q] = i;
        i = place[p]; place[p] = place[q]; place[q] = i;
        i = at[p]; at[p] = at[q]; at[q] = i;
        word = seen[p]; seen[p] = seen[q]; seen[q] = word;
        word = met[p]; met[p] = met[q]; met[q] = word;
        word = mine[p]; mine[p] = mine[q]; mine[q] = word
    :: else
    fi
}

inline tidy()
{
    check(1);
    check(2);
#ifndef UNSORTED
    sort(0, 1);
#if PROCESSES == 3
    sort(1, 2);
    sort(0, 1);
#endif
#endif
    me = 0;
    chosen = 0
}

#ifdef BOUND
inline crash_others()
{
    nonce = me;
    me = 0;
    do
    :: me < PROCESSES && me != nonce -> stop(gone); me++
    :: me == nonce -> me++
    :: else -> break
    od;
    me = nonce;
    is_solo = true
}
#endif

init
{
    do
    :: atomic {
        if
        :: step[0] != gone -> me = 0
        :: step[1] != gone -> me = 1
#if PROCESSES == 3
        :: step[2] != gone -> me = 2
#endif
        :: else -> break
        fi;
        if
        :: step[me] == begin -> do_begin()
        :: step[me] != begin ->
            if
            :: chosen = 0
            :: step[me] == find -> chosen = 1
#if SLOTS == 3 && !defined(APART)
            :: step[me] == find -> chosen = 2
#endif
            fi;
#ifdef BOUND
            if
            :: is_solo -> steps++
            :: !is_solo
            :: !is_solo -> d_step { crash_others(); steps = 1 }
            fi;
            assert(steps <= BOUND);
#endif
            d_step { do_step() }
        :: step[me] != begin && crashes < CRASHES -> crashes++; stop(gone)
        fi;
        d_step { tidy() }
    }
    od
}
