/* auth_limit.c: a private table with two limits: of a client, and of a peer. */
#include "engine/auth_limit.h"

#include <weir/table.h>

#include <stdlib.h>
#include <string.h>

#include "core/wide.h"

enum { LIMITS = 2, NETWORK_BITS = 64, KEY_SIZE = WEIR__ADDRESS_BYTES + 1 };

struct weir__auth_limit {
	struct weir_table *table;
	const struct weir_table_limit *limit, *peer_limit;
};

/* The limit of a peer: WEIR__AUTH_LIMIT_PEER times the limit of a client, or as many times as a table can hold. */
static struct weir_limit limit_of_peer(const char *text)
{
	struct weir_limit limit = { .count = 0 }, larger;
	uint64_t factor = WEIR__AUTH_LIMIT_PEER;

	(void)weir_limit_parse(text, strlen(text), &limit, NULL);
	do {
		larger = limit;
		larger.count = weir__saturate(weir__mul(limit.count, factor));
		larger.burst = weir__saturate(weir__mul(limit.burst, factor));
		factor /= 2;
	} while (factor > 0 && weir_table_check_limit(&larger, NULL) != WEIR_OK);
	return factor > 0 ? larger : limit;
}

struct weir__auth_limit *weir__auth_limit_new(const char *text, struct weir_message *ret_message)
{
	const struct weir_table_options options = { .size_bytes = weir_table_size(WEIR__AUTH_LIMIT_ADDRESSES, LIMITS),
						    .limits_max = LIMITS };
	struct weir__auth_limit *const auth_limit = calloc(1, sizeof(*auth_limit));
	const struct weir_limit of_peer = limit_of_peer(text);

	*ret_message = (struct weir_message){ .text = "no memory" };
	if (auth_limit && weir_table_new(&options, &auth_limit->table, ret_message) == WEIR_OK &&
	    weir_table_add_limit_text(auth_limit->table, "auth", text, &auth_limit->limit, ret_message) == WEIR_OK &&
	    weir_table_add_limit(auth_limit->table, "peer", &of_peer, &auth_limit->peer_limit, ret_message) == WEIR_OK)
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

static bool is_loopback(const struct weir__address *address)
{
	static const unsigned char one[WEIR__ADDRESS_BYTES] = { [WEIR__ADDRESS_BYTES - 1] = 1 };

	return address->is_v6 ? memcmp(address->bytes, one, sizeof(one)) == 0 : address->bytes[0] == 127;
}

/* Whether the peer counts by itself: it may speak for many clients, or has many addresses. Sets its address then. */
static bool has_peer(struct weir__auth_source source, const struct weir__address **ret_peer)
{
	unsigned char client[KEY_SIZE], peer[KEY_SIZE];
	const size_t n = write_key(source.peer, peer);

	*ret_peer = source.peer && is_loopback(source.peer) ? NULL : source.peer;
	return *ret_peer == NULL || n != write_key(source.client, client) || memcmp(client, peer, n) != 0;
}

bool weir__auth_limit_may_try(struct weir__auth_limit *auth_limit, struct weir__auth_source source, weir_ns now,
			      weir_ns *ret_retry_after)
{
	unsigned char key[KEY_SIZE];
	const struct weir__address *peer;
	struct weir_verdict verdict = weir_table_peek(auth_limit->table, auth_limit->limit, key,
						      write_key(source.client, key), now, 1);

	if (verdict.allowed && has_peer(source, &peer))
		verdict = weir_table_peek(auth_limit->table, auth_limit->peer_limit, key, write_key(peer, key), now, 1);
	*ret_retry_after = verdict.retry_after;
	return verdict.allowed;
}

void weir__auth_limit_failed(struct weir__auth_limit *auth_limit, struct weir__auth_source source, weir_ns now)
{
	unsigned char key[KEY_SIZE];
	const struct weir__address *peer;

	(void)weir_table_allow(auth_limit->table, auth_limit->limit, key, write_key(source.client, key), now, 1);
	if (has_peer(source, &peer))
		(void)weir_table_allow(auth_limit->table, auth_limit->peer_limit, key, write_key(peer, key), now, 1);
}
