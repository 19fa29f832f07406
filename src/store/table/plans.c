/* plans.c: writes and reads plans word by word, such that a torn plan is never used. */
#include "store/table/plans.h"

#include "core/wide.h"
#include "os/file.h"
#include "os/pause.h"
#include "os/thread.h"
#include "store/table/slot.h"

enum {
	CHANGE_PATIENCE = 4096, /* pauses to wait for another thread's claim, which takes about 10 */
	/* A mark holds the nonce of its writer, the number of the plan and, in its lowest bits, the options. */
	NONCE_SHIFT = 32,
	NUMBER_SHIFT = 8,
	NUMBER_MASK = 0xffffff,
	ALGORITHM_MASK = 7,
	REFILL_INTERVAL = 1 << 3,
	SHAPE = 1 << 4,
	ALIGN_FIRST = 1 << 5,
	COUNT_ALL = 1 << 6,
	WRITTEN = 1 << 7,       /* so that a mark is never 0 */
	OWNER_LIMIT_SHIFT = 40, /* the owner of an old plan: the limit's index, plus 1, and the number of the plan */
	KEEP_TRIES = 64,
	RECENT = 32, /* plans of a limit that are overwritten last */
};

#define OWNER_NUMBER_MASK ((UINT64_C(1) << OWNER_LIMIT_SHIFT) - 1)
#define BEING_WRITTEN (UINT64_C(1) << 32) /* in the claim of an old plan's writer, beside its nonce */
#define SUM_SHIFT 33                      /* above that, when it is written: a hash of the old plan */
#define IN_ARENA (UINT64_C(1) << 63)      /* beside the number of segments, which is much less */

static uint64_t mark_of(uint64_t number, uint32_t nonce, const struct weir_limit *limit)
{
	return (uint64_t)nonce << NONCE_SHIFT | (number & NUMBER_MASK) << NUMBER_SHIFT | WRITTEN |
	       ((uint64_t)limit->algorithm & ALGORITHM_MASK) | (limit->refill_interval ? REFILL_INTERVAL : 0u) |
	       (limit->shape ? SHAPE : 0u) | (limit->align_first ? ALIGN_FIRST : 0u) |
	       (limit->count_all ? COUNT_ALL : 0u);
}

static void words_of(const struct weir__plans_limit *of, uint64_t words[WEIR__PLAN_WORDS])
{
	words[0] = of->limit.count;
	words[1] = of->limit.period;
	words[2] = of->limit.algorithm <= WEIR_LEAKY_BUCKET ?
			   of->limit.burst :
			   of->limit.segments | (of->in_arena ? IN_ARENA : 0); /* a limit has one of the two */
	words[3] = of->changed_at;
}

void weir__plans_begin(struct weir__region_limit *entry, const struct weir_limit *limit)
{
	const struct weir__plans_limit first = { *limit, 0, false };
	const uint64_t mark = mark_of(0, 0, limit);
	uint64_t words[WEIR__PLAN_WORDS];

	words_of(&first, words);
	for (int i = 0; i < WEIR__PLAN_WORDS; i++)
		(void)weir__atomic16_swap(&entry->plans[0].words[i], (struct weir_state){ 0, 0 },
					  (struct weir_state){ words[i], mark });
}

static bool is_mark_of(uint64_t mark, uint64_t number)
{
	return mark & WRITTEN && ((mark >> NUMBER_SHIFT ^ number) & NUMBER_MASK) == 0;
}

/* Reads a plan from one place. Returns false if this plan is not there, or is being written. */
static bool read_at(struct weir__region_plan *at, uint64_t number, struct weir__plans_limit *ret_limit)
{
	struct weir_state words[WEIR__PLAN_WORDS];
	uint64_t mark;
	bool is_bucket;

	for (int i = 0; i < WEIR__PLAN_WORDS; i++)
		words[i] = weir__atomic16_load(&at->words[i]);
	mark = words[0].hi;
	for (int i = 1; i < WEIR__PLAN_WORDS; i++)
		if (words[i].hi != mark)
			return false;
	if (!is_mark_of(mark, number))
		return false;
	is_bucket = (mark & ALGORITHM_MASK) <= WEIR_LEAKY_BUCKET;
	ret_limit->limit = (struct weir_limit){
		.algorithm = (enum weir_algorithm)(mark & ALGORITHM_MASK),
		.count = words[0].lo,
		.period = words[1].lo,
		.burst = words[is_bucket ? 2 : 0].lo,
		.segments = is_bucket ? 1 : words[2].lo & ~IN_ARENA,
		.refill_interval = mark & REFILL_INTERVAL,
		.shape = mark & SHAPE,
		.align_first = mark & ALIGN_FIRST,
		.count_all = mark & COUNT_ALL,
	};
	ret_limit->changed_at = words[3].lo;
	ret_limit->in_arena = !is_bucket && words[2].lo & IN_ARENA;
	return true;
}

