/* resp_info.c: INFO, HELP, TIME and DBSIZE. */
#include "server/resp/resp_command.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "observe/counters.h"
#include "observe/key_count.h"
#include "observe/limit_stats.h"
#include "observe/log.h"
#include "observe/tracer.h"
#include "os/monotonic.h"
#include "os/thread.h"
#include "server/policy_loader.h"
#include "server/settings.h"

/* --- INFO ------------------------------------------------------------------------------------------------------- */

/* Writes a section of INFO like snprintf, and returns what that returns. */
typedef int describe_fn(const struct weir__context *context, char *text, size_t size);

static int describe_server(const struct weir__context *context, char *text, size_t size)
{
	return snprintf(text, size,
			"# Server\r\nweir_version:" WEIR_VERSION "\r\nredis_version:7.0.0\r\nredis_mode:standalone\r\n"
			"process_id:%ld\r\nuptime_in_seconds:%" PRIu64 "\r\n",
			(long)weir__thread_process(),
			context->counters_set ? weir__counters_set_age_s(context->counters_set) : 0);
}

/* RESP connections of all workers. maxclients is the bound per worker times the workers. */
static int describe_clients(const struct weir__context *context, char *text, size_t size)
{
	const struct weir__settings *const settings = context->settings;
	struct weir__counters_sum sum = { .connections = { 0 } };

	int n;

	if (context->counters_set)
		weir__counters_set_sum(context->counters_set, &sum);
	n = snprintf(text, size,
		     "# Clients\r\nconnected_clients:%" PRIu64 "\r\nmaxclients:%" PRIu64 "\r\nauth_failures:%" PRIu64
		     "\r\nauth_limited:%" PRIu64 "\r\nclient_memory_bytes:%" PRIu64
		     "\r\nclient_memory_limit_bytes:%" PRIu64 "\r\n",
		     sum.connections[WEIR__PROTOCOL_RESP], settings ? settings->connections * settings->workers : 0,
		     sum.auth_failures[WEIR__PROTOCOL_RESP] + sum.auth_failures[WEIR__PROTOCOL_HTTP],
		     sum.auth_limited[WEIR__PROTOCOL_RESP] + sum.auth_limited[WEIR__PROTOCOL_HTTP], sum.client_bytes,
		     settings ? settings->client_memory * settings->workers : 0);
	for (int why = 0; why < WEIR__CLOSED_N && n > 0 && (size_t)n < size; why++)
		n += snprintf(text + n, size - (size_t)n, "clients_closed_%s:%" PRIu64 "\r\n", weir__closed_words[why],
			      sum.closed[why]);
	return n;
}

/* Clients that look for the primary read this from any server. */
static int describe_replication(const struct weir__context *context, char *text, size_t size)
{
	(void)context;
	return snprintf(text, size, "# Replication\r\nrole:master\r\nconnected_slaves:0\r\n");
}

/* With `observe: off`, requests are not counted. */
static int describe_decisions(const struct weir__context *context, char *text, size_t size)
{
	struct weir__limit_stats_sum requests;
	struct weir__counters_sum sum = { .unmatched = 0 };
	char counts[80] = "";

	if (context->counters_set)
		weir__counters_set_sum(context->counters_set, &sum);
	if (context->stats_set) {
		weir__limit_stats_set_requests(context->stats_set, &requests);
		(void)snprintf(counts, sizeof(counts), "allowed:%" PRIu64 "\r\ndenied:%" PRIu64 "\r\n",
			       weir__limit_stats_allowed(&requests), requests.rejected);
	}
	return snprintf(text, size,
			"# Decisions\r\n%sunmatched:%" PRIu64 "\r\nunmatched_denied:%" PRIu64 "\r\nholds:%" PRIu32
			"\r\nwaiting_here:%" PRIu32 "\r\n",
			counts, sum.unmatched, sum.unmatched_denied, context->holds ? weir__holds_n(context->holds) : 0,
			context->waiting ? weir__waiting_n(context->waiting) : 0);
}

