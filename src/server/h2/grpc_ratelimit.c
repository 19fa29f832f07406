/* grpc_ratelimit.c: envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit. As for POST /json, a policy in Envoy's
 * format decides. */
#include <stdio.h>
#include <string.h>

#include "core/uninitialized.h"
#include "guard/guard.h"
#include "server/h2/h2_call.h"
#include "server/settings.h"
#include "wire/digits.h"
#include "wire/rls.h"

static const uint64_t second_ns = 1000000000;

/* --- the response ------------------------------------------------------------------------------------------------ */

static enum weir_unit unit_of(weir_ns period)
{
	static const struct {
		uint64_t seconds;
		enum weir_unit unit;
	} units[] = {
		{ 1, WEIR_UNIT_SECOND },      { 60, WEIR_UNIT_MINUTE },   { 3600, WEIR_UNIT_HOUR },
		{ 86400, WEIR_UNIT_DAY },     { 604800, WEIR_UNIT_WEEK }, { 2592000, WEIR_UNIT_MONTH },
		{ 31536000, WEIR_UNIT_YEAR },
	};

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (units[i].seconds * second_ns == period)
			return units[i].unit;
	return WEIR_UNIT_NONE;
}

static struct weir__rls_status status_of(const struct weir__descriptors_check *check, size_t i)
{
	const struct weir_guard_status *const from = &check->statuses[i];
	const struct weir_verdict *const verdict = &from->verdict;
	const bool is_denied = weir__descriptors_denies(check, i);
	struct weir__rls_status status = { .code = is_denied ? WEIR__RLS_OVER_LIMIT : WEIR__RLS_OK };

	if (!from->claim.applies)
		return status;
	if (from->claim.is_unlimited) {
		status.remaining = UINT32_MAX;
		return status;
	}
	status.has_limit = status.has_reset = true;
	status.requests_per_unit = verdict->limit;
	status.name = from->claim.name[0] != '\0' ? from->claim.name : NULL;
	status.unit = unit_of(from->claim.limit.period);
	status.remaining = verdict->remaining;
	status.reset_s = weir__descriptors_reset_s(check, i);
	return status;
}

static void add_header(struct weir__protobuf_out *out, const char *name, uint64_t number)
{
	char digits[WEIR__DIGITS_MOST + 1];

	*weir__put_digits(digits, number) = '\0';
	weir__rls_write_header(out, name, digits);
}

/* The headers of Envoy's service, for the last limit that denies, or else for the first one with the least left. */
static void add_headers(struct weir__protobuf_out *out, const struct weir__descriptors_check *check)
{
	struct weir__rls_status least = { .has_limit = false };
	bool is_denying = false;

	for (size_t i = 0; i < check->check.n; i++) {
		const struct weir__rls_status status = status_of(check, i);
		const bool denies = status.code == WEIR__RLS_OVER_LIMIT && !check->statuses[i].claim.is_quota;

		if (status.has_limit &&
		    (denies || (!is_denying && (!least.has_limit || status.remaining < least.remaining))))
			least = status;
		is_denying |= denies;
	}
	if (!least.has_limit)
		return;
	add_header(out, "RateLimit-Limit", least.requests_per_unit);
	add_header(out, "RateLimit-Remaining", least.remaining);
	add_header(out, "RateLimit-Reset", least.reset_s);
}

struct describing {
	struct weir__protobuf_out *out;
	const struct weir__rls_request *request;
	const struct weir__descriptors_check *check;
};

/* The metadata of limits that have something left: Envoy may choose a route by it. */
static void describe(void *describing_, const struct weir_descriptor_claim *claims)
{
	const struct describing *const describing = describing_;
	const struct weir__descriptors_check *const check = describing->check;
	char texts[WEIR_DESCRIPTORS_MAX][WEIR_LIMIT_TEXT_MAX];
	const char *limits[WEIR_DESCRIPTORS_MAX];
	const struct weir_metadata *metadata[WEIR_DESCRIPTORS_MAX];

	for (size_t i = 0; i < describing->request->n; i++) {
		const struct weir_descriptor_claim *const claim = &check->statuses[i].claim;
		const bool has_limit = claim->applies && !claim->is_unlimited;

		limits[i] = has_limit && !claim->is_closed ? texts[i] : NULL;
		if (limits[i])
			(void)weir_limit_print(&claim->limit, texts[i]);
		metadata[i] = has_limit && claims[i].applies && status_of(check, i).code == WEIR__RLS_OK ?
				      claims[i].metadata :
				      NULL;
	}
	weir__rls_write_metadata(describing->out, describing->request, limits, metadata);
}

