/* table_overwrite.c: overwrites a key's state with the state that another store reported.
 *
 * The other store's verdict has units and a duration, not a state. Where they do not determine the state, the table
 * writes the state that allows less. The two stores then differ for at most a period. A key that has a history gets a
 * folded slot instead (slot.h): one swap, and no chunk of the arena until the key is next charged. */
#include <stdatomic.h>

#include "core/interval.h"
#include "core/window.h"
#include "store/table/table.h"

static uint64_t used_units(const struct weir_plan *plan, const struct weir_verdict *said)
{
	return weir__min(said->limit - weir__min(said->limit, said->remaining), plan->most);
}

/* Whether the other store has the same rate and burst, as far as its verdict shows: what refills until reset_after
 * equals the used units, the last of which may have refilled in part. reset_after is rounded up, and may exceed the
 * units by *ret_rest, in 1/count ns. Without subtracting that rest, one unit too many would be used. */
static inline bool is_same_bucket(const struct weir_plan *plan, const struct weir_verdict *said, uint32_t *ret_rest)
{
	const weir__u128 units = weir__mul(said->limit - said->remaining, plan->period);
	const weir__u128 told = weir__mul(said->reset_after, plan->count);

	*ret_rest = told > units ? (uint32_t)(told - units) : 0;
	return said->limit == plan->most && said->remaining < said->limit && told < units + plan->count &&
	       told + plan->period > units;
}

/* Exact to a nanosecond, unless the other store has another rate or burst. Then only the number of units is taken
 * over. */
static struct weir_state bucket_of(const struct weir_plan *plan, const struct weir_verdict *said, uint64_t used,
				   weir_ns now)
{
	struct weir_state state;
	uint32_t rest;

	weir__state_set_wide(&state, is_same_bucket(plan, said, &rest) ?
					     weir__mul(now + said->reset_after, plan->count) - rest :
					     weir__mul(now, plan->count) + weir__mul(used, plan->period));
	return state;
}

static struct weir_state interval_of(const struct weir_plan *plan, const struct weir_verdict *said, uint64_t used,
				     weir_ns now)
{
	const weir__u128 longest = weir__mul((uint64_t)weir__div_up(used, plan->count), plan->period);
	const bool fits = said->reset_after <= longest && said->reset_after + plan->period > longest;
	const weir_ns elapsed = fits ? (weir_ns)longest - said->reset_after : 0;

	return (struct weir_state){ .lo = now - weir__min(elapsed, now), .hi = used };
}

/* The window ends at the time that the other store reported, whose clock may differ from this one. */
static struct weir_state window_of(const struct weir_plan *plan, const struct weir_verdict *said, uint64_t used,
				   weir_ns now)
{
	const weir_ns elapsed = plan->period - weir__min(plan->period, said->reset_after);

	return (struct weir_state){ .lo = now - weir__min(elapsed, now), .hi = used };
}

/* If all usage expires by the end of the current window, only the previous window gets a count: the highest that gives
 * this many units now. Otherwise all units count in the current window, some of them for a window longer than in the
 * other store. */
static struct weir_state counter_of(const struct weir_plan *plan, const struct weir_verdict *said, uint64_t used,
				    weir_ns now)
{
	const weir_ns left = plan->period - now % plan->period;
	const uint64_t most = weir__saturate(weir__div(weir__mul(used + 1, plan->period) - 1, left));
	const uint64_t previous = weir__min(most, plan->most);
	const bool is_previous = said->reset_after <= left &&
				 weir__mul(previous, left) >= weir__mul(used, plan->period);

	return (struct weir_state){ .lo = is_previous ? weir__counter_pack(previous, 0) : weir__counter_pack(0, used),
				    .hi = now / plan->period };
}

/* Counts all units at the newest event. Units of a sliding counter are not put into its oldest sub-window, which counts
 * only in part. Sub-windows of this clock begin at other instants, so the end is rounded up. */
static struct weir_state folded_of(const struct weir__key *key, const struct weir_verdict *said, uint64_t used,
				   weir_ns now)
{
	const struct weir_plan *const plan = &key->view.format.plan;
	weir_ns full_at = now + weir__min(said->reset_after, weir__slot_longest(plan));

	if (plan->kind == WEIR_KIND_SEGMENTS) {
		const uint64_t number = now / plan->period, end = full_at / plan->period + 1;

		full_at = (end < number + 2 ? number + 2 : weir__min(end, number + plan->room + 1)) * plan->period;
	}
	return weir__slot_make_folded(key->fingerprint, used, weir__slot_level_of(used, plan->most),
				      full_at - key->view.format.epoch);
}

