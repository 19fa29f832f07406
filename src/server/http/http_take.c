/* http_take.c: POST /v1/take: decisions on inline limits, or on limits by @name. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/http/http_batch.h"

#include "core/uninitialized.h"

static const struct mode {
	const char *word;
	enum weir__store_operation operation;
	enum weir__operation role; /* says which role may use it */
} modes[] = {
	{ "take", WEIR__STORE_TAKE, WEIR__OP_TAKE },
	{ "upto", WEIR__STORE_UPTO, WEIR__OP_TAKE },
	{ "peek", WEIR__STORE_PEEK, WEIR__OP_PEEK },
	{ "refund", WEIR__STORE_REFUND, WEIR__OP_REFUND },
};

#define RIGHT_LIMIT "use a limit such as \"100/min burst 20\", or \"@name\" for one of the policy"
#define RIGHT_KEY "use a string: who is limited"
#define RIGHT_MODE "use \"take\", \"upto\", \"peek\" or \"refund\""
#define RIGHT_ALL "use an array of 1 to 16 objects with limit, key and cost"

/* One limit of a request. It points into the JSON; a key that had to be composed is in `written`. */
struct part {
	struct weir__limit_ref ref;
	uint64_t cost;
	struct weir__json_text text; /* of the limit */
	char *written;               /* NULL: the key is in the JSON */
};

/* The requests of a body. All are read before the first is decided. */
struct requests {
	size_t n, n_parts, room;
	struct part *parts; /* of all requests, one after another */
	struct request {
		const struct mode *mode; /* NULL: the request has `all` */
		size_t first, n;
		bool has_wait;
		weir_ns wait;
	} of[];
};

static void free_requests(struct requests *requests)
{
	for (size_t i = 0; requests && i < requests->n_parts; i++)
		free(requests->parts[i].written);
	if (requests)
		free(requests->parts);
	free(requests);
}

static struct requests *new_requests(struct weir__http_call *call, size_t most)
{
	struct requests *const requests = calloc(1, sizeof(*requests) + most * sizeof(requests->of[0]));

	if (requests == NULL)
		weir__reply_problem(call->reply, 503, "out of memory; send fewer items at once");
	return requests;
}

/* --- reading ---------------------------------------------------------------------------------------------------- */

static bool read_mode(const struct weir__json *json, const json_t *object, const struct mode **ret_mode)
{
	const json_t *const value = json_object_get(object, "mode");

	*ret_mode = &modes[0];
	if (value == NULL)
		return true;
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]) && json_is_string(value); i++)
		if (strcmp(json_string_value(value), modes[i].word) == 0) {
			*ret_mode = &modes[i];
			return true;
		}
	return weir__json_refuse(json, "mode", value, RIGHT_MODE);
}

/* Adds a part, with a copy of a key that is in the context's buffer. Returns false if memory runs out. */
static bool add_part(const struct weir__json *json, struct requests *requests, const struct part *part)
{
	const struct weir__context *const context = json->call->context;
	struct part *added;

	if (requests->n_parts == requests->room) {
		const size_t room = requests->room ? 2 * requests->room : 1;
		struct part *const grown = realloc(requests->parts, room * sizeof(*grown));

		if (grown == NULL)
			return false;
		requests->parts = grown;
		requests->room = room;
	}
	added = &requests->parts[requests->n_parts];
	*added = *part;
	if (part->ref.key >= context->keys && part->ref.key < context->keys + sizeof(context->keys)) {
		added->written = malloc(part->ref.key_length + 1);
		if (added->written == NULL)
			return false;
		memcpy(added->written, part->ref.key, part->ref.key_length);
		added->ref.key = added->written;
	}
	requests->n_parts++;
	return true;
}

/* Whether the limit is valid. */
static bool check_limit(const struct weir__json *json, const struct part *part, struct weir__refusal *ret_refusal)
{
	const struct weir_table_limit *limit;

	ret_refusal->error = WEIR__ERROR_LIMIT;
	return part->ref.named || weir__inline_limits_find(&json->call->context->limits, WEIR__SPACE_TEXT,
							   &part->ref.limit, &limit, &ret_refusal->why) == WEIR_OK;
}

/* `prefix` is where the object is, such as "all[2].", or empty. */
static bool read_part(const struct weir__json *json, const json_t *object, const char *prefix,
		      struct requests *requests)
{
	const json_t *const cost = json_object_get(object, "cost");
	struct part part = { .cost = 1, .written = NULL };
	struct weir__json_text key;
	struct weir__refusal refusal WEIR__UNINITIALIZED;
	char member[32];

