/* counters.c: the counters of all workers, each in cache lines of its own. */
#include "observe/counters.h"

#include <weir/clock.h>
#include <weir/limiter.h>

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "os/monotonic.h"

/* The rate limit of one kind of log line. */
struct lines {
	struct weir_limiter *limiter;
	_Atomic uint64_t left_out; /* since the last line */
	_Alignas(WEIR_LIMITER_ALIGN) unsigned char room[WEIR_LIMITER_SIZE];
};

struct weir__counters_set {
	uint32_t n;
	time_t made;    /* monotonic */
	time_t made_at; /* Unix time */
	struct lines lines[WEIR__COUNTERS_LINE_N];
	_Alignas(64) _Atomic uint64_t unmatched_at_s; /* of the last line about unmatched requests; 0: none */
	_Atomic uint64_t unmatched_told;              /* how many of them lines have reported */
	struct weir__counters of[];
};

static const char *const line_limits[WEIR__COUNTERS_LINE_N] = {
	[WEIR__COUNTERS_LINE_AUTH_FAILURE] = "10/s", [WEIR__COUNTERS_LINE_AUTH_LIMITED] = "1/s",
	[WEIR__COUNTERS_LINE_PAUSE] = "1/10s",       [WEIR__COUNTERS_LINE_MEMORY] = "1/s",
	[WEIR__COUNTERS_LINE_ADDRESS] = "1/s",       [WEIR__COUNTERS_LINE_TLS] = "1/s",
};

const char *const weir__closed_words[WEIR__CLOSED_N] = {
	[WEIR__CLOSED_MEMORY] = "memory",   [WEIR__CLOSED_SLOW_READER] = "slow_reader",
	[WEIR__CLOSED_LATE] = "late",       [WEIR__CLOSED_UNAUTHENTICATED] = "unauthenticated",
	[WEIR__CLOSED_ADDRESS] = "address", [WEIR__CLOSED_FLOOD] = "flood",
};

const char *const weir__tls_failure_words[WEIR__TLS_FAILURES] = {
	[WEIR__TLS_CLOSED] = "closed",
	[WEIR__TLS_PLAIN] = "not_tls",
	[WEIR__TLS_VERSION] = "version",
	[WEIR__TLS_NO_CERTIFICATE] = "no_certificate",
	[WEIR__TLS_UNTRUSTED] = "untrusted",
	[WEIR__TLS_EXPIRED] = "expired",
	[WEIR__TLS_REJECTED] = "rejected_by_client",
	[WEIR__TLS_OTHER] = "other",
};

static time_t seconds_now(void)
{
	return (time_t)(weir__monotonic_ns() / 1000000000);
}

struct weir__counters_set *weir__counters_set_new(uint32_t workers)
{
	const size_t size = sizeof(struct weir__counters_set) + workers * sizeof(struct weir__counters);
	struct weir__counters_set *const counters_set = aligned_alloc(_Alignof(struct weir__counters_set), size);
	bool is_whole = true;

	if (counters_set == NULL)
		return NULL;
	memset(counters_set, 0, size);
	counters_set->n = workers;
	counters_set->made = seconds_now();
	counters_set->made_at = time(NULL);
	for (int what = 0; what < WEIR__COUNTERS_LINE_N; what++) {
		struct lines *const lines = &counters_set->lines[what];

		is_whole &= weir_limiter_init_text(lines->room, sizeof(lines->room), line_limits[what], &lines->limiter,
						   NULL) == WEIR_OK;
	}
	if (is_whole)
		return counters_set;
	free(counters_set);
	return NULL;
}

void weir__counters_set_free(struct weir__counters_set *counters_set)
{
	free(counters_set);
}

struct weir__counters *weir__counters_set_of(struct weir__counters_set *counters_set, uint32_t worker)
{
	return counters_set ? &counters_set->of[worker] : NULL;
}

uint64_t weir__counters_set_age_s(const struct weir__counters_set *counters_set)
{
	return (uint64_t)(seconds_now() - counters_set->made);
}

uint64_t weir__counters_set_made_at_s(const struct weir__counters_set *counters_set)
{
	return (uint64_t)counters_set->made_at;
}

