/* http_metrics.c: GET /metrics, in the Prometheus text format, or as OpenMetrics for clients that accept it.
 *
 * The number of series is bounded: for limits, by the policy and by the room of the response (http_metrics_limits.c).
 * No series has a key as a label. Nothing here scans all of a large table: the number of live keys is estimated from a
 * part of it. */
#include "server/http/http_metrics.h"
#include "observe/key_count.h"

#include <string.h>
#include <strings.h>

#include "observe/counters.h"
#include "observe/limit_stats.h"
#include "observe/log.h"
#include "observe/tracer.h"
#include "os/process.h"
#include "server/certificates.h"
#include "server/http/http_call.h"
#include "server/policy_loader.h"
#include "server/settings.h"

/* --- content negotiation ----------------------------------------------------------------------------------------- */

enum { WHOLE = 1000 /* a quality of 1 */ };

/* A part of a header, without surrounding spaces. */
struct piece {
	const char *at;
	size_t n;
};

/* Returns what comes before the next separator; *rest becomes what follows it. */
static struct piece next_piece(struct piece *rest, char separator)
{
	const char *const end = memchr(rest->at, separator, rest->n);
	struct piece piece = { rest->at, end ? (size_t)(end - rest->at) : rest->n };
	const size_t used = end ? piece.n + 1 : piece.n;

	*rest = (struct piece){ rest->at + used, rest->n - used };
	for (; piece.n > 0 && (*piece.at == ' ' || *piece.at == '\t'); piece.n--)
		piece.at++;
	while (piece.n > 0 && (piece.at[piece.n - 1] == ' ' || piece.at[piece.n - 1] == '\t'))
		piece.n--;
	return piece;
}

static bool is_word(struct piece piece, const char *word)
{
	return piece.n == strlen(word) && strncasecmp(piece.at, word, piece.n) == 0;
}

/* Reads 0, 0.75 or 1.000, in thousandths. An invalid quality is 0, which is never chosen. */
static unsigned quality_of(struct piece text)
{
	unsigned quality = 0, unit = WHOLE;

	if (text.n == 0 || text.n > 5 || text.at[0] > '1' || text.at[0] < '0' || (text.n > 1 && text.at[1] != '.'))
		return 0;
	for (size_t i = 0; i < text.n; i++) {
		if (i == 1)
			continue;
		if (text.at[i] < '0' || text.at[i] > '9')
			return 0;
		quality += (unsigned)(text.at[i] - '0') * unit;
		unit /= 10;
	}
	return quality < WHOLE ? quality : WHOLE;
}

struct wanted {
	unsigned openmetrics, text; /* the best quality of each; 0: not accepted */
};

/* Reads one accepted type with its parameters. Only version 1.0.0 of OpenMetrics is written, even for a client that
 * names no version. */
static void read_accepted(struct piece accepted, struct wanted *wanted)
{
	const struct piece type = next_piece(&accepted, ';');
	unsigned quality = WHOLE;
	bool is_ours = true;
	unsigned *which = NULL;

	while (accepted.n > 0) {
		struct piece value = next_piece(&accepted, ';');
		const struct piece name = next_piece(&value, '=');

		if (is_word(name, "q"))
			quality = quality_of(next_piece(&value, ';'));
		else if (is_word(name, "version"))
			is_ours = is_word(next_piece(&value, ';'), "1.0.0");
	}
	if (is_word(type, "application/openmetrics-text"))
		which = is_ours ? &wanted->openmetrics : NULL;
	else if (is_word(type, "text/plain") || is_word(type, "text/*") || is_word(type, "*/*"))
		which = &wanted->text;
	if (which && quality > *which)
		*which = quality;
}

/* A client that accepts anything, or neither format, gets the text format. */
static bool wants_openmetrics(const struct weir__http_request *request)
{
	struct weir__http_slice value;
	struct wanted wanted = { 0, 0 };
	struct piece rest;

	if (!weir__http_find(request, "accept", &value))
		return false;
	for (rest = (struct piece){ value.bytes, value.length }; rest.n > 0;)
		read_accepted(next_piece(&rest, ','), &wanted);
	return wanted.openmetrics > 0 && wanted.openmetrics >= wanted.text;
}

/* --- the server ------------------------------------------------------------------------------------------------- */

