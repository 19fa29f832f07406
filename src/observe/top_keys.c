/* top_keys.c: counters for a few of many keys. */
#include "observe/top_keys.h"

#include <stdlib.h>
#include <string.h>

#include "os/lock.h"

/* Keys are found by hash chains. Counts are in one array, and only grow. So the search for the smallest count continues
 * where the last one ended, and scans all counts only when none is that small any more. */
struct summary {
	uint32_t n, buckets;
	uint64_t period; /* number of the period, since 1970 */
	uint64_t least;  /* no count is below it */
	uint32_t at;     /* where to continue looking for a count equal to `least` */
	uint64_t *hashes, *counts;
	struct weir__top_key *top_keys; /* their keys and errors */
	uint16_t *first, *next;         /* chains, of a bucket and after a key: index + 1, or 0 */
};

struct weir__top_keys {
	struct weir__lock lock;
	uint32_t most;
	struct summary now[WEIR__TOP_KEYS_KINDS], before[WEIR__TOP_KEYS_KINDS];
	char room[];
};

static const uint64_t span_ns = WEIR__TOP_KEYS_PERIOD_S * UINT64_C(1000000000);

/* A power of two, at least two buckets per key. */
static uint32_t buckets_for(uint32_t most)
{
	uint32_t buckets = 4;

	while (buckets < 2 * most)
		buckets *= 2;
	return buckets;
}

/* Rounded up to 8 bytes, for the alignment of what follows. */
static size_t links_size(uint32_t most)
{
	return (((size_t)buckets_for(most) + most) * sizeof(uint16_t) + 7) / 8 * 8;
}

static char *lay_out(struct summary *summary, uint32_t most, char *room)
{
	summary->buckets = buckets_for(most);
	summary->top_keys = (struct weir__top_key *)(void *)room;
	summary->hashes = (uint64_t *)(void *)(room + most * sizeof(struct weir__top_key));
	summary->counts = summary->hashes + most;
	summary->first = (uint16_t *)(void *)(summary->counts + most);
	summary->next = summary->first + summary->buckets;
	return (char *)summary->first + links_size(most);
}

size_t weir__top_keys_size(uint32_t most)
{
	const size_t each = most * (sizeof(struct weir__top_key) + 2 * sizeof(uint64_t)) + links_size(most);

	return sizeof(struct weir__top_keys) + (size_t)2 * WEIR__TOP_KEYS_KINDS * each;
}

static void empty(struct summary *summary)
{
	summary->n = summary->at = 0;
	summary->least = 0;
	memset(summary->first, 0, summary->buckets * sizeof(summary->first[0]));
}

struct weir__top_keys *weir__top_keys_new(uint32_t most)
{
	struct weir__top_keys *const top_keys = calloc(1, weir__top_keys_size(most));
	char *room;

	if (top_keys == NULL)
		return NULL;
	top_keys->most = most;
	room = top_keys->room;
	for (int kind = 0; kind < WEIR__TOP_KEYS_KINDS; kind++)
		room = lay_out(&top_keys->before[kind], most, lay_out(&top_keys->now[kind], most, room));
	return top_keys;
}

void weir__top_keys_free(struct weir__top_keys *top_keys)
{
	free(top_keys);
}

void weir__top_keys_clear(struct weir__top_keys *top_keys)
{
	weir__lock_acquire(&top_keys->lock);
	for (int kind = 0; kind < WEIR__TOP_KEYS_KINDS; kind++) {
		empty(&top_keys->now[kind]);
		empty(&top_keys->before[kind]);
	}
	weir__lock_release(&top_keys->lock);
}

/* Makes the period of this instant the current one. Writer and readers read the clock at slightly different times, so a
 * period that has just begun is not left for a caller that is a little late. If the clock was set back further,
 * counting starts over. */
static void turn(struct summary *now, struct summary *before, weir_ns at)
{
	const uint64_t period = at / span_ns;
	struct summary free_one;

	if (now->period == period || now->period == period + 1)
		return;
	free_one = *before;
	*before = *now;
	*now = free_one;
	if (before->period + 1 != period)
		empty(before);
	before->period = period - 1;
	now->period = period;
	empty(now);
}

