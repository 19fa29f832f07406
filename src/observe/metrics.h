/* metrics.h: the metrics that Prometheus scrapes, one row each, and writing them in the Prometheus text format (0.0.4)
 * or as OpenMetrics (1.0).
 *
 * The formats differ in the metadata lines. In OpenMetrics a counter has the suffix _total in its samples only, and a
 * unit has a line of its own. Numbers are written from integers, so both formats and all locales have the same
 * digits.
 * The reasons are in docs/internals/observing.md. */
#ifndef WEIR_OBSERVE_METRICS_H
#define WEIR_OBSERVE_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/http_reply.h"

/* Names are family names, without the suffix _total of counters or _info of infos. With a unit, the name ends in it.
 *
 * X(id, name, type, unit, labels, help) */
/* clang-format off */
#define WEIR__METRICS(X) \
	X(REQUESTS, "rate_limiter_requests", COUNTER, "", "algorithm, service, limit", \
	  "Decisions by a limit, allowed or not; (inline) stands for all limits stated in requests.") \
	X(ALLOWED, "rate_limiter_allowed", COUNTER, "", "algorithm, service, limit", \
	  "Decisions that allowed the request, by enforced limits.") \
	X(REJECTED, "rate_limiter_rejected", COUNTER, "", "algorithm, service, limit", \
	  "Decisions that denied the request, by enforced limits.") \
	X(SHADOW_REJECTED, "rate_limiter_shadow_rejected", COUNTER, "", "algorithm, service, limit", \
	  "Decisions that would have denied the request, by limits in shadow.") \
	X(DELAYED, "rate_limiter_delayed", COUNTER, "", "algorithm, service, limit", \
	  "Decisions that allowed the request with a delay, by leaky buckets with a queue.") \
	X(DELAY_SECONDS, "rate_limiter_delay_seconds", COUNTER, "seconds", "algorithm, service, limit", \
	  "The sum of the delays of delayed requests.") \
	X(FILL, "rate_limiter_bucket_fill_ratio", GAUGE, "ratio", "algorithm, service, limit", \
	  "What is left of a limit, as a share of its capacity, 0 (used up) to 1 (full), for every algorithm. For a limit without a " \
	  "key: now. For a limit with keys, or in a store: the mean over the decisions of the last 10 s, no sample if there were " \
	  "none.") \
	X(LEVEL, "rate_limiter_bucket_level_ratio", GAUGE, "ratio", "algorithm, service, limit", \
	  "The water in a leaky bucket with its queue, as a share of its capacity, 0 (empty) to 1 (full): 1 minus the fill ratio.") \
	X(CAPACITY, "rate_limiter_limit_capacity", GAUGE, "", "algorithm, service, limit", \
	  "The most that a key of the limit can have available: the burst of a bucket, the count of a window.") \
	X(SHARED, "rate_limiter_limit_shared", GAUGE, "", "algorithm, service, limit", \
	  "1 for a limit without a key, whose bucket or window all requests share; other limits have no sample.") \
	X(RATE, "rate_limiter_limit_units_per_second", GAUGE, "", "algorithm, service, limit", \
	  "How much of the limit a key regains per second.") \
	X(DECISIONS, "rate_limiter_decisions", COUNTER, "", "result", \
	  "Requests decided, each counted once however many limits apply: allowed, or rejected by an enforced limit.") \
	X(UNMATCHED, "rate_limiter_unmatched", COUNTER, "", "", \
	  "Requests that no limit of the policy applied to, perhaps because an attribute is misspelled or missing; mode: off counts " \
	  "as a limit that applies.") \
	X(UNMATCHED_REJECTED, "rate_limiter_unmatched_rejected", COUNTER, "", "", \
	  "Requests that no limit applied to and that were denied, because the policy says unmatched: deny.") \
	X(LIMITS_LEFT_OUT, "rate_limiter_limits_left_out", GAUGE, "", "", \
	  "Limits and overrides of the policy without series here, because there are more than 1000 or their names are too long.") \
	X(DECISION_SECONDS, "rate_limiter_decision_duration_seconds", HISTOGRAM, "seconds", "", \
	  "How long decisions by the table took; one call of 16 is timed.") \
	X(REQUEST_SECONDS, "rate_limiter_request_duration_seconds", HISTOGRAM, "seconds", "throttled", \
	  "Time from when the kernel reported a request until the reply was written; throttled: denied, delayed or made to wait.") \
	X(WAIT_SECONDS, "rate_limiter_wait_duration_seconds", HISTOGRAM, "seconds", "", \
	  "How long requests waited at the server for a limit, by WAIT, wait or the policy's wait.") \
	X(WAITING, "rate_limiter_requests_waiting", GAUGE, "", "", "Requests that are waiting at the server for a limit.") \
	X(WAITS_REFUSED, "rate_limiter_waits_refused", COUNTER, "", "", \
	  "Requests that could not wait, because 4096 requests of their worker were waiting: BUSY over RESP, 503 over HTTP.") \
	X(CONNECTIONS, "rate_limiter_connections", GAUGE, "", "protocol", "Open connections.") \
	X(CONNECTIONS_MOST, "rate_limiter_connections_limit", GAUGE, "", "", \
	  "The most connections that may be open, over RESP and HTTP together: the setting connections times the workers.") \
	X(ACCEPT_PAUSES, "rate_limiter_accept_pauses", COUNTER, "", "reason", \
	  "How often a new connection had to wait to be accepted, for 100 ms or until another was closed: connections, all " \
	  "workers had reached the setting connections; kernel, it had no file descriptor or memory left.") \
	X(CONNECTIONS_CLOSED, "rate_limiter_connections_closed", COUNTER, "", "reason", \
	  "Connections that the server closed to protect itself: memory, one of the largest when all clients of a worker took more " \
	  "than client_memory; slow_reader, it read its replies too slowly; late, a request or the authentication was not " \
	  "complete in time; unauthenticated, it had not authenticated and sent too much; address, its address had as many " \
	  "as connections_per_address allows; flood, it sent too many resets, pings or other frames of HTTP/2.") \
	X(INLINE_EVICTED, "rate_limiter_inline_limits_evicted", COUNTER, "", "", \
	  "Limits of requests to the rate limit service that left the cache of a worker, which holds 256. Their counts stay.") \
	X(CLIENT_MEMORY, "rate_limiter_client_memory_bytes", GAUGE, "bytes", "", \
	  "Memory of all clients: buffered requests and replies.") \
	X(CLIENT_MEMORY_MOST, "rate_limiter_client_memory_limit_bytes", GAUGE, "bytes", "", \
	  "The maximum of rate_limiter_client_memory_bytes: the setting client_memory times the workers.") \
	X(IN_FLIGHT, "rate_limiter_requests_in_flight", GAUGE, "", "", \
	  "Requests that are waiting for a store, for WAIT or for a policy to be read.") \
	X(OVERFLOWS, "rate_limiter_requests_overflow", COUNTER, "", "", \
	  "Requests decided without the store because 16384 requests, or 64 MiB of them, of their worker were in flight.") \
	X(REPLIES, "rate_limiter_responses", COUNTER, "", "protocol", "Replies and responses sent.") \
	X(AUTH_FAILURES, "rate_limiter_auth_failures", COUNTER, "", "protocol", \
	  "Attempts with a wrong user name, password or token.") \
	X(AUTH_LIMITED, "rate_limiter_auth_limited", COUNTER, "", "protocol", \
	  "Passwords and tokens that were not checked, because their address had sent too many wrong ones: auth_limit.") \
	X(TABLE_CAPACITY, "rate_limiter_table_capacity_keys", GAUGE, "keys", "", "Keys that the table has room for.") \
	X(TABLE_LIVE, "rate_limiter_table_live_keys", GAUGE, "keys", "", \
	  "Keys with part of a limit in use now; in large tables estimated from 65536 slots, or from 2097152 if few keys live.") \
	X(TABLE_INSERTED, "rate_limiter_table_inserted", COUNTER, "", "", "Keys that were given a slot.") \
	X(TABLE_EVICTED, "rate_limiter_table_evicted", COUNTER, "", "", \
	  "Keys that were evicted while part of their limit was in use.") \
	X(TABLE_FOLDED, "rate_limiter_table_folded", COUNTER, "", "", \
	  "Times that the arena was full and a key kept only its usage, not the times: it may be denied too much.") \
	X(TABLE_PLANS_LOST, "rate_limiter_table_plans_lost", COUNTER, "", "", \
	  "Earlier versions of changed limits that were dropped while keys may still have used them.") \
	X(TABLE_DAMAGED, "rate_limiter_table_damaged", COUNTER, "", "part", \
	  "Parts of the table's file that were found damaged when it was opened, and started over: pages, slots, limits, or " \
	  "fields, which are counters, words of the header and earlier versions of limits.") \
	X(TABLE_TRUNCATIONS, "rate_limiter_table_truncations", COUNTER, "", "", \
	  "How often the table's file was truncated while this server used it. Keys in the lost part started over.") \
	X(TABLE_DETACHED, "rate_limiter_table_detached", GAUGE, "", "", \
	  "1 if the table has lost its file or shared memory, because that was removed or could not be extended after a " \
	  "truncation, else 0. The server's state is then lost when it exits.") \
	X(ARENA_BYTES, "rate_limiter_arena_bytes", GAUGE, "bytes", "", \
	  "Memory for the events of sliding logs and sub-windows: the setting arena.") \
	X(ARENA_USED, "rate_limiter_arena_used_bytes", GAUGE, "bytes", "", "How much of the arena is in use.") \
	X(POLICY_LIMITS, "rate_limiter_policy_limits", GAUGE, "", "", "Limits of the policy.") \
	X(POLICY_CHANGES, "rate_limiter_policy_changes", COUNTER, "", "", \
	  "New versions of the policy that took effect, after the first.") \
	X(POLICY_FAILURES, "rate_limiter_policy_failures", COUNTER, "", "", \
	  "New versions of the policy that had errors and were not used.") \
	X(POLICY_REFUSED, "rate_limiter_policy_refused", GAUGE, "", "", \
	  "1 if the latest version of the policy has errors, so that an earlier one is still in force, else 0.") \
	X(POLICY_LOADED, "rate_limiter_policy_loaded_timestamp_seconds", GAUGE, "seconds", "", \
	  "When the policy took effect, as a Unix time in seconds.") \
	X(HOLDS, "rate_limiter_holds", GAUGE, "", "", "Holds in the server's memory.") \
	X(SPANS_SENT, "rate_limiter_spans_sent", COUNTER, "", "", "Spans that the trace collector accepted.") \
	X(SPANS_DROPPED, "rate_limiter_spans_dropped", COUNTER, "", "", \
	  "Spans lost because the buffer was full or the collector did not accept them.") \
	X(DENIALS_LEFT_OUT, "rate_limiter_log_denials_left_out", COUNTER, "", "", \
	  "Log lines for denials dropped because of log_denials_limit.") \
	X(LOG_LEFT_OUT, "rate_limiter_log_lines_left_out", COUNTER, "", "", \
	  "Log lines dropped because standard error was not read in time.") \
	X(STORE_UP, "rate_limiter_store_up", GAUGE, "", "", "1 if the store decides, else 0.") \
	X(STORE_BREAKER, "rate_limiter_store_breaker", GAUGE, "", "state", "1 for the state of the circuit breaker, 0 for the others.") \
	X(STORE_DECISIONS, "rate_limiter_store_decisions", COUNTER, "", "outcome", \
	  "Requests for the store, by outcome: decided, unreached or unanswered.") \
	X(STORE_FAILURES, "rate_limiter_store_failures", COUNTER, "", "reason", \
	  "Requests that the store did not decide, by reason: slow (connected, but no reply within the budget), gone (not connected) or refused (an error as the reply).") \
	X(STORE_NODES, "rate_limiter_store_nodes", GAUGE, "", "", "Servers that use the store, including this one.") \
	X(STORE_CALLS, "rate_limiter_store_calls", COUNTER, "", "", "Calls of the script in the store.") \
	X(STORE_REQUESTS, "rate_limiter_store_requests", COUNTER, "", "", "Requests in calls of the script.") \
	X(STORE_SCRIPT_RELOADS, "rate_limiter_store_script_reloads", COUNTER, "", "", \
	  "How often the script was missing in the store and was loaded again.") \
	X(STORE_FAILOVERS, "rate_limiter_store_failovers", COUNTER, "", "", "How often the store moved to another Redis server.") \
	X(STORE_KEYS_DAMAGED, "rate_limiter_store_keys_damaged", COUNTER, "", "", \
	  "Keys whose value in the store was damaged or not Weir's, and was replaced.") \
	X(STORE_DEFERRED_KEYS, "rate_limiter_store_deferred_keys", GAUGE, "keys", "", \
	  "Keys with units allowed here that are still to be charged in the store.") \
	X(STORE_DEFERRED_CHARGED, "rate_limiter_store_deferred_charged", COUNTER, "", "", "Units allowed here and charged in the store later.") \
	X(STORE_DEFERRED_EXCESS, "rate_limiter_store_deferred_excess", COUNTER, "", "", "Units allowed here beyond what the limit had left in the store.") \
	X(STORE_DEFERRED_UNCERTAIN, "rate_limiter_store_deferred_uncertain", COUNTER, "", "", \
	  "Units sent to be charged in the store without a reply; they are not sent again.") \
	X(STORE_DEFERRED_DROPPED, "rate_limiter_store_deferred_dropped", COUNTER, "", "", \
	  "Units that exceeded deferred_memory; they are not charged in the store.") \
	X(LEASE_DECISIONS, "rate_limiter_lease_decisions", COUNTER, "", "outcome", \
	  "Requests decided without the store, by outcome: allowed from held units, or denied because the store had just denied such a request.") \
	X(LEASE_HELD, "rate_limiter_lease_held", GAUGE, "", "", "Units of leased limits that the store lent to this server and that are unspent.") \
	X(LEASE_BOUND, "rate_limiter_lease_bound_units", GAUGE, "", "algorithm, service, limit", \
	  "Units of a key that all servers together may hold, for each leased limit. Other servers may deny that much too early.") \
	X(LEASE_UNITS, "rate_limiter_lease_units", COUNTER, "", "event", \
	  "Units of leased limits by event: granted by the store, returned to it, or expired unspent.") \
	X(LEASE_DROPPED, "rate_limiter_lease_dropped", COUNTER, "", "", \
	  "Draws, returns and pushes that were not made because too many were under way, or memory ran out.") \
	X(EVENTUAL_DECISIONS, "rate_limiter_eventual_decisions", COUNTER, "", "outcome", \
	  "Requests that this server decided by the state of the key that the store last reported, by outcome: allowed or denied.") \
	X(EVENTUAL_WAITING, "rate_limiter_eventual_waiting_units", GAUGE, "", "", \
	  "Units of eventual limits that this server allowed and the store has not confirmed, of all keys.") \
	X(EVENTUAL_PUSHES, "rate_limiter_eventual_pushes", COUNTER, "", "", "Pushes of a key: its charges were sent to the store, and its state was read.") \
	X(EVENTUAL_BOUND, "rate_limiter_eventual_bound_units", GAUGE, "", "algorithm, service, limit", \
	  "Units by which all servers together may exceed an eventual limit, for each key: ahead times (servers - 1).") \
	X(STORE_SECONDS, "rate_limiter_store_decision_duration_seconds", HISTOGRAM, "seconds", "", \
	  "How long the store took to decide a request.") \
	X(TLS_HANDSHAKES, "rate_limiter_tls_handshakes", COUNTER, "", "", "TLS handshakes that completed.") \
	X(TLS_FAILURES, "rate_limiter_tls_failures", COUNTER, "", "reason", \
	  "TLS handshakes that failed, by reason: closed, not_tls, version, no_certificate, untrusted, expired, rejected_by_client or other.") \
	X(TLS_EXPIRES, "rate_limiter_tls_certificate_expires_timestamp_seconds", GAUGE, "seconds", "certificate", \
	  "When the first certificate in tls_cert (server) or tls_client_ca (client_ca) expires, as a Unix time in seconds.") \
	X(TLS_REFUSED, "rate_limiter_tls_certificate_refused", GAUGE, "", "", \
	  "1 if the files of the certificate have errors, so that an earlier one is still in use, else 0.") \
	X(TLS_RELOADS, "rate_limiter_tls_reloads", COUNTER, "", "", "How often certificates were read again and used.") \
	X(PROCESS_CPU, "process_cpu_seconds", COUNTER, "seconds", "", "CPU time used by all threads of the server.") \
	X(PROCESS_MEMORY, "process_resident_memory_bytes", GAUGE, "bytes", "", "Resident memory of the server.") \
	X(PROCESS_START, "process_start_time_seconds", GAUGE, "seconds", "", \
	  "When the server started, as a Unix time in seconds.") \
	X(BUILD, "rate_limiter_build", INFO, "", "version, service", "The version of Weir and the name of the service; always 1.")