static void add_by_protocol(struct weir__metrics *metrics, enum weir__metric metric,
			    const uint64_t values[WEIR__PROTOCOLS])
{
	weir__metrics_begin(metrics, metric);
	for (enum weir__protocol protocol = 0; protocol < WEIR__PROTOCOLS; protocol++)
		weir__metrics_add_word(metrics, "protocol", weir__protocol_word(protocol), values[protocol]);
}

static void add_protocols(struct weir__http_call *call, struct weir__metrics *metrics)
{
	const struct weir__settings *const settings = call->context->settings;
	struct weir__counters_sum sum;

	if (call->context->counters_set == NULL)
		return;
	weir__counters_set_sum(call->context->counters_set, &sum);
	add_by_protocol(metrics, WEIR__METRIC_CONNECTIONS, sum.connections);
	if (settings)
		weir__metrics_one(metrics, WEIR__METRIC_CONNECTIONS_MOST, settings->connections * settings->workers);
	weir__metrics_begin(metrics, WEIR__METRIC_ACCEPT_PAUSES);
	weir__metrics_add_word(metrics, "reason", "connections", sum.pauses[WEIR__PAUSE_FULL]);
	weir__metrics_add_word(metrics, "reason", "kernel", sum.pauses[WEIR__PAUSE_KERNEL]);
	weir__metrics_begin(metrics, WEIR__METRIC_CONNECTIONS_CLOSED);
	for (int why = 0; why < WEIR__CLOSED_N; why++)
		weir__metrics_add_word(metrics, "reason", weir__closed_words[why], sum.closed[why]);
	weir__metrics_one(metrics, WEIR__METRIC_INLINE_EVICTED, sum.inline_evicted);
	weir__metrics_one(metrics, WEIR__METRIC_CLIENT_MEMORY, sum.client_bytes);
	if (settings)
		weir__metrics_one(metrics, WEIR__METRIC_CLIENT_MEMORY_MOST,
				  settings->client_memory * settings->workers);
	weir__metrics_one(metrics, WEIR__METRIC_WAITING, sum.waiting);
	weir__metrics_one(metrics, WEIR__METRIC_WAITS_REFUSED, sum.waits_refused);
	weir__metrics_one(metrics, WEIR__METRIC_IN_FLIGHT, sum.in_flight);
	weir__metrics_one(metrics, WEIR__METRIC_OVERFLOWS, sum.overflows);
	weir__metrics_one(metrics, WEIR__METRIC_UNMATCHED, sum.unmatched);
	weir__metrics_one(metrics, WEIR__METRIC_UNMATCHED_REJECTED, sum.unmatched_denied);
	add_by_protocol(metrics, WEIR__METRIC_REPLIES, sum.requests);
	add_by_protocol(metrics, WEIR__METRIC_AUTH_FAILURES, sum.auth_failures);
	add_by_protocol(metrics, WEIR__METRIC_AUTH_LIMITED, sum.auth_limited);
}

static void add_expiry(struct weir__metrics *metrics, const char *which, int64_t at_s)
{
	if (at_s != INT64_MAX)
		weir__metrics_add_word(metrics, "certificate", which, at_s > 0 ? (uint64_t)at_s : 0);
}

static void add_tls(struct weir__http_call *call, struct weir__metrics *metrics)
{
	struct weir__certificates_status status;
	struct weir__counters_sum sum;

	if (call->context->certificates == NULL || call->context->counters_set == NULL)
		return;
	weir__certificates_status(call->context->certificates, &status);
	weir__counters_set_sum(call->context->counters_set, &sum);
	weir__metrics_one(metrics, WEIR__METRIC_TLS_HANDSHAKES, sum.tls_handshakes);
	weir__metrics_begin(metrics, WEIR__METRIC_TLS_FAILURES);
	for (int why = 0; why < WEIR__TLS_FAILURES; why++)
		weir__metrics_add_word(metrics, "reason", weir__tls_failure_words[why], sum.tls_failures[why]);
	weir__metrics_begin(metrics, WEIR__METRIC_TLS_EXPIRES);
	add_expiry(metrics, "server", status.expires_s);
	add_expiry(metrics, "client_ca", status.client_ca_expires_s);
	weir__metrics_one(metrics, WEIR__METRIC_TLS_REFUSED, status.is_refused);
	weir__metrics_one(metrics, WEIR__METRIC_TLS_RELOADS, status.reloads);
}

