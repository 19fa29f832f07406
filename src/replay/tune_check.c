/* tune_check.c: adds up the decisions of a replay for one limit. */
#include "replay/tune_check.h"

#include <stdlib.h>
#include <string.h>

#include "core/wide.h"

enum { SEEN = 1, DENIED = 2, BITS = 2, SEEN_LEAST = 1024, RING_MOST = 1 << 24 };

bool weir__tune_check_init(struct weir__tune_check *check, const struct weir__tuning_wish *wish, uint32_t plan,
			   struct weir__hash_secret secret, unsigned shift, size_t bytes_most)
{
	memset(check, 0, sizeof(*check));
	check->wish = wish;
	check->plan = plan;
	check->keys.secret = secret;
	check->keys.shift = shift;
	check->bytes_most = bytes_most;
	if (wish->passed.count == 0)
		return true;
	/* each entry costs at least 1, so more entries than this exceed the wish */
	check->ring_size = wish->passed.count < RING_MOST ? (size_t)wish->passed.count + 1 : RING_MOST;
	check->ring = calloc(check->ring_size, sizeof(*check->ring));
	return check->ring != NULL;
}

static void drop_oldest(struct weir__tune_check *check)
{
	WEIR__HOLDS(check->ring_size > 0);
	check->ring_sum -= check->ring[check->ring_start].cost;
	check->ring_start = (check->ring_start + 1) % check->ring_size;
	check->ring_n--;
}

/* A limit without a key lets requests depart in order. */
static void note_passed(struct weir__tune_check *check, struct weir__tune_part *part, weir_ns at, uint64_t cost)
{
	const struct weir__rate passed = check->wish->passed;

	while (check->ring_n > 0 && at - check->ring[check->ring_start].at >= passed.period)
		drop_oldest(check);
	if (check->ring_n == check->ring_size)
		drop_oldest(check);
	check->ring[(check->ring_start + check->ring_n++) % check->ring_size] = (struct weir__tune_passed){ at, cost };
	check->ring_sum = weir__add_saturating(check->ring_sum, cost);
	if (check->ring_sum > part->passed_most)
		part->passed_most = check->ring_sum <= passed.count ? check->ring_sum : passed.count + 1;
}

static bool halve(struct weir__tune_check *check)
{
	const uint32_t before = check->keys.n;
	uint32_t *const numbers = malloc((before + (size_t)1) * sizeof(*numbers));

	if (numbers == NULL || !weir__key_index_halve(&check->keys, numbers)) {
		free(numbers);
		return false;
	}
	for (uint32_t i = 0; i < before; i++) /* new numbers are never above old ones */
		if (numbers[i] != WEIR__KEY_INDEX_NONE)
			check->seen[numbers[i]] = check->seen[i];
	free(numbers);
	return true;
}

static bool note_key(struct weir__tune_check *check, const struct weir_claim *claim, unsigned bits)
{
	bool failed = false;
	const uint32_t n = check->keys.n;
	const uint32_t number = weir__key_index_number(&check->keys, claim->key, claim->key_length, &failed);

	if (failed)
		return false;
	if (number == WEIR__KEY_INDEX_NONE)
		return true;
	if (number >= check->seen_size) {
		const uint32_t size = check->seen_size ? 2 * check->seen_size : SEEN_LEAST;
		uint8_t *const seen = realloc(check->seen, size);

		if (seen == NULL)
			return false;
		check->seen = seen;
		check->seen_size = size;
	}
	if (check->keys.n > n)
		check->seen[number] = 0;
	check->seen[number] |= (uint8_t)bits;
	if (weir__key_index_bytes(&check->keys) + check->seen_size > check->bytes_most && check->keys.n > 1 &&
	    check->keys.shift < WEIR__KEY_INDEX_SHIFT_MAX && check->keys.n > n)
		return halve(check);
	return true;
}

bool weir__tune_check_add(struct weir__tune_check *check, weir_ns at, const struct weir__replay_answer *answer)
{
	const unsigned part_name = at < check->wish->until ? WEIR__TUNE_CHOSEN_BY : WEIR__TUNE_HELD_OUT;
	struct weir__tune_part *const part = &check->parts[part_name];
	const bool is_marked = weir__interval_has(&check->wish->bad, at);
	const struct weir_verdict *verdict;
	uint32_t i = 0;

	if (!answer->is_decided) {
		check->undecided++;
		return true;
	}
	while (i < answer->n && answer->plans[i] != check->plan)
		i++;
	if (i == answer->n)
		return true;
	verdict = &answer->verdicts[i];
	*(is_marked ? &part->tried.marked : &part->tried.requests) += 1;
	*(is_marked ? &part->tried.marked_denied : &part->tried.denied) += !verdict->allowed;
	if (verdict->allowed) {
		part->tried.late += verdict->delay > check->wish->wait;
		if (verdict->delay > part->tried.longest_delay)
			part->tried.longest_delay = verdict->delay;
		if (check->ring && answer->claims[i].cost > 0)
			note_passed(check, part, weir__add_saturating(at, verdict->delay), answer->claims[i].cost);
	}
	return is_marked ||
	       note_key(check, &answer->claims[i], (SEEN | (verdict->allowed ? 0u : DENIED)) << (BITS * part_name));
}

void weir__tune_check_end(struct weir__tune_check *check)
{
	for (uint32_t key = 0; key < check->keys.n; key++) {
		for (unsigned part = 0; part < WEIR__TUNE_PARTS; part++) {
			const unsigned bits = (unsigned)check->seen[key] >> (BITS * part);

			check->parts[part].keys += (bits & SEEN) != 0;
			check->parts[part].keys_denied += (bits & DENIED) != 0;
		}
	}
}

void weir__tune_check_fini(struct weir__tune_check *check)
{
	weir__key_index_fini(&check->keys);
	free(check->seen);
	free(check->ring);
	memset(check, 0, sizeof(*check));
}
