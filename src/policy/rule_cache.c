/* rule_cache.c: copies rules with all of their data into entries of one size. */
#include "policy/rule_cache.h"

#include <stddef.h>
#include <string.h>

enum {
	RULE_MOST = 256,      /* bytes of a rule's data in an entry */
	CARDS_MOST = 1 << 27, /* bytes of all entries: 128 MiB */
};

_Static_assert(sizeof(struct weir__rule_cache_entry) == WEIR__POOL_LINE, "a card begins with one line");

size_t weir__rule_cache_entry_room(const struct weir__rule *rule)
{
	size_t room = rule->n * sizeof(struct weir__condition);

	for (size_t i = 0; i < rule->n && room <= RULE_MOST; i++) {
		const struct weir__condition *const condition = &rule->conditions[i];

		for (size_t k = 0; k < condition->n && room <= RULE_MOST; k++)
			room += sizeof(struct weir__pattern) + condition->patterns[k].text.n;
	}
	return room <= RULE_MOST ? room : SIZE_MAX;
}

/* Copies the conditions, then the patterns of all conditions, then their texts. */
static struct weir__condition *copy_rule(const struct weir__rule *rule, unsigned char *room)
{
	struct weir__condition *const conditions = (struct weir__condition *)room;
	struct weir__pattern *patterns = (struct weir__pattern *)(conditions + rule->n);
	char *text;

	for (size_t i = 0; i < rule->n; i++) {
		conditions[i] = rule->conditions[i];
		conditions[i].patterns = patterns;
		for (size_t k = 0; k < conditions[i].n; k++)
			*patterns++ = rule->conditions[i].patterns[k];
	}
	text = (char *)patterns;
	for (size_t i = 0; i < rule->n; i++)
		for (size_t k = 0; k < conditions[i].n; k++) {
			struct weir__slice *const copied = &conditions[i].patterns[k].text;

			if (copied->n > 0)
				memcpy(text, copied->at, copied->n);
			copied->at = copied->at ? text : NULL;
			text += copied->n;
		}
	return conditions;
}

static size_t round_up(size_t bytes, size_t to)
{
	return (bytes + to - 1) / to * to;
}

bool weir__rule_cache_init(struct weir__rule_cache *rule_cache, struct weir__pool *pool, uint32_t n,
			   size_t beside_bytes, size_t rule_bytes)
{
	const size_t rule_at = sizeof(struct weir__rule_cache_entry) + round_up(beside_bytes, _Alignof(max_align_t));
	uint64_t places = 4;

	*rule_cache = (struct weir__rule_cache){ .card_bytes = round_up(rule_at + rule_bytes, WEIR__POOL_LINE),
						 .beside_bytes = beside_bytes,
						 .rule_at = rule_at };
	while (4 * places < 5 * (uint64_t)n) /* scanning tags is fast, so the places may be up to 80% full */
		places *= 2;
	if (places * rule_cache->card_bytes > CARDS_MOST)
		return false;
	rule_cache->rule_cache = weir__pool_take_lines(pool, places, rule_cache->card_bytes);
	rule_cache->tags = weir__pool_take_lines(pool, places, sizeof(rule_cache->tags[0]));
	rule_cache->n_places = rule_cache->rule_cache && rule_cache->tags ? (uint32_t)places : 0;
	return rule_cache->n_places > 0;
}

void weir__rule_cache_add(struct weir__rule_cache *rule_cache, uint64_t hash, uint32_t number,
			  const struct weir__rule *rule, const void *beside)
{
	uint32_t place = (uint32_t)hash & (rule_cache->n_places - 1);
	struct weir__rule_cache_entry *entry;

	while (rule_cache->tags[place] != 0)
		place = (place + 1) & (rule_cache->n_places - 1);
	rule_cache->tags[place] = weir__rule_cache_entry_tag(hash);
	entry = weir__rule_cache_entry_at(rule_cache, place);
	entry->hash = hash;
	entry->number = number;
	entry->rule.n = rule->n;
	entry->rule.conditions = copy_rule(rule, (unsigned char *)entry + rule_cache->rule_at);
	memcpy(entry->beside, beside, rule_cache->beside_bytes);
}
