/* resp_decide.c: commands that decide: reads their arguments and writes their replies. Takes are gathered. Commands
 * whose replies must come after earlier ones are not. */
#include "server/resp/resp_command.h"

#include <stdio.h>

#include "core/uninitialized.h"
#include "observe/log.h"
#include "observe/tracer.h"
#include "server/policy_loader.h"
#include "server/resp/resp_transaction.h"

/* --- decisions -------------------------------------------------------------------------------------------------- */

/* Rounded as in redis-cell: up, if at least a millisecond is left. */
static int64_t seconds_of_cell(weir_ns span)
{
	const int64_t s = (int64_t)(span / 1000000000);

	return s + (span % 1000000000 >= 1000000);
}

int64_t weir__signed_of(uint64_t number)
{
	return number > INT64_MAX ? INT64_MAX : (int64_t)number;
}

static void answer_cell(const struct weir_verdict *verdict, struct weir__resp_writer *writer)
{
	const int64_t numbers[] = { !verdict->allowed, weir__signed_of(verdict->limit),
				    weir__signed_of(verdict->remaining),
				    verdict->allowed || verdict->never ? -1 : seconds_of_cell(verdict->retry_after),
				    seconds_of_cell(verdict->reset_after) };

	weir__resp_write_integers(writer, numbers, sizeof(numbers) / sizeof(numbers[0]));
}

static void answer_throttle(const struct weir_claim *claim, const struct weir_verdict *verdict,
			    struct weir__resp_writer *writer)
{
	int64_t numbers[WEIR__THROTTLE_NUMBERS];

	weir__limit_ref_throttle_numbers(claim, verdict, numbers);
	weir__resp_write_integers(writer, numbers, WEIR__THROTTLE_NUMBERS);
}

void weir__answer_pairs(struct weir__resp_writer *writer, uint64_t n)
{
	if (writer->has_maps)
		weir__resp_write_map(writer, n);
	else
		weir__resp_write_array(writer, 2 * n);
}

void weir__answer_numbers(struct weir__resp_writer *writer, const char *const names[], const int64_t numbers[],
			  size_t n, bool begins_with_truth)
{
	if (!writer->has_maps) {
		weir__resp_write_integers(writer, numbers, n);
		return;
	}
	weir__resp_write_map(writer, n);
	for (size_t i = 0; i < n; i++) {
		weir__resp_write_simple(writer, names[i], strlen(names[i]));
		if (i == 0 && begins_with_truth)
			weir__resp_write_boolean(writer, numbers[i] != 0);
		else
			weir__resp_write_integer(writer, numbers[i]);
	}
}

/* The last name is for decisions on several limits. */
static const char *const names_of_verdict[] = { "allowed",     "limit",       "remaining", "granted",
						"retry_after", "reset_after", "delay",     "decided_by" };
enum { VERDICT_NUMBERS = 7 };

/* retry_after is -1 if the request can never be allowed. */
static void numbers_of_verdict(const struct weir_verdict *verdict, int64_t numbers[VERDICT_NUMBERS])
{
	numbers[0] = verdict->allowed;
	numbers[1] = weir__signed_of(verdict->limit);
	numbers[2] = weir__signed_of(verdict->remaining);
	numbers[3] = weir__signed_of(verdict->granted);
	numbers[4] = verdict->never ? -1 : weir__signed_of(verdict->retry_after);
	numbers[5] = weir__signed_of(verdict->reset_after);
	numbers[6] = weir__signed_of(verdict->delay);
}

void weir__answer_verdict(const struct weir_verdict *verdict, struct weir__resp_writer *writer)
{
	int64_t numbers[VERDICT_NUMBERS];

	numbers_of_verdict(verdict, numbers);
	weir__answer_numbers(writer, names_of_verdict, numbers, VERDICT_NUMBERS, true);
}

static inline void answer_take(enum weir__answer_form form, const struct weir_claim *claim,
			       const struct weir_verdict *verdict, struct weir__resp_writer *writer)
{
	switch (form) {
	case WEIR__ANSWER_CELL:
		answer_cell(verdict, writer);
		break;
	case WEIR__ANSWER_THROTTLE:
		answer_throttle(claim, verdict, writer);
		break;
	default:
		weir__answer_verdict(verdict, writer);
	}
}

static inline void write_group(struct weir__request *request, void *writer)
{
	const struct weir__resp_group *const group = (const struct weir__resp_group *)(const void *)request;

	for (uint32_t i = 0; i < request->n_claims; i++)
		answer_take(group->forms[i], &request->claims[i], &request->verdicts[i], writer);
}

/* --- groups ----------------------------------------------------------------------------------------------------- */

static void write_ready(struct weir__request *request, void *writer)
{
	size_t n;
	const char *const replies = weir__request_replies(request, &n);

	(void)weir__resp_write_replies(writer, replies, n);
}

