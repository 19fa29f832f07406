/* entries.c: a hash table with open addressing that is at most half full. */
#include "policy/entries.h"

/* Joins values into one key. Each value has its length before it, so that different lists give different keys. Returns
 * 0 if the key is too long. */
static size_t join(const struct weir__slice *values, unsigned n, char key[static WEIR__ENTRY_KEY_MAX])
{
	size_t length = 0;

	for (unsigned i = 0; i < n; i++) {
		if (values[i].n + 2 > WEIR__ENTRY_KEY_MAX - length)
			return 0;
		key[length++] = (char)(values[i].n & 0xff);
		key[length++] = (char)(values[i].n >> 8);
		memcpy(key + length, values[i].at, values[i].n);
		length += values[i].n;
	}
	return length;
}

static struct weir__entry *place_of(const struct weir__entries *entries, struct weir__slice key, uint64_t hash)
{
	uint64_t place = hash & (entries->size - 1);

	while (entries->of[place].key.at &&
	       !(entries->of[place].hash == (uint32_t)(hash >> 32) && weir__slice_equal(entries->of[place].key, key)))
		place = (place + 1) & (entries->size - 1);
	return &entries->of[place];
}

bool weir__entries_init(struct weir__entries *entries, struct weir__pool *pool, uint64_t n)
{
	entries->size = 4;
	while (entries->size < 2 * n)
		entries->size *= 2;
	entries->of = weir__pool_take_array(pool, entries->size, sizeof(entries->of[0]));
	entries->n = 0;
	return entries->of != NULL;
}

struct weir__entry *weir__entries_add(struct weir__entries *entries, struct weir__pool *pool,
				      const struct weir__slice *values, bool *ret_is_new)
{
	char joined[WEIR__ENTRY_KEY_MAX];
	const struct weir__slice key = { joined, join(values, entries->n_columns, joined) };
	const uint64_t hash = weir__policy_hash(1, key.at, key.n);
	struct weir__entry *entry;

	if (key.n == 0)
		return NULL;
	entry = place_of(entries, key, hash);
	*ret_is_new = entry->key.at == NULL;
	if (!*ret_is_new)
		return entry;
	if (entries->n >= entries->size / 2)
		return NULL;
	entry->key = weir__pool_copy(pool, key);
	if (entry->key.at == NULL)
		return NULL;
	entry->hash = (uint32_t)(hash >> 32);
	entries->n++;
	return entry;
}

const struct weir__entry *weir__entries_find_key(const struct weir__entries *entries, struct weir__slice key)
{
	const struct weir__entry *const entry = place_of(entries, key, weir__policy_hash(1, key.at, key.n));

	return entry->key.at ? entry : NULL;
}

/* The bytes to compare for a column. .at NULL: the request has no value that an entry could match. */
static struct weir__slice compared_by(const struct weir__value *value, bool is_address)
{
	if (value->text.at == NULL || !is_address)
		return value->text;
	if (!value->is_address)
		return (struct weir__slice){ NULL, 0 };
	return (struct weir__slice){ (const char *)value->address.bytes, weir__address_length(&value->address) };
}

const struct weir__entry *weir__entries_find(const struct weir__entries *entries, const struct weir__values *values)
{
	struct weir__slice of[WEIR__ENTRY_COLUMNS_MAX];
	char joined[WEIR__ENTRY_KEY_MAX];
	struct weir__slice key = { joined, 0 };
	const struct weir__entry *entry;

	if (entries->n_columns == 0)
		return NULL;
	for (unsigned i = 0; i < entries->n_columns; i++) {
		of[i] = compared_by(&values->of[entries->columns[i]], entries->is_address[i]);
		if (of[i].at == NULL)
			return NULL;
	}
	key.n = join(of, entries->n_columns, joined);
	if (key.n == 0)
		return NULL;
	entry = place_of(entries, key, weir__policy_hash(1, key.at, key.n));
	return entry->key.at ? entry : NULL;
}
