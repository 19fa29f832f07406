/* live.h: the live document: the current state of limits as JSON, for weir top, the page and any other client.
 *
 * It is bounded by WEIR__LIVE_LIMITS_MAX limits and by the room of the reply. The busiest limits come first, and the
 * document says how many were left out. Writing it takes only short locks, such as the lock of each top-keys summary
 * while that is copied. */
#ifndef WEIR_SERVER_LIVE_H
#define WEIR_SERVER_LIVE_H

#include "engine/context.h"
#include "wire/http_reply.h"

enum {
	WEIR__LIVE_SECONDS_MAX = 120,
	WEIR__LIVE_LIMITS_MAX = 200,
	WEIR__LIVE_KEYS = 10,         /* per limit, by default */
	WEIR__LIVE_KEYS_MAX = 64,     /* at most; the default for a single limit */
	WEIR__LIVE_PLANS_MAX = 65536, /* of the policy that are looked at */
};

struct weir__live_query {
	uint64_t seconds, keys;
	const char *limit; /* only this one; NULL: all */
	size_t limit_length;
	const char *filter; /* only limits with this in their names */
	size_t filter_length;
};

/* Sets the defaults. */
void weir__live_query_init(struct weir__live_query *query);

/* Sets an option by its name: seconds, keys, limit or filter. Returns NULL, or what would be right. */
const char *weir__live_query_set(struct weir__live_query *query, const char *name, size_t name_length,
				 const char *value, size_t length);

/* Writes the document to the body. Returns false, and writes nothing, if no limit has this name. */
bool weir__live_write(struct weir__context *context, const struct weir__live_query *query,
		      struct weir__http_reply *reply);

#endif
