/* slot_test.c: every possible state, packed into 16 bytes and unpacked. */
#include "store/table/slot.h"

#include "tables.h"

enum { TRIALS = 4000, STEPS = 50 };

#define TIME_MAX WEIR__SLOT_TIME_MAX

/* Epochs for which every time in a slot is a valid time. */
static weir_ns any_epoch(void)
{
	static const weir_ns ends[] = { 0, 1, UINT64_MAX - (UINT64_C(1) << 60) };

	switch (below(3)) {
	case 0:
		return ends[below(3)];
	case 1:
		return MADE_AT - (UINT64_C(1) << 58);
	default:
		return any() >> 8;
	}
}

/* Small, of any magnitude, or one of the extremes. */
static uint64_t any_number(uint64_t most)
{
	switch (below(4)) {
	case 0:
		return 1 + below(most < 10 ? most : 10);
	case 1:
		return most - below(most < 3 ? most : 3);
	default:
		return 1 + (any() >> below(64)) % most;
	}
}

/* Any kind that a table supports, up to the maxima. */
static struct weir__slot_format any_format(weir_ns epoch)
{
	struct weir__slot_format format;
	struct weir_limit limit;
	struct weir_plan plan;

	do {
		limit = weir_limit_of((enum weir_algorithm)below(5), 1, 1);

		const bool is_wide = limit.algorithm == WEIR_FIXED_WINDOW && below(2);

		limit.count = any_number(limit.algorithm == WEIR_SLIDING_COUNTER ? WEIR_TABLE_SLIDING_MAX :
					 is_wide                                 ? WEIR_TABLE_WINDOW_MAX :
					 limit.algorithm == WEIR_FIXED_WINDOW    ? WEIR_TABLE_COUNT_MAX :
										   WEIR_TABLE_RATE_MAX);
		limit.period = is_wide || below(2) ? any_number(WEIR_TABLE_DURATION_MAX / 1000000) * 1000000 :
						     any_number(WEIR_TABLE_DURATION_MAX);
		limit.burst = any_number(below(2) ? 100 : WEIR_TABLE_COUNT_MAX);
		limit.refill_interval = limit.algorithm == WEIR_TOKEN_BUCKET && below(2);
		limit.shape = limit.algorithm == WEIR_LEAKY_BUCKET && below(2);
		limit.align_first = limit.algorithm == WEIR_FIXED_WINDOW && !is_wide && below(2);
		limit.count_all = limit.algorithm == WEIR_FIXED_WINDOW && below(2);
	} while (weir_plan_compile(&limit, &plan, NULL) != WEIR_OK ||
		 weir__slot_format_init(&format, &plan, epoch, false, NULL) != WEIR_OK);
	return format;
}

static bool uses(const struct weir_plan *plan, struct weir_state state, weir_ns now)
{
	return weir_step_peek(plan, &state, now, 0).reset_after > 0;
}

/* Time advances by little or much, relative to the limit, or is at one of its ends. */
static weir_ns next_time(const struct weir__slot_format *format, weir_ns now)
{
	const uint64_t past = now - format->epoch;
	const uint64_t step = below(4) ? format->plan.period / (1 + below(2 * format->plan.count)) :
					 below(2 * format->plan.period + 2);

	switch (below(16)) {
	case 0:
		return format->epoch;
	case 1:
		return format->epoch + TIME_MAX;
	default:
		return format->epoch + weir__min(past + step, TIME_MAX);
	}
}

static uint64_t count_max(const struct weir__slot_format *format)
{
	return format->is_by_ms ? WEIR_TABLE_WINDOW_MAX : WEIR_TABLE_COUNT_MAX;
}

static struct weir_state stored(const struct weir__slot_format *format, struct weir_state state)
{
	if (format->plan.flags & WEIR_PLAN_COUNT_ALL)
		state.hi = weir__min(state.hi, count_max(format));
	return state;
}

static bool is_counted(const struct weir_plan *plan)
{
	return plan->kind != WEIR_KIND_BUCKET;
}

/* Packs a state that the core has reached, unpacks and packs it again. */
static struct weir_state check_round_trip(const struct weir__slot_format *format, struct weir_state state, weir_ns now)
{
	const struct weir_state slot = weir__slot_pack(format, 7, &state);
	const struct weir_state again = weir__slot_unpack(format, slot);