void weir__resp_hold_back(struct weir__resp *resp, struct weir__client *client, struct weir__resp_writer *writer,
			  uint32_t n_replies)
{
	const size_t n = writer->length - resp->reply_at;

	if (n == 0)
		return;
	if (!weir__request_add_replies(resp->context, client, n_replies, writer->bytes + resp->reply_at, n,
				       write_ready))
		client->is_leaving = true;
	writer->length = resp->reply_at;
}

void weir__resp_mark_reply(struct weir__resp *resp, const struct weir__client *client,
			   const struct weir__resp_writer *writer)
{
	resp->reply_at = writer->length;
	resp->is_behind = client->first != NULL;
}

void weir__write_group(struct weir__request *request, void *writer)
{
	write_group(request, writer);
}

void weir__resp_end_group(struct weir__resp *resp, struct weir__client *client, struct weir__resp_writer *writer)
{
	struct weir__request *const request = &resp->group.request;
	const uint32_t n = resp->n;

	resp->context->keys_used = 0;
	if (n == 0)
		return;
	resp->n = 0;
	if (WEIR__UNLIKELY(client->first != NULL))
		weir__resp_mark_reply(resp, client, writer);
	if (WEIR__LIKELY(weir__take_each_run(request, client, n))) {
		write_group(request, writer);
		if (WEIR__UNLIKELY(client->first != NULL))
			weir__resp_hold_back(resp, client, writer, n);
	}
	if (WEIR__UNLIKELY(client->first != NULL))
		weir__resp_mark_reply(resp, client, writer);
}

/* Writes the reply or the error of an operation. An operation that is still in flight gets its reply later. */
void weir__end_run(struct weir__call *call, enum weir__run_result result, struct weir__request *request,
		   const struct weir__refusal *refusal)
{
	if (result == WEIR__RUN_DONE)
		request->write(request, call->writer);
	else if (result == WEIR__RUN_REFUSED)
		(void)weir__refuse_as(call, refusal);
}

static void write_verdict(struct weir__request *request, void *writer)
{
	weir__answer_verdict(&((const struct weir__decide *)(const void *)request)->verdict, writer);
}

/* Decides one claim, or several together, after the group. The reply is written now or later. */
static void decide(struct weir__call *call, enum weir__store_operation operation, const struct weir_claim *claims,
		   size_t n, void (*write)(struct weir__request *request, void *writer))
{
	struct weir__decide decide WEIR__UNINITIALIZED;

	weir__resp_end_group(call->resp, call->client, call->writer);
	weir__decide_init(&decide, call->context, call->client, WEIR__PROTOCOL_RESP, write);
	if (weir__decide_run(&decide, operation, claims, n) == WEIR__RUN_DONE)
		write(&decide.request, call->writer);
}

/* Finds or makes an inline limit. Returns NULL after writing the error reply. */
static const struct weir_table_limit *find_limit(struct weir__call *call, enum weir__space space,
						 const struct weir_limit *ref)
{
	struct weir__context *const context = call->context;
	const struct weir_table_limit *limit;
	struct weir_message why;

	if (weir__inline_limits_will_drop(&context->limits, space, ref)) /* maybe one of the group */
		weir__resp_end_group(call->resp, call->client, call->writer);
	if (weir__inline_limits_find(&context->limits, space, ref, &limit, &why) == WEIR_OK)
		return limit;
	weir__refuse_with(call, space == WEIR__SPACE_CELL ? WEIR__ERROR_CELL_LIMIT : WEIR__ERROR_LIMIT, why.text);
	return NULL;
}

/* Ends the group if needed, which frees room for any key of a request. */
static void make_key_room(struct weir__call *call)
{
	if (WEIR__UNLIKELY(call->context->keys_used > WEIR__GUARD_KEY_ROOM))
		weir__resp_end_group(call->resp, call->client, call->writer);
}

static inline __attribute__((always_inline)) void gather_claim(struct weir__call *call, const struct weir_claim *claim,
							       enum weir__answer_form form)
{
	struct weir__resp *const resp = call->resp;
	const uint32_t n = resp->n;

	resp->claims[n] = *claim;
	resp->group.forms[n] = (uint8_t)form;
	resp->n = n + 1;
	/* A request with a traceparent has its own trace span, so it is decided alone. */
	if (WEIR__UNLIKELY(call->context->tracer != NULL) && weir__tracer_has_parent(call->context->tracer)) {
		resp->n = n;
		weir__resp_end_group(resp, call->client, call->writer);
		resp->claims[0] = *claim;
		resp->group.forms[0] = (uint8_t)form;
		resp->n = 1;
		weir__resp_end_group(resp, call->client, call->writer);
	}
}

