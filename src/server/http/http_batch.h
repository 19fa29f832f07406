/* http_batch.h: the requests of one body, either one or an array. Each is decided by itself, and one response has all
 * results. */
#ifndef WEIR_SERVER_HTTP_HTTP_BATCH_H
#define WEIR_SERVER_HTTP_HTTP_BATCH_H

#include "server/http/http_json.h"

struct weir__http_batch {
	struct weir__request request; /* must be first: a request is cast to its batch */
	json_t *root;                 /* the body: results may repeat its strings */
	bool is_one;                  /* the body is an object: respond as to a single request */
	void *decoded;                /* what was read from the body; NULL: not kept */
	void (*free_decoded)(void *decoded);
	size_t n, n_left;              /* items; those not decided yet, plus one until all are started */
	struct weir_table_limit limit; /* copy of the inline limit that the headers of a single response report */
	struct weir__http_item {
		struct weir_guard_answer answer;
		size_t decided_by;
		bool is_of_several; /* the response says which limit decided */
		bool is_closed;
		char *error; /* why it could not be decided; NULL: it was */
	} items[];
};

/* Checks the number of items. Returns false after writing the error response. */
bool weir__http_batch_fits(struct weir__http_call *call, const json_t *array);

/* Keeps a reference to the body. Returns NULL after writing the error response. */
struct weir__http_batch *weir__http_batch_new(struct weir__http_call *call, json_t *root, size_t n, bool is_one);

/* Copies the limit of a single response for its headers: an inline limit may be gone when they are written. */
void weir__http_batch_keep_limit(struct weir__http_batch *batch, struct weir__http_item *item);

/* Makes the request an item: `done` is called when it is done. `size` is the size of the struct that begins with it. */
void weir__http_batch_add(struct weir__http_batch *batch, struct weir__request *request, size_t size,
			  void (*done)(struct weir__request *request));

static inline struct weir__http_batch *weir__http_batch_of(const struct weir__request *request)
{
	return (struct weir__http_batch *)(void *)request->whole;
}

/* Call it when an item has its result, or an error instead. */
void weir__http_batch_item_done(struct weir__http_batch *batch);
void weir__http_batch_refuse(struct weir__http_batch *batch, size_t item, const char *why);

/* Call it when all items are started. Writes the response now, or when all are done. */
void weir__http_batch_end(struct weir__http_call *call, struct weir__http_batch *batch);

#endif
