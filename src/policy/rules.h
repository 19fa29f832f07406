/* rules.h: which of many rules, each a list of conditions that must all hold, hold for a request: found without a look at
 * the others.
 *
 * Each rule has an anchor: one of its conditions, whose patterns are in an index by hash. A request is looked up by what
 * it could be found under: each of its values, the first segments of its paths, the networks of its addresses, for as many
 * lengths as the rules have. What is found is checked in full. Rules with nothing to be found by (negations, patterns that
 * begin with a star) are checked for every request. */
#ifndef WEIR_POLICY_RULES_H
#define WEIR_POLICY_RULES_H

#include "policy/rule_cache.h"

/* One way to be found: all anchors of one kind, attribute and length. */
struct weir__probe {
	unsigned attribute;
	enum weir__pattern_kind kind; /* of a GLOB, by first segments of a path */
	bool is_v6;
	unsigned length; /* of a prefix in bytes, of a network in bits, of a path in segments */
};

struct weir__rules {
	const struct weir__rule *of;
	uint32_t n;
	struct weir__probe *probes;
	uint32_t n_probes;
	/* Anchors by hash: a power of two of places; each has where its rules are in `lists`. */
	struct weir__anchor {
		uint64_t hash;  /* 0: free */
		uint32_t first; /* in `lists`; of one rule alone, its number */
		uint32_t n;
		struct weir__rule only; /* that one, so that it needs no look elsewhere */
	} * anchors;
	uint32_t n_anchors;
	uint32_t *lists;
	uint32_t *others; /* rules without an anchor */
	uint32_t n_others;
	/* What the caller keeps for each rule, an array, or NULL: it is on its way from memory while the rule is checked. */
	const void *beside;
	size_t beside_bytes, beside_hot_bytes; /* of each; that are looked at */
	const struct weir__ahead *ahead;       /* of each rule, or NULL */
	struct weir__rule_cache rule_cache;    /* of very many rules, those that are found alone */
};

/* `of` must outlive it. False: no memory. */
bool weir__rules_init(struct weir__rules *rules, struct weir__pool *pool, const struct weir__rule *of, uint32_t n);

/* What the caller keeps for each rule, an array, of which so many bytes each are looked at when the rule holds. */
void weir__rules_keep_beside(struct weir__rules *rules, struct weir__pool *pool, const void *beside, size_t bytes,
			     size_t hot_bytes);

/* Which that does if there are very many; it changes no answer. */
void weir__rules_make_cache(struct weir__rules *rules, struct weir__pool *pool);

/* One for each rule; it must outlive the rules. */
void weir__rules_look_ahead(struct weir__rules *rules, const struct weir__ahead *ahead);

/* Between weir__values_begin and weir__values_end: what texts will find that are as they were given is on its way from memory
 * while paths and addresses are read. */
void weir__rules_fetch(const struct weir__rules *rules, const struct weir__values *values);

bool weir__rule_holds(const struct weir__rule *rule, const struct weir__values *values);

/* A rule that holds. */
struct weir__found {
	uint32_t number;
	const void *beside;              /* the hot bytes of what is kept for it, perhaps a copy; NULL: nothing is */
	const struct weir__ahead *ahead; /* likewise */
};

/* Puts the rules that hold into ret_found, lowest number first, and returns how many there are, of which only `most` are put
 * there: which is not said, if there are more. */
uint32_t weir__rules_all(const struct weir__rules *rules, const struct weir__values *values,
			 struct weir__found *ret_found, uint32_t most);

/* The lowest number of one that holds, or UINT32_MAX. */
uint32_t weir__rules_first(const struct weir__rules *rules, const struct weir__values *values);

#endif