/* Makes a claim for the key of the command, which is its first argument, with the prefix of the client. Returns false
 * after writing the error reply. Not inlined, so that clients without users do not pay for it. */
__attribute__((noinline)) static bool make_claim(struct weir__call *call, const struct weir_table_limit *limit,
						 uint64_t cost, struct weir_claim *ret_claim)
{
	const char *key = call->arguments[1].bytes;
	size_t length = call->arguments[1].length;
	struct weir__refusal refusal WEIR__UNINITIALIZED;

	make_key_room(call);
	if (!weir__limit_ref_add_prefix(call->context, call->client, &key, &length, &refusal))
		return weir__refuse_as(call, &refusal);
	*ret_claim = (struct weir_claim){ .limit = limit, .key = key, .key_length = length, .cost = cost };
	return true;
}

__attribute__((noinline)) static void gather_of_user(struct weir__call *call, const struct weir_table_limit *limit,
						     uint64_t cost, enum weir__answer_form form)
{
	struct weir_claim claim WEIR__UNINITIALIZED;

	if (make_claim(call, limit, cost, &claim))
		gather_claim(call, &claim, form);
}

static void gather(struct weir__call *call, const struct weir_table_limit *limit, uint64_t cost,
		   enum weir__answer_form form)
{
	const struct weir_claim claim = {
		.limit = limit, .key = call->arguments[1].bytes, .key_length = call->arguments[1].length, .cost = cost
	};

	if (WEIR__UNLIKELY(call->client->user != NULL))
		gather_of_user(call, limit, cost, form);
	else
		gather_claim(call, &claim, form);
}

/* The three numbers of a limit as they were sent, with the protocol bytes between them: the cache key of the limit. */
struct numbers {
	const char *bytes;
	size_t n;
	uint64_t lengths;
};

static inline struct numbers numbers_of(const struct weir__call *call)
{
	const struct weir__resp_slice *const of = &call->arguments[2];

	return (struct numbers){ of[0].bytes, (size_t)(of[2].bytes + of[2].length - of[0].bytes),
				 (uint64_t)of[0].length << 32 | (uint64_t)of[1].length << 16 | of[2].length };
}

/* Repeats up to 128 bytes of the argument. The writer replaces line breaks, which would end the error. */
__attribute__((noinline)) static void refuse_cell_number(struct weir__call *call, const struct weir__resp_slice *word)
{
	char text[129];

	(void)snprintf(text, sizeof(text), "%.*s", (int)weir__min(word->length, sizeof(text) - 1), word->bytes);
	weir__refuse_with(call, WEIR__ERROR_CELL_NUMBER, text);
}

/* The reply for a limit that allows nothing: always denied, with the time until the key is full. */
static void write_cell_denied(struct weir__request *request, void *writer)
{
	const struct weir__decide *const decide = (const struct weir__decide *)(const void *)request;
	const int64_t numbers[] = { 1, decide->repeated + 1, 0, -1, seconds_of_cell(decide->verdict.reset_after) };

	weir__resp_write_integers(writer, numbers, sizeof(numbers) / sizeof(numbers[0]));
}

/* A max_burst below 0 is a limit that never allows anything. The reset time comes from a limit of the same rate with a
 * burst of 1: a cost of 2 never fits it, so nothing is stored, and the request is observed as denied. A store that
 * would convert the key to that limit is not called, and the reset time is 0. */
static void deny_cell(struct weir__call *call, const struct weir_table_limit *limit, int64_t max_burst)
{
	struct weir__decide decide WEIR__UNINITIALIZED;
	struct weir_claim claim;

	weir__resp_end_group(call->resp, call->client, call->writer);
	if (!make_claim(call, limit, 2, &claim))
		return;
	weir__decide_init(&decide, call->context, call->client, WEIR__PROTOCOL_RESP, write_cell_denied);
	decide.repeated = max_burst;
	decide.verdict.reset_after = 0;
	if (call->context->store->converts_on_look ||
	    weir__decide_run(&decide, WEIR__STORE_TAKE, &claim, 1) == WEIR__RUN_DONE)
		write_cell_denied(&decide.request, call->writer);
}

