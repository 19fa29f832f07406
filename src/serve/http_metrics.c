/* http_metrics.c: GET /metrics, in the text format of Prometheus.
 *
 * Series are bounded: those of limits by the policy, and by LIMITS_MAX. Keys are in none. Nothing here looks at all of a
 * large table: what it does not count it reckons from a part. */
#include <stdio.h>
#include <string.h>

#include "guard/guard.h"
#include "redis/redis_store.h"
#include "serve/http_call.h"
#include "serve/policies.h"
#include "serve/remote.h"
#include "serve/tally.h"
#include "store/table.h"

enum { LIMITS_MAX = 1000 };

#define TYPE_METRICS "text/plain; version=0.0.4; charset=utf-8"

/* Names of limits in Envoy's form may have anything in them: what is not plain becomes %XX, so that two stay two. */
static void add_label(struct weir__http_reply *reply, const char *name, const char *value)
{
	static const char digits[] = "0123456789ABCDEF";

	weir__reply_add_text(reply, name);
	WEIR__REPLY_ADD(reply, "=\"");
	for (; *value; value++) {
		const unsigned char byte = (unsigned char)*value;
		const char hex[3] = { '%', digits[byte >> 4], digits[byte & 15] };

		if (byte < 0x20 || byte > 0x7e || byte == '"' || byte == '\\' || byte == '%')
			weir__reply_add(reply, hex, sizeof(hex));
		else
			weir__reply_add(reply, value, 1);
	}
	WEIR__REPLY_ADD(reply, "\"");
}

static void add_head(struct weir__http_reply *reply, const char *name, const char *type, const char *help)
{
	const char *const words[] = { "# HELP ", name, " ", help, "\n# TYPE ", name, " ", type, "\n" };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		weir__reply_add_text(reply, words[i]);
}

static void add_value(struct weir__http_reply *reply, uint64_t value)
{
	WEIR__REPLY_ADD(reply, " ");
	weir__reply_add_number(reply, value);
	WEIR__REPLY_ADD(reply, "\n");
}

static void add_metric(struct weir__http_reply *reply, const char *name, const char *type, const char *help,
		       uint64_t value)
{
	add_head(reply, name, type, help);
	weir__reply_add_text(reply, name);
	add_value(reply, value);
}

/* --- limits ----------------------------------------------------------------------------------------------------- */

/* One of the two metrics of limits. */
struct decisions {
	struct weir__http_call *call;
	const char *name;
	bool allowed;
};

static void add_limit(const struct decisions *decisions, const char *limit, const char *algorithm,
		      const struct weir_table_limit *counted)
{
	struct weir__http_reply *const reply = decisions->call->reply;
	struct weir_table_limit_stats stats;

	weir_table_limit_stats(decisions->call->commands->table, counted, &stats);
	weir__reply_add_text(reply, decisions->name);
	add_label(reply, "{limit", limit);
	add_label(reply, ",algorithm", algorithm);
	WEIR__REPLY_ADD(reply, "}");
	add_value(reply, decisions->allowed ? stats.allowed : stats.denied);
}

static void begin_rows(void *decisions, uint32_t n)
{
	(void)decisions;
	(void)n;
}

static void tell_row(void *decisions_, const struct weir__guard_row *row)
{
	const struct decisions *const decisions = decisions_;

	if (row->limit)
		add_limit(decisions, row->name, weir_algorithm_name(weir_table_limit_limit(row->limit).algorithm),
			  row->limit);
}

/* No limit of a policy has brackets in its name. */
static void add_decisions(struct weir__http_call *call, bool allowed, const char *name, const char *help)
{
	struct decisions decisions = { call, name, allowed };
	struct weir__policies *const policies = call->commands->policies;

	add_head(call->reply, name, "counter", help);
	add_limit(&decisions, "(inline)", "any", call->commands->limits.counted_as);
	if (policies)
		weir__guard_list(weir__policies_guard(policies), 0, LIMITS_MAX, begin_rows, tell_row, &decisions);
}

/* --- the server ------------------------------------------------------------------------------------------------- */