/* The message of a request that had to wait is still in its stream. Metadata that does not fit is left out: an error
 * would let a denied request pass if Envoy fails open. */
static void add_metadata(struct weir__grpc_call *call, const struct weir__descriptors_check *check)
{
	const struct weir__h2_stream *const stream = &call->stream->stream;
	const char *const message = stream->bytes + stream->head_length + WEIR__GRPC_HEAD;
	struct weir__rls_request request WEIR__UNINITIALIZED;
	struct describing describing = { call->out, &request, check };
	const size_t begin = call->out->n;

	if (weir__rls_read(message, stream->length - stream->head_length - WEIR__GRPC_HEAD, &request) == NULL)
		weir__guard_describe_descriptors(call->context->guard, request.domain, request.domain_length,
						 request.descriptors, request.n, describe, &describing);
	if (call->out->is_full) {
		call->out->n = begin;
		call->out->is_full = false;
	}
}

static void write_response(struct weir__request *request, void *call_)
{
	const struct weir__descriptors_check *const check =
		(const struct weir__descriptors_check *)(const void *)request;
	struct weir__grpc_call *const call = call_;
	const struct weir__settings *const settings = call->context->settings;

	weir__rls_write_code(call->out, check->check.answer.verdict.allowed ? WEIR__RLS_OK : WEIR__RLS_OVER_LIMIT);
	for (size_t i = 0; i < check->check.n; i++) {
		const struct weir__rls_status status = status_of(check, i);

		weir__rls_write_status(call->out, &status);
	}
	if (settings && settings->envoy_headers == WEIR__ENVOY_HEADERS_TRUE)
		add_headers(call->out, check);
	if (settings && settings->envoy_metadata == WEIR__ENVOY_METADATA_TRUE)
		add_metadata(call, check);
}

/* --- the request ------------------------------------------------------------------------------------------------- */

static bool may(struct weir__grpc_call *call, enum weir__operation operation)
{
	_Static_assert((int)WEIR__ROLE_FAULT <= (int)sizeof(call->text), "the words fit");

	if (weir__client_may(call->client, operation))
		return true;
	weir__operation_explain_role(call->client->user, operation, call->text);
	weir__grpc_refuse(call, WEIR__GRPC_PERMISSION_DENIED, call->text);
	return false;
}

static bool is_permitted(struct weir__grpc_call *call, const struct weir__rls_request *request)
{
	bool refunds = false, checks = false;

	for (size_t i = 0; i < request->n; i++) {
		refunds |= request->descriptors[i].is_refund;
		checks |= !request->descriptors[i].is_refund;
	}
	return (!refunds || may(call, WEIR__OP_REFUND)) && (!checks || may(call, WEIR__OP_CHECK));
}

void weir__grpc_should_rate_limit(struct weir__grpc_call *call)
{
	struct weir__rls_request request WEIR__UNINITIALIZED;
	struct weir__descriptors_check check WEIR__UNINITIALIZED;
	struct weir__descriptors asked;
	struct weir_message why;
	const char *const wrong = weir__rls_read(call->message, call->message_length, &request);

	if (wrong) {
		weir__grpc_refuse(call, WEIR__GRPC_INVALID_ARGUMENT, wrong);
		return;
	}
	if (call->context->guard == NULL) {
		weir__grpc_refuse(call, WEIR__GRPC_FAILED_PRECONDITION,
				  "the server has no policy; start it with --policy and a policy in Envoy's format");
		return;
	}
	if (!is_permitted(call, &request))
		return;
	asked = (struct weir__descriptors){ request.domain, request.domain_length, request.descriptors, request.n,
					    request.hits };
	weir__descriptors_init(&check, call->context, call->client, write_response);
	switch (weir__descriptors_run(&check, call->context->guard, &asked, &why)) {
	case WEIR__RUN_DONE:
		write_response(&check.request, call);
		break;
	case WEIR__RUN_LATER:
		break;
	default:
		(void)snprintf(call->text, sizeof(call->text), "%s", why.text);
		weir__grpc_refuse(call, WEIR__GRPC_INVALID_ARGUMENT, call->text);
	}
}