/* Returns NULL after writing a reply. *quantity stays as it is if the command has none. */
__attribute__((noinline)) static const struct weir_table_limit *read_cell(struct weir__call *call, int64_t *quantity)
{
	const struct weir_table_limit *limit;
	enum weir__limit_ref_bucket_result fault = WEIR__LIMIT_REF_BUCKET_FAST;
	int64_t numbers[3];
	struct weir_limit ref;

	for (uint32_t i = 0; i + 2 < call->n; i++)
		if (!weir__read_signed(&call->arguments[i + 2], i < 3 ? &numbers[i] : quantity)) {
			refuse_cell_number(call, &call->arguments[i + 2]);
			return NULL;
		}
	if (numbers[1] > 0 && numbers[2] > 0)
		fault = weir__limit_ref_bucket(numbers[0] < 0 ? 1 : (uint64_t)numbers[0] + 1, (uint64_t)numbers[1],
					       (uint64_t)numbers[2], &ref);
	if (fault != WEIR__LIMIT_REF_BUCKET_SOUND) {
		weir__refuse(call,
			     fault == WEIR__LIMIT_REF_BUCKET_FAST ? WEIR__ERROR_CELL_ZERO : WEIR__ERROR_CELL_DURATION);
		return NULL;
	}
	limit = find_limit(call, WEIR__SPACE_CELL, &ref);
	if (limit == NULL || numbers[0] >= 0)
		return limit;
	deny_cell(call, limit, numbers[0]);
	return NULL;
}

static void write_cell(struct weir__request *request, void *writer)
{
	answer_cell(&((const struct weir__decide *)(const void *)request)->verdict, writer);
}

/* A quantity below 0 is a refund. redis-cell moves its arrival time back by it; here the key becomes full at most. */
__attribute__((noinline)) static void give_back_cell(struct weir__call *call, const struct weir_table_limit *limit,
						     int64_t quantity)
{
	struct weir_claim claim;

	if (!weir__client_may(call->client, WEIR__OP_REFUND)) {
		weir__refuse_role(call, WEIR__OP_REFUND, "cl.throttle' command with a quantity below 0");
		return;
	}
	if (make_claim(call, limit, quantity < -INT64_MAX ? INT64_MAX : (uint64_t)-quantity, &claim))
		decide(call, WEIR__STORE_REFUND, &claim, 1, write_cell);
}

void weir__cl_throttle(struct weir__call *call)
{
	struct weir__inline_limits *const limits = &call->context->limits;
	const struct weir_table_limit *limit;
	struct numbers numbers;
	int64_t quantity = 1;

	if (call->n != 5 && call->n != 6) {
		weir__refuse(call, WEIR__ERROR_CELL_USAGE);
		return;
	}
	numbers = numbers_of(call);
	limit = weir__inline_limits_recall(limits, WEIR__SPACE_CELL, numbers.bytes, numbers.n, numbers.lengths);
	if (WEIR__UNLIKELY(limit == NULL)) {
		limit = read_cell(call, &quantity);
		if (limit == NULL)
			return;
		weir__inline_limits_remember(limits, WEIR__SPACE_CELL, numbers.bytes, numbers.n, numbers.lengths,
					     limit);
	} else if (call->n == 6 && !weir__read_signed(&call->arguments[5], &quantity)) {
		refuse_cell_number(call, &call->arguments[5]);
		return;
	}
	if (WEIR__LIKELY(quantity >= 0))
		gather(call, limit, (uint64_t)quantity, WEIR__ANSWER_CELL);
	else
		give_back_cell(call, limit, quantity);
}

static bool read_throttle_number(struct weir__call *call, uint32_t place, int64_t *ret_number)
{
	static const enum weir__error_number invalid[WEIR__THROTTLE_ARGUMENTS] = { WEIR__ERROR_THROTTLE_BURST,
										   WEIR__ERROR_THROTTLE_COUNT,
										   WEIR__ERROR_THROTTLE_PERIOD,
										   WEIR__ERROR_THROTTLE_QUANTITY };

	if (weir__read_signed(&call->arguments[place], ret_number))
		return true;
	weir__refuse(call, invalid[place - 2]);
	return false;
}

/* Returns NULL after writing the error reply. */
static const struct weir_table_limit *read_throttle(struct weir__call *call, int64_t *quantity)
{
	int64_t numbers[WEIR__THROTTLE_ARGUMENTS] = { 0, 0, 0, 1 };
	struct weir__refusal refusal WEIR__UNINITIALIZED;
	struct weir_limit ref;

	for (uint32_t i = 2; i < call->n; i++)
		if (!read_throttle_number(call, i, &numbers[i - 2]))
			return NULL;
	*quantity = numbers[3];
	if (weir__limit_ref_throttle(numbers, &ref, &refusal))
		return find_limit(call, WEIR__SPACE_THROTTLE, &ref);
	weir__refuse_as(call, &refusal);
	return NULL;
}

