/* rules.c: the index. Anchors are compared by their hashes alone. Two anchors with the same hash share one list of
 * rules. This costs one more check and does not change the result. */
#include "policy/rules.h"

#include <stdlib.h>

enum {
	PREFIX_MOST = 64,   /* longer prefixes are indexed by their first bytes */
	SEGMENTS_MOST = 32, /* and longer paths by their first segments */
};

static uint64_t hash_of(const struct weir__probe *probe, const void *bytes, size_t n)
{
	const uint64_t seed = (uint64_t)probe->attribute << 32 | (uint64_t)probe->kind << 24 |
			      (uint64_t)probe->is_v6 << 16 | probe->length;
	const uint64_t hash = weir__policy_hash(seed * UINT64_C(0x9e3779b97f4a7c15), bytes, n);

	return hash ? hash : 1;
}

/* --- anchors ---------------------------------------------------------------------------------------------------- */

/* Returns how many segments at the start of a path's pattern have no star. */
static unsigned plain_segments(struct weir__slice pattern, size_t *ret_bytes)
{
	unsigned n = 0;

	*ret_bytes = 0;
	while (n < SEGMENTS_MOST) {
		const size_t bytes = weir__path_start(pattern, n + 1);

		if (bytes == 0 || memchr(pattern.at, '*', bytes))
			break;
		*ret_bytes = bytes;
		n++;
	}
	return n;
}

/* Returns false if the pattern cannot be indexed. */
static bool find_anchor(const struct weir__condition *condition, const struct weir__pattern *pattern,
			struct weir__probe *ret_probe, uint64_t *ret_hash)
{
	struct weir__probe probe = { .attribute = condition->attribute, .kind = pattern->kind };
	struct weir__slice bytes = pattern->text;
	const char *star;

	switch (pattern->kind) {
	case WEIR__PATTERN_NETWORK:
		bytes = (struct weir__slice){ (const char *)pattern->network.address.bytes, WEIR__ADDRESS_BYTES };
		probe.is_v6 = pattern->network.address.is_v6;
		probe.length = pattern->network.bits;
		break;
	case WEIR__PATTERN_GLOB:
		if (condition->is_path) {
			probe.length = plain_segments(pattern->text, &bytes.n);
			if (probe.length == 0)
				return false;
			break;
		}
		star = memchr(bytes.at, '*', bytes.n);
		bytes.n = star ? (size_t)(star - bytes.at) : bytes.n;
		probe.kind = WEIR__PATTERN_PREFIX;
		/* fallthrough */
	case WEIR__PATTERN_PREFIX:
		if (bytes.n == 0)
			return false;
		bytes.n = bytes.n < PREFIX_MOST ? bytes.n : PREFIX_MOST;
		probe.length = (unsigned)bytes.n;
		break;
	case WEIR__PATTERN_PRESENT:
		bytes.n = 0;
		break;
	default:
		break;
	}
	*ret_probe = probe;
	*ret_hash = hash_of(&probe, bytes.at, bytes.n);
	return true;
}

static bool can_be_anchor(const struct weir__condition *condition)
{
	struct weir__probe probe;
	uint64_t hash;

	for (size_t i = 0; i < condition->n; i++)
		if (!find_anchor(condition, &condition->patterns[i], &probe, &hash))
			return false;
	return !condition->is_negated;
}

/* --- making the index ------------------------------------------------------------------------------------------- */

static struct weir__anchor *place_of(const struct weir__rules *rules, uint64_t hash)
{
	uint32_t place = (uint32_t)hash & (rules->n_anchors - 1);

	while (rules->anchors[place].hash != 0 && rules->anchors[place].hash != hash)
		place = (place + 1) & (rules->n_anchors - 1);
	return &rules->anchors[place];
}

static struct weir__anchor *anchor_of(struct weir__rules *rules, uint64_t hash)
{
	struct weir__anchor *const anchor = place_of(rules, hash);

	anchor->hash = hash;
	return anchor;
}

