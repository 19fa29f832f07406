/* remote.h: decisions that Redis makes for the requests of one worker.
 *
 * A request is run twice (guard/seam.h). What the first run asks is noted in a memo of its connection, in the order of
 * requests and of the questions of each; what several requests ask, as of a pipeline, goes out as one job. The memo is an
 * errand: it comes back to the worker's door with the answers, and the requests are run again. What Redis did not decide in
 * time is decided here then, by what the limits say for that case, once: the memo has that answer for further runs. */
#ifndef WEIR_SERVE_REMOTE_H
#define WEIR_SERVE_REMOTE_H

#include "guard/seam.h"
#include "serve/errands.h"
#include "serve/remote_plans.h"

struct weir__memo;
struct weir__redis_store;
struct weir__remote;

enum { WEIR__REMOTE_REQUESTS = 128 /* of a connection, whose questions go out together */ };

struct weir__remote_options {
	struct weir_table *table;
	struct weir__redis_store *store;
	struct weir__remote_book *book;
	struct weir_guard *guard;           /* NULL: there is no policy */
	struct weir__remote_rule otherwise; /* for limits that have no rule of their own */
	uint32_t worker;                    /* which one this is */
	struct weir__sight *sight;          /* who sees what was decided; NULL: nobody looks */
};

/* NULL: no memory. */
struct weir__remote *weir__remote_new(const struct weir__remote_options *options);
void weir__remote_free(struct weir__remote *remote); /* NULL is allowed */

/* Through which the requests of a run ask. */
struct weir__seam *weir__remote_seam(struct weir__remote *remote);

struct weir__redis_store *weir__remote_store(const struct weir__remote *remote);

/* Begins a run of requests of a connection, whose memo is kept at *memo; NULL: it has none. The first request is the one
 * that was not answered yet. */
void weir__remote_begin(struct weir__remote *remote, struct weir__memo **memo);

/* The next request of the run. */
void weir__remote_next(struct weir__remote *remote);

/* There was no room for its answer: it did nothing, and is the next one again. */
void weir__remote_again(struct weir__remote *remote);

/* Whether the questions of another request may be noted in this run, behind one that is not answered. */
bool weir__remote_has_room(const struct weir__remote *remote);

/* Whether something that the request asked is not known; or that any of the run did. */
bool weir__remote_is_not_yet(const struct weir__remote *remote);
bool weir__remote_waits(const struct weir__remote *remote);

/* The request is answered, and will not be run again. */
void weir__remote_answered(struct weir__remote *remote);

/* A limit of this request is closed, since the store has failed: that is why it is denied. */
bool weir__remote_is_closed(const struct weir__remote *remote);

/* Ends the run. If something is not known, what was noted goes out from this door, and the errand is returned, whose owner
 * is the caller's to set; else NULL, and the memo is gone if nothing in it is still to be run. */
struct weir__errand *weir__remote_end(struct weir__remote *remote, struct weir__errand_door *door);

/* Whether an errand is a memo; then its answers came. */
bool weir__remote_is_memo(const struct weir__errand *errand);
void weir__remote_take_back(struct weir__remote *remote, struct weir__errand *errand);

/* The connection closes: nothing will be run again. One that is out is freed when it comes back. */
void weir__remote_forget(struct weir__remote *remote, struct weir__memo **memo);

/* A number that no other request of the server has, in all runs of this one. */
uint64_t weir__remote_request(struct weir__remote *remote);

#endif