/* clang-format on */

enum weir__metric {
#define METRIC_ID(id, name, type, unit, labels, help) WEIR__METRIC_##id,
	WEIR__METRICS(METRIC_ID)
#undef METRIC_ID
		WEIR__METRICS_N,
};

enum weir__metric_type {
	WEIR__METRIC_COUNTER,
	WEIR__METRIC_GAUGE,
	WEIR__METRIC_HISTOGRAM,
	WEIR__METRIC_INFO,
};

struct weir__metric_row {
	const char *name;
	enum weir__metric_type type;
	const char *unit;   /* empty: no unit */
	const char *labels; /* names, for the documentation; without le of histograms */
	const char *help;
};

extern const struct weir__metric_row weir__metric_rows[WEIR__METRICS_N];

/* The suffix of sample names: _total, _info or empty. Histograms have suffixes of their own. */
const char *weir__metric_suffix(enum weir__metric_type type);

/* Labels in the form between the braces. Values may be any bytes: invalid UTF-8 becomes \xHH, and what does not fit is
 * cut off. */
enum { WEIR__LABELS_SIZE = 8192 };

struct weir__labels {
	size_t n;
	char at[WEIR__LABELS_SIZE];
};

/* `name` is short and consists of letters. Set labels->n to 0 before the first label. */
void weir__labels_add(struct weir__labels *labels, const char *name, const char *value);

