/* top_keys.c: counters for a few keys of many. */
#include "observe/top_keys.h"

#include <stdlib.h>
#include <string.h>

#include "os/lock.h"

/* Keys are found by chains of those whose hashes end alike. Counts lie side by side, and only grow: so whoever looks for the
 * smallest goes on where it was last found, and looks at all only when none is as small any more. */
struct summary {
	uint32_t n, buckets;
	uint64_t span;  /* which one since 1970 */
	uint64_t least; /* no count is below it */
	uint32_t at;    /* where to look for one that is it */
	uint64_t *hashes, *counts;
	struct weir__top_key *top_keys; /* their keys and errors */
	uint16_t *first, *next;         /* of a bucket, and behind a key: number + 1, or 0 */
};

struct weir__top_keys {
	struct weir__lock lock;
	uint32_t most;
	struct summary now[WEIR__TOP_KEYS_KINDS], before[WEIR__TOP_KEYS_KINDS];
	char room[];
};

static const uint64_t span_ns = WEIR__TOP_KEYS_PERIOD_S * UINT64_C(1000000000);

/* A power of two: a key has half a bucket at most. */
static uint32_t buckets_for(uint32_t most)
{
	uint32_t buckets = 4;

	while (buckets < 2 * most)
		buckets *= 2;
	return buckets;
}

/* In words of 8 bytes, so that another one may follow. */
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

/* The span that runs is the one of this instant. Who adds and who reads have looked at the clock at different times: a span
 * that has just begun is not left again for one who is a little late. A clock that was set back further begins anew. */
static void turn(struct summary *now, struct summary *before, weir_ns at)
{
	const uint64_t span = at / span_ns;
	struct summary free_one;

	if (now->span == span || now->span == span + 1)
		return;
	free_one = *before;
	*before = *now;
	*now = free_one;
	if (before->span + 1 != span)
		empty(before);
	before->span = span - 1;
	now->span = span;
	empty(now);
}

static uint16_t *bucket_of(const struct summary *summary, uint64_t hash)
{
	return &summary->first[hash & (summary->buckets - 1)];
}

/* Where it is; n: nowhere. */
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

/* One of those that have the smallest count. */
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

/* What several summaries have, side by side. */
struct pile {
	struct weir__top_key *of;
	size_t n;
	uint64_t unseen; /* how often a key that none of them has may have been counted */
};

/* A copy. What a full summary has beyond its smallest count is told instead of the whole: so the sum of all, and of what a
 * key may have been counted where it is missing, is the sum of these and of `unseen`. Differences may wrap; sums do not. */
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

/* Each key once: those that came before are found by hash, in places of which at least half stay free. */
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

/* Of what is certain the most first; of those that are alike always the same. */
static bool is_before(const struct weir__top_key *a, const struct weir__top_key *b)
{
	const uint64_t of_a = a->count - a->error, of_b = b->count - b->error;

	if (of_a != of_b)
		return of_a > of_b;
	return a->count != b->count ? a->count > b->count : a->hash < b->hash;
}

/* Few are chosen of many: each that comes before the last of them is put in its place. Returns how many. */
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

/* Memory for n keys, and for what it takes to add them up: the places behind the pointers, and these behind the keys. */
static struct weir__top_key *room_for(size_t n, size_t most, size_t n_places)
{
	return calloc(1, n * sizeof(struct weir__top_key) + most * sizeof(struct weir__top_key *) +
				 n_places * sizeof(uint32_t));
}

size_t weir__top_keys_read(struct weir__top_keys *const *top_keys, size_t n, enum weir__top_keys_kind kind, weir_ns now,
			   struct weir__top_key *ret_talkers, size_t most, weir_ns *ret_since)
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
		ret_talkers[i] = *chosen[i];
	free(pile.of);
	return n_chosen;
}