	(void)snprintf(member, sizeof(member), "%skey", prefix);
	if (!weir__json_read_text(json, object, member, RIGHT_KEY, &key))
		return false;
	(void)snprintf(member, sizeof(member), "%scost", prefix);
	if (cost && !weir__json_read_number(json, member, cost, INT64_MAX, &part.cost))
		return false;
	(void)snprintf(member, sizeof(member), "%slimit", prefix);
	if (!weir__json_read_text(json, object, member, RIGHT_LIMIT, &part.text))
		return false;
	weir__limit_ref_begin(json->call->context);
	if (!weir__limit_ref_read(json->call->context, json->call->client, part.text.bytes, part.text.length, key.bytes,
				  key.length, &part.ref, &refusal) ||
	    !check_limit(json, &part, &refusal)) {
		if (refusal.error == WEIR__ERROR_KEY)
			(void)snprintf(member, sizeof(member), "%skey", prefix);
		return weir__json_refuse_as(json, member, &refusal);
	}
	if (add_part(json, requests, &part))
		return true;
	weir__reply_problem(json->call->reply, 503, "out of memory; send fewer items at once");
	return false;
}

static bool read_all(const struct weir__json *json, const json_t *all, struct requests *requests)
{
	static const char *const members[] = { "limit", "key", "cost", NULL };
	const size_t n = json_array_size(all);
	char item[16], prefix[24];

	if (!json_is_array(all) || n == 0 || n > WEIR_TABLE_CLAIMS_MAX)
		return weir__json_refuse(json, "all", all, RIGHT_ALL);
	for (size_t i = 0; i < n; i++) {
		const json_t *const one = json_array_get(all, i);

		(void)snprintf(item, sizeof(item), "all[%zu]", i);
		(void)snprintf(prefix, sizeof(prefix), "%s.", item);
		if (!weir__json_member_has_only(json, item, one, members) || !read_part(json, one, prefix, requests))
			return false;
	}
	return true;
}

static bool read_object(const struct weir__json *json, const json_t *object, struct requests *requests)
{
	static const char *const members[] = { "limit", "key", "cost", "mode", "all", "wait", NULL };
	struct request *const request = &requests->of[requests->n];
	const json_t *const all = json_object_get(object, "all");

	if (!weir__json_has_only(json, object, members) ||
	    !weir__json_read_wait(json, object, &request->has_wait, &request->wait))
		return false;
	if (all && json_object_size(object) > 1 + (size_t)request->has_wait)
		return weir__json_refuse(json, "all", NULL,
					 "found other members beside it; put limit, key and cost into its items");
	if (all)
		return weir__http_permit_operation(json->call, WEIR__OP_TAKE) && read_all(json, all, requests);
	if (!read_mode(json, object, &request->mode) || !weir__http_permit_operation(json->call, request->mode->role))
		return false;
	if (request->has_wait && request->mode->operation != WEIR__STORE_TAKE)
		return weir__json_refuse(json, "wait", NULL, "only the mode \"take\" can wait");
	return read_part(json, object, "", requests);
}

/* Adds a request to the ones already read. Returns false after writing the error response. */
static bool read_request(const struct weir__json *json, const json_t *object, struct requests *requests)
{
	struct request *const request = &requests->of[requests->n];

	request->mode = NULL;
	request->first = requests->n_parts;
	if (!read_object(json, object, requests))
		return false;
	request->n = requests->n_parts - request->first;
	requests->n++;
	return true;
}

/* --- deciding --------------------------------------------------------------------------------------------------- */

/* Makes the claims of a request. The limits were found before. An inline limit that the worker has dropped since is
 * made again. */
static bool make_claims(struct weir__context *context, const struct requests *requests, const struct request *request,
			struct weir__limit_refs *several, struct weir__refusal *ret_refusal)
{
	several->n = 0;
	for (size_t i = 0; i < request->n; i++) {
		const struct part *const part = &requests->parts[request->first + i];

		if (!weir__limit_refs_add(several, context, &part->ref, part->cost, ret_refusal))
			return false;
	}
	return true;
}

/* Converts a decision to the form of the guard. decided_by is the limit as the request wrote it, as far as it fits. */
static void make_answer(const struct weir__request *request, const struct weir_verdict *verdict, size_t decided_by,
			const char *text, struct weir_guard_answer *ret_answer)
{
	*ret_answer = (struct weir_guard_answer){ .verdict = *verdict,
						  .limits = request->n_claims,
						  .is_limited = true,
						  .limit = request->claims[decided_by].limit };
	(void)snprintf(ret_answer->decided_by, sizeof(ret_answer->decided_by), "%s",
		       text + (weir__limit_ref_is_named(text, strlen(text)) ? 1 : 0));
}

/* decide->repeated holds the number of the item. */
static void note_take(struct weir__request *request)
{
	const struct weir__decide *const decide = (const struct weir__decide *)(const void *)request;
	struct weir__http_batch *const batch = weir__http_batch_of(request);
	const struct requests *const requests = batch->decoded;
	const size_t number = (size_t)decide->repeated;
	const struct request *const of = &requests->of[number];
	struct weir__http_item *const item = &batch->items[number];

	make_answer(request, &decide->verdict, decide->decided_by,
		    requests->parts[of->first + decide->decided_by].text.bytes, &item->answer);
	weir__http_batch_keep_limit(batch, item);
	item->is_closed = decide->is_closed;
	item->is_of_several = of->mode == NULL;
	item->decided_by = decide->decided_by;
	weir__http_batch_item_done(batch);
}

