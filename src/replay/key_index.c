/* key_index.c: open addressing with linear probing, at most three quarters full. */
#include "replay/key_index.h"

#include <stdlib.h>

enum { SLOTS_LEAST = 1024 };

static const struct weir__hash_secret sampling = { UINT64_C(0x7765697274756e65), 1 };

static bool is_sampled(const struct weir__key_index *index, uint64_t sample_hash)
{
	return (sample_hash & ((UINT64_C(1) << index->shift) - 1)) == 0;
}

/* The slot of the key, or the free one where it belongs. */
static struct weir__key_slot *find(const struct weir__key_index *index, uint64_t secret_hash, uint64_t sample_hash)
{
	size_t i = secret_hash & (index->n_slots - 1);

	while (index->slots[i].number != WEIR__KEY_INDEX_NONE &&
	       (index->slots[i].secret_hash != secret_hash || index->slots[i].sample_hash != sample_hash))
		i = (i + 1) & (index->n_slots - 1);
	return &index->slots[i];
}

static void clear(struct weir__key_slot *slots, size_t n)
{
	for (size_t i = 0; i < n; i++)
		slots[i].number = WEIR__KEY_INDEX_NONE;
}

static bool grow(struct weir__key_index *index)
{
	struct weir__key_index larger = *index;

	larger.n_slots = index->n_slots ? 2 * index->n_slots : SLOTS_LEAST;
	larger.slots = malloc(larger.n_slots * sizeof(*larger.slots));
	if (larger.slots == NULL)
		return false;
	clear(larger.slots, larger.n_slots);
	for (size_t i = 0; i < index->n_slots; i++) {
		const struct weir__key_slot *const slot = &index->slots[i];

		if (slot->number != WEIR__KEY_INDEX_NONE)
			*find(&larger, slot->secret_hash, slot->sample_hash) = *slot;
	}
	free(index->slots);
	*index = larger;
	return true;
}

uint32_t weir__key_index_number(struct weir__key_index *index, const void *key, size_t length, bool *ret_failed)
{
	const uint64_t sample_hash = weir__hash(&sampling, key, length);
	uint64_t secret_hash;
	struct weir__key_slot *slot;

	if (!is_sampled(index, sample_hash))
		return WEIR__KEY_INDEX_NONE;
	if ((index->n + UINT64_C(1)) * 4 > (uint64_t)index->n_slots * 3 && !grow(index)) {
		*ret_failed = true;
		return WEIR__KEY_INDEX_NONE;
	}
	secret_hash = weir__hash(&index->secret, key, length);
	slot = find(index, secret_hash, sample_hash);
	if (slot->number == WEIR__KEY_INDEX_NONE)
		*slot = (struct weir__key_slot){ secret_hash, sample_hash, index->n++ };
	return slot->number;
}

/* Slots for n keys with room for more, so that the next key does not double them again. */
static size_t slots_for(size_t n)
{
	size_t slots = SLOTS_LEAST;

	while (n * 2 > slots)
		slots *= 2;
	return slots;
}

bool weir__key_index_halve(struct weir__key_index *index, uint32_t *ret_numbers)
{
	struct weir__key_index smaller = *index;
	const uint32_t before = index->n;

	smaller.shift++;
	smaller.n = 0;
	for (uint32_t i = 0; i < before; i++)
		ret_numbers[i] = WEIR__KEY_INDEX_NONE;
	for (size_t i = 0; i < index->n_slots; i++) {
		const struct weir__key_slot *const slot = &index->slots[i];

		if (slot->number != WEIR__KEY_INDEX_NONE && is_sampled(&smaller, slot->sample_hash))
			ret_numbers[slot->number] = 0;
	}
	/* New numbers follow the old ones, not the slots, whose order depends on the secret. */
	for (uint32_t i = 0; i < before; i++)
		if (ret_numbers[i] != WEIR__KEY_INDEX_NONE)
			ret_numbers[i] = smaller.n++;
	smaller.n_slots = slots_for(smaller.n);
	smaller.slots = malloc(smaller.n_slots * sizeof(*smaller.slots));
	if (smaller.slots == NULL)
		return false;
	clear(smaller.slots, smaller.n_slots);
	for (size_t i = 0; i < index->n_slots; i++) {
		struct weir__key_slot slot = index->slots[i];

		if (slot.number == WEIR__KEY_INDEX_NONE || ret_numbers[slot.number] == WEIR__KEY_INDEX_NONE)
			continue;
		slot.number = ret_numbers[slot.number];
		*find(&smaller, slot.secret_hash, slot.sample_hash) = slot;
	}
	free(index->slots);
	*index = smaller;
	return true;
}

size_t weir__key_index_bytes(const struct weir__key_index *index)
{
	return index->n_slots * sizeof(*index->slots);
}

void weir__key_index_fini(struct weir__key_index *index)
{
	free(index->slots);
	index->slots = NULL;
	index->n_slots = 0;
}
