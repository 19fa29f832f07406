/* shared_changes.h: changes of limits that reach all servers of a store, and the thread that stores and applies them.
 *
 * More than once a second the thread tells Redis which policy this server runs, and reads new changes made under it. A
 * change that a client requests here is first stored, then applied here. Workers do not wait: a change is a task that
 * returns to its worker's mailbox. The reasons are in docs/internals/redis.md. */
#ifndef WEIR_SERVER_SHARED_CHANGES_H
#define WEIR_SERVER_SHARED_CHANGES_H

#include <weir/guard.h>

#include "engine/limit_ref.h"
#include "engine/request.h"
#include "os/mailbox.h"

struct weir__redis_url;
struct weir__shared_changes;

/* Starts the thread. The URL is copied. NULL, and a message: no memory, no thread, or a file that the URL names cannot
 * be used. */
struct weir__shared_changes *weir__shared_changes_new(const struct weir__redis_url *url, struct weir_guard *guard,
						      struct weir_table *table, struct weir__log *log,
						      struct weir_message *ret_message);

/* No worker may use it any more. NULL is allowed. */
void weir__shared_changes_free(struct weir__shared_changes *changes);

enum { WEIR__SHARED_CHANGES_WAITING = 64 /* changes that wait to be stored */ };

/* A change on its way to the store. */
struct weir__shared_change {
	struct weir__task task;        /* must be first: a task is cast to its change */
	struct weir__request *request; /* that waits for it; only its worker uses it; NULL: the client has gone */
	char plan[WEIR_TABLE_NAME_MAX + 1];
	struct weir_limit to;
	struct weir__audit_who who;
	bool is_made; /* else `refusal` says why not */
	struct weir__refusal refusal;
};

struct weir__change_request {
	struct weir__request request;
	struct weir__shared_change *change;
};

/* Checks a change that a client requests for all servers, and prepares its request. The protocol then sets
 * request.write and sends it. Returns false, and the reason, if the limit cannot be changed this way. */
bool weir__change_request_init(struct weir__change_request *request, struct weir__context *context,
			       struct weir__client *client, const struct weir__audit_who *who, const char *name,
			       size_t length, const struct weir_limit *to, struct weir__refusal *ret_refusal);

/* The request moves, and is done when the change is made or rejected. Returns false, and the reason, if too many
 * wait. */
bool weir__change_request_send(struct weir__change_request *request, struct weir__refusal *ret_refusal);

#endif
