/* auth_limit.c: a private table with one limit. */
#include "engine/auth_limit.h"

#include <weir/table.h>

#include <stdlib.h>
#include <string.h>

enum { LIMITS = 1, NETWORK_BITS = 64, KEY_SIZE = WEIR__ADDRESS_BYTES + 1 };

struct weir__auth_limit {
	struct weir_table *table;
	const struct weir_table_limit *limit;
};

struct weir__auth_limit *weir__auth_limit_new(const char *text, struct weir_message *ret_message)
{
	const struct weir_table_options options = { .size_bytes = weir_table_size(WEIR__AUTH_LIMIT_ADDRESSES, LIMITS),
						    .limits_max = LIMITS };
	struct weir__auth_limit *const auth_limit = calloc(1, sizeof(*auth_limit));

	*ret_message = (struct weir_message){ .text = "no memory" };
	if (auth_limit && weir_table_new(&options, &auth_limit->table, ret_message) == WEIR_OK &&
	    weir_table_add_limit_text(auth_limit->table, "auth", text, &auth_limit->limit, ret_message) == WEIR_OK)
		return auth_limit;
	weir__auth_limit_free(auth_limit);
	return NULL;
}

void weir__auth_limit_free(struct weir__auth_limit *auth_limit)
{
	if (auth_limit == NULL)
		return;
	weir_table_free(auth_limit->table);
	free(auth_limit);
}

/* Returns the length of the key. */
static size_t write_key(const struct weir__address *address, unsigned char key[KEY_SIZE])
{
	struct weir__address network;

	if (address == NULL)
		return 0;
	network = address->is_v6 ? weir__address_mask(address, NETWORK_BITS) : *address;
	key[0] = network.is_v6 ? 6 : 4;
	memcpy(key + 1, network.bytes, weir__address_length(&network));
	return 1 + weir__address_length(&network);
}

bool weir__auth_limit_may_try(struct weir__auth_limit *auth_limit, const struct weir__address *address, weir_ns now,
			      weir_ns *ret_retry_after)
{
	unsigned char key[KEY_SIZE];
	const struct weir_verdict verdict = weir_table_peek(auth_limit->table, auth_limit->limit, key,
							    write_key(address, key), now, 1);

	*ret_retry_after = verdict.retry_after;
	return verdict.allowed;
}

void weir__auth_limit_failed(struct weir__auth_limit *auth_limit, const struct weir__address *address, weir_ns now)
{
	unsigned char key[KEY_SIZE];

	(void)weir_table_allow(auth_limit->table, auth_limit->limit, key, write_key(address, key), now, 1);
}