static void add_spans(struct weir__metrics *metrics, struct weir__limit_stats_set *stats_set,
		      enum weir__limit_stats_duration which, const char *labels)
{
	struct weir__limit_stats_histogram_sum sum;

	weir__limit_stats_set_durations(stats_set, which, &sum);
	weir__metrics_add_histogram(metrics, labels, strlen(labels),
				    &(struct weir__metrics_histogram){ sum.counts, WEIR__LIMIT_STATS_BUCKETS,
								       WEIR__LIMIT_STATS_LEAST_NS, sum.sum_ns });
}

static void add_decisions(struct weir__http_call *call, struct weir__metrics *metrics)
{
	struct weir__limit_stats_sum seen;

	if (call->context->stats_set == NULL)
		return;
	weir__limit_stats_set_requests(call->context->stats_set, &seen);
	weir__metrics_begin(metrics, WEIR__METRIC_DECISIONS);
	weir__metrics_add_word(metrics, "result", "allowed", weir__limit_stats_allowed(&seen));
	weir__metrics_add_word(metrics, "result", "rejected", seen.rejected);
}

static void add_times(struct weir__http_call *call, struct weir__metrics *metrics)
{
	struct weir__limit_stats_set *const stats_set = call->context->stats_set;

	if (stats_set == NULL)
		return;
	weir__metrics_begin(metrics, WEIR__METRIC_DECISION_SECONDS);
	add_spans(metrics, stats_set, WEIR__DURATION_DECISION, "");
	weir__metrics_begin(metrics, WEIR__METRIC_REQUEST_SECONDS);
	add_spans(metrics, stats_set, WEIR__DURATION_REQUEST, "throttled=\"false\"");
	add_spans(metrics, stats_set, WEIR__DURATION_THROTTLED, "throttled=\"true\"");
	weir__metrics_begin(metrics, WEIR__METRIC_WAIT_SECONDS);
	add_spans(metrics, stats_set, WEIR__DURATION_WAIT, "");
}

static void add_table(struct weir__http_call *call, struct weir__metrics *metrics)
{
	struct weir_table *const table = call->context->table;
	struct weir__table_key_count key_count;

	weir__key_count(call->context->table, call->context->key_count_cache, weir_table_now(table), &key_count);
	weir__metrics_one(metrics, WEIR__METRIC_TABLE_CAPACITY, key_count.capacity);
	weir__metrics_one(metrics, WEIR__METRIC_TABLE_LIVE, key_count.live);
	weir__metrics_one(metrics, WEIR__METRIC_TABLE_INSERTED, key_count.inserted);
	weir__metrics_one(metrics, WEIR__METRIC_TABLE_EVICTED, key_count.evicted);
	weir__metrics_one(metrics, WEIR__METRIC_TABLE_FOLDED, key_count.folded);
	weir__metrics_one(metrics, WEIR__METRIC_TABLE_PLANS_LOST, key_count.plans_lost);
	weir__metrics_begin(metrics, WEIR__METRIC_TABLE_DAMAGED);
	for (int i = 0; i < WEIR__DAMAGES; i++)
		weir__metrics_add_word(metrics, "part", weir__damage_words[i], key_count.damaged[i]);
	weir__metrics_one(metrics, WEIR__METRIC_TABLE_TRUNCATIONS, key_count.mapping.truncations);
	weir__metrics_one(metrics, WEIR__METRIC_TABLE_DETACHED,
			  key_count.mapping.is_detached || !key_count.mapping.is_named);
	weir__metrics_one(metrics, WEIR__METRIC_ARENA_BYTES, key_count.arena_bytes);
	weir__metrics_one(metrics, WEIR__METRIC_ARENA_USED, key_count.arena_used);
}

