/* table_fold.pml: one thread folds a key of the arena into its slot while others charge the key.
 *
 * The slot either refers to a root, which counts the units, or is folded and holds the units itself. To fold a key, a
 * thread first swaps the root for a word that marks it as folded and holds its units. Then it swaps the slot for these
 * units. A thread that finds a folded root changes the slot first. A thread that finds a folded slot makes a new root
 * with those units and its own, and swaps the slot for it. The thread whose swap of the slot succeeds frees the old
 * root.
 *
 * CHARGERS charge one unit each, CHARGES times. FOLDERS fold FOLDS times. CRASHES of them stop for good, anywhere.
 * There are two roots, so a freed root is used again for the same key, which is the worst case. A root's total begins
 * at a random number (`life`), and a slot that refers to the same root again has other bits (`stamp`).
 *
 * Checked after every change: the key has counted exactly the charges that were made.
 *
 * check.py lists the sizes that are searched and the faults, each a -D, that must be found:
 *   -DSLOT_FIRST   the slot is swapped before the root
 *   -DROOT_LOST    the root is swapped for a word without its units
 *   -DBLIND        a charge is made in a root that was folded meanwhile
 *   -DNO_RECHECK   the slot is not read again after the root, so the root may have been freed, and another thread may
 *                  be about to use it again for the same key */

#ifndef CHARGERS
#define CHARGERS 2
#endif
#ifndef CHARGES
#define CHARGES 2
#endif
#ifndef FOLDERS
#define FOLDERS 1
#endif
#ifndef FOLDS
#define FOLDS 2
#endif
#ifndef CRASHES
#define CRASHES 1
#endif

#define ROOTS 2

mtype = { FREE, LIVE, FOLDED, REFERS };

typedef root_word {
	mtype is;
	byte units, life
};

typedef slot_word {
	mtype is; /* FOLDED or REFERS */
	byte value; /* units or root */
	byte stamp
};

root_word roots[ROOTS];
slot_word slot;
byte charged, crashes, stamps;

/* What the key has counted. */
inline check() {
	if
	:: slot.is == FOLDED -> assert(slot.value == charged)
	:: else -> assert(roots[slot.value].is != FREE && roots[slot.value].units == charged)
	fi
}

inline crash_or_go_on() {
	if
	:: crashes < CRASHES -> crashes++; goto stopped
	:: true
	fi
}

inline load_slot() {
	atomic { seen.is = slot.is; seen.value = slot.value; seen.stamp = slot.stamp }
}

inline load_root() {
	atomic { word.is = roots[seen.value].is; word.units = roots[seen.value].units; word.life = roots[seen.value].life }
}

#define SLOT_IS_SEEN (slot.is == seen.is && slot.value == seen.value && slot.stamp == seen.stamp)
#define REFERS_AS_SEEN (slot.is == REFERS && slot.value == seen.value)
#define ROOT_IS_WORD \
	(roots[seen.value].is == word.is && roots[seen.value].units == word.units && roots[seen.value].life == word.life)

/* Swaps the slot for the units of a folded root, and frees the root. */
inline fold_slot() {
	atomic {
		if
		:: SLOT_IS_SEEN -> 
			slot.is = FOLDED; slot.value = word.units; stamps++; slot.stamp = stamps;
			is_done = true;
			check()
		:: else -> is_done = false
		fi
	};
	if
	:: is_done ->
		crash_or_go_on();
		d_step { roots[seen.value].is = FREE; roots[seen.value].units = 0 }
	:: else
	fi
}

proctype charger() {
	slot_word seen;
	root_word word;
	byte left = CHARGES, mine;
	bool is_done;

	do
	:: left == 0 -> break
	:: else ->
		crash_or_go_on();
		load_slot();
		crash_or_go_on();
		if
		:: seen.is == FOLDED ->
			/* a free root if possible; otherwise the key is charged in its slot */
			atomic {
				mine = ROOTS;
				if
				:: roots[0].is == FREE -> mine = 0
				:: roots[1].is == FREE -> mine = 1
				:: roots[0].is != FREE && roots[1].is != FREE
				fi;
				if
				:: mine < ROOTS ->
					roots[mine].is = LIVE; roots[mine].units = seen.value + 1;
					stamps++; roots[mine].life = stamps
				:: else
				fi
			};
			crash_or_go_on();
			atomic {
				if
				:: SLOT_IS_SEEN && mine < ROOTS ->
					slot.is = REFERS; slot.value = mine; stamps++; slot.stamp = stamps;
					charged++; left--;
					check()
				:: SLOT_IS_SEEN && mine == ROOTS ->
					slot.value = seen.value + 1; stamps++; slot.stamp = stamps;
					charged++; left--;
					check()
				:: !SLOT_IS_SEEN && mine < ROOTS -> roots[mine].is = FREE; roots[mine].units = 0
				:: !SLOT_IS_SEEN && mine == ROOTS
				fi
			}
		:: seen.is == REFERS ->
			load_root();
			crash_or_go_on();
			if
#ifndef NO_RECHECK
			:: !SLOT_IS_SEEN && word.is != LIVE /* retry */
			:: !REFERS_AS_SEEN && word.is == LIVE /* retry */
			:: SLOT_IS_SEEN && word.is == FOLDED -> fold_slot()
			:: REFERS_AS_SEEN && word.is == LIVE ->
#else
			:: word.is == FOLDED -> fold_slot()
			:: word.is == LIVE ->
#endif
				atomic {
					if
#ifdef BLIND
					:: roots[seen.value].is != FREE ->
#else
					:: ROOT_IS_WORD ->
#endif
						roots[seen.value].units = word.units + 1;
						charged++; left--;
						check()
					:: else
					fi
				}
#ifdef NO_RECHECK
			:: word.is == FREE /* freed meanwhile: retry */
#endif
			fi
		fi
	od;
stopped:
	skip
}

proctype folder() {
	slot_word seen;
	root_word word;
	byte left = FOLDS;
	bool is_done;

	do
	:: left == 0 -> break
	:: else ->
		left--;
		crash_or_go_on();
		load_slot();
		crash_or_go_on();
		if
		:: seen.is == REFERS ->
			load_root();
			crash_or_go_on();
#ifndef SLOT_FIRST
			is_done = false;
			atomic {
				if
				:: word.is == LIVE && ROOT_IS_WORD ->
					roots[seen.value].is = FOLDED; is_done = true;
#ifdef ROOT_LOST
					roots[seen.value].units = 0; word.units = 0;
#endif
					check()
				:: word.is == FOLDED -> is_done = true
				:: else
				fi
			};
			if
			:: is_done -> crash_or_go_on(); fold_slot()
			:: else
			fi
#else
			if
			:: word.is == LIVE -> fold_slot()
			:: else
			fi
#endif
		:: else
		fi
	od;
stopped:
	skip
}

init {
	byte i;

	atomic {
		roots[0].is = LIVE;
		roots[1].is = FREE;
		slot.is = REFERS;
		for (i : 1 .. CHARGERS) { run charger() }
		for (i : 1 .. FOLDERS) { run folder() }
	}
}
