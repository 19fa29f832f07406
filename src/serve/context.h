/* context.h: what the requests of one worker work with; and a client, as all protocols know it. No sockets here. */
#ifndef WEIR_SERVE_CONTEXT_H
#define WEIR_SERVE_CONTEXT_H

#include "guard/guard.h"
#include "serve/holds.h"
#include "serve/limits.h"
#include "serve/settings.h"
#include "serve/waiting.h"
#include "store/store.h"

enum {
	WEIR__CLIENT_NAME_MAX = 63,
	WEIR__IN_FLIGHT_MAX = 16384, /* requests of a worker that are answered later; the fallback decides others */
	WEIR__CLIENT_IN_FLIGHT_MAX = 1024, /* of a connection, which is not read until some are answered */
};

struct weir__client;
struct weir__glanced;
struct weir__log;
struct weir__mailbox;
struct weir__policies;
struct weir__request;
struct weir__sight;
struct weir__sights;
struct weir__tallies;
struct weir__tally;
struct weir__witness;
struct weir__witnesses;

struct weir__context {
	struct weir_table *table;
	struct weir__store *store;             /* what decides; after init, the table */
	const struct weir__settings *settings; /* NULL: none to show */
	const struct weir__users *users;       /* NULL: there are none, as if it were empty */
	struct weir__limits limits;
	/* Keys of the policy's limits, of requests that are being decoded, if they had to be written. */
	char keys[2 * WEIR__GUARD_KEY_ROOM];
	size_t keys_used;
	struct weir__holds *holds;       /* of all workers; NULL after init: there is room for none */
	struct weir__waiting *waiting;   /* likewise, of this worker */
	struct weir__policies *policies; /* of all workers; NULL after init: there is no policy */
	struct weir__tallies *tallies;   /* of all workers, and its own; NULL after init: nothing is counted */
	struct weir__tally *tally;
	struct weir__sights *sights; /* likewise; NULL after init: nothing is observed */
	struct weir__sight *sight;
	struct weir__witnesses *witnesses; /* likewise; NULL after init: nothing is traced or logged */
	struct weir__witness *witness;
	struct weir__log *log;         /* of all workers; NULL after init: there is none */
	struct weir__mailbox *mailbox; /* of this worker; NULL after init: it has none */
	struct weir__glanced *glanced; /* likewise; NULL after init: a part of the table tells of all of it */

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
	int protocol; /* of RESP: 2 or 3 */
	uint64_t number;
	const int *socket;             /* NULL: it has none */
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
static inline bool weir__client_is_stranger(const struct weir__context *context, const struct weir__client *client)
{
	return client->user == NULL && context->users && context->users->n > 0;
}

#endif
