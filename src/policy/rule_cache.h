/* rule_cache.h: a copy of each rule that is alone under its hash, with everything that a lookup reads in one place.
 *
 * With 100,000 rules hardly anything is in the CPU's cache. If the index, the conditions and the caller's data of a
 * rule are in three places, each is found through the previous one, and a request waits for memory three times. An
 * entry here holds all three, so it can be prefetched at once as soon as the hash is known. Its place is found through
 * an array with one byte (tag) per place, which does stay in the CPU's cache. */
#ifndef WEIR_POLICY_RULE_CACHE_H
#define WEIR_POLICY_RULE_CACHE_H

#include "policy/condition.h"
#include "policy/pool.h"

struct weir__rule {
	struct weir__condition *conditions;
	uint32_t n;
	uint32_t bytes; /* size of the conditions, and of the patterns and texts directly after them */
};

/* Memory that the caller will read if a rule holds: AHEAD_BYTES at `at`, and the cache line at `line`. Both are
 * prefetched while the rule is checked. */
enum { WEIR__AHEAD_BYTES = 256 };

struct weir__ahead {
	const void *at, *line;
	uint64_t own[2]; /* for the caller's use */
};

struct weir__rule_cache_entry {
	uint64_t hash;
	uint32_t number; /* the rule's number */
	struct weir__rule rule;
	struct weir__ahead ahead;
	_Alignas(WEIR__POOL_LINE) unsigned char beside[]; /* the caller's hot bytes, then the rule's data */
};

struct weir__rule_cache {
	uint8_t *tags;     /* one per place, a power of two; 0: free, else from the entry's hash */
	uint32_t n_places; /* 0: the cache is not used */
	unsigned char *rule_cache;
	/* The size of an entry, the size of the caller's bytes in it, and the offset of the rule's data in it. */
	size_t card_bytes, beside_bytes, rule_at;
};

/* Returns the bytes that a rule takes in an entry. SIZE_MAX: too large for one. */
size_t weir__rule_cache_entry_room(const struct weir__rule *rule);

/* Makes room for n entries. Returns false if memory runs out, or the cache would be too large. */
bool weir__rule_cache_init(struct weir__rule_cache *rule_cache, struct weir__pool *pool, uint32_t n,
			   size_t beside_bytes, size_t rule_bytes);

/* Copies the rule and the caller's bytes. */
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

/* NULL: not found. */
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

/* Prefetches memory. NULL is allowed. It must be inlined: a compiler that sees a function without effect may drop the
 * call. */
__attribute__((always_inline)) static inline void weir__fetch(const void *memory, size_t bytes)
{
	const uintptr_t end = (uintptr_t)memory + bytes;

	if (memory == NULL)
		return;
	for (uintptr_t at = (uintptr_t)memory / WEIR__POOL_LINE * WEIR__POOL_LINE; at < end; at += WEIR__POOL_LINE)
		__builtin_prefetch((const void *)at);
}

/* Prefetches the entry that this hash will find, most likely: only the tag is compared. Returns false if no tag
 * matches. */
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
