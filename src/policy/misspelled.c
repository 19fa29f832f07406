/* misspelled.c: finds the attribute that a request probably meant, by edit distance. */
#include "policy/policy.h"

enum { LENGTH = WEIR__ATTRIBUTE_NAME_MAX };

static char lower(char c)
{
	return (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

static unsigned least(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

/* How many letters must be added, removed, replaced or swapped with the next one to turn one name into the other. Upper
 * and lower case are the same. Names have at most LENGTH bytes. */
static unsigned distance(struct weir__slice a, struct weir__slice b)
{
	unsigned rows[3][LENGTH + 1];

	for (unsigned j = 0; j <= b.n; j++)
		rows[0][j] = j;
	for (unsigned i = 1; i <= a.n; i++) {
		unsigned *const now = rows[i % 3];
		const unsigned *const before = rows[(i + 2) % 3], *const earlier = rows[(i + 1) % 3];

		now[0] = i;
		for (unsigned j = 1; j <= b.n; j++) {
			const char x = lower(a.at[i - 1]), y = lower(b.at[j - 1]);

			now[j] = least(least(before[j], now[j - 1]) + 1, before[j - 1] + (x != y));
			if (i > 1 && j > 1 && x == lower(b.at[j - 2]) && y == lower(a.at[i - 2]))
				now[j] = least(now[j], earlier[j - 2] + 1);
		}
	}
	return rows[a.n % 3][b.n];
}

static bool has(const struct weir_attribute *attributes, size_t n, struct weir__slice name)
{
	for (size_t i = 0; i < n; i++)
		if (weir__slice_equal((struct weir__slice){ attributes[i].name, attributes[i].name_length }, name))
			return true;
	return false;
}

static bool is_used(const struct weir_policy *policy, unsigned number)
{
	return policy->used >> number & 1;
}

/* The first of equally close names wins. */
size_t weir__policy_find_misspelled(const struct weir_policy *policy, const struct weir_attribute *attributes, size_t n,
				    struct weir__slice *ret_meant)
{
	unsigned nearest = UINT32_MAX;
	size_t found = n;

	for (size_t i = 0; i < n; i++) {
		const struct weir__slice name = { attributes[i].name, attributes[i].name_length };
		const int known = weir__attributes_find(&policy->attributes, name);

		if (name.n > LENGTH || (known >= 0 && is_used(policy, (unsigned)known)))
			continue;
		for (unsigned j = 0; j < policy->attributes.n; j++) {
			const struct weir__slice meant = policy->attributes.of[j].name;
			/* Any two short names differ by few letters, so a short name must be closer. */
			const unsigned most = least((unsigned)name.n, (unsigned)meant.n) / 2;
			unsigned away;

			if (!is_used(policy, j) || has(attributes, n, meant))
				continue;
			away = distance(name, meant);
			if (away <= least(most, 2) && away < nearest) {
				nearest = away;
				found = i;
				*ret_meant = meant;
			}
		}
	}
	return found;
}
