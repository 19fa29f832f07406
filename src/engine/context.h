/* context.h: what the requests of one worker work with; and a client, as all protocols know it. No sockets here. */
#ifndef WEIR_ENGINE_CONTEXT_H
#define WEIR_ENGINE_CONTEXT_H

#include "engine/holds.h"
#include "engine/inline_limits.h"
#include "engine/users.h"
#include "engine/waiting.h"
#include "guard/guard.h"
#include "observe/audit.h"
#include "store/store.h"

enum {
	WEIR__CLIENT_NAME_MAX = 63,
	WEIR__IN_FLIGHT_MAX = 16384, /* requests of a worker that are answered later; the fallback decides others */
	WEIR__CLIENT_IN_FLIGHT_MAX = 1024, /* of a connection, which is not read until some are answered */
};

struct weir__client;
struct weir__key_count_cache;
struct weir__log;
struct weir__mailbox;
struct weir__policy_loader;
struct weir__request;
struct weir__settings;
struct weir__limit_stats;
struct weir__limit_stats_set;
struct weir__counters_set;
struct weir__counters;
struct weir__tracer;
struct weir__tracer_set;

struct weir__context {
	struct weir_table *table;
	struct weir__store *store;             /* what decides; after init, the table */
	const struct weir__settings *settings; /* NULL: none to show */
	const struct weir__users *users;       /* NULL: there are none, as if it were empty */
	struct weir__inline_limits limits;
	/* Keys of the policy's limits, of requests that are being decoded, if they had to be written. */
	char keys[2 * WEIR__GUARD_KEY_ROOM];
	size_t keys_used;
	struct weir__holds *holds;               /* of all workers; NULL after init: there is room for none */
	struct weir__waiting *waiting;           /* likewise, of this worker */
	struct weir__policy_loader *loader;      /* of all workers; NULL after init: there is no policy */
	struct weir_guard *guard;                /* of these policies; NULL likewise */
	struct weir__counters_set *counters_set; /* of all workers, and its own; NULL after init: nothing is counted */
	struct weir__counters *counters;
	struct weir__limit_stats_set *stats_set; /* likewise; NULL after init: nothing is observed */
	struct weir__limit_stats *stats;
	struct weir__tracer_set *tracers; /* likewise; NULL after init: nothing is traced or logged */
	struct weir__tracer *tracer;
	struct weir__log *log;         /* of all workers; NULL after init: there is none */
	struct weir__mailbox *mailbox; /* of this worker; NULL after init: it has none */
	struct weir__key_count_cache
		*key_count_cache; /* likewise; NULL after init: a part of the table tells of all of it */

	bool hides_keys;      /* log lines have a hash of a key instead of the key */
	uint32_t n_in_flight; /* requests that are answered later */
	/* Called when the first request of a client is done. NULL after init. */
	void (*ready)(void *worker, struct weir__client *client);
	void *worker;
	struct weir__table_store table_store;
};

/* Until the store is set, the table decides. `counted_as` is a limit of the table that counts the decisions on inline limits. */
void weir__context_init(struct weir__context *context, struct weir_table *table,
			const struct weir_table_limit *counted_as);

struct weir__client {
	int resp_version; /* of RESP: 2 or 3 */
	uint64_t number;
	/* Its address, or "unix". NULL: it has none. */
	void (*write_peer)(const struct weir__client *client, char ret_peer[WEIR__AUDIT_PEER]);
	bool is_leaving;               /* after what is being written */
	const struct weir__user *user; /* NULL: has not authenticated */
	/* Requests that are answered later, in the order in which they came; no other may be answered before. */
	struct weir__request *first, *last;
	uint32_t n_in_flight, n_unanswered;    /* these; and how many replies they are */
	struct weir__transaction *transaction; /* of RESP: between MULTI and EXEC, or while EXEC runs; NULL: neither */
	struct weir__deferred *deferred;       /* of RESP: a command that waits for those before it; NULL: none does */
	char name[WEIR__CLIENT_NAME_MAX + 1];  /* as it calls itself */
};

static inline bool weir__client_is_waiting(const struct weir__client *client)
{
	return client->first != NULL;
}

/* Whether it must authenticate before it gets a reply to anything else. */
static inline bool weir__client_is_unauthenticated(const struct weir__context *context,
						   const struct weir__client *client)
{
	return client->user == NULL && context->users && context->users->n > 0;
}

#endif