/* Calls `call` for the anchors of all patterns of a condition. */
static void each_anchor(struct weir__rules *rules, const struct weir__condition *condition,
			void (*call)(struct weir__rules *rules, struct weir__anchor *anchor,
				     const struct weir__probe *probe, uint32_t rule),
			uint32_t rule)
{
	for (size_t i = 0; i < condition->n; i++) {
		struct weir__probe probe;
		uint64_t hash;

		if (find_anchor(condition, &condition->patterns[i], &probe, &hash))
			call(rules, anchor_of(rules, hash), &probe, rule);
	}
}

static void count(struct weir__rules *rules, struct weir__anchor *anchor, const struct weir__probe *probe,
		  uint32_t rule)
{
	(void)rules;
	(void)probe;
	(void)rule;
	anchor->n++;
}

/* The largest number of rules that share an anchor with this condition. */
static uint32_t crowd_of(const struct weir__rules *rules, const struct weir__condition *condition)
{
	uint32_t most = 0;

	for (size_t i = 0; i < condition->n; i++) {
		struct weir__probe probe;
		uint64_t hash;

		if (find_anchor(condition, &condition->patterns[i], &probe, &hash)) {
			const uint32_t n = place_of(rules, hash)->n;

			most = n > most ? n : most;
		}
	}
	return most;
}

/* Returns the condition that becomes the rule's anchor: the one that the fewest rules share. NULL: none can be an
 * anchor. */
static const struct weir__condition *choose(const struct weir__rules *rules, const struct weir__rule *rule)
{
	const struct weir__condition *best = NULL;
	uint32_t least = UINT32_MAX;

	for (size_t i = 0; i < rule->n; i++) {
		const uint32_t crowd = can_be_anchor(&rule->conditions[i]) ? crowd_of(rules, &rule->conditions[i]) :
									     UINT32_MAX;

		if (crowd < least) {
			least = crowd;
			best = &rule->conditions[i];
		}
	}
	return best;
}

static void note_probe(struct weir__rules *rules, const struct weir__probe *probe)
{
	for (uint32_t i = 0; i < rules->n_probes; i++) {
		const struct weir__probe *const known = &rules->probes[i];

		if (known->attribute == probe->attribute && known->kind == probe->kind &&
		    known->is_v6 == probe->is_v6 && known->length == probe->length)
			return;
	}
	rules->probes[rules->n_probes++] = *probe;
}

static void count_chosen(struct weir__rules *rules, struct weir__anchor *anchor, const struct weir__probe *probe,
			 uint32_t rule)
{
	(void)rule;
	anchor->n++;
	note_probe(rules, probe);
}

/* If two patterns of a rule have the same anchor, the rule is listed once. */
static void enlist(struct weir__rules *rules, struct weir__anchor *anchor, const struct weir__probe *probe,
		   uint32_t rule)
{
	(void)probe;
	if (anchor->n == 0 || rules->lists[anchor->first + anchor->n - 1] != rule)
		rules->lists[anchor->first + anchor->n++] = rule;
}

static size_t patterns_of(const struct weir__rule *of, uint32_t n)
{
	size_t patterns = 0;

	for (uint32_t i = 0; i < n; i++)
		for (size_t k = 0; k < of[i].n; k++)
			patterns += of[i].conditions[k].n;
	return patterns;
}

/* The largest number of different probes: for each attribute one per length, and two without a length. */
static size_t probes_most(size_t patterns)
{
	const size_t all = (size_t)WEIR__ATTRIBUTES_MAX *
			   (PREFIX_MOST + SEGMENTS_MOST + 33 + 8 * WEIR__ADDRESS_BYTES + 1 + 2);

	return patterns < all ? patterns : all;
}

static bool make_room(struct weir__rules *rules, struct weir__pool *pool, size_t patterns)
{
	uint64_t places = 4;

	while (places < 2 * (uint64_t)patterns)
		places *= 2;
	if (places > UINT32_MAX)
		return false;
	rules->n_anchors = (uint32_t)places;
	rules->anchors = weir__pool_take_lines(pool, places, sizeof(rules->anchors[0]));
	rules->lists = weir__pool_take_array(pool, patterns, sizeof(rules->lists[0]));
	rules->probes = weir__pool_take_array(pool, probes_most(patterns), sizeof(rules->probes[0]));
	rules->others = weir__pool_take_array(pool, rules->n, sizeof(rules->others[0]));
	return rules->anchors && rules->lists && rules->probes && rules->others;
}

