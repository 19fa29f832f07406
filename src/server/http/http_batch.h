/* http_batch.h: requests of one body, one or an array of them: each is decided by itself, and all are answered together. */
#ifndef WEIR_SERVER_HTTP_HTTP_BATCH_H
#define WEIR_SERVER_HTTP_HTTP_BATCH_H

#include "server/http/http_json.h"

struct weir__http_batch {
	struct weir__request request; /* the first: so it leads here */
	json_t *root;                 /* the body, whose strings items may show */
	bool is_one;                  /* the body is an object: the reply is that to one request */
	void *decoded;                /* what was read of it, if that is kept; NULL: it is not */
	void (*free_decoded)(void *decoded);
	size_t n, n_left;              /* items; those that are not decided yet, and one while they are begun */
	struct weir_table_limit limit; /* of the one answer whose headers tell of it, if that is an inline limit */
	struct weir__http_item {
		struct weir_guard_answer answer;
		size_t decided_by;
		bool is_of_several; /* then it is told which one has decided */
		bool is_closed;
		char *error; /* why it could not be decided; NULL: it was */
	} items[];
};

/* Whether there are not too many. False: that was answered. */
bool weir__http_batch_fits(struct weir__http_call *call, const json_t *array);

/* Keeps the body as long as it lives. NULL: that was answered. */
struct weir__http_batch *weir__http_batch_new(struct weir__http_call *call, json_t *root, size_t n, bool is_one);

/* The headers of one reply tell of its limit, which may be gone with the item. */
void weir__http_batch_keep_limit(struct weir__http_batch *batch, struct weir__http_item *item);

/* The request is an item: when it is done, `done` is called. `size` is that of the struct that begins with it. */
void weir__http_batch_add(struct weir__http_batch *batch, struct weir__request *request, size_t size,
			  void (*done)(struct weir__request *request));

static inline struct weir__http_batch *weir__http_batch_of(const struct weir__request *request)
{
	return (struct weir__http_batch *)(void *)request->whole;
}

/* What came of an item is there. */
void weir__http_batch_item_done(struct weir__http_batch *batch);
void weir__http_batch_refuse(struct weir__http_batch *batch, size_t item, const char *why);

/* All have been begun: the reply is written now, or when all are done. */
void weir__http_batch_end(struct weir__http_call *call, struct weir__http_batch *batch);

#endif
