/* redis_log.c: log lines about the state of Redis. */
#include "store/redis/redis_log.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { LINE_SIZE = 1200, MS = 1000000 };

/* A burst of 20 lines, then one every 6 s. */
static const struct weir_limit lines = {
	.algorithm = WEIR_TOKEN_BUCKET, .count = 10, .period = UINT64_C(60000000000), .burst = 20, .segments = 1
};

static const weir_ns slow_pause = UINT64_C(10000000000), dropped_pause = UINT64_C(1000000000);

void weir__redis_log_init(struct weir__redis_log *log, const struct weir__redis_url *url,
			  void (*write)(void *context, const char *line), void *context)
{
	*log = (struct weir__redis_log){ .write = write, .context = context };
	weir__redis_url_show(url, log->url, sizeof(log->url));
	(void)weir_plan_compile(&lines, &log->plan, NULL);
}

static void __attribute__((format(printf, 3, 4))) say(struct weir__redis_log *log, weir_ns now, const char *format, ...)
{
	char line[LINE_SIZE];
	va_list arguments;
	int n;

	if (log->write == NULL)
		return;
	if (!weir_step_allow(&log->plan, &log->state, now, 1)) {
		log->left_out++;
		return;
	}
	n = snprintf(line, sizeof(line), "%s: ", log->url);
	va_start(arguments, format);
	n += vsnprintf(line + n, sizeof(line) - (size_t)n, format, arguments);
	va_end(arguments);
	if (log->left_out > 0 && n < LINE_SIZE)
		(void)snprintf(line + n, sizeof(line) - (size_t)n, " (%" PRIu64 " lines before this one were dropped)",
			       log->left_out);
	log->left_out = 0;
	log->write(log->context, line);
}

static const char *const failures[] = {
	[WEIR__REDIS_SLOW] = "is slow", [WEIR__REDIS_GONE] = "is unreachable", [WEIR__REDIS_REFUSES] = "returns errors"
};

static void say_health(struct weir__redis_log *log, const struct weir__redis_client_info *client, weir_ns now)
{
	const bool is_up = client->health == WEIR__REDIS_UP && (log->was_ever_up || client->links_ready > 0);
	const weir_ns gone = now - log->gone_since;

	if (is_up && !log->was_ever_up)
		say(log, now, "Redis is connected");
	else if (is_up && !log->is_up)
		say(log, now, "Redis is back after %" PRIu64 ".%03" PRIu64 " s", gone / 1000 / MS, gone / MS % 1000);
	else if (!is_up && log->is_up)
		say(log, now, "Redis %s: %s; decisions are made without it", failures[client->failure],
		    *client->last_error ? client->last_error : "it does not reply");
	else if (!log->was_ever_up && *client->last_error &&
		 strcmp(client->last_error, log->told.client.last_error) != 0)
		say(log, now, "Redis is unreachable: %s; decisions are made without it", client->last_error);
	if (!is_up && log->is_up)
		log->gone_since = now;
	log->is_up = is_up;
	log->was_ever_up |= is_up;
}

/* For a Redis that decides most requests, but not all in time. */
static void say_slow(struct weir__redis_log *log, const struct weir__redis_client_info *client, weir_ns now)
{
	const uint64_t slow = client->failures[WEIR__REDIS_SLOW] - log->slow_told;

	if (slow == 0 || !log->is_up || now < log->slow_from)
		return;
	say(log, now,
	    "Redis is slow: %" PRIu64
	    " requests had no reply in time and were decided without it; if it is healthy, raise store_budget",
	    slow);
	log->slow_told = client->failures[WEIR__REDIS_SLOW];
	log->slow_from = now + slow_pause;
}

static void say_dropped(struct weir__redis_log *log, const struct weir__redis_thread_info *info, weir_ns now)
{
	if (info->dropped == log->dropped_told || now < log->dropped_from)
		return;
	say(log, now,
	    "%" PRIu64 " units allowed without Redis will never be charged there: deferred_memory is full; raise it",
	    info->dropped - log->dropped_told);
	log->dropped_told = info->dropped;
	log->dropped_from = now + dropped_pause;
}

static void say_events(struct weir__redis_log *log, const struct weir__redis_client_info *client, weir_ns now)
{
	const struct weir__redis_client_info *const told = &log->told.client;

	if (client->failovers > told->failovers)
		say(log, now, "Redis has a new primary");
	if (client->anew > told->anew)
		say(log, now, "%" PRIu64 " keys started over: their values were damaged, or not Weir's",
		    client->anew - told->anew);
}

/* Logs the totals once no charge is left. */
static void say_backlog(struct weir__redis_log *log, const struct weir__redis_thread_info *info, weir_ns now)
{
	const struct weir__redis_thread_info *const told = &log->told;
	const bool has_entries = info->deferred_keys > 0;

	if (!has_entries && log->has_entries) {
		say(log, now,
		    "deferred charges are done: %" PRIu64 " units in Redis, %" PRIu64
		    " beyond what was left there, %" PRIu64 " uncertain, %" PRIu64 " dropped",
		    info->charged - told->charged, info->excess - told->excess, info->uncertain - told->uncertain,
		    info->dropped - told->dropped);
		log->told.charged = info->charged;
		log->told.excess = info->excess;
		log->told.uncertain = info->uncertain;
		log->told.dropped = info->dropped;
	}
	log->has_entries = has_entries;
}

void weir__redis_log_look(struct weir__redis_log *log, const struct weir__redis_thread_info *info, weir_ns now)
{
	say_health(log, &info->client, now);
	say_slow(log, &info->client, now);
	say_events(log, &info->client, now);
	say_dropped(log, info, now);
	say_backlog(log, info, now);
	log->told.client = info->client;
}

void weir__redis_log_end(struct weir__redis_log *log, const struct weir__redis_thread_info *info, weir_ns now)
{
	if (info->deferred_keys > 0)
		say(log, now,
		    "deferred charges of %" PRIu64 " keys are lost: the process exits before Redis was charged",
		    info->deferred_keys);
}
