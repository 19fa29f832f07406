/* rules.h: an index that finds, among many rules, those that hold for a request, without checking the others. A rule is
 * a list of conditions that must all hold.
 *
 * Each rule has an anchor: one of its conditions, whose patterns are in a hash index. A request is looked up by
 * everything that it could match in the index: each of its values, the first segments of its paths, the networks of its
 * addresses, for all lengths that the rules use. Rules that are found are then checked in full. Rules without a usable
 * anchor (negations, patterns that begin with a star) are checked for every request. The reasons are in
 * docs/internals/policies.md. */
#ifndef WEIR_POLICY_RULES_H
#define WEIR_POLICY_RULES_H

#include "policy/rule_cache.h"

/* One kind of lookup: for all anchors of the same kind, attribute and length. */
struct weir__probe {
	unsigned attribute;
	enum weir__pattern_kind kind; /* GLOB: by the first segments of a path */
	bool is_v6;
	unsigned length; /* bytes of a prefix, bits of a network, or segments of a path */
};

struct weir__rules {
	const struct weir__rule *of;
	uint32_t n;
	struct weir__probe *probes;
	uint32_t n_probes;
	/* Anchors by hash, in a power of two of places. Each refers to its rules in `lists`. */
	struct weir__anchor {
		uint64_t hash;  /* 0: free */
		uint32_t first; /* index in `lists`; for a single rule, its number */
		uint32_t n;
		struct weir__rule only; /* a copy of the single rule, to save a memory access */
	} * anchors;
	uint32_t n_anchors;
	uint32_t *lists;
	uint32_t *others; /* rules without an anchor */
	uint32_t n_others;
	/* The caller's array with an element for each rule, or NULL. It is prefetched while a rule is checked. */
	const void *beside;
	size_t beside_bytes, beside_hot_bytes; /* size of an element; bytes of it that are read */
	const struct weir__ahead *ahead;       /* one for each rule, or NULL */
	struct weir__rule_cache rule_cache;    /* with very many rules, those that are alone under their hash */
};

/* `of` must outlive the rules. Returns false if memory runs out. */
bool weir__rules_init(struct weir__rules *rules, struct weir__pool *pool, const struct weir__rule *of, uint32_t n);

/* Sets the caller's array with an element for each rule. The first hot_bytes of an element are read when its rule
 * holds. */
void weir__rules_keep_beside(struct weir__rules *rules, struct weir__pool *pool, const void *beside, size_t bytes,
			     size_t hot_bytes);

/* Makes the rule cache. weir__rules_keep_beside calls it if there are very many rules. It changes no result. */
void weir__rules_make_cache(struct weir__rules *rules, struct weir__pool *pool);

/* `ahead` has an element for each rule and must outlive the rules. */
void weir__rules_look_ahead(struct weir__rules *rules, const struct weir__ahead *ahead);

/* Call it between weir__values_begin and weir__values_end. Prefetches the index places of values that need no
 * normalisation, while paths and addresses are parsed. */
void weir__rules_fetch(const struct weir__rules *rules, const struct weir__values *values);

bool weir__rule_holds(const struct weir__rule *rule, const struct weir__values *values);

/* A rule that holds. */
struct weir__found {
	uint32_t number;
	const void *beside;              /* the hot bytes of the caller's element, perhaps a copy; NULL: none are set */
	const struct weir__ahead *ahead; /* likewise */
};

/* Puts the rules that hold into ret_found, lowest number first, and returns how many hold. At most `most` are put
 * there. If more hold, which of them are put there is unspecified. */
uint32_t weir__rules_all(const struct weir__rules *rules, const struct weir__values *values,
			 struct weir__found *ret_found, uint32_t most);

/* Returns the lowest number of a rule that holds, or UINT32_MAX. */
uint32_t weir__rules_first(const struct weir__rules *rules, const struct weir__values *values);

#endif