/* A page that is being written. */
struct weir__metrics {
	struct weir__http_reply *reply;
	bool is_openmetrics;
	enum weir__metric metric; /* of the samples that follow */
};

/* Writes HELP, TYPE and UNIT of a metric. The samples that follow belong to it. */
void weir__metrics_begin(struct weir__metrics *metrics, enum weir__metric metric);

/* Writes a sample. `n` is the length of the labels; 0: no labels. */
void weir__metrics_add(struct weir__metrics *metrics, const char *labels, size_t n, uint64_t value);

/* The same for a decimal number. */
struct weir__decimal {
	uint64_t whole;
	uint32_t billionths; /* below 10^9 */
};
void weir__metrics_add_decimal(struct weir__metrics *metrics, const char *labels, size_t n, struct weir__decimal value);

/* a / b, to the nearest millionth; 0 if b is 0. */
struct weir__decimal weir__decimal_of_share(uint64_t a, uint64_t b);
struct weir__decimal weir__decimal_of_ns(uint64_t ns);
/* A rate per second. Saturates at the largest number. */
struct weir__decimal weir__decimal_of_rate(uint64_t count, uint64_t period_ns);

/* Writes a sample with one label. */
void weir__metrics_add_word(struct weir__metrics *metrics, const char *label, const char *word, uint64_t value);

/* Writes a metric that has one sample, without labels. */
void weir__metrics_one(struct weir__metrics *metrics, enum weir__metric metric, uint64_t value);

/* A histogram. `counts` are by bucket, not cumulative. The bound of the first bucket is `least_ns`, each next bound is
 * twice the last, and the last bucket has none. */
struct weir__metrics_histogram {
	const uint64_t *counts;
	unsigned n;
	uint64_t least_ns, sum_ns;
};
void weir__metrics_add_histogram(struct weir__metrics *metrics, const char *labels, size_t n,
				 const struct weir__metrics_histogram *histogram);

/* Writes the last line, and the content type. */
void weir__metrics_end(struct weir__metrics *metrics);

#endif