static uint16_t *bucket_of(const struct summary *summary, uint64_t hash)
{
	return &summary->first[hash & (summary->buckets - 1)];
}

/* Returns the index of the key; n: not found. */
static uint32_t find(const struct summary *summary, uint64_t hash)
{
	uint32_t link = *bucket_of(summary, hash);

	while (link != 0 && summary->hashes[link - 1] != hash)
		link = summary->next[link - 1];
	return link != 0 ? link - 1 : summary->n;
}

static uint64_t least_of(const struct summary *summary)
{
	uint64_t least = summary->counts[0];

	for (uint32_t i = 1; i < summary->n; i++)
		least = summary->counts[i] < least ? summary->counts[i] : least;
	return least;
}

/* The index of a key with the smallest count. */
static uint32_t smallest(struct summary *summary)
{
	for (;;) {
		for (uint32_t tries = 0; tries < summary->n; tries++) {
			const uint32_t at = summary->at;

			summary->at = at + 1 < summary->n ? at + 1 : 0;
			if (summary->counts[at] <= summary->least)
				return at;
		}
		summary->least = least_of(summary);
	}
}

static void link_key(struct summary *summary, uint32_t place, uint64_t hash)
{
	uint16_t *const bucket = bucket_of(summary, hash);

	summary->hashes[place] = hash;
	summary->next[place] = *bucket;
	*bucket = (uint16_t)(place + 1);
}

static void unlink_key(struct summary *summary, uint32_t place)
{
	uint16_t *link = bucket_of(summary, summary->hashes[place]);

	while (*link != place + 1)
		link = &summary->next[*link - 1];
	*link = summary->next[place];
}

static void add(struct summary *summary, uint32_t most, const struct weir__top_key *key, size_t kept, uint64_t weight)
{
	uint32_t place = find(summary, key->hash);

	if (place == summary->n) {
		const bool is_full = summary->n == most;

		place = is_full ? smallest(summary) : summary->n++;
		if (is_full)
			unlink_key(summary, place);
		else
			summary->counts[place] = 0;
		link_key(summary, place, key->hash);
		summary->top_keys[place].error = summary->counts[place];
		summary->top_keys[place].key_length = key->key_length;
		memcpy(summary->top_keys[place].key, key->key, kept);
	}
	summary->counts[place] += weight;
}

void weir__top_keys_add(struct weir__top_keys *top_keys, uint64_t hash, const void *key, size_t length, uint64_t weight,
			bool is_denied, weir_ns now)
{
	const size_t kept = length < WEIR__TOP_KEY_KEY_SIZE ? length : WEIR__TOP_KEY_KEY_SIZE;
	struct weir__top_key top_key;

	top_key.hash = hash;
	top_key.key_length = (uint32_t)length;
	memcpy(top_key.key, key, kept);
	weir__lock_acquire(&top_keys->lock);
	for (int kind = 0; kind < (is_denied ? 2 : 1); kind++) {
		turn(&top_keys->now[kind], &top_keys->before[kind], now);
		add(&top_keys->now[kind], top_keys->most, &top_key, kept, weight);
	}
	weir__lock_release(&top_keys->lock);
}

/* --- reading ----------------------------------------------------------------------------------------------------- */

/* Keys of several summaries, concatenated. */
struct pile {
	struct weir__top_key *of;
	size_t n;
	uint64_t unseen; /* how often a key in none of them may have been counted */
};

/* Copies a summary. In a full one, a missing key may have been counted up to the smallest count. That count goes to
 * `unseen`, and is subtracted from the keys that the summary has. So for each key, the sum over all summaries plus
 * `unseen` is its count, including what it may have been counted in summaries that lack it. Differences may wrap, but
 * sums do not. */
static void pile_up(struct pile *pile, const struct summary *summary, uint32_t most)
{
	const uint64_t unseen = summary->n == most ? least_of(summary) : 0;

	for (uint32_t i = 0; i < summary->n; i++) {
		struct weir__top_key *const top_key = &pile->of[pile->n++];

		*top_key = summary->top_keys[i];
		top_key->hash = summary->hashes[i];
		top_key->count = summary->counts[i] - unseen;
		top_key->error -= unseen;
	}
	pile->unseen += unseen;
}