/* Sets where lists begin, from the counts, and resets the counts for filling the lists. */
static void lay_out_lists(struct weir__rules *rules)
{
	uint32_t first = 0;

	for (uint32_t i = 0; i < rules->n_anchors; i++) {
		rules->anchors[i].first = first;
		first += rules->anchors[i].n;
		rules->anchors[i].n = 0;
	}
}

/* Most anchors have a single rule, which is stored in the anchor, so that no list is read. */
static void name_single_rules(struct weir__rules *rules)
{
	for (uint32_t i = 0; i < rules->n_anchors; i++)
		if (rules->anchors[i].n == 1) {
			rules->anchors[i].first = rules->lists[rules->anchors[i].first];
			rules->anchors[i].only = rules->of[rules->anchors[i].first];
		}
}

bool weir__rules_init(struct weir__rules *rules, struct weir__pool *pool, const struct weir__rule *of, uint32_t n)
{
	const struct weir__condition **chosen;

	*rules = (struct weir__rules){ .of = of, .n = n };
	if (!make_room(rules, pool, patterns_of(of, n)))
		return false;
	chosen = calloc(n ? n : 1, sizeof(const struct weir__condition *));
	if (chosen == NULL)
		return false;
	for (uint32_t i = 0; i < n; i++)
		for (size_t k = 0; k < of[i].n; k++)
			if (can_be_anchor(&of[i].conditions[k]))
				each_anchor(rules, &of[i].conditions[k], count, i);
	for (uint32_t i = 0; i < n; i++)
		chosen[i] = choose(rules, &of[i]);
	memset(rules->anchors, 0, rules->n_anchors * sizeof(rules->anchors[0]));
	for (uint32_t i = 0; i < n; i++)
		if (chosen[i])
			each_anchor(rules, chosen[i], count_chosen, i);
		else
			rules->others[rules->n_others++] = i;
	lay_out_lists(rules);
	for (uint32_t i = 0; i < n; i++)
		if (chosen[i])
			each_anchor(rules, chosen[i], enlist, i);
	name_single_rules(rules);
	free(chosen);
	return true;
}

/* A smaller index stays in the CPU's cache, so nothing is prefetched. */
enum { FETCH_BYTES = 256 * 1024, FETCH_PROBES = 4 };

static bool is_large(const struct weir__rules *rules)
{
	return rules->n_anchors >= FETCH_BYTES / sizeof(struct weir__anchor);
}

/* Whether the anchor's rule fits into the rule cache, and how many bytes it takes there. */
static bool has_card(const struct weir__anchor *anchor, size_t *ret_room)
{
	*ret_room = anchor->n == 1 ? weir__rule_cache_entry_room(&anchor->only) : SIZE_MAX;
	return *ret_room != SIZE_MAX;
}

void weir__rules_make_cache(struct weir__rules *rules, struct weir__pool *pool)
{
	size_t most = 0, room;
	uint32_t n = 0;

	for (uint32_t i = 0; i < rules->n_anchors; i++)
		if (has_card(&rules->anchors[i], &room)) {
			most = room > most ? room : most;
			n++;
		}
	if (n == 0 || !weir__rule_cache_init(&rules->rule_cache, pool, n, rules->beside_hot_bytes, most))
		return;
	for (uint32_t i = 0; i < rules->n_anchors; i++) {
		const struct weir__anchor *const anchor = &rules->anchors[i];

		if (has_card(anchor, &room))
			weir__rule_cache_add(&rules->rule_cache, anchor->hash, anchor->first, &anchor->only,
					     (const char *)rules->beside + anchor->first * rules->beside_bytes);
	}
}