static uint64_t owner_of(const struct weir__region *region, const struct weir__region_limit *entry, uint64_t number)
{
	return (uint64_t)(entry - region->limits + 1) << OWNER_LIMIT_SHIFT | (number & OWNER_NUMBER_MASK);
}

/* Consecutive plans of a limit go to consecutive sets, so that even a single limit fills all sets evenly. */
static struct weir__region_old_plan *set_of(const struct weir__region *region, uint64_t owner)
{
	const uint64_t sets = region->n_old_plans / WEIR__OLD_PLANS_SET;
	const uint64_t first = (owner >> OWNER_LIMIT_SHIFT) * UINT64_C(0x9e3779b97f4a7c15) >> 32;

	return region->old_plans + (first + (owner & OWNER_NUMBER_MASK)) % sets * WEIR__OLD_PLANS_SET;
}

static bool read_old(struct weir__region_old_plan *old, uint64_t owner, struct weir__plans_limit *ret_limit)
{
	const struct weir_state before = weir__atomic16_load(&old->owner);
	struct weir_state after;

	if (before.lo != owner || before.hi & BEING_WRITTEN ||
	    !read_at(&old->plan, owner & OWNER_NUMBER_MASK, ret_limit))
		return false;
	after = weir__atomic16_load(&old->owner);
	return after.lo == before.lo && after.hi == before.hi;
}

static struct weir__region_old_plan *find_old(const struct weir__region *region, uint64_t owner,
					      struct weir__plans_limit *ret_limit)
{
	struct weir__region_old_plan *const set = set_of(region, owner);

	for (int i = 0; i < WEIR__OLD_PLANS_SET; i++)
		if (read_old(&set[i], owner, ret_limit))
			return &set[i];
	return NULL;
}

/* Reads the entry first, then the old plans. A plan is copied to the old plans before it is overwritten in the entry,
 * so it is found in one of the two. */
bool weir__plans_read(const struct weir__region *region, struct weir__region_limit *entry, uint64_t number,
		      struct weir__plans_limit *ret_limit)
{
	return read_at(&entry->plans[number % 2], number, ret_limit) ||
	       (number < weir__plans_number(entry) &&
		find_old(region, owner_of(region, entry, number), ret_limit) != NULL);
}

bool weir__plans_read_last(const struct weir__region *region, struct weir__region_limit *entry, uint64_t *ret_number,
			   struct weir__plans_limit *ret_limit)
{
	uint64_t number;

	do {
		number = weir__plans_number(entry);
		if (weir__plans_read(region, entry, number, ret_limit)) {
			*ret_number = number;
			return true;
		}
	} while (number != weir__plans_number(entry));
	return false;
}

weir_ns weir__plans_longest(const struct weir_limit *limit)
{
	struct weir_plan plan;

	return weir_plan_compile(limit, &plan, NULL) == WEIR_OK ? weir__slot_longest(&plan) : WEIR_NEVER;
}

static bool is_claimed_by(union weir__atomic16 *at, const struct weir_state *claim)
{
	const struct weir_state seen = weir__atomic16_load(at);

	return seen.lo == claim->lo && seen.hi == claim->hi;
}

/* Writes a plan while the claim holds. Reads each word before it checks that. A thread that takes the claim over
 * therefore writes after this read, and then this swap fails. Returns false if the claim is lost. */
static bool write_at(struct weir__region_plan *at, uint64_t number, const struct weir__plans_limit *of,
		     union weir__atomic16 *claimed, const struct weir_state *claim)
{
	const uint64_t mark = mark_of(number, weir__thread_nonce(), &of->limit);
	uint64_t words[WEIR__PLAN_WORDS];
	struct weir_state seen;

	words_of(of, words);
	for (int i = 0; i < WEIR__PLAN_WORDS; i++)
		do {
			seen = weir__atomic16_load(&at->words[i]);
			if (!is_claimed_by(claimed, claim))
				return false;
		} while (!weir__atomic16_swap(&at->words[i], seen, (struct weir_state){ words[i], mark }));
	return true;
}

/* --- old plans --------------------------------------------------------------------------------------------------- */

/* When the keys that an old plan packed are full, roughly: twice as long after its end as a key takes, since further
 * changes may have slowed keys down. 0: no key can need the plan. */