static void add_policy(struct weir__http_call *call, struct weir__metrics *metrics)
{
	struct weir__policy_loader_info info;

	if (call->context->loader == NULL)
		return;
	weir__policy_loader_info(call->context->loader, &info);
	weir__metrics_one(metrics, WEIR__METRIC_POLICY_LIMITS, info.limits);
	weir__metrics_one(metrics, WEIR__METRIC_POLICY_CHANGES, info.changes);
	weir__metrics_one(metrics, WEIR__METRIC_POLICY_FAILURES, info.failures);
	weir__metrics_one(metrics, WEIR__METRIC_POLICY_REFUSED, info.last_error[0] != '\0');
	weir__metrics_one(metrics, WEIR__METRIC_POLICY_LOADED, info.loaded_at / 1000000000);
}

static void add_log(struct weir__http_call *call, struct weir__metrics *metrics)
{
	struct weir__tracer_set_info info;

	if (call->context->tracers) {
		weir__tracer_set_info(call->context->tracers, &info);
		weir__metrics_one(metrics, WEIR__METRIC_SPANS_SENT, info.spans_sent);
		weir__metrics_one(metrics, WEIR__METRIC_SPANS_DROPPED, info.spans_dropped);
		weir__metrics_one(metrics, WEIR__METRIC_DENIALS_LEFT_OUT, info.denials_left_out);
	}
	if (call->context->log)
		weir__metrics_one(metrics, WEIR__METRIC_LOG_LEFT_OUT, weir__log_left_out(call->context->log));
}

static void add_process(struct weir__http_call *call, struct weir__metrics *metrics)
{
	const struct weir__process_usage usage = weir__process_usage();

	weir__metrics_begin(metrics, WEIR__METRIC_PROCESS_CPU);
	weir__metrics_add_decimal(metrics, "", 0, weir__decimal_of_ns(usage.cpu_ns));
	if (usage.resident_bytes > 0)
		weir__metrics_one(metrics, WEIR__METRIC_PROCESS_MEMORY, usage.resident_bytes);
	if (call->context->counters_set)
		weir__metrics_one(metrics, WEIR__METRIC_PROCESS_START,
				  weir__counters_set_made_at_s(call->context->counters_set));
}

static void add_build(struct weir__http_call *call, struct weir__metrics *metrics)
{
	const struct weir__settings *const settings = call->context->settings;
	struct weir__labels labels;

	labels.n = 0;
	weir__labels_add(&labels, "version", WEIR_VERSION);
	weir__labels_add(&labels, "service", settings ? settings->service : "");
	weir__metrics_begin(metrics, WEIR__METRIC_BUILD);
	weir__metrics_add(metrics, labels.at, labels.n, 1);
}

/* --- the store --------------------------------------------------------------------------------------------------- */

static void add_store_state(struct weir__metrics *metrics, const struct weir__store_status *status)
{
	static const struct {
		const char *word;
		enum weir__store_health health;
	} states[] = { { "up", WEIR__STORE_UP }, { "down", WEIR__STORE_DOWN }, { "probing", WEIR__STORE_PROBING } };

	weir__metrics_one(metrics, WEIR__METRIC_STORE_UP, status->health == WEIR__STORE_UP);
	weir__metrics_begin(metrics, WEIR__METRIC_STORE_BREAKER);
	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++)
		weir__metrics_add_word(metrics, "state", states[i].word, status->health == states[i].health);
	weir__metrics_begin(metrics, WEIR__METRIC_STORE_DECISIONS);
	weir__metrics_add_word(metrics, "outcome", "decided", status->decided);
	weir__metrics_add_word(metrics, "outcome", "unreached", status->unreached);
	weir__metrics_add_word(metrics, "outcome", "unanswered", status->unanswered);
	weir__metrics_begin(metrics, WEIR__METRIC_STORE_FAILURES);
	weir__metrics_add_word(metrics, "reason", "slow", status->slow);
	weir__metrics_add_word(metrics, "reason", "gone", status->gone);
	weir__metrics_add_word(metrics, "reason", "refused", status->refused);
}

