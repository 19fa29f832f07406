/* policy_upload.h: policies that come with requests: looked at, or put in force, by the thread of policies. */
#ifndef WEIR_SERVER_POLICY_UPLOAD_H
#define WEIR_SERVER_POLICY_UPLOAD_H

#include <weir/guard.h>

#include "observe/audit.h"
#include "os/mailbox.h"

enum {
	WEIR__POLICY_UPLOADS_MAX = 16, /* that wait; whoever comes then is told to come later */
	WEIR__POLICY_NAMES_MAX = 100,  /* of limits that are told for each kind of change */
};

/* Texts one behind the other, each with its NUL. */
struct weir__policy_lines {
	char *text;
	size_t length, size;
	uint32_t n;    /* that are here */
	uint64_t more; /* that there was no room for */
};

/* What became of it. */
struct weir__policy_outcome {
	bool is_good;
	struct weir__policy_lines diagnostics; /* LINE:COLUMN: what, and what would be right */
	uint32_t limits;
	uint64_t version;
	struct weir__policy_lines added, removed, changed; /* names of limits, if it is in force */
};

struct weir__request;

struct weir__policy_upload {
	struct weir__task task;        /* the first: so it leads here */
	struct weir__request *request; /* of the worker alone, that waits for it; NULL: its client has gone */
	bool replaces;                 /* else it is only looked at */
	uint32_t envoy;                /* WEIR_ENVOY_..., by which it is read */
	char *text;
	size_t length;
	struct weir__policy_outcome outcome;
	struct weir__log *log; /* where it is told that it was done, and who has asked */
	struct weir__audit_who who;
};

/* A copy of the text, to be freed with task.free. NULL: no memory. */
struct weir__policy_upload *weir__policy_upload_new(const char *text, size_t length, bool replaces);

/* It is back in the mailbox of its worker: the request is done. */
void weir__policy_upload_returned(struct weir__task *task);

/* Those that wait, in order. */
struct weir__policy_upload_queue;

struct weir__policy_upload_queue *weir__policy_upload_queue_new(void); /* NULL: no memory */
void weir__policy_upload_queue_free(
	struct weir__policy_upload_queue *uploads); /* those that wait come back as they are */

/* From any thread. False: too many wait. */
bool weir__policy_upload_queue_add(struct weir__policy_upload_queue *uploads, struct weir__policy_upload *upload);

/* Does the first. False: there is none. If it is in force now, `put` is told so before it comes back. */
bool weir__policy_upload_queue_do(struct weir__policy_upload_queue *uploads, struct weir_guard *guard,
				  struct weir_table *table,
				  void (*put)(void *context, const char *text, size_t length, uint64_t version),
				  void *context);

#endif