	if (slot.lo == 0) {
		CHECK_EQ(slot.hi, 0);
		CHECK(!uses(&format->plan, state, now));
		return (struct weir_state){ 0, 0 };
	}
	CHECK_EQ(weir__slot_fingerprint(slot), 7);
	CHECK_EQ(weir__slot_tag(slot), format->tag);
	CHECK_EQ(weir__slot_has_level(slot), is_counted(&format->plan));
	CHECK(weir__slot_equal(again, stored(format, state)));
	CHECK(weir__slot_equal(weir__slot_pack(format, 7, &again), slot));
	return again;
}

static void a_state_comes_out_as_it_went_in(void)
{
	unsigned by_kind[WEIR_KIND_COUNT_] = { 0 };

	for (int trial = 0; trial < TRIALS; trial++) {
		const weir_ns epoch = any_epoch();
		const struct weir__slot_format format = any_format(epoch);
		struct weir_state state = { 0, 0 };
		weir_ns now = epoch + (below(2) ? below(TIME_MAX) : 0);

		for (int step = 0; step < STEPS && !check_failed; step++, now = next_time(&format, now)) {
			const uint64_t cost = below(4) ? 1 + below(weir__min(format.plan.most, 9)) :
							 any_number(format.plan.most);

			if (below(8))
				weir_step_allow(&format.plan, &state, now, cost);
			else
				weir_step_refund(&format.plan, &state, now, cost);
			by_kind[format.plan.kind] += uses(&format.plan, state, now);
			state = check_round_trip(&format, state, now);
		}
	}
	for (unsigned kind = WEIR_KIND_BUCKET; kind <= WEIR_KIND_COUNTER; kind++)
		CHECK(by_kind[kind] > TRIALS);
}

/* A slot as it may be in a table of this format, except for its level. */
static struct weir_state any_slot(const struct weir__slot_format *format)
{
	const struct weir_plan *const plan = &format->plan;
	uint64_t full_at = any_number((UINT64_C(1) << 60) - 1), own = any_number(plan->most), past;

	switch (plan->kind) {
	case WEIR_KIND_BUCKET:
		own = below(4) ? below(plan->count) : plan->count - 1;
		break;
	case WEIR_KIND_INTERVAL:
		past = (own + plan->count - 1) / plan->count * plan->period;
		full_at = past + any_number((UINT64_C(1) << 60) - 1 - past);
		break;
	case WEIR_KIND_COUNTER:
		own = any_number(plan->most) << 14 | any_number(plan->most);
		own &= below(3) ? 0xfffffff : below(2) ? 0x3fff : 0xfffc000;
		past = format->epoch / plan->period + 2;
		full_at = (past + below((UINT64_C(1) << 59) / plan->period)) * plan->period - format->epoch;
		break;
	default:
		full_at = plan->period + any_number((UINT64_C(1) << 59) - plan->period);
		own = plan->flags & WEIR_PLAN_COUNT_ALL ? any_number(count_max(format)) : own;
		if (format->is_by_ms)
			full_at += 1000000 - (full_at + format->epoch) % 1000000;
		if (format->is_wide) {
			full_at += own % (1 << 18);
			own >>= 18;
		} else if (own >= plan->most) {
			full_at += own >> 28;
			own = (own & 0xfffffff) | UINT64_C(15) << 28;
		}
	}
	return weir__slot_make((uint32_t)(any() | 1), (uint32_t)own, full_at, format->tag);
}

static void a_slot_unpacked_packs_to_itself(void)
{
	for (int trial = 0; trial < TRIALS; trial++) {
		const struct weir__slot_format format = any_format(any_epoch());
		const uint64_t level = is_counted(&format.plan) ? UINT64_C(0xf) << 60 : 0;

		for (int i = 0; i < STEPS; i++) {
			struct weir_state slot = any_slot(&format), again, state;

			state = weir__slot_unpack(&format, slot);
			again = weir__slot_pack(&format, weir__slot_fingerprint(slot), &state);
			CHECK_EQ(again.lo & ~level, slot.lo & ~level);
			CHECK_EQ(again.hi, slot.hi);
			state = weir__slot_unpack(&format, again); /* with its level, too */
			slot = weir__slot_pack(&format, weir__slot_fingerprint(slot), &state);
			CHECK(weir__slot_equal(slot, again));
		}
	}
}