void weir__counters_set_sum(struct weir__counters_set *counters_set, struct weir__counters_sum *ret_sum)
{
	*ret_sum = (struct weir__counters_sum){ .connections = { 0 } };
	for (uint32_t i = 0; i < counters_set->n; i++) {
		for (int why = 0; why < WEIR__PAUSES; why++)
			ret_sum->pauses[why] += atomic_load_explicit(&counters_set->of[i].pauses[why],
								     memory_order_relaxed);
		for (int why = 0; why < WEIR__CLOSED_N; why++)
			ret_sum->closed[why] += atomic_load_explicit(&counters_set->of[i].closed[why],
								     memory_order_relaxed);
		ret_sum->tls_handshakes += atomic_load_explicit(&counters_set->of[i].tls_handshakes,
								memory_order_relaxed);
		for (int why = 0; why < WEIR__TLS_FAILURES; why++)
			ret_sum->tls_failures[why] += atomic_load_explicit(&counters_set->of[i].tls_failures[why],
									   memory_order_relaxed);
		ret_sum->unmatched += atomic_load_explicit(&counters_set->of[i].unmatched, memory_order_relaxed);
		ret_sum->unmatched_denied += atomic_load_explicit(&counters_set->of[i].unmatched_denied,
								  memory_order_relaxed);
		ret_sum->inline_evicted += atomic_load_explicit(&counters_set->of[i].inline_evicted,
								memory_order_relaxed);
		ret_sum->client_bytes += atomic_load_explicit(&counters_set->of[i].client_bytes, memory_order_relaxed);
		ret_sum->in_flight += atomic_load_explicit(&counters_set->of[i].in_flight, memory_order_relaxed);
		ret_sum->waiting += atomic_load_explicit(&counters_set->of[i].waiting, memory_order_relaxed);
		ret_sum->waits_refused += atomic_load_explicit(&counters_set->of[i].waits_refused,
							       memory_order_relaxed);
		ret_sum->overflows += atomic_load_explicit(&counters_set->of[i].overflows, memory_order_relaxed);
		for (int protocol = 0; protocol < WEIR__PROTOCOLS; protocol++) {
			ret_sum->connections[protocol] += atomic_load_explicit(
				&counters_set->of[i].connections[protocol], memory_order_relaxed);
			ret_sum->requests[protocol] += atomic_load_explicit(&counters_set->of[i].requests[protocol],
									    memory_order_relaxed);
			ret_sum->auth_limited[protocol] += atomic_load_explicit(
				&counters_set->of[i].auth_limited[protocol], memory_order_relaxed);
			ret_sum->auth_failures[protocol] += atomic_load_explicit(
				&counters_set->of[i].auth_failures[protocol], memory_order_relaxed);
		}
	}
}

bool weir__counters_set_may_log(struct weir__counters_set *counters_set, enum weir__counters_line what,
				uint64_t *ret_left_out)
{
	struct lines *const lines = &counters_set->lines[what];

	if (!weir_limiter_allow(lines->limiter, weir_clock_now(), 1)) {
		(void)atomic_fetch_add_explicit(&lines->left_out, 1, memory_order_relaxed);
		return false;
	}
	*ret_left_out = atomic_exchange_explicit(&lines->left_out, 0, memory_order_relaxed);
	return true;
}

enum { UNMATCHED_EVERY_S = 60 };

bool weir__counters_set_log_unmatched(struct weir__counters_set *counters_set, uint64_t now_s, uint64_t *ret_n)
{
	uint64_t last = atomic_load_explicit(&counters_set->unmatched_at_s, memory_order_relaxed), all = 0, told;

	/* Another worker's clock may be a second ahead. A clock that was set back by more is a new clock. */
	if (last > 0 && (now_s > last ? now_s - last : last - now_s) < UNMATCHED_EVERY_S)
		return false;
	if (!atomic_compare_exchange_strong(&counters_set->unmatched_at_s, &last, now_s))
		return false;
	for (uint32_t i = 0; i < counters_set->n; i++)
		all += atomic_load_explicit(&counters_set->of[i].unmatched, memory_order_relaxed);
	told = atomic_exchange(&counters_set->unmatched_told, all);
	*ret_n = all > told ? all - told : 0;
	return true;
}