static int describe_table(const struct weir__context *context, char *text, size_t size)
{
	struct weir__table_key_count key_count;

	weir__key_count(context->table, context->key_count_cache, weir_table_now(context->table), &key_count);
	return snprintf(text, size,
			"# Table\r\ntable_live_keys:%" PRIu64 "\r\ntable_capacity_keys:%" PRIu64
			"\r\ntable_inserted_keys:%" PRIu64 "\r\ntable_evicted_keys:%" PRIu64
			"\r\ntable_folded_keys:%" PRIu64 "\r\ntable_plans_lost:%" PRIu64 "\r\narena_bytes:%" PRIu64
			"\r\narena_used_bytes:%" PRIu64 "\r\ntable_damaged_pages:%" PRIu64
			"\r\ntable_damaged_slots:%" PRIu64 "\r\ntable_damaged_limits:%" PRIu64
			"\r\ntable_damaged_fields:%" PRIu64 "\r\ntable_truncations:%" PRIu64
			"\r\ntable_detached:%d\r\n",
			key_count.live, key_count.capacity, key_count.inserted, key_count.evicted, key_count.folded,
			key_count.plans_lost, key_count.arena_bytes, key_count.arena_used,
			key_count.damaged[WEIR__DAMAGED_PAGES], key_count.damaged[WEIR__DAMAGED_SLOTS],
			key_count.damaged[WEIR__DAMAGED_LIMITS], key_count.damaged[WEIR__DAMAGED_FIELDS],
			key_count.mapping.truncations, key_count.mapping.is_detached || !key_count.mapping.is_named);
}

/* Empty without a policy. */
static int describe_policy(const struct weir__context *context, char *text, size_t size)
{
	struct weir__policy_loader_info info;

	if (context->loader == NULL)
		return 0;
	weir__policy_loader_info(context->loader, &info);
	return snprintf(text, size,
			"# Policy\r\npolicy_limits:%" PRIu32 "\r\npolicy_changes:%" PRIu64
			"\r\npolicy_failures:%" PRIu64 "\r\npolicy_reloads:%" PRIu64 "\r\npolicy_loaded_at:%" PRIu64
			"\r\npolicy_changed_limits:%" PRIu32 "\r\npolicy_anew_limits:%" PRIu32
			"\r\npolicy_last_error:%s\r\n",
			info.limits, info.changes, info.failures, info.reloads, info.loaded_at / 1000000000,
			weir__guard_changed(context->guard), info.anew, info.last_error);
}

/* Empty without a store. */
static int describe_store(const struct weir__context *context, char *text, size_t size)
{
	static const char *const states[] = {
		[WEIR__STORE_UP] = "up", [WEIR__STORE_DOWN] = "down", [WEIR__STORE_PROBING] = "probing"
	};
	struct weir__store *const store = context->store;
	struct weir__store_status status;

	if (store->status == NULL)
		return 0;
	store->status(store, &status);
	return snprintf(
		text, size,
		"# Store\r\nstore_state:%s\r\nstore_nodes:%" PRIu32 "\r\nstore_joining:%d\r\nstore_calls:%" PRIu64
		"\r\nstore_requests:%" PRIu64 "\r\nstore_decided:%" PRIu64 "\r\nstore_unreached:%" PRIu64
		"\r\nstore_unanswered:%" PRIu64 "\r\nstore_slow:%" PRIu64 "\r\nstore_gone:%" PRIu64
		"\r\nstore_refused:%" PRIu64 "\r\nstore_deferred_keys:%" PRIu64 "\r\nstore_deferred_charged:%" PRIu64
		"\r\nstore_deferred_excess:%" PRIu64 "\r\nstore_deferred_uncertain:%" PRIu64
		"\r\nstore_deferred_dropped:%" PRIu64 "\r\nstore_calls_per_1000:%" PRIu64 "\r\nlease_held:%" PRIu64
		"\r\nlease_allowed:%" PRIu64 "\r\nlease_denied:%" PRIu64 "\r\nlease_granted:%" PRIu64
		"\r\nlease_returned:%" PRIu64 "\r\nlease_expired:%" PRIu64 "\r\nlease_dropped:%" PRIu64
		"\r\neventual_waiting:%" PRIu64 "\r\neventual_allowed:%" PRIu64 "\r\neventual_denied:%" PRIu64
		"\r\neventual_pushes:%" PRIu64 "\r\nstore_last_error:%s\r\n",
		states[status.health], status.nodes, status.is_joining, status.calls, status.requests, status.decided,
		status.unreached, status.unanswered, status.slow, status.gone, status.refused, status.deferred_keys,
		status.charged, status.excess, status.uncertain, status.dropped, weir__store_calls_per_1000(&status),
		weir__store_held(&status), status.lease[WEIR__LEASE_ALLOWED], status.lease[WEIR__LEASE_DENIED],
		status.lease[WEIR__LEASE_GRANTED], status.lease[WEIR__LEASE_RETURNED],
		status.lease[WEIR__LEASE_EXPIRED], status.lease[WEIR__LEASE_DROPPED], weir__store_waiting(&status),
		status.lease[WEIR__AHEAD_ALLOWED], status.lease[WEIR__AHEAD_DENIED], status.lease[WEIR__AHEAD_PUSHES],
		status.last_error);
}

