/* plans.c: writes and reads plans word by word, such that a torn plan is never used. */
#include "store/table/plans.h"

#include "os/pause.h"
#include "os/thread.h"

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
	WRITTEN = 1 << 7, /* so that a mark is never 0 */
};

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
	words[2] = of->limit.algorithm <= WEIR_LEAKY_BUCKET ? of->limit.burst :
							      of->limit.segments; /* a limit has one of the two */
	words[3] = of->changed_at;
}

void weir__plans_begin(struct weir__region_limit *entry, const struct weir_limit *limit)
{
	const struct weir__plans_limit first = { *limit, 0, { 0, 0 } };
	const uint64_t mark = mark_of(0, 0, limit);
	uint64_t words[WEIR__PLAN_WORDS];

	words_of(&first, words);
	for (int i = 0; i < WEIR__PLAN_WORDS; i++)
		(void)weir__atomic16_swap(&entry->first.words[i], (struct weir_state){ 0, 0 },
					  (struct weir_state){ words[i], mark });
}

static bool is_mark_of(uint64_t mark, uint64_t number)
{
	return mark & WRITTEN && ((mark >> NUMBER_SHIFT ^ number) & NUMBER_MASK) == 0;
}

bool weir__plans_read(const struct weir__region *region, struct weir__region_limit *entry, uint64_t number,
		      struct weir__plans_limit *ret_limit)
{
	struct weir_state words[WEIR__PLAN_WORDS];
	uint64_t mark;
	bool is_bucket;

	for (int i = 0; i < WEIR__PLAN_WORDS; i++)
		words[i] = weir__atomic16_load(&weir__plans_place(region, entry, number)->words[i]);
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
		.segments = is_bucket ? 1 : words[2].lo,
		.refill_interval = mark & REFILL_INTERVAL,
		.shape = mark & SHAPE,
		.align_first = mark & ALIGN_FIRST,
		.count_all = mark & COUNT_ALL,
	};
	ret_limit->changed_at = words[3].lo;
	return true;
}

/* A limit that was never changed has no `absent`: a key without a slot has used nothing. Returns false if it is
 * corrupt. */
static bool read_absent(struct weir__region_limit *entry, uint64_t number, struct weir_state *ret_absent)
{
	const struct weir_state lo = weir__atomic16_load(&entry->absent[number % 2][0]);
	const struct weir_state hi = weir__atomic16_load(&entry->absent[number % 2][1]);

	*ret_absent = number > 0 ? (struct weir_state){ lo.lo, hi.lo } : (struct weir_state){ 0, 0 };
	return number == 0 || (lo.hi == hi.hi && is_mark_of(lo.hi, number));
}

bool weir__plans_read_last(const struct weir__region *region, struct weir__region_limit *entry, uint64_t *ret_number,
			   struct weir__plans_limit *ret_limit)
{
	uint64_t number;

	do {
		number = weir__plans_number(entry);
		if (weir__plans_read(region, entry, number, ret_limit) &&
		    read_absent(entry, number, &ret_limit->absent)) {
			*ret_number = number;
			return true;
		}
	} while (number != weir__plans_number(entry));
	return false;
}

static bool is_claimed_by(struct weir__region_limit *entry, const struct weir_state *claim)
{
	const struct weir_state seen = weir__atomic16_load(&entry->change);

	return seen.lo == claim->lo && seen.hi == claim->hi;
}

/* Reads the word before it checks that the claim is still held. A thread that takes the claim over therefore writes
 * after this read, and then this swap fails. Returns false if the claim is lost. */
static bool write_word(struct weir__region_limit *entry, const struct weir_state *claim, union weir__atomic16 *at,
		       uint64_t word, uint64_t mark)
{
	struct weir_state seen;

	do {
		seen = weir__atomic16_load(at);
		if (!is_claimed_by(entry, claim))
			return false;
	} while (!weir__atomic16_swap(at, seen, (struct weir_state){ word, mark }));
	return true;
}

static bool write_plan(const struct weir__region *region, struct weir__region_limit *entry,
		       const struct weir_state *claim, const struct weir__plans_limit *to)
{
	const uint64_t number = claim->lo + 1, mark = mark_of(number, weir__thread_nonce(), &to->limit);
	union weir__atomic16 *const absent = entry->absent[number % 2];
	uint64_t words[WEIR__PLAN_WORDS];

	words_of(to, words);
	for (int i = 0; i < WEIR__PLAN_WORDS; i++)
		if (!write_word(entry, claim, &weir__plans_place(region, entry, number)->words[i], words[i], mark))
			return false;
	return write_word(entry, claim, &absent[0], to->absent.lo, mark) &&
	       write_word(entry, claim, &absent[1], to->absent.hi, mark);
}

/* The owner is at work or was killed. */
static void await_change(struct weir__region_limit *entry, const struct weir_state *claim)
{
	for (int i = 0; i < CHANGE_PATIENCE && is_claimed_by(entry, claim); i++)
		weir__pause();
}

bool weir__plans_stage(const struct weir__region *region, struct weir__region_limit *entry, uint64_t number,
		       const struct weir__plans_limit *to, struct weir__plans_staged *ret_staged)
{
	for (;;) {
		const struct weir_state claim = { number, UINT64_C(1) << 32 | weir__thread_nonce() };
		const struct weir_state seen = weir__atomic16_load(&entry->change);

		if (seen.lo != number)
			return false;
		if (seen.hi != 0)
			await_change(entry, &seen);
		if (weir__atomic16_swap(&entry->change, seen, claim) && write_plan(region, entry, &claim, to)) {
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