static void add_store_numbers(struct weir__metrics *metrics, const struct weir__store_status *status)
{
	const struct {
		enum weir__metric metric;
		uint64_t value;
	} rows[] = {
		{ WEIR__METRIC_STORE_NODES, status->nodes },
		{ WEIR__METRIC_STORE_CALLS, status->calls },
		{ WEIR__METRIC_STORE_REQUESTS, status->requests },
		{ WEIR__METRIC_STORE_SCRIPT_RELOADS, status->script_loads },
		{ WEIR__METRIC_STORE_FAILOVERS, status->failovers },
		{ WEIR__METRIC_STORE_KEYS_DAMAGED, status->damaged },
		{ WEIR__METRIC_STORE_DEFERRED_KEYS, status->deferred_keys },
		{ WEIR__METRIC_STORE_DEFERRED_CHARGED, status->charged },
		{ WEIR__METRIC_STORE_DEFERRED_EXCESS, status->excess },
		{ WEIR__METRIC_STORE_DEFERRED_UNCERTAIN, status->uncertain },
		{ WEIR__METRIC_STORE_DEFERRED_DROPPED, status->dropped },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		weir__metrics_one(metrics, rows[i].metric, rows[i].value);
}

static void add_leases(struct weir__metrics *metrics, const struct weir__store_status *status)
{
	weir__metrics_begin(metrics, WEIR__METRIC_LEASE_DECISIONS);
	weir__metrics_add_word(metrics, "outcome", "allowed", status->lease[WEIR__LEASE_ALLOWED]);
	weir__metrics_add_word(metrics, "outcome", "denied", status->lease[WEIR__LEASE_DENIED]);
	weir__metrics_one(metrics, WEIR__METRIC_LEASE_HELD, weir__store_held(status));
	weir__metrics_begin(metrics, WEIR__METRIC_LEASE_UNITS);
	weir__metrics_add_word(metrics, "event", "granted", status->lease[WEIR__LEASE_GRANTED]);
	weir__metrics_add_word(metrics, "event", "returned", status->lease[WEIR__LEASE_RETURNED]);
	weir__metrics_add_word(metrics, "event", "expired", status->lease[WEIR__LEASE_EXPIRED]);
	weir__metrics_one(metrics, WEIR__METRIC_LEASE_DROPPED, status->lease[WEIR__LEASE_DROPPED]);
	weir__metrics_begin(metrics, WEIR__METRIC_EVENTUAL_DECISIONS);
	weir__metrics_add_word(metrics, "outcome", "allowed", status->lease[WEIR__AHEAD_ALLOWED]);
	weir__metrics_add_word(metrics, "outcome", "denied", status->lease[WEIR__AHEAD_DENIED]);
	weir__metrics_one(metrics, WEIR__METRIC_EVENTUAL_WAITING, weir__store_waiting(status));
	weir__metrics_one(metrics, WEIR__METRIC_EVENTUAL_PUSHES, status->lease[WEIR__AHEAD_PUSHES]);
}

static void add_store(struct weir__http_call *call, struct weir__metrics *metrics)
{
	const uint64_t ns_of_us = 1000;
	struct weir__store *const store = call->context->store;
	struct weir__store_status status;

	if (store->status == NULL)
		return;
	store->status(store, &status);
	add_store_state(metrics, &status);
	add_store_numbers(metrics, &status);
	add_leases(metrics, &status);
	weir__metrics_begin(metrics, WEIR__METRIC_STORE_SECONDS);
	weir__metrics_add_histogram(metrics, "", 0,
				    &(struct weir__metrics_histogram){ status.latency_counts, WEIR__STORE_LATENCIES,
								       WEIR__STORE_LATENCY_FIRST_US * ns_of_us,
								       status.latency_sum_us * ns_of_us });
}

void weir__http_metrics(struct weir__http_call *call)
{
	struct weir__metrics metrics = { call->reply, wants_openmetrics(call->request), WEIR__METRICS_N };

	WEIR__REPLY_HEAD(call->reply, "Vary: Accept\r\n");
	if (!weir__http_metrics_limits(call, &metrics)) {
		weir__reply_problem(call->reply, 503, "no memory for the metrics of the limits; retry later");
		return;
	}
	add_decisions(call, &metrics);
	add_times(call, &metrics);
	add_protocols(call, &metrics);
	add_tls(call, &metrics);
	add_table(call, &metrics);
	add_policy(call, &metrics);
	if (call->context->holds)
		weir__metrics_one(&metrics, WEIR__METRIC_HOLDS, weir__holds_n(call->context->holds));
	add_log(call, &metrics);
	add_store(call, &metrics);
	add_process(call, &metrics);
	add_build(call, &metrics);
	weir__metrics_end(&metrics);
}