/* Spans and log lines that were dropped. */
static int describe_observing(const struct weir__context *context, char *text, size_t size)
{
	struct weir__tracer_set_info info;

	weir__tracer_set_info(context->tracers, &info);
	return snprintf(text, size,
			"# Observing\r\nspans_sent:%" PRIu64 "\r\nspans_dropped:%" PRIu64
			"\r\ndenials_left_out:%" PRIu64 "\r\nlog_lines_left_out:%" PRIu64 "\r\n",
			info.spans_sent, info.spans_dropped, info.denials_left_out, weir__log_left_out(context->log));
}

static const struct section {
	const char *name;
	describe_fn *describe;
} sections[] = {
	{ "server", describe_server },       { "clients", describe_clients },
	{ "decisions", describe_decisions }, { "table", describe_table },
	{ "policy", describe_policy },       { "store", describe_store },
	{ "observing", describe_observing }, { "replication", describe_replication },
};

static bool is_asked_for(const struct weir__call *call, const char *section)
{
	bool is = call->n == 1;

	for (uint32_t i = 1; i < call->n; i++) {
		const struct weir__resp_slice *const word = &call->arguments[i];

		is |= weir__is_word(word, section) || weir__is_word(word, "all") || weir__is_word(word, "default") ||
		      weir__is_word(word, "everything");
	}
	return is;
}

/* As in Redis, an unknown section has no lines. */
void weir__info(struct weir__call *call)
{
	char text[4096];
	size_t length = 0;

	for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++) {
		const size_t gap = length > 0 ? 2 : 0; /* an empty line between sections */
		const size_t room = sizeof(text) - length - gap;
		int n;

		if (!is_asked_for(call, sections[i].name))
			continue;
		memcpy(text + length, "\r\n", gap);
		n = sections[i].describe(call->context, text + length + gap, room);
		if (n > 0)
			length += gap + weir__min((size_t)n, room - 1);
	}
	weir__resp_write_verbatim(call->writer, "txt", text, length);
}

/* --- TIME and DBSIZE -------------------------------------------------------------------------------------------- */

static void say_digits(const struct weir__call *call, uint64_t number)
{
	char digits[24];

	(void)snprintf(digits, sizeof(digits), "%" PRIu64, number);
	weir__say_word(call, digits);
}

/* Uses the system clock: the table may have another clock. */
void weir__time(struct weir__call *call)
{
	const weir_ns now = weir__unix_ns();

	weir__resp_write_array(call->writer, 2);
	say_digits(call, now / 1000000000);
	say_digits(call, now % 1000000000 / 1000);
}

void weir__dbsize(struct weir__call *call)
{
	struct weir__table_key_count key_count;

	weir__key_count(call->context->table, call->context->key_count_cache, weir_table_now(call->context->table),
			&key_count);
	weir__resp_write_unsigned(call->writer, key_count.live);
}

/* --- help ------------------------------------------------------------------------------------------------------- */

static void say_command(const struct weir__call *call, const struct weir__command_row *row)
{
	char name[WEIR__COMMAND_NAME_SIZE], line[512], roles[WEIR__ROLES_TEXT];
	int length;

	weir__write_capitals(row->name, name);
	length = snprintf(line, sizeof(line), "%s%s%s: %s", name, *row->usage ? " " : "", row->usage, row->does);
	if (weir__operation_write_roles(row->operation, " or ", roles) > 0)
		length += snprintf(line + length, sizeof(line) - (size_t)length, "; needs role %s", roles);
	weir__resp_write_simple(call->writer, line, (size_t)length);
}

static void say_errors(const struct weir__call *call)
{
	char line[512];

	weir__resp_write_array(call->writer, WEIR__ERRORS_N);
	for (size_t i = 0; i < WEIR__ERRORS_N; i++) {
		const struct weir__error_row *const row = &weir__error_rows[i];
		const int length = snprintf(line, sizeof(line), "%s%s: %s", row->text, row->detail, row->when);

		weir__resp_write_simple(call->writer, line, (size_t)length);
	}
}

static void say_topic(struct weir__call *call, const struct weir__resp_slice *topic)
{
	const struct weir__command_row *const row = weir__command_named(topic);
	char detail[160];

	if (row) {
		weir__resp_write_array(call->writer, 1);
		say_command(call, row);
		return;
	}
	(void)snprintf(detail, sizeof(detail), "%.*s': use a command, or ERRORS", (int)weir__min(topic->length, 128),
		       topic->bytes);
	weir__refuse_with(call, WEIR__ERROR_HELP_TOPIC, detail);
}

void weir__help(struct weir__call *call)
{
	if (call->n > 1 && weir__is_word(&call->arguments[1], "ERRORS")) {
		say_errors(call);
	} else if (call->n > 1) {
		say_topic(call, &call->arguments[1]);
	} else {
		weir__resp_write_array(call->writer, weir__command_rows_n);
		for (size_t i = 0; i < weir__command_rows_n; i++)
			say_command(call, &weir__command_rows[i]);
	}
}