/* From 0 to 15: 15 only if everything is used, monotonic, and every level occurs if there are enough units. */
static void a_level_is_how_much_is_used(void)
{
	for (int trial = 0; trial < TRIALS; trial++) {
		const struct weir__slot_format format = any_format(0);
		const uint64_t most = format.plan.most;
		uint32_t last = 0;

		if (!is_counted(&format.plan))
			continue;
		for (uint64_t i = 1; i <= 200; i++) {
			const uint64_t used = most < 200 ? weir__min(i, most) : most / 200 * i + most % 200 * i / 200;
			const bool is_counter = format.plan.kind == WEIR_KIND_COUNTER;
			const struct weir_state state = { .lo = is_counter ? used : 0, .hi = is_counter ? 1 : used };
			const uint32_t level = weir__slot_level(weir__slot_pack(&format, 7, &state));

			CHECK(level >= last && (level == WEIR__SLOT_LEVEL_MOST) == (used == most));
			CHECK(level == WEIR__SLOT_LEVEL_MOST || level <= used * 15 / most);
			CHECK(level + 1 >= used * 15 / most);
			last = level;
		}
	}
}

/* A slot of another key, and of another limit: no impossible value is read from it. */
static void what_others_left_is_one_burst_at_most(void)
{
	for (int trial = 0; trial < 20 * TRIALS; trial++) {
		const weir_ns epoch = any_epoch(), now = epoch + below(TIME_MAX);
		const struct weir__slot_format format = any_format(epoch);
		const uint64_t full_at = below(2) ? any() >> 4 : now - epoch + below(format.plan.period);
		struct weir_state state = weir__slot_unpack(
			&format, weir__slot_make(7, (uint32_t)any(), full_at, (uint32_t)below(15)));
		struct weir_verdict verdict = weir_step_take(&format.plan, &state, now, 1);

		CHECK(verdict.remaining <= format.plan.most);
		CHECK(verdict.reset_after <= WEIR_TABLE_DURATION_MAX + S(60));
		verdict = weir_step_refund(&format.plan, &state, now, UINT64_MAX);
		CHECK(verdict.allowed);
	}
}

static void a_free_slot_is_a_fresh_key(void)
{
	for (int trial = 0; trial < TRIALS; trial++) {
		const struct weir__slot_format format = any_format(any_epoch());
		const struct weir_state fresh = { 0, 0 };

		CHECK(weir__slot_equal(weir__slot_unpack(&format, fresh), fresh));
		CHECK(weir__slot_equal(weir__slot_pack(&format, 7, &fresh), fresh));
	}
}

/* Whether either window still counts, even as a fraction of one request. */
static bool counter_remembers(const struct weir_plan *plan, const struct weir_state *state, weir_ns now)
{
	const struct weir__counter counter = weir__counter_at(plan, state, now);

	return counter.previous > 0 || counter.current > 0;
}

/* The core rounds a sliding counter's weight down, so it may act as if full before both windows are over. A slot's
 * fresh_at is the end of the later window. For all other kinds it is when the core says so. */
static void fresh_at_is_the_first_instant_at_which_nothing_is_owed(void)
{
	unsigned checked = 0;

	for (int trial = 0; trial < TRIALS; trial++) {
		const weir_ns epoch = any_epoch();
		const struct weir__slot_format format = any_format(epoch);
		const bool is_counter = format.plan.kind == WEIR_KIND_COUNTER;
		struct weir_state state = { 0, 0 }, slot;
		weir_ns now = epoch + below(TIME_MAX), full_at;

		for (int step = 0; step < STEPS; step++, now = next_time(&format, now)) {
			weir_step_allow(&format.plan, &state, now, any_number(format.plan.most));
			slot = weir__slot_pack(&format, 7, &state);
			full_at = weir__slot_full_at(slot) + epoch;
			if (slot.lo == 0 || full_at <= now)
				continue;
			checked++;
			CHECK(!uses(&format.plan, state, full_at));
			if (is_counter)
				CHECK(!counter_remembers(&format.plan, &state, full_at) &&
				      counter_remembers(&format.plan, &state, full_at - 1));
			else if (weir__slot_uses_end(&format, weir__slot_own(slot)))
				CHECK(uses(&format.plan, state, full_at - 1000000));
			else
				CHECK(uses(&format.plan, state, full_at - 1));
			CHECK(is_counter || uses(&format.plan, state, weir__slot_resets_at(&format, slot) - 1));
		}
	}
	CHECK(checked > TRIALS);
}

