/* policy_upload.h: policies that clients upload. The policy loader's thread validates them or puts them in force. */
#ifndef WEIR_SERVER_POLICY_UPLOAD_H
#define WEIR_SERVER_POLICY_UPLOAD_H

#include <weir/guard.h>

#include "observe/audit.h"
#include "os/mailbox.h"
#include "server/arena_plan.h"

enum {
	WEIR__POLICY_UPLOADS_MAX = 16, /* that wait; beyond that, the response is 503 with Retry-After */
	WEIR__POLICY_NAMES_MAX = 100,  /* of limits, listed for each kind of change */
};

/* Texts one after another, each with its NUL. */
struct weir__policy_lines {
	char *text;
	size_t length, size;
	uint32_t n;    /* texts that are here */
	uint64_t more; /* texts that did not fit */
};

/* The result of an upload. */
struct weir__policy_outcome {
	bool is_good;
	struct weir__policy_lines diagnostics; /* LINE:COLUMN: what is wrong, and what would be right */
	uint32_t limits;
	uint64_t version;
	struct weir__policy_lines added, removed, changed; /* names of limits, if it is in force */
	struct weir__policy_lines anew;                    /* limits whose keys started over, and why */
	char warning[WEIR__ARENA_WARNING_SIZE];            /* that a limit does not fit the arena; may be empty */
};

struct weir__request;

struct weir__policy_upload {
	struct weir__task task;        /* must be first: a task is cast to its upload */
	struct weir__request *request; /* that waits for it; only its worker uses it; NULL: the client has gone */
	bool replaces;                 /* else it is only validated */
	uint32_t envoy;                /* WEIR_ENVOY_..., for a policy in Envoy's form */
	uint64_t keys;                 /* keys that the arena must have room for */
	bool has_store;                /* only limits that the policy keeps in the table need an arena */
	char *text;
	size_t length;
	struct weir__policy_outcome outcome;
	struct weir__log *log; /* audit log of the change, made by `who` */
	struct weir__audit_who who;
};

/* Copies the text. Free it with task.free. Returns NULL if memory runs out. */
struct weir__policy_upload *weir__policy_upload_new(const char *text, size_t length, bool replaces);

/* Uploads that wait, in order. */
struct weir__policy_upload_queue;

struct weir__policy_upload_queue *weir__policy_upload_queue_new(void);          /* NULL: no memory */
void weir__policy_upload_queue_free(struct weir__policy_upload_queue *uploads); /* returns waiting uploads unread */

/* From any thread. Returns false if too many wait. */
bool weir__policy_upload_queue_add(struct weir__policy_upload_queue *uploads, struct weir__policy_upload *upload);

/* Runs the first upload. Returns false if none waits. If its policy is in force now, calls `put` before the upload
 * returns to its worker. */
bool weir__policy_upload_queue_do(struct weir__policy_upload_queue *uploads, struct weir_guard *guard,
				  struct weir_table *table,
				  void (*put)(void *context, const struct weir__policy_upload *upload), void *context);

#endif
