/* http_batch.c: counts items until all are done. */
#include "server/http/http_batch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool weir__http_batch_fits(struct weir__http_call *call, const json_t *array)
{
	const struct weir__json whole = { call, WEIR__JSON_NO_ITEM, NULL };

	return json_array_size(array) <= WEIR__BATCH_MAX || weir__json_refuse(&whole, NULL, array, "use at most 1000");
}

static void write_item(struct weir__http_reply *reply, const struct weir__http_item *item)
{
	if (item->error) {
		WEIR__REPLY_ADD(reply, "\"allowed\":false,\"error\":");
		weir__reply_add_string(reply, item->error, strlen(item->error));
		return;
	}
	weir__http_add_answer(reply, &item->answer, true);
	if (item->is_of_several)
		weir__reply_add_member(reply, ",\"decided_by_item\":", item->decided_by);
}

static void write_one(struct weir__http_call *call, const struct weir__http_item *item)
{
	char more[48] = "";

	if (item->is_of_several)
		(void)snprintf(more, sizeof(more), ",\"decided_by_item\":%zu", item->decided_by);
	if (item->error)
		weir__reply_problem(call->reply, 400, item->error);
	else
		weir__http_say(call,
			       &(struct weir__http_decision){ &item->answer, 429, item->is_closed, false, more, NULL });
}

static void write_batch(struct weir__request *request, void *call_)
{
	const struct weir__http_batch *const batch = (const struct weir__http_batch *)(const void *)request;
	struct weir__http_call *const call = call_;

	if (batch->is_one) {
		write_one(call, &batch->items[0]);
		return;
	}
	for (size_t i = 0; i < batch->n; i++) {
		weir__reply_add_text(call->reply, i == 0 ? "[{" : ",\n{");
		write_item(call->reply, &batch->items[i]);
		WEIR__REPLY_ADD(call->reply, "}");
	}
	weir__reply_add_text(call->reply, batch->n == 0 ? "[]\n" : "]\n");
	weir__reply_end(call->reply, 200, WEIR__TYPE_JSON);
}

static void fini(struct weir__request *request)
{
	struct weir__http_batch *const batch = (struct weir__http_batch *)(void *)request;

	for (size_t i = 0; i < batch->n; i++)
		free(batch->items[i].error);
	if (batch->decoded)
		batch->free_decoded(batch->decoded);
	json_decref(batch->root);
}

static const struct weir__request_kind batch_kind = { .fini = fini };

struct weir__http_batch *weir__http_batch_new(struct weir__http_call *call, json_t *root, size_t n, bool is_one)
{
	struct weir__http_batch *const batch = calloc(1, sizeof(*batch) + n * sizeof(batch->items[0]));

	if (batch == NULL) {
		weir__reply_problem(call->reply, 503, "out of memory; send fewer items at once");
		return NULL;
	}
	weir__request_init(&batch->request, sizeof(*batch), &batch_kind, call->context, call->client);
	weir__http_begin(call, &batch->request);
	batch->request.write = write_batch;
	batch->root = json_incref(root);
	batch->is_one = is_one;
	batch->n = n;
	batch->n_left = n + 1;
	return batch;
}

void weir__http_batch_keep_limit(struct weir__http_batch *batch, struct weir__http_item *item)
{
	const struct weir_table_limit *const limit = item->answer.limit;

	if (batch->is_one && weir_table_limit_name(limit)[0] == '\0') {
		batch->limit = *limit;
		item->answer.limit = &batch->limit;
	}
}

void weir__http_batch_add(struct weir__http_batch *batch, struct weir__request *request, size_t size,
			  void (*done)(struct weir__request *request))
{
	request->size = (uint32_t)size;
	request->whole = &batch->request;
	request->done = done;
}

void weir__http_batch_item_done(struct weir__http_batch *batch)
{
	if (--batch->n_left == 0)
		weir__request_finish(&batch->request);
}

void weir__http_batch_refuse(struct weir__http_batch *batch, size_t item, const char *why)
{
	const char *const text = *why ? why : "unknown reason";

	batch->items[item].error = strdup(text);
	batch->items[item].answer = (struct weir_guard_answer){ .limits = 0 };
	weir__http_batch_item_done(batch);
}

void weir__http_batch_end(struct weir__http_call *call, struct weir__http_batch *batch)
{
	if (--batch->n_left > 0) {
		weir__request_wait(&batch->request);
		return;
	}
	write_batch(&batch->request, call);
	fini(&batch->request);
	free(batch);
}