static void pile_up_locked(struct pile *pile, struct weir__top_keys *top_keys, enum weir__top_keys_kind kind,
			   weir_ns now)
{
	struct summary *const running = &top_keys->now[kind], *const before = &top_keys->before[kind];

	weir__lock_acquire(&top_keys->lock);
	turn(running, before, now);
	pile_up(pile, running, top_keys->most);
	pile_up(pile, before, top_keys->most);
	weir__lock_release(&top_keys->lock);
}

/* Merges equal keys. Earlier keys are found by hash, in a table that is at most half full. */
static void add_up(struct pile *pile, uint32_t *places, size_t n_places)
{
	size_t n = 0;

	for (size_t i = 0; i < pile->n; i++) {
		struct weir__top_key *const top_key = &pile->of[i];
		size_t place = top_key->hash & (n_places - 1);

		while (places[place] != 0 && pile->of[places[place] - 1].hash != top_key->hash)
			place = (place + 1) & (n_places - 1);
		if (places[place] != 0) {
			pile->of[places[place] - 1].count += top_key->count;
			pile->of[places[place] - 1].error += top_key->error;
			continue;
		}
		if (n < i)
			pile->of[n] = *top_key;
		places[place] = (uint32_t)++n;
	}
	pile->n = n;
	for (size_t i = 0; i < n; i++) {
		pile->of[i].count += pile->unseen;
		pile->of[i].error += pile->unseen;
	}
}

/* Orders by the certain part of the count, highest first. Ties have a fixed order. */
static bool is_before(const struct weir__top_key *a, const struct weir__top_key *b)
{
	const uint64_t of_a = a->count - a->error, of_b = b->count - b->error;

	if (of_a != of_b)
		return of_a > of_b;
	return a->count != b->count ? a->count > b->count : a->hash < b->hash;
}

/* Selects the first `most` by insertion. Returns their number. */
static size_t choose(const struct pile *pile, const struct weir__top_key **chosen, size_t most)
{
	size_t n = 0;

	for (size_t i = 0; i < pile->n; i++) {
		const struct weir__top_key *const top_key = &pile->of[i];
		size_t place;

		if (n == most && (most == 0 || !is_before(top_key, chosen[n - 1])))
			continue;
		n += n < most;
		for (place = n - 1; place > 0 && is_before(top_key, chosen[place - 1]); place--)
			chosen[place] = chosen[place - 1];
		chosen[place] = top_key;
	}
	return n;
}

/* Memory for n keys, then `most` pointers, then the hash table of add_up. */
static struct weir__top_key *room_for(size_t n, size_t most, size_t n_places)
{
	return calloc(1, n * sizeof(struct weir__top_key) + most * sizeof(struct weir__top_key *) +
				 n_places * sizeof(uint32_t));
}

size_t weir__top_keys_read(struct weir__top_keys *const *top_keys, size_t n, enum weir__top_keys_kind kind, weir_ns now,
			   struct weir__top_key *ret_top_keys, size_t most, weir_ns *ret_since)
{
	struct pile pile = { .n = 0 };
	size_t room = 1, n_places = 2, n_chosen;
	const struct weir__top_key **chosen;

	for (size_t i = 0; i < n; i++)
		room += 2 * (size_t)top_keys[i]->most;
	while (n_places < 2 * room)
		n_places *= 2;
	pile.of = room_for(room, most, n_places);
	*ret_since = pile.of && now >= span_ns ? (now / span_ns - 1) * span_ns : 0;
	if (pile.of == NULL)
		return 0;
	chosen = (const struct weir__top_key **)(void *)(pile.of + room);
	for (size_t i = 0; i < n; i++)
		pile_up_locked(&pile, top_keys[i], kind, now);
	add_up(&pile, (uint32_t *)(void *)(chosen + most), n_places);
	n_chosen = choose(&pile, chosen, most);
	for (size_t i = 0; i < n_chosen; i++)
		ret_top_keys[i] = *chosen[i];
	free(pile.of);
	return n_chosen;
}
