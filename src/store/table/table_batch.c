/* table_batch.c: many independent requests, decided in order.
 *
 * A decision mostly waits for memory. So for each group, all keys are hashed and their home lines prefetched. Then come
 * the other lines of keys that are not in their home line, the roots of keys that have a history, and the cells of
 * those histories. Only then are the requests decided. */
#include "store/table/table.h"

enum { GROUP = 32 };

/* Finds the slot of a key in one of its lines, all of which have been prefetched if it is not in the home line. */
static struct weir__place find_in_lines(const struct weir_table *table, uint64_t hash, uint32_t fingerprint)
{
	struct weir__place place = weir__line_find(weir__table_home(table, hash), fingerprint, NULL);
	union weir__atomic16 *lines[WEIR__LINES];

	if (WEIR__LIKELY(place.slot != NULL))
		return place;
	weir__table_lines(table, hash, lines);
	for (unsigned line = 1; place.slot == NULL && line < WEIR__LINES; line++)
		place = weir__line_find(lines[line], fingerprint, NULL);
	return place;
}

/* Prefetches the root of a key's history. Returns the root's number, or 0. */
static uint32_t fetch_root(const struct weir_table *table, uint64_t hash, uint32_t group_mark)
{
	const struct weir__place place = find_in_lines(table, hash, weir__fingerprint_in(hash, group_mark));

	if (place.slot == NULL || weir__slot_tag(place.seen) != WEIR__SLOT_ARENA)
		return 0;
	weir__history_fetch_root(&table->region.arena, weir__slot_root(place.seen));
	return weir__slot_root(place.seen);
}

static void fetch_histories(struct weir_table *table, const struct weir_claim *claims, size_t n,
			    const uint64_t hashes[])
{
	uint32_t roots[GROUP];

	for (size_t i = 0; i < n; i++)
		roots[i] = weir__format_has_histories(&claims[i].limit->first) ?
				   fetch_root(table, hashes[i], claims[i].limit->group_mark) :
				   0;
	for (size_t i = 0; i < n; i++)
		weir__history_fetch_leaves(&table->region.arena, roots[i]);
}

static void hash_group(struct weir_table *table, const struct weir_claim *claims, size_t n, uint64_t hashes[])
{
	for (size_t i = 0; i < n; i++) {
		hashes[i] = weir__hash(&claims[i].limit->secret, claims[i].key, claims[i].key_length);
		__builtin_prefetch(weir__table_home(table, hashes[i]), 1);
	}
	for (size_t i = 0; i < n; i++)
		weir__table_prefetch_rest(table, claims[i].limit, hashes[i]);
	if (table->region.arena.n > 0)
		fetch_histories(table, claims, n, hashes);
}

/* Counts the decisions of consecutive claims with the same limit in one addition. */
static void count_group(const struct weir_table *table, const struct weir_claim *claims, size_t n, const bool *allowed)
{
	const struct weir__stripe_in_use in_use = weir__stripe_of(&table->region);
	size_t first = 0;

	while (first < n) {
		struct weir__limit_counters *const counters = &in_use.stripe->limits[claims[first].limit->index];
		uint64_t of[2] = { 0, 0 };
		size_t i = first;

		for (; i < n && claims[i].limit == claims[first].limit; i++)
			of[allowed[i]]++;
		for (int answer = 0; answer < 2; answer++)
			if (of[answer] > 0)
				weir__stripe_add(in_use.is_own, &counters->of[answer], of[answer]);
		first = i;
	}
}

void weir_table_allow_batch(struct weir_table *table, const struct weir_claim *claims, size_t n, weir_ns now,
			    bool *ret_allowed)
{
	uint64_t hashes[GROUP];

	for (size_t done = 0; done < n; done += GROUP) {
		const size_t group = n - done < GROUP ? n - done : GROUP;

		hash_group(table, claims + done, group, hashes);
		for (size_t i = 0; i < group; i++)
			ret_allowed[done + i] = weir__table_allow_hashed(table, claims[done + i].limit, hashes[i], now,
									 claims[done + i].cost);
		count_group(table, claims + done, group, ret_allowed + done);
	}
}

void weir_table_take_batch(struct weir_table *table, const struct weir_claim *claims, size_t n, weir_ns now,
			   struct weir_verdict *ret_verdicts)
{
	uint64_t hashes[GROUP];
	bool allowed[GROUP];

	for (size_t done = 0; done < n; done += GROUP) {
		const size_t group = n - done < GROUP ? n - done : GROUP;

		hash_group(table, claims + done, group, hashes);
		for (size_t i = 0; i < group; i++) {
			const struct weir_claim *const claim = &claims[done + i];

			weir__table_take_hashed(table, claim->limit, hashes[i], now, claim->cost,
						&ret_verdicts[done + i]);
			allowed[i] = ret_verdicts[done + i].allowed;
		}
		count_group(table, claims + done, group, allowed);
	}
}