void weir__rules_keep_beside(struct weir__rules *rules, struct weir__pool *pool, const void *beside, size_t bytes,
			     size_t hot_bytes)
{
	rules->beside = beside;
	rules->beside_bytes = bytes;
	rules->beside_hot_bytes = hot_bytes;
	if (is_large(rules))
		weir__rules_make_cache(rules, pool);
}

void weir__rules_look_ahead(struct weir__rules *rules, const struct weir__ahead *ahead)
{
	rules->ahead = ahead;
	for (uint32_t i = 0; i < rules->rule_cache.n_places; i++)
		if (rules->rule_cache.tags[i] != 0) {
			struct weir__rule_cache_entry *const entry = weir__rule_cache_entry_at(&rules->rule_cache, i);

			entry->ahead = ahead[entry->number];
		}
}

/* --- looking up ------------------------------------------------------------------------------------------------- */

bool weir__rule_holds(const struct weir__rule *rule, const struct weir__values *values)
{
	for (size_t i = 0; i < rule->n; i++)
		if (!weir__condition_holds(&rule->conditions[i], values))
			return false;
	return true;
}

/* Hashes the part of a value that this probe looks up. Returns false if the value has no such part. */
static bool hash_by(const struct weir__probe *probe, const struct weir__value *value, uint64_t *ret_hash)
{
	struct weir__slice bytes = value->text;
	struct weir__address masked;

	switch (probe->kind) {
	case WEIR__PATTERN_NETWORK:
		if (!value->is_address || value->address.is_v6 != probe->is_v6)
			return false;
		masked = weir__address_mask(&value->address, probe->length);
		*ret_hash = hash_of(probe, masked.bytes, sizeof(masked.bytes));
		return true;
	case WEIR__PATTERN_GLOB:
		bytes.n = weir__path_start(bytes, probe->length);
		if (bytes.n == 0)
			return false;
		break;
	case WEIR__PATTERN_PREFIX:
		if (bytes.n < probe->length)
			return false;
		bytes.n = probe->length;
		break;
	case WEIR__PATTERN_PRESENT:
		bytes.n = 0;
		break;
	default:
		break;
	}
	*ret_hash = hash_of(probe, bytes.at, bytes.n);
	return true;
}

void weir__rules_fetch(const struct weir__rules *rules, const struct weir__values *values)
{
	if (!is_large(rules))
		return;
	for (uint32_t i = 0; i < rules->n_probes && i < FETCH_PROBES; i++) {
		const struct weir__probe *const probe = &rules->probes[i];
		const struct weir__value *const value = &values->of[probe->attribute];
		uint64_t hash;

		if (probe->kind > WEIR__PATTERN_PREFIX || value->text.at == NULL || !hash_by(probe, value, &hash))
			continue;
		if (!weir__rule_cache_fetch(&rules->rule_cache, hash))
			__builtin_prefetch(&rules->anchors[(uint32_t)hash & (rules->n_anchors - 1)]);
	}
}

static const void *beside_of(const struct weir__rules *rules, uint32_t number)
{
	return rules->beside ? (const char *)rules->beside + number * rules->beside_bytes : NULL;
}

/* Returns rule k of an anchor. A single rule is in the anchor itself, without a list. */
static struct weir__rule rule_at(const struct weir__rules *rules, const struct weir__anchor *anchor, uint32_t k,
				 uint32_t *ret_number)
{
	*ret_number = anchor->n == 1 ? anchor->first : rules->lists[anchor->first + k];
	return anchor->n == 1 ? anchor->only : rules->of[*ret_number];
}

static bool holds(const struct weir__rules *rules, const struct weir__rule *rule, uint32_t number,
		  const struct weir__values *values)
{
	weir__fetch(beside_of(rules, number), rules->beside_hot_bytes);
	weir__fetch(rule->conditions, rule->bytes);
	return weir__rule_holds(rule, values);
}