static void add_by_wire(struct weir__http_reply *reply, const char *name, const char *type, const char *help,
			const uint64_t values[WEIR__WIRES])
{
	static const char *const wires[WEIR__WIRES] = { [WEIR__WIRE_RESP] = "resp", [WEIR__WIRE_HTTP] = "http" };

	add_head(reply, name, type, help);
	for (int wire = 0; wire < WEIR__WIRES; wire++) {
		weir__reply_add_text(reply, name);
		add_label(reply, "{wire", wires[wire]);
		WEIR__REPLY_ADD(reply, "}");
		add_value(reply, values[wire]);
	}
}

static void add_wires(struct weir__http_call *call)
{
	struct weir__tally_sum sum;

	if (call->commands->tallies == NULL)
		return;
	weir__tallies_sum(call->commands->tallies, &sum);
	add_by_wire(call->reply, "rate_limiter_connections", "gauge", "Connections that are open.", sum.connections);
	add_by_wire(call->reply, "rate_limiter_requests_total", "counter", "Requests that were answered.",
		    sum.requests);
}

static void add_table(struct weir__http_call *call)
{
	struct weir_table *const table = call->commands->table;
	struct weir__http_reply *const reply = call->reply;
	struct weir__table_glance glance;

	weir__table_look(table, weir_table_now(table), &glance);
	add_metric(reply, "rate_limiter_table_capacity_keys", "gauge", "Keys that the table has room for.",
		   glance.capacity);
	add_metric(reply, "rate_limiter_table_live_keys", "gauge",
		   "Keys that owe something now; of large tables reckoned from 65536 slots.", glance.live);
	add_metric(reply, "rate_limiter_table_inserted_total", "counter", "Keys that were given a place.",
		   glance.inserted);
	add_metric(reply, "rate_limiter_table_gave_way_total", "counter",
		   "Keys that owed something and lost their place to another one.", glance.gave_way);
}

static void add_policy(struct weir__http_call *call)
{
	struct weir__http_reply *const reply = call->reply;
	struct weir__policies_info info;

	if (call->commands->policies == NULL)
		return;
	weir__policies_info(call->commands->policies, &info);
	add_metric(reply, "rate_limiter_policy_limits", "gauge", "Limits of the policy.", info.limits);
	add_metric(reply, "rate_limiter_policy_changes_total", "counter",
		   "Versions of the policy that came into force after the first.", info.changes);
	add_metric(reply, "rate_limiter_policy_failures_total", "counter",
		   "Versions of the policy that were wrong and changed nothing.", info.failures);
	add_metric(reply, "rate_limiter_policy_loaded_timestamp_seconds", "gauge",
		   "When the policy came into force, in seconds of Unix time.", info.loaded_at / 1000000000);
}

static void add_holds(struct weir__http_call *call)
{
	if (call->commands->holds)
		add_metric(call->reply, "rate_limiter_holds", "gauge", "Holds that are remembered.",
			   weir__holds_n(call->commands->holds));
}

/* --- the store --------------------------------------------------------------------------------------------------- */

/* A series of several, each with its word. */
static void add_by_word(struct weir__http_reply *reply, const char *name, const char *label, const char *word,
			uint64_t value)
{
	weir__reply_add_text(reply, name);
	add_label(reply, label, word);
	WEIR__REPLY_ADD(reply, "}");
	add_value(reply, value);
}

/* Bounds are 64 us and twice as much each; the last has none. */
static void add_latency(struct weir__http_reply *reply, const struct weir__redis_store_info *info)
{
	static const char name[] = "rate_limiter_store_decision_seconds";
	char bound[32];
	uint64_t sum = 0;

	add_head(reply, name, "histogram", "How long the store took to decide what was asked together.");
	for (unsigned i = 0; i < WEIR__REDIS_LATENCIES; i++) {
		const unsigned us = 64u << i;

		sum += info->latency_counts[i];
		(void)snprintf(bound, sizeof(bound), "%u.%06u", us / 1000000, us % 1000000);
		add_by_word(reply, "rate_limiter_store_decision_seconds_bucket", "{le",
			    i + 1 < WEIR__REDIS_LATENCIES ? bound : "+Inf", sum);
	}
	(void)snprintf(bound, sizeof(bound), " %llu.%06llu\n", (unsigned long long)(info->latency_sum_us / 1000000),
		       (unsigned long long)(info->latency_sum_us % 1000000));
	WEIR__REPLY_ADD(reply, "rate_limiter_store_decision_seconds_sum");
	weir__reply_add_text(reply, bound);
	WEIR__REPLY_ADD(reply, "rate_limiter_store_decision_seconds_count");
	add_value(reply, sum);
}