void weir__throttle(struct weir__call *call)
{
	struct weir__inline_limits *const limits = &call->context->limits;
	const struct weir_table_limit *limit;
	struct weir__refusal refusal WEIR__UNINITIALIZED;
	struct numbers numbers;
	int64_t quantity = 1;

	if (call->n != 5 && call->n != 6) {
		weir__refuse_with(call, WEIR__ERROR_ARITY, "throttle' command");
		return;
	}
	numbers = numbers_of(call);
	limit = weir__inline_limits_recall(limits, WEIR__SPACE_THROTTLE, numbers.bytes, numbers.n, numbers.lengths);
	if (WEIR__UNLIKELY(limit == NULL)) {
		limit = read_throttle(call, &quantity);
		if (limit == NULL)
			return;
		weir__inline_limits_remember(limits, WEIR__SPACE_THROTTLE, numbers.bytes, numbers.n, numbers.lengths,
					     limit);
	} else if (call->n == 6 && !read_throttle_number(call, 5, &quantity)) {
		return;
	}
	if (weir__limit_ref_throttle_quantity(quantity, &refusal))
		gather(call, limit, (uint64_t)quantity, WEIR__ANSWER_THROTTLE);
	else
		weir__refuse_as(call, &refusal);
}

/* --- limits as text --------------------------------------------------------------------------------------------- */

bool weir__read_limit(struct weir__call *call, uint32_t place, struct weir_limit *ret_limit)
{
	const struct weir__resp_slice *const text = &call->arguments[place];
	struct weir__refusal refusal WEIR__UNINITIALIZED;

	return weir__limit_ref_read_text(text->bytes, text->length, ret_limit, &refusal) ||
	       weir__refuse_as(call, &refusal);
}

bool weir__read_limit_ref(struct weir__call *call, uint32_t place, uint32_t key_place, struct weir__limit_ref *ret_ref)
{
	const struct weir__resp_slice *const text = &call->arguments[place], *const key = &call->arguments[key_place];
	struct weir__refusal refusal WEIR__UNINITIALIZED;

	return weir__limit_ref_read(call->context, call->client, text->bytes, text->length, key->bytes, key->length,
				    ret_ref, &refusal) ||
	       weir__refuse_as(call, &refusal);
}

/* Reads the limit and the key of a command. Returns false after writing the error reply. */
static bool read_key(struct weir__call *call, struct weir_claim *ret_claim)
{
	struct weir__context *const context = call->context;
	const struct weir__resp_slice *const text = &call->arguments[2];
	const struct weir_table_limit *const limit = weir__inline_limits_recall(&context->limits, WEIR__SPACE_TEXT,
										text->bytes, text->length, 0);
	struct weir__limit_ref ref;

	if (WEIR__UNLIKELY(limit && call->client->user))
		return make_claim(call, limit, 0, ret_claim);
	*ret_claim = (struct weir_claim){ .limit = limit,
					  .key = call->arguments[1].bytes,
					  .key_length = call->arguments[1].length };
	if (limit)
		return true;
	make_key_room(call);
	if (!weir__read_limit_ref(call, 2, 1, &ref))
		return false;
	*ret_claim = (struct weir_claim){ ref.named, ref.key, ref.key_length, 0 };
	if (ref.named)
		return true;
	ret_claim->limit = find_limit(call, WEIR__SPACE_TEXT, &ref.limit);
	if (ret_claim->limit)
		weir__inline_limits_remember(&context->limits, WEIR__SPACE_TEXT, text->bytes, text->length, 0,
					     ret_claim->limit);
	return ret_claim->limit != NULL;
}

static bool read_cost(struct weir__call *call, uint32_t place, uint64_t *ret_cost)
{
	*ret_cost = 1;
	return place >= call->n || weir__read_number(call, place, INT64_MAX, WEIR__ERROR_COST, ret_cost);
}

/* --- taking ------------------------------------------------------------------------------------------------------ */

/* Reads the timeout of WAIT, in ms. Returns false after writing the error reply. */
static bool read_patience(struct weir__call *call, uint32_t place, weir_ns *ret_patience)
{
	const uint64_t ms = 1000000;
	uint64_t timeout_ms;

	if (weir__transaction_is_running(call->client)) {
		weir__refuse(call, WEIR__ERROR_WAIT_MULTI);
		return false;
	}
	if (!weir__read_number(call, place, WEIR__WAIT_MAX / ms, WEIR__ERROR_TIMEOUT, &timeout_ms))
		return false;
	*ret_patience = timeout_ms * ms;
	return true;
}

static void write_wait(struct weir__request *request, void *writer)
{
	static const char *const names[] = { "allowed",     "limit",       "remaining", "granted",
					     "retry_after", "reset_after", "delay",     "waited" };
	const struct weir__wait *const wait = (const struct weir__wait *)(const void *)request;
	int64_t numbers[VERDICT_NUMBERS + 1];

	numbers_of_verdict(&wait->verdict, numbers);
	numbers[VERDICT_NUMBERS] = weir__signed_of(wait->waited);
	weir__answer_numbers(writer, names, numbers, VERDICT_NUMBERS + 1, true);
}

