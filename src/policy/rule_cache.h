/* rule_cache.h: for rules that are found alone, all that is looked at in one place.
 *
 * Of 100,000 rules hardly anything is in the cache. Where the index, the conditions, and what the caller knows of the rule are
 * in three places, each tells where the next is, and a request waits for memory three times. A card has all of it, so that
 * it can be asked for at once as soon as the hash is known; where it is, a byte for each place tells, which do stay in the
 * cache. */
#ifndef WEIR_POLICY_RULE_CACHE_H
#define WEIR_POLICY_RULE_CACHE_H

#include "policy/condition.h"
#include "policy/pool.h"

struct weir__rule {
	struct weir__condition *conditions;
	uint32_t n;
	uint32_t bytes; /* of these, with what was made for them right behind */
};

/* Memory that somebody will look at if a rule holds, AHEAD_BYTES of it and a line more: it is on its way while the rule is
 * checked. */
enum { WEIR__AHEAD_BYTES = 256 };

struct weir__ahead {
	const void *at, *line;
	uint64_t own[2]; /* whatever that one wants to know at once */
};

struct weir__rule_cache_entry {
	uint64_t hash;
	uint32_t number; /* of the rule */
	struct weir__rule rule;
	struct weir__ahead ahead;
	_Alignas(WEIR__POOL_LINE) unsigned char beside
		[]; /* what the caller keeps; behind it, what the rule is made of */
};

struct weir__rule_cache {
	uint8_t *tags;     /* a power of two of them; each 0, or of the hash of the card at this place */
	uint32_t n_places; /* 0: there are no cards */
	unsigned char *rule_cache;
	size_t card_bytes, beside_bytes, rule_at; /* the last: where in a card the rule is */
};

/* Bytes that a rule takes on a card; SIZE_MAX: too many for one. */
size_t weir__rule_cache_entry_room(const struct weir__rule *rule);

/* Room for n cards with so many bytes each. False: no memory, or it were too much. */
bool weir__rule_cache_init(struct weir__rule_cache *rule_cache, struct weir__pool *pool, uint32_t n,
			   size_t beside_bytes, size_t rule_bytes);

/* The rule is copied, and so is what is beside it. */
void weir__rule_cache_add(struct weir__rule_cache *rule_cache, uint64_t hash, uint32_t number,
			  const struct weir__rule *rule, const void *beside);

static inline struct weir__rule_cache_entry *weir__rule_cache_entry_at(const struct weir__rule_cache *rule_cache,
								       uint32_t place)
{
	return (struct weir__rule_cache_entry *)(rule_cache->rule_cache + place * rule_cache->card_bytes);
}

static inline uint8_t weir__rule_cache_entry_tag(uint64_t hash)
{
	const uint8_t tag = (uint8_t)(hash >> 56);

	return tag ? tag : 1;
}

/* NULL: there is none. */
static inline const struct weir__rule_cache_entry *weir__rule_cache_find(const struct weir__rule_cache *rule_cache,
									 uint64_t hash)
{
	const uint32_t mask = rule_cache->n_places - 1;
	const uint8_t tag = weir__rule_cache_entry_tag(hash);

	if (rule_cache->n_places == 0)
		return NULL;
	for (uint32_t place = (uint32_t)hash & mask; rule_cache->tags[place] != 0; place = (place + 1) & mask)
		if (rule_cache->tags[place] == tag && weir__rule_cache_entry_at(rule_cache, place)->hash == hash)
			return weir__rule_cache_entry_at(rule_cache, place);
	return NULL;
}

/* Asks for memory; NULL is allowed. It must be part of its caller: a compiler that sees a function do nothing else may leave out the call. */
__attribute__((always_inline)) static inline void weir__fetch(const void *memory, size_t bytes)
{
	const uintptr_t end = (uintptr_t)memory + bytes;

	if (memory == NULL)
		return;
	for (uintptr_t at = (uintptr_t)memory / WEIR__POOL_LINE * WEIR__POOL_LINE; at < end; at += WEIR__POOL_LINE)
		__builtin_prefetch((const void *)at);
}

/* Asks for the card that this hash will find, or most likely will. False: there is none. */
__attribute__((always_inline)) static inline bool weir__rule_cache_fetch(const struct weir__rule_cache *rule_cache,
									 uint64_t hash)
{
	const uint32_t mask = rule_cache->n_places - 1;
	const uint8_t tag = weir__rule_cache_entry_tag(hash);
	uint32_t place = (uint32_t)hash & mask;

	if (rule_cache->n_places == 0)
		return false;
	while (rule_cache->tags[place] != 0 && rule_cache->tags[place] != tag)
		place = (place + 1) & mask;
	if (rule_cache->tags[place] == 0)
		return false;
	weir__fetch(weir__rule_cache_entry_at(rule_cache, place), rule_cache->card_bytes);
	return true;
}

#endif
