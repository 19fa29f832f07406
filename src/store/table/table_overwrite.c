/* table_overwrite.c: overwrites a key's state with the state that another store reported.
 *
 * The other store's verdict has units and a duration, not a state. Where they do not determine the state, the table
 * writes the state that allows less. The two stores then differ for at most a period. A key that has a history gets a
 * folded slot instead (slot.h): one swap, and no chunk of the arena until the key is next charged. */
#include <stdatomic.h>

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

static struct weir_state slot_of(const struct weir__key *key, const struct weir_verdict *said, weir_ns now)
{
	const struct weir_plan *const plan = &key->view.format.plan;
	const uint64_t used = used_units(plan, said);
	struct weir_state state;

	if (used == 0 || said->reset_after == 0)
		return (struct weir_state){ 0, 0 };
	switch (plan->kind) {
	case WEIR_KIND_BUCKET:
		state = bucket_of(plan, said, used, now);
		break;
	case WEIR_KIND_INTERVAL:
		state = interval_of(plan, said, used, now);
		break;
	case WEIR_KIND_WINDOW:
		state = window_of(plan, said, used, now);
		break;
	case WEIR_KIND_COUNTER:
		state = counter_of(plan, said, used, now);
		break;
	default:
		return folded_of(key, said, used, now);
	}
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

void weir__table_overwrite(struct weir_table *table, const struct weir_table_limit *limit, const void *key_bytes,
			   size_t key_length, weir_ns now, const struct weir_verdict *said, bool only_raises)
{
	const uint64_t hash = weir__hash(&limit->secret, key_bytes, key_length);
	struct weir_state state, next;
	struct weir__place place;
	struct weir__key key;

	now = weir__table_clamp(table, now);
	if (!only_raises && limit->first.plan.kind == WEIR_KIND_BUCKET &&
	    overwrite_in_line(table, limit, hash, now, said))
		return;
	do {
		weir__key_init(&key, table, limit, hash);
		weir__table_find(&key, &place, &state);
		if (only_raises && has_as_much(&key, &place, &state, said, now))
			return;
		next = slot_of(&key, said, now);
		if (lowers(&place, next))
			weir__table_forgive(&key, &place);
	} while (!weir__table_put(&key, &place, next, now));
	if (!weir__slot_equal(place.seen, next))
		weir__table_forget_history(table, place.seen);
}