static void take_or_wait(struct weir__call *call, uint64_t cost, weir_ns patience)
{
	struct weir__refusal refusal WEIR__UNINITIALIZED;
	struct weir__limit_refs several WEIR__UNINITIALIZED;
	struct weir__wait wait WEIR__UNINITIALIZED;
	struct weir__limit_ref ref;

	weir__resp_end_group(call->resp, call->client, call->writer);
	if (!weir__read_limit_ref(call, 2, 1, &ref))
		return;
	several.n = 0;
	weir__wait_init(&wait, call->context, call->client, write_wait);
	weir__end_run(call,
		      weir__limit_refs_add(&several, call->context, &ref, cost, &refusal) ?
			      weir__wait_run(&wait, several.claims, several.n, patience, &refusal) :
			      WEIR__RUN_REFUSED,
		      &wait.request, &refusal);
}

void weir__take(struct weir__call *call)
{
	const bool waits = call->n >= 5, has_cost = call->n == 4 || call->n == 6;
	struct weir_claim claim;
	weir_ns patience;
	uint64_t cost = 1;

	if (waits && !weir__is_word(&call->arguments[call->n - 2], "WAIT")) {
		weir__refuse(call, WEIR__ERROR_TAKE_SYNTAX);
		return;
	}
	if (has_cost && !weir__read_number(call, 3, INT64_MAX, WEIR__ERROR_COST, &cost))
		return;
	if (waits) {
		if (read_patience(call, call->n - 1, &patience))
			take_or_wait(call, cost, patience);
		return;
	}
	if (!read_key(call, &claim))
		return;
	claim.cost = cost;
	gather_claim(call, &claim, WEIR__ANSWER_WEIR);
}

static void decide_key(struct weir__call *call, enum weir__store_operation operation)
{
	struct weir_claim claim;

	if (read_key(call, &claim) && read_cost(call, 3, &claim.cost))
		decide(call, operation, &claim, 1, write_verdict);
}

void weir__upto(struct weir__call *call)
{
	decide_key(call, WEIR__STORE_UPTO);
}

void weir__peek(struct weir__call *call)
{
	decide_key(call, WEIR__STORE_PEEK);
}

void weir__refund(struct weir__call *call)
{
	decide_key(call, WEIR__STORE_REFUND);
}

static void write_reset(struct weir__request *request, void *writer)
{
	const struct weir__decide *const decide = (const struct weir__decide *)(const void *)request;
	enum weir__error_number error;

	if (weir__decide_is_unreset(decide, &error))
		weir__resp_write_error(writer, weir__error_rows[error].text, strlen(weir__error_rows[error].text));
	else
		weir__resp_write_integer(writer, decide->verdict.allowed);
}

void weir__reset(struct weir__call *call)
{
	struct weir_claim claim;

	if (read_key(call, &claim))
		decide(call, WEIR__STORE_RESET, &claim, 1, write_reset);
}

static void write_word(struct weir__resp_writer *writer, const char *word)
{
	weir__resp_write_bulk(writer, word, strlen(word));
}

static void write_number(struct weir__resp_writer *writer, const char *name, uint64_t number)
{
	write_word(writer, name);
	weir__resp_write_integer(writer, weir__signed_of(number));
}

static void write_inspected(struct weir__request *request, void *writer)
{
	const struct weir__decide *const decide = (const struct weir__decide *)(const void *)request;
	const struct weir_limit stated = weir_table_limit_limit(request->claims[0].limit);
	char text[WEIR_LIMIT_TEXT_MAX];

	(void)weir_limit_print(&stated, text);
	weir__answer_pairs(writer, 7);
	write_word(writer, "is_stored");
	if (((const struct weir__resp_writer *)writer)->has_maps)
		weir__resp_write_boolean(writer, decide->is_stored);
	else
		weir__resp_write_integer(writer, decide->is_stored);
	write_number(writer, "full_at", decide->full_at);
	write_number(writer, "limit", decide->verdict.limit);
	write_number(writer, "remaining", decide->verdict.remaining);
	write_number(writer, "reset_after", decide->verdict.reset_after);
	write_word(writer, "algorithm");
	write_word(writer, weir_algorithm_name(stated.algorithm));
	write_word(writer, "text");
	write_word(writer, text);
}

void weir__inspect(struct weir__call *call)
{
	struct weir_claim claim;

	if (read_key(call, &claim))
		decide(call, WEIR__STORE_INSPECT, &claim, 1, write_inspected);
}

/* --- several limits --------------------------------------------------------------------------------------------- */

static bool read_claim(struct weir__call *call, struct weir__limit_refs *several, uint32_t at)
{
	struct weir__refusal refusal WEIR__UNINITIALIZED;
	struct weir__limit_ref ref;
	uint64_t cost;

	return weir__read_limit_ref(call, at + 1, at, &ref) &&
	       weir__read_number(call, at + 2, INT64_MAX, WEIR__ERROR_COST, &cost) &&
	       (weir__limit_refs_add(several, call->context, &ref, cost, &refusal) || weir__refuse_as(call, &refusal));
}