static weir_ns full_by(const struct weir__region *region, struct weir__region_old_plan *old, uint64_t owner)
{
	const uint64_t index = (owner >> OWNER_LIMIT_SHIFT) - 1, number = owner & OWNER_NUMBER_MASK;
	struct weir__plans_limit of, next;
	weir_ns longest, longest_next;

	if (owner == 0 || index >= region->limits_max || !read_old(old, owner, &of))
		return 0;
	if (number >= weir__plans_number(&region->limits[index]))
		return WEIR_NEVER; /* about to become an old plan */
	if (!weir__plans_read(region, &region->limits[index], number + 1, &next))
		return 0;
	longest = weir__plans_longest(&of.limit);
	longest_next = weir__plans_longest(&next.limit);
	longest = longest > longest_next ? longest : longest_next;
	return weir__add_saturating(next.changed_at, weir__add_saturating(longest, longest));
}

/* The hash of an old plan, where the claim of its writer has it. */
static uint64_t sum_of(const struct weir__region *region, uint64_t owner, uint32_t nonce,
		       const struct weir__plans_limit *of)
{
	uint64_t hashed[WEIR__PLAN_WORDS + 2];

	words_of(of, hashed);
	hashed[WEIR__PLAN_WORDS] = mark_of(0, nonce, &of->limit);
	hashed[WEIR__PLAN_WORDS + 1] = owner;
	return weir__hash(&region->secret, hashed, sizeof(hashed)) << SUM_SHIFT;
}

/* Whether the plan is one of the last of its limit. Keys that are used at all have been packed by one of these, however
 * fast the limit changes. */
static bool is_recent(const struct weir__region *region, uint64_t owner)
{
	const struct weir__region_limit *const entry = &region->limits[(owner >> OWNER_LIMIT_SHIFT) - 1];

	return weir__plans_number(entry) - (owner & OWNER_NUMBER_MASK) <= RECENT;
}

/* Overwrites a place of the set. Returns false if another thread was faster. */
static bool keep_in(const struct weir__region *region, struct weir__region_old_plan *old, struct weir_state seen,
		    uint64_t owner, const struct weir__plans_limit *of)
{
	const uint32_t nonce = weir__thread_nonce();
	const struct weir_state claim = { owner, BEING_WRITTEN | nonce };

	if (!weir__atomic16_swap(&old->owner, seen, claim) ||
	    !write_at(&old->plan, owner & OWNER_NUMBER_MASK, of, &old->owner, &claim) ||
	    !weir__atomic16_swap(&old->owner, claim,
				 (struct weir_state){ owner, nonce | sum_of(region, owner, nonce, of) }))
		return false;
	if (region->file >= 0)
		(void)weir__file_sync_memory(old, sizeof(*old));
	return true;
}

static bool is_same(const struct weir__plans_limit *a, const struct weir__plans_limit *b)
{
	uint64_t words[2][WEIR__PLAN_WORDS];

	words_of(a, words[0]);
	words_of(b, words[1]);
	return memcmp(words[0], words[1], sizeof(words[0])) == 0 &&
	       mark_of(0, 0, &a->limit) == mark_of(0, 0, &b->limit);
}

/* After a power cut, an old plan may have the number of one that was made again. */
static bool is_kept(const struct weir__region *region, uint64_t owner, const struct weir__plans_limit *of)
{
	struct weir__plans_limit found;
	struct weir__region_old_plan *const old = find_old(region, owner, &found);
	struct weir_state seen;

	if (old == NULL || is_same(&found, of))
		return old != NULL;
	seen = weir__atomic16_load(&old->owner);
	if (seen.lo == owner)
		(void)weir__atomic16_swap(&old->owner, seen, (struct weir_state){ 0, 0 });
	return false;
}

/* Copies a plan of an entry to the old ones, before the limit is changed at `now`. */
static void keep(const struct weir__region *region, struct weir__region_limit *entry, uint64_t number, weir_ns now)
{
	const uint64_t owner = owner_of(region, entry, number);
	struct weir__region_old_plan *const set = set_of(region, owner);
	struct weir__plans_limit of;

	for (int tries = 0; tries < KEEP_TRIES; tries++) {
		struct weir__region_old_plan *first = NULL;
		struct weir_state seen = { 0, 0 };
		weir_ns earliest = WEIR_NEVER;
		bool first_is_recent = true;

		if (!read_at(&entry->plans[number % 2], number, &of) || is_kept(region, owner, &of))
			return;
		for (int i = 0; i < WEIR__OLD_PLANS_SET; i++) {
			const struct weir_state is = weir__atomic16_load(&set[i].owner);
			const weir_ns full = full_by(region, &set[i], is.lo);
			const bool recent = full != 0 && is_recent(region, is.lo);

			if (first == NULL || (recent == first_is_recent ? full < earliest : first_is_recent)) {
				first = &set[i];
				seen = is;
				earliest = full;
				first_is_recent = recent;
			}
		}
		if (!keep_in(region, first, seen, owner, &of))
			continue;
		if (earliest > now)
			weir__region_add_count(region, WEIR__PLANS_LOST, 1);
		return;
	}
}

/* --- recovery ---------------------------------------------------------------------------------------------------- */