static void a_charged_bucket_is_the_charged_state_packed(void)
{
	unsigned checked = 0;

	for (int trial = 0; trial < 4 * TRIALS; trial++) {
		const weir_ns epoch = any_epoch();
		const struct weir__slot_format format = any_format(epoch);
		const struct weir_plan *const plan = &format.plan;
		struct weir_state slot = weir__slot_make(9, 0, 1 + below(TIME_MAX), format.tag);
		weir_ns now = epoch + below(TIME_MAX);

		if (plan->kind != WEIR_KIND_BUCKET)
			continue;
		for (int step = 0; step < STEPS; step++, now = next_time(&format, now)) {
			const uint64_t cost = below(2) ? 1 : any_number(plan->most);
			struct weir_state state = weir__slot_unpack(&format, slot), expected;
			const bool was_full = weir__state_wide(&state) <= weir__mul(now, plan->count);

			if (!weir_step_allow(plan, &state, now, cost))
				continue;
			expected = weir__slot_pack(&format, 9, &state);
			slot = weir__slot_charge_bucket(&format, slot, was_full, now, cost);
			checked++;
			CHECK_EQ(slot.lo, expected.lo);
			CHECK_EQ(slot.hi, expected.hi);
		}
	}
	CHECK(checked > TRIALS);
}

#define COUNT_OF_RATE "in a table the count of a rate in lowest terms is at most 4294967295"
#define BURST "in a table a burst with refill interval is at most 268435455"
#define COUNT "in a table a count is at most 70368744177663"
#define COUNT_OFF_GRID                                                                                                 \
	"in a table the count of a fixed_window with align first, or with a period that is not in whole milliseconds, is at most 268435455"
#define SPAN "in a table a used-up key must be full again after at most 576460632303423488 ns: 6671 whole days"
#define KIND                                                                                                           \
	"a sliding_log, or a sliding_counter with segments, count all or a count above 16383, needs the table's arena, and this table has none: set arena_bytes"

static const struct {
	const char *limit;
	int error;
	const char *why;
} maxima[] = {
	/* clang-format off */
	{ "4294967295/4294967296ns burst 1",                                WEIR_OK,              NULL },
	{ "4294967296/4294967297ns burst 1",                                WEIR_ERR_MAXIMUM,     COUNT_OF_RATE },
	{ "8589934592/s burst 1",                                           WEIR_OK,              NULL }, /* 2^24 */
	{ "1/ns burst 576460632303423488",                                  WEIR_OK,              NULL },
	{ "1/ns burst 576460632303423489",                                  WEIR_ERR_MAXIMUM,     SPAN },
	{ "1/576460632303423488ns",                                         WEIR_OK,              NULL },
	{ "1/576460632303423489ns",                                         WEIR_ERR_MAXIMUM,     SPAN },
	{ "2/1152921264606846975ns burst 1",                                WEIR_OK,              NULL },
	{ "2/1152921264606846977ns burst 1",                                WEIR_ERR_MAXIMUM,     SPAN },
	{ "1/ns leaky queue 576460632303423488",                            WEIR_OK,              NULL },
	{ "1/ns leaky queue 576460632303423489",                            WEIR_ERR_MAXIMUM,     SPAN },
	{ "1/ns refill interval burst 268435455",                           WEIR_OK,              NULL },
	{ "1/ns refill interval burst 268435456",                           WEIR_ERR_MAXIMUM,     BURST },
	{ "268435455/576460632303423488ns refill interval",                 WEIR_OK,              NULL },
	{ "10/57646063230342348ns refill interval burst 100",               WEIR_OK,              NULL },
	{ "10/57646063230342348ns refill interval burst 101",               WEIR_ERR_MAXIMUM,     SPAN },
	{ "268435455/576460632303423488ns fixed_window",                    WEIR_OK,              NULL },
	{ "268435455/576460632303423488ns fixed_window align first count all", WEIR_OK,           NULL },
	{ "70368744177663/s fixed_window",                                  WEIR_OK,              NULL },
	{ "70368744177663/ms fixed_window count all",                       WEIR_OK,              NULL },
	{ "70368744177663/576460632303000000ns fixed_window",               WEIR_OK,              NULL },
	{ "70368744177664/s fixed_window",                                  WEIR_ERR_MAXIMUM,     COUNT },
	{ "268435455/us fixed_window",                                      WEIR_OK,              NULL },
	{ "268435456/us fixed_window",                                      WEIR_ERR_MAXIMUM,     COUNT_OFF_GRID },
	{ "268435456/1000001ns fixed_window",                               WEIR_ERR_MAXIMUM,     COUNT_OFF_GRID },
	{ "268435456/s fixed_window align first",                           WEIR_ERR_MAXIMUM,     COUNT_OFF_GRID },
	{ "1/576460632303423489ns fixed_window",                            WEIR_ERR_MAXIMUM,     SPAN },
	{ "16383/288230316151711744ns sliding_counter",                     WEIR_OK,              NULL },
	{ "16383/288230316151711745ns sliding_counter",                     WEIR_ERR_MAXIMUM,     SPAN },
	{ "16384/s sliding_counter",                                        WEIR_ERR_NO_ARENA   , KIND },
	{ "5/s sliding_counter count all",                                  WEIR_ERR_NO_ARENA   , KIND },
	{ "5/s sliding_counter segments 5",                                 WEIR_ERR_NO_ARENA   , KIND },
	{ "5/s sliding_log",                                                WEIR_ERR_NO_ARENA   , KIND },
	/* clang-format on */
};