static void write_all(struct weir__request *request, void *writer)
{
	const struct weir__decide *const decide = (const struct weir__decide *)(const void *)request;
	int64_t numbers[VERDICT_NUMBERS + 1];

	numbers_of_verdict(&decide->verdict, numbers);
	numbers[VERDICT_NUMBERS] = (int64_t)decide->decided_by + 1;
	weir__answer_numbers(writer, names_of_verdict, numbers, VERDICT_NUMBERS + 1, true);
}

void weir__all(struct weir__call *call)
{
	const size_t n = (call->n - 1) / 3;
	struct weir__limit_refs several WEIR__UNINITIALIZED;

	if ((call->n - 1) % 3 != 0) {
		weir__refuse(call, WEIR__ERROR_CLAIMS);
		return;
	}
	weir__resp_end_group(call->resp, call->client, call->writer);
	several.n = 0;
	while (several.n < n)
		if (!read_claim(call, &several, 1 + 3 * (uint32_t)several.n))
			return;
	decide(call, WEIR__STORE_TAKE, several.claims, n, write_all);
}

/* --- the policy --------------------------------------------------------------------------------------------------- */

enum { CHECK_NUMBERS = VERDICT_NUMBERS + 2 };

static void write_check_names(struct weir__resp_writer *writer, const int64_t numbers[CHECK_NUMBERS], size_t n)
{
	static const char *const names[CHECK_NUMBERS] = { "allowed", "limit",       "remaining",
							  "granted", "retry_after", "reset_after",
							  "delay",   "limits",      "shadow_denied" };

	weir__resp_write_map(writer, n);
	for (size_t i = 0; i < CHECK_NUMBERS; i++) {
		weir__resp_write_simple(writer, names[i], strlen(names[i]));
		if (i == 0)
			weir__resp_write_boolean(writer, numbers[i] != 0);
		else
			weir__resp_write_integer(writer, numbers[i]);
	}
	weir__resp_write_simple(writer, "decided_by", 10);
}

/* The reply has n parts. All but the numbers and decided_by are still to be written. */
static inline void write_answer(const struct weir_guard_answer *answer, struct weir__resp_writer *writer, size_t n)
{
	int64_t numbers[CHECK_NUMBERS];

	numbers_of_verdict(&answer->verdict, numbers);
	numbers[VERDICT_NUMBERS] = (int64_t)answer->limits;
	numbers[VERDICT_NUMBERS + 1] = (int64_t)answer->shadow_denied;
	if (writer->has_maps)
		write_check_names(writer, numbers, n);
	else
		weir__resp_write_integers_first(writer, n, numbers, CHECK_NUMBERS);
	weir__resp_write_bulk(writer, answer->decided_by, strlen(answer->decided_by));
}

static void write_check(struct weir__request *request, void *writer)
{
	write_answer(&((const struct weir__check *)(const void *)request)->check.answer, writer, CHECK_NUMBERS + 1);
}

static void write_check_wait(struct weir__request *request, void *writer_)
{
	const struct weir__check_wait *const wait = (const struct weir__check_wait *)(const void *)request;
	struct weir__resp_writer *const writer = writer_;

	write_answer(&wait->check.check.answer, writer, CHECK_NUMBERS + 2);
	if (writer->has_maps)
		weir__resp_write_simple(writer, "waited", 6);
	weir__resp_write_integer(writer, weir__signed_of(wait->waited));
}

/* Two different values are an error: either may be the one that the client meant. */
static void refuse_twice(struct weir__call *call, const struct weir__resp_slice *name)
{
	char shown[160];

	(void)weir__log_escape(name->bytes, weir__min(name->length, 64), shown, sizeof(shown));
	weir__refuse_with(call, WEIR__ERROR_ATTRIBUTE_TWICE, shown);
}

/* The options of WEIR.CHECK, which may stand anywhere among the attributes. */
struct check_options {
	uint64_t cost;
	weir_ns patience;
	bool has_cost, has_wait, has_trace;
};

/* In capitals the word is always an option. In other letters it is an option only before the first attribute, and only
 * once, for clients that send it so. Elsewhere it may be the name of an attribute. */
static bool is_option(const struct weir__resp_slice *name, const char *option, bool is_before, bool was_given)
{
	return weir__is_word(name, option) &&
	       (memcmp(name->bytes, option, name->length) == 0 || (is_before && !was_given));
}

/* Reads COST, WAIT or TRACEPARENT. A traceparent is for this request only, so the group ends first. *ret_is_option is
 * false for any other name. Returns false after writing the error reply. */