/* Of a limit whose state fits a slot. */
static struct weir_state state_of(const struct weir_plan *plan, const struct weir_verdict *said, weir_ns now)
{
	const uint64_t used = used_units(plan, said);

	if (used == 0 || said->reset_after == 0)
		return (struct weir_state){ 0, 0 };
	switch (plan->kind) {
	case WEIR_KIND_BUCKET:
		return bucket_of(plan, said, used, now);
	case WEIR_KIND_INTERVAL:
		return interval_of(plan, said, used, now);
	case WEIR_KIND_WINDOW:
		return window_of(plan, said, used, now);
	default:
		return counter_of(plan, said, used, now);
	}
}

static struct weir_state slot_of(const struct weir__key *key, const struct weir_verdict *said, weir_ns now)
{
	const struct weir_plan *const plan = &key->view.format.plan;
	const uint64_t used = used_units(plan, said);
	struct weir_state state;

	if (used == 0 || said->reset_after == 0)
		return (struct weir_state){ 0, 0 };
	if (plan->kind > WEIR_KIND_COUNTER)
		return folded_of(key, said, used, now);
	state = state_of(plan, said, now);
	return weir__key_pack(key, &state);
}

/* Whether the table already knows of as much usage. */
static bool has_as_much(const struct weir__key *key, const struct weir__place *place, const struct weir_state *state,
			const struct weir_verdict *said, weir_ns now)
{
	const struct weir_plan *const plan = &key->view.format.plan;
	struct weir_state copy = *state;
	uint64_t remaining;

	if (place->slot == NULL)
		return false;
	remaining =
		weir__format_has_histories(&key->view.format) ?
			weir__table_step(key->table, key->limit, key->hash, weir_step_peek, now, 0, NULL).remaining :
			weir_step_peek(plan, &copy, now, 0).remaining;
	return plan->most - weir__min(plan->most, remaining) >= used_units(plan, said);
}

/* Whether usage is removed that has not refilled: see table_decide.c. */
static bool lowers(const struct weir__place *place, struct weir_state next)
{
	return place->slot && (weir__slot_full_at(next) < weir__slot_full_at(place->seen) ||
			       weir__slot_own(next) < weir__slot_own(place->seen));
}

/* The common path: a bucket whose slot is in its home line and packed by the newest plan. Returns false if nothing was
 * done. */
static bool overwrite_in_line(struct weir_table *table, const struct weir_table_limit *limit, uint64_t hash,
			      weir_ns now, const struct weir_verdict *said)
{
	const uint64_t number = WEIR__VIEW_WORD(limit, number);
	const struct weir_plan plan = { .count = WEIR__VIEW_WORD(limit, format.plan.count),
					.period = WEIR__VIEW_WORD(limit, format.plan.period),
					.most = WEIR__VIEW_WORD(limit, format.plan.most) };
	const uint32_t tag = WEIR__VIEW_WORD(limit, format.tag);
	const uint32_t fingerprint = weir__fingerprint_in(hash, WEIR__VIEW_WORD(limit, mark));
	union weir__atomic16 *const line = weir__table_home(table, hash);
	const unsigned matches = weir__line_matches(line, fingerprint);
	struct weir_state seen, next;
	uint32_t rest;

	if (matches == 0 || !is_same_bucket(&plan, said, &rest) || said->reset_after > WEIR_TABLE_DURATION_MAX)
		return false;
	seen = weir__atomic16_load(line + __builtin_ctz(matches));
	next = weir__slot_make(fingerprint, rest, now + said->reset_after - table->epoch, tag);
	if (weir__slot_fingerprint(seen) != fingerprint || weir__slot_tag(seen) != tag ||
	    !weir__view_is_current(limit, number))
		return false;
	if (weir__slot_full_at(next) < weir__slot_full_at(seen))
		atomic_fetch_add(weir__table_forgiven(table, fingerprint), 1);
	return weir__atomic16_swap(line + __builtin_ctz(matches), seen, next);
}

/* When a bucket that gets tokens at once is full again, if `more` are missing besides those that the other store said. */
static weir_ns interval_reset(const struct weir_plan *plan, const struct weir_verdict *said, uint64_t more)
{
	const uint64_t used = said->limit - said->remaining;
	const weir__u128 longest = weir__mul((uint64_t)weir__div_up(used, plan->count), plan->period);
	const weir__u128 then = weir__mul((uint64_t)weir__div_up(weir__add_saturating(used, more), plan->count),
					  plan->period);
	const weir__u128 elapsed = longest > said->reset_after ? longest - said->reset_after : 0;

	return weir__saturate(then - (elapsed < plan->period ? elapsed : 0));
}