#define MAXIMA (sizeof(maxima) / sizeof(maxima[0]))

static void the_largest_is_accepted_and_one_more_is_not(void)
{
	for (size_t i = 0; i < MAXIMA; i++) {
		const struct weir_plan plan = plan_of(maxima[i].limit);
		struct weir__slot_format format = { .tag = 99 };
		struct weir_message why = { 0, "" };

		if (!CHECK_EQ(weir__slot_format_init(&format, &plan, 0, false, &why), maxima[i].error))
			printf("# %s\n", maxima[i].limit);
		CHECK_EQ(weir__slot_format_init(&format, &plan, 0, false, NULL), maxima[i].error);
		if (maxima[i].error != WEIR_OK) {
			CHECK_TEXT(why.text, maxima[i].why);
			CHECK_EQ(format.tag, 99);
		}
	}
}

/* Used up at the last instant, read by a clock that is a minute behind, and refilled from there. */
static void what_is_accepted_fits_at_the_ends_of_time(void)
{
	static const weir_ns epochs[] = { 0, UINT64_MAX - (UINT64_C(1) << 60) };

	for (size_t i = 0; i < 2 * MAXIMA; i++) {
		const weir_ns first = epochs[i % 2], last = first + TIME_MAX;
		struct weir_state state = { 0, 0 };
		struct weir__slot_format format;
		struct weir_plan plan;

		if (maxima[i / 2].error != WEIR_OK)
			continue;
		plan = plan_of(maxima[i / 2].limit);
		CHECK_EQ(weir__slot_format_init(&format, &plan, first, false, NULL), WEIR_OK);
		for (unsigned at = 0; at < 6; at++) {
			const weir_ns now = at < 3 ? last - (at % 2) * S(60) : first;

			if (at > 3) /* again, from the beginning */
				state = (struct weir_state){ 0, 0 };
			weir_step_allow(&plan, &state, now, at % 2 ? plan.most : plan.most - 1);
			weir_step_allow(&plan, &state, now, 1);
			state = check_round_trip(&format, state, now);
			if (check_failed)
				printf("# %s, %u\n", maxima[i / 2].limit, at);
		}
	}
}

static void slots_compare_as_their_fresh_at_does(void)
{
	for (int i = 0; i < TRIALS; i++) {
		const struct weir_state a = weir__slot_make(1, (uint32_t)any(), any() >> 4, (uint32_t)below(16));
		const struct weir_state b = weir__slot_make(2, (uint32_t)any(), any() >> 4, (uint32_t)below(16));

		CHECK(weir__slot_full_at(a) == weir__slot_full_at(b) ||
		      (a.hi < b.hi) == (weir__slot_full_at(a) < weir__slot_full_at(b)));
	}
}

TESTS(TEST(a_state_comes_out_as_it_went_in), TEST(a_slot_unpacked_packs_to_itself), TEST(a_level_is_how_much_is_used),
      TEST(what_others_left_is_one_burst_at_most), TEST(a_free_slot_is_a_fresh_key),
      TEST(fresh_at_is_the_first_instant_at_which_nothing_is_owed), TEST(a_charged_bucket_is_the_charged_state_packed),
      TEST(the_largest_is_accepted_and_one_more_is_not), TEST(what_is_accepted_fits_at_the_ends_of_time),
      TEST(slots_compare_as_their_fresh_at_does))
