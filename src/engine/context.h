/* context.h: the state that a worker's requests share, and a client as all protocols see it. It has no sockets. */
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
	WEIR__CONTEXT_ATTRIBUTES_MAX = 64, /* more than any protocol accepts, and `peer` */
	/* The most requests of a worker that wait for a later completion, and bytes of them, also if their clients have
	 * disconnected. Beyond that, the store's fallback decides at once. Most requests take 4 KiB, the largest nine
	 * times as much. */
	WEIR__IN_FLIGHT_MAX = 16384,
	WEIR__IN_FLIGHT_BYTES_MAX = 64 * 1024 * 1024,
	/* The same for one connection. At this number the server stops reading from it until some requests complete. */
	WEIR__CLIENT_IN_FLIGHT_MAX = 1024,
};

struct weir__auth_limit;
struct weir__certificates;
struct weir__client;
struct weir__denial_body;
struct weir__key_count_cache;
struct weir__log;
struct weir__mailbox;
struct weir__policy_loader;
struct weir__recorder;
struct weir__user_reload;
struct weir__request;
struct weir__settings;
struct weir__shared_changes;
struct weir__limit_stats;
struct weir__limit_stats_set;
struct weir__counters_set;
struct weir__counters;
struct weir__tracer;
struct weir__tracer_set;

struct weir__context {
	struct weir_table *table;
	struct weir__store *store;             /* decides requests; after init, the table's store */
	const struct weir__settings *settings; /* NULL: no settings to show */
	const struct weir__users *users;       /* NULL: no users, same as an empty list */
	struct weir__inline_limits limits;
	/* Room for keys of the policy's limits that had to be built, for requests that are being decoded. */
	char keys[2 * WEIR__GUARD_KEY_ROOM];
	size_t keys_used;
	/* The attributes of a check whose client has a certificate, with `peer`. */
	struct weir_attribute attributes[WEIR__CONTEXT_ATTRIBUTES_MAX];
	struct weir__auth_limit *auth_limit;     /* shared by all workers; NULL after init: attempts are not limited */
	struct weir__holds *holds;               /* shared by all workers; NULL after init: no room for holds */
	struct weir__waiting *waiting;           /* this worker's own; NULL after init: no room for waits */
	struct weir__denial_body *denial_body;   /* shared by all workers; NULL after init: denials are JSON */
	struct weir__policy_loader *loader;      /* shared by all workers; NULL after init: no policy */
	struct weir__certificates *certificates; /* shared by all workers; NULL after init: no TLS */
	struct weir__user_reload *user_reload;   /* shared by all workers; NULL after init: the users never change */
	struct weir_guard *guard;                /* decides by the loader's policy; NULL after init: no policy */
	struct weir__shared_changes *changes;    /* shared by all workers; NULL after init: limits change here only */
	struct weir__counters_set *counters_set; /* shared by all workers; both NULL after init: no counting */
	struct weir__counters *counters;
	struct weir__limit_stats_set *stats_set; /* likewise; NULL after init: no statistics */
	struct weir__limit_stats *stats;
	struct weir__tracer_set *tracers; /* likewise; NULL after init: no tracing, no denial log */
	struct weir__tracer *tracer;
	struct weir__log *log;           /* shared by all workers; NULL after init: no log */
	struct weir__recorder *recorder; /* shared by all workers; NULL after init: decisions are not recorded */
	struct weir__mailbox *mailbox;   /* this worker's own; NULL after init: no mailbox */
	/* This worker's own; NULL after init: key counts are estimated from a part of the table. */
	struct weir__key_count_cache *key_count_cache;

	bool hides_keys;                      /* log lines show a hash instead of the key */
	bool shows_values;                    /* lines about unmatched requests show values of attributes, not hashes */
	uint32_t n_in_flight;                 /* requests that wait for a later completion */
	size_t in_flight_bytes;               /* memory of them */
	struct weir__request *spare_requests; /* memory for the next requests that move, linked by `next` */
	uint32_t n_spare_requests;
	/* Called when the first request in a client's queue is done. NULL after init. */
	void (*ready)(void *worker, struct weir__client *client);
	void *worker;
	struct weir__table_store table_store;
};

/* The table decides until the caller sets another store. `counted_as` is a limit of the table that counts the decisions
 * on inline limits. */
void weir__context_init(struct weir__context *context, struct weir_table *table,
			const struct weir_table_limit *counted_as);

void weir__context_fini(struct weir__context *context);

struct weir__client {
	int resp_version;        /* RESP: 2 or 3 */
	bool has_maps;           /* RESP3: WEIR commands reply with maps, not arrays */
	struct weir__client *of; /* a stream of HTTP/2: the client of its connection; NULL: this is it */
	uint64_t number;
	/* Writes the client's address, or "unix". NULL: the client has no address. */
	void (*write_peer)(const struct weir__client *client, char ret_peer[WEIR__AUDIT_PEER]);
	bool is_leaving;               /* close after the current output is written */
	const struct weir__user *user; /* NULL: not authenticated */
	/* From the client's certificate: the user, which needs no password or token, and the attribute `peer`. */
	const struct weir__user *certificate_user; /* NULL: none */
	char *peer;                                /* owned by the connection; NULL: no certificate */
	/* HTTP: the last request of this connection had a valid token. Then the next token is checked even if others at
	 * this address have used up their attempts. */
	bool is_proven;
	/* Requests that wait for a later completion, in order of arrival. Replies are sent in this order. */
	struct weir__request *first, *last;
	uint32_t n_in_flight, n_unanswered;    /* length of this queue; replies it will produce */
	size_t queue_bytes;                    /* memory of this queue, and of those of its streams */
	struct weir__transaction *transaction; /* RESP: from MULTI until EXEC has run; NULL: no transaction */
	struct weir__deferred *deferred;       /* RESP: a command that waits for earlier ones; NULL: none */
	char name[WEIR__CLIENT_NAME_MAX + 1];  /* the name the client gave itself */
};

/* The attributes with `peer`, if the client has a certificate: the name in it, instead of what the client itself says. The
 * result lasts until the next check. */
const struct weir_attribute *weir__context_with_peer(struct weir__context *context, const struct weir__client *client,
						     const struct weir_attribute *attributes, size_t *n);

static inline bool weir__client_is_waiting(const struct weir__client *client)
{
	return client->first != NULL;
}

/* Whether the client must authenticate before the server replies to anything else. */
static inline bool weir__client_is_unauthenticated(const struct weir__context *context,
						   const struct weir__client *client)
{
	return client->user == NULL && context->users && context->users->n > 0;
}

#endif