/* The verdict as if `more` units were used besides. `own` is the table's own, for windows of which the other store does
 * not know yet. */
static struct weir_verdict with_more(const struct weir_plan *plan, const struct weir_verdict *said, uint64_t more,
				     const struct weir_verdict *own)
{
	struct weir_verdict sum = *said;

	if (more == 0)
		return sum;
	sum.remaining -= weir__min(sum.remaining, more);
	if (plan->kind == WEIR_KIND_BUCKET) {
		const weir__u128 units = weir__mul(sum.limit - sum.remaining, plan->period);
		weir__u128 told;

		sum.reset_after = weir__add_saturating(
			said->reset_after,
			weir__saturate((weir__mul(more, plan->period) + plan->count - 1) / plan->count));
		told = weir__mul(sum.reset_after, plan->count);
		if (told >= units + plan->count && told < units + 2 * (weir__u128)plan->count)
			sum.reset_after--; /* both were rounded up */
	} else if (plan->kind == WEIR_KIND_INTERVAL) {
		sum.reset_after = interval_reset(plan, said, more);
	} else if (plan->kind == WEIR_KIND_COUNTER) {
		sum.reset_after = weir__saturate(weir__mul(2, plan->period)); /* they may be of the newest window */
	} else if (said->reset_after == 0) {
		sum.reset_after = own->reset_after > 0 ? own->reset_after : plan->period;
	}
	return sum;
}

/* The state of a key that has used more than its limit, so that nothing is allowed before that has refilled. A mirror is
 * read again before the longest step of a clock has passed, so no more than that need be told. Returns false if all fits
 * the limit. */
static bool state_beyond(const struct weir_plan *plan, const struct weir_verdict *said, weir_ns now,
			 struct weir_state *ret_state)
{
	static const weir_ns soon = WEIR__STEP_BACK_MAX / 2;
	const uint64_t number = now / plan->period;
	uint32_t rest;

	if (said->remaining > 0)
		return false;
	if (plan->kind == WEIR_KIND_BUCKET && !is_same_bucket(plan, said, &rest)) {
		const weir__u128 full = weir__mul(plan->most, plan->period);
		const weir__u128 most = full + weir__mul(soon, plan->count);
		const weir__u128 used = weir__mul(said->reset_after, plan->count);

		weir__state_set_wide(ret_state, weir__mul(now, plan->count) + (used < full ? full :
									       used < most ? used :
											     most));
		return true;
	}
	if (plan->kind == WEIR_KIND_INTERVAL) {
		const weir_ns longest = weir__saturate(
			weir__mul((uint64_t)weir__div_up(plan->most, plan->count), plan->period));

		if (said->reset_after <= longest)
			return false;
		*ret_state = (struct weir_state){ .lo = now + weir__min(said->reset_after - longest, soon),
						  .hi = plan->most };
		return true;
	}
	if (plan->kind != WEIR_KIND_COUNTER)
		return false;
	/* The other store does not say how much more. As of the next window, if that begins soon. */
	*ret_state = (struct weir_state){ .lo = weir__counter_pack(0, plan->most),
					  .hi = number + (plan->period - now % plan->period < soon) };
	return true;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Below this, a window that the other store reported too late may look like the next one. */
static const weir_ns windows_differ_ns = UINT64_C(250000000);

/* A state of which the key has no more left than of both, at any time. */
static struct weir_state windows_joined(const struct weir_plan *plan, const struct weir_state *own,
					const struct weir_state *said)
{
	const weir_ns half = plan->period / 2;

	if (said->lo > own->lo && said->lo - own->lo > half && half >= windows_differ_ns)
		return *said; /* of the next window */
	return (struct weir_state){ .lo = larger(own->lo, said->lo), .hi = larger(own->hi, said->hi) };
}

/* The counts of a sliding counter as of a window, which may lie in the future: then all of them count in it. */
static struct weir__counter counter_as_of(const struct weir_plan *plan, const struct weir_state *state, weir_ns now,
					  uint64_t number)
{
	struct weir__counter counter = weir__counter_at(plan, state, now);

	if (counter.number < number) {
		counter.current = weir__min(counter.previous + counter.current, plan->most);
		counter.previous = 0;
	}
	return counter;
}

static struct weir_state counters_joined(const struct weir_plan *plan, const struct weir_state *own,
					 const struct weir_state *said, weir_ns now)
{
	const uint64_t number = larger(larger(own->hi, said->hi), now / plan->period);
	const struct weir__counter a = counter_as_of(plan, own, now, number),
				   b = counter_as_of(plan, said, now, number);

	return (struct weir_state){
		.lo = weir__counter_pack(larger(a.previous, b.previous), larger(a.current, b.current)), .hi = number
	};
}

/* What the table knows, raised by what the other store said. Neither is later than the other: both may have usage that
 * the other lacks, and usage that lasts longer. */
static struct weir_state joined(const struct weir_plan *plan, const struct weir_state *own,
				const struct weir_state *said, weir_ns now)
{
	struct weir_state a = *own, b = *said;

	switch (plan->kind) {
	case WEIR_KIND_WINDOW:
		a = weir__window_at(plan, own, now);
		break;
	case WEIR_KIND_COUNTER:
		return own->lo == 0 ? *said : said->lo == 0 ? *own : counters_joined(plan, own, said, now);
	case WEIR_KIND_INTERVAL:
		weir__interval_settle(plan, &a, now);
		weir__interval_settle(plan, &b, now);
		break;
	default:
		return weir__state_wide(own) > weir__state_wide(said) ? *own : *said;
	}
	if (a.hi == 0 || b.hi == 0)
		return a.hi == 0 ? b : a;
	return plan->kind == WEIR_KIND_WINDOW ?
		       windows_joined(plan, &a, &b) :
		       (struct weir_state){ .lo = larger(a.lo, b.lo), .hi = larger(a.hi, b.hi) };
}

/* A slot of which nothing is used. The nanoseconds of a wide window are a count. */
static struct weir_state unused_slot(const struct weir__key *key, weir_ns now)
{
	const struct weir__slot_format *const format = &key->view.format;
	const weir_ns until = format->is_wide ? now - now % WEIR__SLOT_WIDE_NS : now;