static bool read_option(struct weir__call *call, uint32_t place, bool is_before, struct check_options *options,
			bool *ret_is_option)
{
	const struct weir__resp_slice *const name = &call->arguments[place], *const value = name + 1;
	const bool is_cost = is_option(name, "COST", is_before, options->has_cost);
	const bool is_wait = is_option(name, "WAIT", is_before, options->has_wait);
	const bool is_trace = is_option(name, "TRACEPARENT", is_before, options->has_trace);

	*ret_is_option = is_cost || is_wait || is_trace;
	if ((is_cost && options->has_cost) || (is_wait && options->has_wait) || (is_trace && options->has_trace)) {
		refuse_twice(call, name);
		return false;
	}
	if (*ret_is_option && place + 1 == call->n) {
		weir__refuse(call, is_cost ? WEIR__ERROR_COST : is_wait ? WEIR__ERROR_TIMEOUT : WEIR__ERROR_ATTRIBUTES);
		return false;
	}
	options->has_cost |= is_cost;
	options->has_wait |= is_wait;
	options->has_trace |= is_trace;
	if (is_cost)
		return weir__read_number(call, place + 1, INT64_MAX, WEIR__ERROR_COST, &options->cost);
	if (is_wait)
		return read_patience(call, place + 1, &options->patience);
	if (is_trace) {
		weir__resp_end_group(call->resp, call->client, call->writer);
		weir__tracer_parent(call->context->tracer, value->bytes, value->length);
	}
	return true;
}

/* `options` is NULL for a command that has none. */
static inline bool read_pairs(struct weir__call *call, struct check_options *options, struct weir_attribute *attributes,
			      size_t *ret_n)
{
	size_t n = 0;

	for (uint32_t place = 1; place < call->n; place += 2) {
		const struct weir__resp_slice *const name = &call->arguments[place], *const value = name + 1;
		bool is_given = false;

		if (options && (name->length == 4 || name->length == 11) &&
		    ((name->bytes[0] | 0x20) == 'c' || (name->bytes[0] | 0x20) == 'w' ||
		     (name->bytes[0] | 0x20) == 't') &&
		    !read_option(call, place, n == 0, options, &is_given))
			return false;
		if (is_given)
			continue;
		if (n == WEIR__RESP_ATTRIBUTES_MAX || place + 1 == call->n) {
			weir__refuse(call, WEIR__ERROR_ATTRIBUTES);
			return false;
		}
		for (size_t i = 0; i < n; i++)
			if (attributes[i].name_length == name->length &&
			    memcmp(attributes[i].name, name->bytes, name->length) == 0) {
				refuse_twice(call, name);
				return false;
			}
		attributes[n++] = (struct weir_attribute){ name->bytes, name->length, value->bytes, value->length };
	}
	*ret_n = n;
	return true;
}

bool weir__read_attributes(struct weir__call *call, struct weir_attribute *attributes, size_t *ret_n)
{
	return read_pairs(call, NULL, attributes, ret_n);
}

struct weir_guard *weir__guard_of(struct weir__call *call)
{
	if (call->context->guard)
		return call->context->guard;
	weir__refuse(call, WEIR__ERROR_NO_POLICY);
	return NULL;
}

static void check_and_wait(struct weir__call *call, struct weir_guard *guard, const struct weir_attribute *attributes,
			   size_t n, const struct check_options *options)
{
	struct weir__refusal refusal WEIR__UNINITIALIZED;
	struct weir__check_wait wait WEIR__UNINITIALIZED;

	weir__resp_end_group(call->resp, call->client, call->writer);
	weir__check_wait_init(&wait, call->context, call->client, write_check_wait);
	weir__end_run(call,
		      weir__check_wait_run(&wait, guard, attributes, n, options->cost, &options->patience, &refusal),
		      &wait.check.request, &refusal);
}

/* Checks are decided at once, not gathered. A pipeline of checks makes no system calls in between either. */
void weir__check_command(struct weir__call *call)
{
	struct weir_attribute attributes[WEIR__RESP_ATTRIBUTES_MAX] WEIR__UNINITIALIZED;
	struct weir_guard *const guard = weir__guard_of(call);
	struct weir__refusal refusal = { .error = WEIR__ERROR_LIMIT };
	struct check_options options = { .cost = 1 };
	struct weir__check check WEIR__UNINITIALIZED;
	size_t n;

	if (guard && read_pairs(call, &options, attributes, &n)) {
		if (WEIR__UNLIKELY(options.has_wait)) {
			check_and_wait(call, guard, attributes, n, &options);
		} else {
			weir__resp_end_group(call->resp, call->client, call->writer);
			weir__check_init(&check, call->context, call->client, write_check);
			weir__end_run(call, weir__check_run(&check, guard, attributes, n, options.cost, &refusal.why),
				      &check.request, &refusal);
		}
	}
	weir__tracer_parent(call->context->tracer, NULL, 0);
}