static void run_take(struct weir__http_batch *batch, size_t number)
{
	const struct requests *const requests = batch->decoded;
	const struct request *const request = &requests->of[number];
	struct weir__context *const context = batch->request.context;
	struct weir__limit_refs several WEIR__UNINITIALIZED;
	struct weir__refusal refusal WEIR__UNINITIALIZED;
	struct weir__decide decide WEIR__UNINITIALIZED;

	if (!make_claims(context, requests, request, &several, &refusal)) {
		weir__http_batch_refuse(batch, number, refusal.why.text);
		return;
	}
	weir__decide_init(&decide, context, batch->request.client, WEIR__PROTOCOL_HTTP, NULL);
	decide.repeated = (int64_t)number;
	weir__http_batch_add(batch, &decide.request, decide.request.size, note_take);
	if (weir__decide_run(&decide, request->mode ? request->mode->operation : WEIR__STORE_TAKE, several.claims,
			     several.n) == WEIR__RUN_DONE)
		note_take(&decide.request);
}

/* --- waiting ---------------------------------------------------------------------------------------------------- */

enum { TEXT_SIZE = sizeof(((struct weir_guard_answer *)NULL)->decided_by) + 1 };

/* A single take that waits. It moves without the JSON, so it has the limits as the request wrote them, as far as they
 * fit a response. */
struct waiting_take {
	struct weir__wait wait;
	bool is_of_several;
	char texts[WEIR_TABLE_CLAIMS_MAX][TEXT_SIZE];
};

static void write_waited(struct weir__request *request, void *call)
{
	const struct waiting_take *const take = (const struct waiting_take *)(const void *)request;
	const struct weir__wait *const wait = &take->wait;
	struct weir_guard_answer answer;
	char more[48] = "";

	make_answer(request, &wait->verdict, wait->decided_by, take->texts[wait->decided_by], &answer);
	if (take->is_of_several)
		(void)snprintf(more, sizeof(more), ",\"decided_by_item\":%u", wait->decided_by);
	weir__http_say(call,
		       &(struct weir__http_decision){ &answer, 429, wait->is_closed, false, more, &wait->waited });
}

static void run_waiting(struct weir__http_call *call, const struct requests *requests)
{
	const struct request *const request = &requests->of[0];
	struct weir__limit_refs several WEIR__UNINITIALIZED;
	struct weir__refusal refusal WEIR__UNINITIALIZED;
	struct waiting_take take WEIR__UNINITIALIZED;
	enum weir__run_result result = WEIR__RUN_REFUSED;

	weir__wait_init(&take.wait, call->context, call->client, write_waited);
	weir__http_begin(call, &take.wait.request);
	take.wait.request.size = sizeof(take);
	take.is_of_several = request->mode == NULL;
	for (size_t i = 0; i < request->n; i++)
		(void)snprintf(take.texts[i], TEXT_SIZE, "%s", requests->parts[request->first + i].text.bytes);
	if (make_claims(call->context, requests, request, &several, &refusal))
		result = weir__wait_run(&take.wait, several.claims, several.n, request->wait, &refusal);
	if (result == WEIR__RUN_DONE)
		write_waited(&take.wait.request, call);
	else if (result == WEIR__RUN_REFUSED)
		(void)weir__http_refuse_as(call, "", &refusal);
}

static void free_decoded(void *requests)
{
	free_requests(requests);
}

void weir__http_take(struct weir__http_call *call)
{
	struct weir__json json = { call, WEIR__JSON_NO_ITEM, NULL };
	json_t *const root = weir__json_of_body(call);
	const bool is_array = json_is_array(root);
	const size_t n = is_array ? json_array_size(root) : 1;
	struct requests *requests = NULL;
	struct weir__http_batch *batch = NULL;

	if (root && (!is_array || weir__http_batch_fits(call, root)))
		requests = new_requests(call, n);
	while (requests && requests->n < n) {
		if (is_array)
			json.item = requests->n;
		if (!read_request(&json, is_array ? json_array_get(root, json.item) : root, requests)) {
			free_requests(requests);
			requests = NULL;
		}
	}
	if (requests && !is_array && requests->of[0].has_wait)
		run_waiting(call, requests);
	else if (requests)
		batch = weir__http_batch_new(call, root, n, !is_array);
	if (batch) {
		batch->decoded = requests;
		batch->free_decoded = free_decoded;
		for (size_t i = 0; i < n; i++)
			run_take(batch, i);
		weir__http_batch_end(call, batch);
	} else {
		free_requests(requests);
	}
	json_decref(root);
}