	return weir__slot_make(key->fingerprint, 0, until - weir__min(until, format->epoch), format->tag);
}

/* The slot with what the other store said, and what this server knows besides. */
static struct weir_state slot_with(const struct weir__key *key, const struct weir__place *place,
				   const struct weir_state *state, const struct weir_verdict *said, uint64_t more,
				   bool only_raises, weir_ns now)
{
	const struct weir_plan *const plan = &key->view.format.plan;
	struct weir_state copy = *state, next;
	const struct weir_verdict own = weir_step_peek(plan, &copy, now, 0);
	struct weir_verdict sum = with_more(plan, said, more, &own);

	if (sum.limit < plan->most) /* of a newer plan: no more than that has left */
		sum.limit = plan->most;
	if (!state_beyond(plan, &sum, now, &next))
		next = state_of(plan, &sum, now);
	if (only_raises && place->slot)
		next = joined(plan, state, &next, now);
	next = weir__key_pack(key, &next);
	if (weir__slot_equal(next, (struct weir_state){ 0, 0 }))
		next = unused_slot(key, now);
	return next;
}

void weir__table_overwrite_with(struct weir_table *table, const struct weir_table_limit *limit, uint64_t hash,
				weir_ns now, const struct weir_verdict *said, bool only_raises,
				uint64_t (*more)(void *context, bool *ret_only_raises), void *context)
{
	struct weir_state state, next;
	struct weir__place place;
	struct weir__key key;

	now = weir__table_clamp(table, now);
	do {
		weir__key_init(&key, table, limit, hash);
		weir__table_find(&key, &place, &state);
		if (more && !weir__format_has_histories(&key.view.format)) {
			const uint64_t units = more(context, &only_raises);

			next = slot_with(&key, &place, &state, said, units, only_raises, now);
		} else if (only_raises && has_as_much(&key, &place, &state, said, now)) {
			return;
		} else {
			next = slot_of(&key, said, now);
		}
		if (lowers(&place, next))
			weir__table_forgive(&key, &place);
	} while (!weir__table_put(&key, &place, next, now));
	if (!weir__slot_equal(place.seen, next))
		weir__table_forget_history(table, place.seen);
}

void weir__table_overwrite(struct weir_table *table, const struct weir_table_limit *limit, const void *key_bytes,
			   size_t key_length, weir_ns now, const struct weir_verdict *said, bool only_raises)
{
	const uint64_t hash = weir__hash(&limit->secret, key_bytes, key_length);

	now = weir__table_clamp(table, now);
	if (!only_raises && limit->first.plan.kind == WEIR_KIND_BUCKET &&
	    overwrite_in_line(table, limit, hash, now, said))
		return;
	weir__table_overwrite_with(table, limit, hash, now, said, only_raises, NULL, NULL);
}
