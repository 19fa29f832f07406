/* live.h: the live document: what the server sees of its limits now, as JSON. For weir top, the page and whoever else looks.
 *
 * It is bounded: by LIMITS limits, and by the room that there is for it. The busiest come first, and how many were left out
 * is said. To read it takes no lock but those of talkers, each for as long as it takes to copy one. */
#ifndef WEIR_SERVER_LIVE_H
#define WEIR_SERVER_LIVE_H

#include "engine/context.h"
#include "wire/http_reply.h"

enum {
	WEIR__LIVE_SECONDS_MAX = 120,
	WEIR__LIVE_LIMITS_MAX = 200,
	WEIR__LIVE_KEYS = 10,         /* of each limit, if nothing is said; */
	WEIR__LIVE_KEYS_MAX = 64,     /* and of one limit alone */
	WEIR__LIVE_PLANS_MAX = 65536, /* of the policy that are looked at */
};

struct weir__live_query {
	uint64_t seconds, keys;
	const char *limit; /* this one alone; NULL: all */
	size_t limit_length;
	const char *filter; /* those that have this in their names */
	size_t filter_length;
};

/* What is asked for if nothing is said. */
void weir__live_query_init(struct weir__live_query *query);

/* An option by its name: seconds, keys, limit or filter. NULL, or what would be right. */
const char *weir__live_query_set(struct weir__live_query *query, const char *name, size_t name_length,
				 const char *value, size_t length);

/* Writes it to the body. False: there is no limit of this name, and nothing was written. */
bool weir__live_write(struct weir__context *context, const struct weir__live_query *query,
		      struct weir__http_reply *reply);

#endif