static void add_store_state(struct weir__http_reply *reply, const struct weir__redis_client_info *client)
{
	static const struct {
		const char *word;
		enum weir__redis_health health;
	} states[] = { { "up", WEIR__REDIS_UP }, { "down", WEIR__REDIS_DOWN }, { "probing", WEIR__REDIS_PROBING } };

	add_metric(reply, "rate_limiter_store_up", "gauge", "Whether the store decides: 1, or 0.",
		   client->health == WEIR__REDIS_UP);
	add_head(reply, "rate_limiter_store_breaker", "gauge", "1 for the state that the breaker is in.");
	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++)
		add_by_word(reply, "rate_limiter_store_breaker", "{state", states[i].word,
			    client->health == states[i].health);
}

static void add_store_numbers(struct weir__http_reply *reply, const struct weir__redis_store_info *info)
{
	const struct {
		const char *name, *type, *help;
		uint64_t value;
	} rows[] = {
		{ "rate_limiter_store_nodes", "gauge", "Servers that use the store, this one among them.",
		  info->client.nodes },
		{ "rate_limiter_store_calls_total", "counter", "Calls of the script.", info->client.calls },
		{ "rate_limiter_store_requests_total", "counter", "Requests in these calls.", info->client.requests },
		{ "rate_limiter_store_script_reloads_total", "counter", "How often the store had lost the script.",
		  info->client.reloads },
		{ "rate_limiter_store_failovers_total", "counter", "How often another server became the store.",
		  info->client.failovers },
		{ "rate_limiter_store_keys_anew_total", "counter", "Keys whose values were damaged, or not ours.",
		  info->client.anew },
		{ "rate_limiter_store_owed_keys", "gauge", "Keys with something admitted here that is to be paid in.",
		  info->owed_keys },
		{ "rate_limiter_store_paid_total", "counter", "Units that were admitted here and paid in later.",
		  info->paid },
		{ "rate_limiter_store_drift_total", "counter", "Units that were admitted here beyond the limit.",
		  info->drift },
		{ "rate_limiter_store_unsure_total", "counter",
		  "Units of which nobody knows whether they were paid in.", info->unsure },
		{ "rate_limiter_store_forgotten_total", "counter",
		  "Units that there was no room to remember: they are not paid in.", info->forgotten },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		add_metric(reply, rows[i].name, rows[i].type, rows[i].help, rows[i].value);
}

static void add_outcomes(struct weir__http_reply *reply, const struct weir__redis_client_info *client)
{
	static const char name[] = "rate_limiter_store_decisions_total";

	add_head(reply, name, "counter", "What was asked together, by what came of it.");
	add_by_word(reply, name, "{outcome", "decided", client->decided);
	add_by_word(reply, name, "{outcome", "not_asked", client->not_asked);
	add_by_word(reply, name, "{outcome", "not_answered", client->not_answered);
}

static void add_store(struct weir__http_call *call)
{
	struct weir__redis_store_info info;

	if (call->commands->remote == NULL)
		return;
	weir__redis_store_info(weir__remote_store(call->commands->remote), &info);
	add_store_state(call->reply, &info.client);
	add_outcomes(call->reply, &info.client);
	add_store_numbers(call->reply, &info);
	add_latency(call->reply, &info);
}

static void add_build(struct weir__http_reply *reply)
{
	add_head(reply, "rate_limiter_build_info", "gauge", "The version of Weir; always 1.");
	WEIR__REPLY_ADD(reply, "rate_limiter_build_info");
	add_label(reply, "{version", WEIR_VERSION);
	WEIR__REPLY_ADD(reply, "}");
	add_value(reply, 1);
}

void weir__http_metrics(struct weir__http_call *call)
{
	add_decisions(call, true, "rate_limiter_allowed_total",
		      "Decisions that admitted, by limit; (inline) are all limits that come with requests.");
	add_decisions(call, false, "rate_limiter_rejected_total",
		      "Decisions that denied, by limit; (inline) are all limits that come with requests.");
	add_wires(call);
	add_table(call);
	add_policy(call);
	add_holds(call);
	add_store(call);
	add_build(call->reply);
	weir__reply_end(call->reply, 200, TYPE_METRICS);
}