static bool is_zero(const void *bytes, size_t n)
{
	const unsigned char *const at = bytes;

	return n == 0 || (at[0] == 0 && memcmp(at, at + 1, n - 1) == 0);
}

/* Whether a table can have this limit. */
static bool is_possible(const struct weir__region *region, const struct weir_limit *limit)
{
	struct weir__slot_format format;
	struct weir_plan plan;

	return (unsigned)limit->algorithm <= WEIR_SLIDING_COUNTER && weir_plan_compile(limit, &plan, NULL) == WEIR_OK &&
	       weir__slot_format_init(&format, &plan, region->epoch, region->arena.n > 0, NULL) == WEIR_OK;
}

/* Whether a limit can have been changed from the one to the other. */
static bool is_change_of(const struct weir_limit *a, const struct weir_limit *b)
{
	return mark_of(0, 0, a) == mark_of(0, 0, b) &&
	       (a->algorithm <= WEIR_LEAKY_BUCKET || (a->period == b->period && a->segments == b->segments));
}

enum weir__plans_state weir__plans_check(const struct weir__region *region, struct weir__region_limit *entry,
					 const struct weir_limit *first)
{
	const struct weir__plans_limit added = { *first, 0, false };
	const uint64_t number = weir__plans_number(entry);
	struct weir__plans_limit last;

	for (int i = 0; i < WEIR__PLAN_WORDS && number == 0; i++)
		if (is_zero(&entry->plans[0].words[i], sizeof(entry->plans[0].words[i])))
			return WEIR__PLANS_UNWRITTEN;
	if (number > OWNER_NUMBER_MASK || !read_at(&entry->plans[number % 2], number, &last) ||
	    !is_possible(region, &last.limit) || !is_change_of(first, &last.limit) ||
	    (number == 0 && !is_same(&added, &last)))
		return WEIR__PLANS_DAMAGED;
	return WEIR__PLANS_SOUND;
}

enum weir__plans_state weir__plans_check_old(const struct weir__region *region, struct weir__region_old_plan *old)
{
	const struct weir_state owner = old->owner.state;
	const uint64_t index = (owner.lo >> OWNER_LIMIT_SHIFT) - 1;
	struct weir__plans_limit of;

	if (is_zero(old, sizeof(*old)))
		return WEIR__PLANS_FREE;
	if (owner.lo == 0 || owner.hi >> SUM_SHIFT == 0)
		return owner.lo == 0 || owner.hi & BEING_WRITTEN ? WEIR__PLANS_UNWRITTEN : WEIR__PLANS_DAMAGED;
	if (index >= region->limits_max || !read_old(old, owner.lo, &of) ||
	    (owner.hi ^ sum_of(region, owner.lo, (uint32_t)owner.hi, &of)) >> SUM_SHIFT != 0 ||
	    !is_possible(region, &of.limit))
		return WEIR__PLANS_DAMAGED;
	return weir__limit_is_used(region->limits[index].identity.state.lo) ? WEIR__PLANS_SOUND : WEIR__PLANS_UNWRITTEN;
}

/* --- changes ----------------------------------------------------------------------------------------------------- */

/* Waits for the claim's owner, which is at work or was killed. */
static void await_change(struct weir__region_limit *entry, const struct weir_state *claim)
{
	for (int i = 0; i < CHANGE_PATIENCE && is_claimed_by(&entry->change, claim); i++)
		weir__pause();
}

bool weir__plans_stage(const struct weir__region *region, struct weir__region_limit *entry, uint64_t number,
		       const struct weir__plans_limit *to, struct weir__plans_staged *ret_staged)
{
	keep(region, entry, number, to->changed_at);
	for (;;) {
		const struct weir_state claim = { number, UINT64_C(1) << 32 | weir__thread_nonce() };
		const struct weir_state seen = weir__atomic16_load(&entry->change);

		if (seen.lo != number)
			return false;
		if (seen.hi != 0)
			await_change(entry, &seen);
		if (weir__atomic16_swap(&entry->change, seen, claim) &&
		    write_at(&entry->plans[(number + 1) % 2], number + 1, to, &entry->change, &claim)) {
			*ret_staged = (struct weir__plans_staged){ number, claim.hi };
			return true;
		}
	}
}

static bool end_claim(struct weir__region_limit *entry, const struct weir__plans_staged *staged, uint64_t number)
{
	return weir__atomic16_swap(&entry->change, (struct weir_state){ staged->number, staged->claim },
				   (struct weir_state){ number, 0 });
}

bool weir__plans_settle(struct weir__region_limit *entry, const struct weir__plans_staged *staged)
{
	return end_claim(entry, staged, staged->number + 1);
}

void weir__plans_drop(struct weir__region_limit *entry, const struct weir__plans_staged *staged)
{
	(void)end_claim(entry, staged, staged->number);
}
