/* tally.c: open addressing, doubled when three quarters are in use. On huge pages, because each lookup is at a random
 * place. */
#include "replay/tally.h"

#include <stdlib.h>

#include "os/memory.h"
#include "store/table/hash.h"

enum { PLACES_MIN = 4096 }; /* whole pages of memory, of up to 64 KiB */

/* Places that are all free. NULL: no memory. */
static struct weir__tally_entry *new_places(uint64_t n)
{
	void *places;

	return weir__memory_new(n * sizeof(struct weir__tally_entry), &places) == 0 ? places : NULL;
}

bool weir__tally_init(struct weir__tally *tally)
{
	*tally = (struct weir__tally){ .places = new_places(PLACES_MIN), .mask = PLACES_MIN - 1 };
	if (weir__memory_random(&tally->spread, sizeof(tally->spread)) != 0)
		tally->spread = UINT64_C(0x9e3779b97f4a7c15);
	tally->spread |= 1;
	return tally->places != NULL;
}

void weir__tally_fini(struct weir__tally *tally)
{
	if (tally->places)
		weir__memory_free(tally->places, weir__tally_bytes(tally));
}

uint64_t weir__tally_hash(uint64_t kind, const void *key, size_t n)
{
	const struct weir__hash_secret secret = { UINT64_C(0x9e3779b97f4a7c15) ^ kind, UINT64_C(0xd1b54a32d192ed03) };
	const uint64_t hash = weir__hash(&secret, key, n);

	return hash ? hash : 1;
}

static struct weir__tally_entry *place_of(struct weir__tally_entry *places, uint64_t spread, uint64_t mask,
					  uint64_t hash)
{
	uint64_t i = weir__tally_place(spread, mask, hash);

	while (places[i].hash != 0 && places[i].hash != hash)
		i = (i + 1) & mask;
	return &places[i];
}

/* Returns false if memory runs out. */
static bool grow(struct weir__tally *tally)
{
	const uint64_t mask = 2 * tally->mask + 1;
	struct weir__tally_entry *const places = new_places(mask + 1);

	if (places == NULL)
		return false;
	for (uint64_t i = 0; i <= tally->mask; i++)
		if (tally->places[i].hash)
			*place_of(places, tally->spread, mask, tally->places[i].hash) = tally->places[i];
	weir__memory_free(tally->places, weir__tally_bytes(tally));
	tally->places = places;
	tally->mask = mask;
	return true;
}

const struct weir__tally_entry *weir__tally_add(struct weir__tally *tally, uint64_t hash, bool is_denied)
{
	struct weir__tally_entry *entry = place_of(tally->places, tally->spread, tally->mask, hash);

	if (entry->hash == 0) {
		if (tally->n == WEIR__TALLY_MAX || (tally->n >= (tally->mask + 1) / 4 * 3 && !grow(tally))) {
			tally->uncounted++;
			return NULL;
		}
		entry = place_of(tally->places, tally->spread, tally->mask, hash);
		entry->hash = hash;
		tally->n++;
	}
	entry->all += entry->all < UINT32_MAX;
	if (is_denied) {
		tally->with_denied += entry->denied == 0;
		entry->denied += entry->denied < UINT32_MAX;
	}
	return entry;
}

uint32_t weir__tally_all(const struct weir__tally *tally, uint64_t hash)
{
	return place_of(tally->places, tally->spread, tally->mask, hash)->all;
}

uint32_t weir__tally_denied(const struct weir__tally *tally, uint64_t hash)
{
	return place_of(tally->places, tally->spread, tally->mask, hash)->denied;
}

size_t weir__tally_bytes(const struct weir__tally *tally)
{
	return (tally->mask + 1) * sizeof(tally->places[0]);
}

/* --- the highest ------------------------------------------------------------------------------------------------- */

struct weir__top_row *weir__top_offer(struct weir__top *top, uint64_t hash, uint64_t number, bool *ret_is_new)
{
	struct weir__top_row *least = NULL;

	*ret_is_new = false;
	for (size_t i = 0; i < top->n; i++) {
		struct weir__top_row *const row = &top->rows[i];

		if (row->hash == hash) {
			row->number = number;
			return row;
		}
		if (least == NULL || row->number < least->number)
			least = row;
	}
	if (top->n < top->most)
		least = &top->rows[top->n++];
	else if (least == NULL || number <= least->number)
		return NULL;
	*least = (struct weir__top_row){ .hash = hash, .number = number };
	*ret_is_new = true;
	return least;
}

void weir__top_set_text(struct weir__top_row *row, struct weir__slice text)
{
	row->length = text.n < UINT32_MAX ? (uint32_t)text.n : UINT32_MAX;
	if (text.n > 0)
		memcpy(row->text, text.at, text.n < WEIR__TOP_TEXT ? text.n : WEIR__TOP_TEXT);
}

static int compare(const void *a_, const void *b_)
{
	const struct weir__top_row *const a = a_, *const b = b_;

	if (a->number != b->number)
		return a->number > b->number ? -1 : 1;
	if (a->last != b->last)
		return a->last < b->last ? -1 : 1;
	return a->hash < b->hash ? -1 : a->hash > b->hash;
}

void weir__top_sort(struct weir__top *top)
{
	qsort(top->rows, top->n, sizeof(top->rows[0]), compare);
}