/* Inserts a rule in order of its number, unless it is there already. Returns the new number of rules found. */
static uint32_t put_in(struct weir__found *found, uint32_t n, uint32_t most, const struct weir__found *one)
{
	uint32_t place = n < most ? n : most;

	for (uint32_t i = 0; i < place; i++)
		if (found[i].number == one->number)
			return n;
	if (n >= most)
		return n + 1;
	for (; place > 0 && found[place - 1].number > one->number; place--)
		found[place] = found[place - 1];
	found[place] = *one;
	return n + 1;
}

static struct weir__found found_of(const struct weir__rules *rules, uint32_t number)
{
	return (struct weir__found){ number, beside_of(rules, number), rules->ahead ? &rules->ahead[number] : NULL };
}

/* Checks the rule of an entry of the rule cache, which holds everything that is read. */
static uint32_t put_card_in(const struct weir__rules *rules, const struct weir__rule_cache_entry *entry,
			    const struct weir__values *values, struct weir__found *found, uint32_t n, uint32_t most)
{
	weir__fetch(entry->ahead.line, 1);
	weir__fetch(entry->ahead.at, WEIR__AHEAD_BYTES);
	if (!weir__rule_holds(&entry->rule, values))
		return n;
	return put_in(found, n, most,
		      &(struct weir__found){ entry->number, entry->beside, rules->ahead ? &entry->ahead : NULL });
}

/* Checks the rules of an anchor. */
static uint32_t put_anchor_in(const struct weir__rules *rules, const struct weir__anchor *anchor,
			      const struct weir__values *values, struct weir__found *found, uint32_t n, uint32_t most)
{
	for (uint32_t k = 0; k < anchor->n; k++) {
		uint32_t number;
		const struct weir__rule rule = rule_at(rules, anchor, k, &number);
		struct weir__found one;

		if (rules->ahead)
			weir__fetch(&rules->ahead[number], sizeof(*rules->ahead));
		if (!holds(rules, &rule, number, values))
			continue;
		one = found_of(rules, number);
		n = put_in(found, n, most, &one);
		if (rules->ahead) {
			weir__fetch(rules->ahead[number].line, 1);
			weir__fetch(rules->ahead[number].at, WEIR__AHEAD_BYTES);
		}
	}
	return n;
}

uint32_t weir__rules_all(const struct weir__rules *rules, const struct weir__values *values,
			 struct weir__found *ret_found, uint32_t most)
{
	uint32_t n = 0;

	/* These are in order, and none is there twice. */
	for (uint32_t i = 0; i < rules->n_others; i++) {
		if (!weir__rule_holds(&rules->of[rules->others[i]], values))
			continue;
		if (n < most)
			ret_found[n] = found_of(rules, rules->others[i]);
		n++;
	}
	for (uint32_t i = 0; i < rules->n_probes; i++) {
		const struct weir__value *const value = &values->of[rules->probes[i].attribute];
		const struct weir__rule_cache_entry *entry;
		uint64_t hash;

		if (value->text.at == NULL || !hash_by(&rules->probes[i], value, &hash))
			continue;
		entry = weir__rule_cache_find(&rules->rule_cache, hash);
		n = entry ? put_card_in(rules, entry, values, ret_found, n, most) :
			    put_anchor_in(rules, place_of(rules, hash), values, ret_found, n, most);
	}
	return n;
}

uint32_t weir__rules_first(const struct weir__rules *rules, const struct weir__values *values)
{
	uint32_t first = UINT32_MAX;

	for (uint32_t i = 0; i < rules->n_others && rules->others[i] < first; i++)
		if (weir__rule_holds(&rules->of[rules->others[i]], values))
			first = rules->others[i];
	for (uint32_t i = 0; i < rules->n_probes; i++) {
		const struct weir__value *const value = &values->of[rules->probes[i].attribute];
		const struct weir__anchor *anchor;
		uint64_t hash;

		if (value->text.at == NULL || !hash_by(&rules->probes[i], value, &hash))
			continue;
		anchor = place_of(rules, hash);
		for (uint32_t k = 0; k < anchor->n; k++) {
			uint32_t number;
			const struct weir__rule rule = rule_at(rules, anchor, k, &number);

			if (number >= first)
				break;
			if (holds(rules, &rule, number, values))
				first = number;
		}
	}
	return first;
}
