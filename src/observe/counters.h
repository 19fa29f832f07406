/* counters.h: the workers' counters of connections, requests and authentication failures by protocol, of pauses in
 * accepting, and of connections that the server closed to protect itself.
 *
 * Each worker writes its own counters with plain loads and stores. A reader adds up the counters of all workers. */
#ifndef WEIR_OBSERVE_COUNTERS_H
#define WEIR_OBSERVE_COUNTERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "observe/protocol.h"
#include "os/tls_server.h"

/* Why a worker did not accept a new connection: all workers are at their maximum, or the kernel had no resources. */
enum weir__counters_pause { WEIR__PAUSE_FULL, WEIR__PAUSE_KERNEL, WEIR__PAUSES };

/* Why the server closed a connection: all clients together took too much memory and this one was among the largest, it
 * read its replies too slowly, its request or its authentication was not complete in time, it had not authenticated and
 * let replies wait, its address had too many connections, or it flooded the server with frames of HTTP/2. */
enum weir__counters_closed {
	WEIR__CLOSED_MEMORY,
	WEIR__CLOSED_SLOW_READER,
	WEIR__CLOSED_LATE,
	WEIR__CLOSED_UNAUTHENTICATED,
	WEIR__CLOSED_ADDRESS,
	WEIR__CLOSED_FLOOD,
	WEIR__CLOSED_N,
};
extern const char *const weir__closed_words[WEIR__CLOSED_N]; /* for labels and for INFO */
extern const char *const weir__tls_failure_words[WEIR__TLS_FAILURES];

/* Of one worker. */
struct weir__counters {
	_Alignas(64) _Atomic uint64_t connections[WEIR__PROTOCOLS]; /* open */
	_Atomic uint64_t requests[WEIR__PROTOCOLS];                 /* replied to */
	_Atomic uint64_t auth_failures[WEIR__PROTOCOLS];            /* wrong name, password or token */
	_Atomic uint64_t auth_limited[WEIR__PROTOCOLS];             /* not checked, after too many of these */
	_Atomic uint64_t pauses[WEIR__PAUSES];   /* of accepting, while a client was waiting to be accepted */
	_Atomic uint64_t in_flight, overflows;   /* requests completing later; requests beyond the bound */
	_Atomic uint64_t waiting, waits_refused; /* requests that wait for a limit; those beyond the most that may */
	_Atomic uint64_t closed[WEIR__CLOSED_N];
	_Atomic uint64_t inline_evicted; /* inline limits that left the cache of a worker */
	_Atomic uint64_t client_bytes;   /* memory of clients now */
	_Atomic uint64_t tls_handshakes, tls_failures[WEIR__TLS_FAILURES]; /* complete; failed */
	/* Requests that no limit of the policy matched; those of them that the policy denied. */
	_Atomic uint64_t unmatched, unmatched_denied;
};

struct weir__counters_sum {
	uint64_t connections[WEIR__PROTOCOLS], requests[WEIR__PROTOCOLS], auth_failures[WEIR__PROTOCOLS];
	uint64_t auth_limited[WEIR__PROTOCOLS];
	uint64_t pauses[WEIR__PAUSES];
	uint64_t in_flight, overflows;
	uint64_t waiting, waits_refused;
	uint64_t inline_evicted, closed[WEIR__CLOSED_N], client_bytes;
	uint64_t tls_handshakes, tls_failures[WEIR__TLS_FAILURES];
	uint64_t unmatched, unmatched_denied;
};

struct weir__counters_set;

/* NULL: no memory. */
struct weir__counters_set *weir__counters_set_new(uint32_t workers);
void weir__counters_set_free(struct weir__counters_set *counters_set); /* NULL is allowed */

/* Returns the counters of a worker; NULL if counters_set is NULL. */
struct weir__counters *weir__counters_set_of(struct weir__counters_set *counters_set, uint32_t worker);

/* The time since the counters were made, in whole seconds. */
uint64_t weir__counters_set_age_s(const struct weir__counters_set *counters_set);
uint64_t weir__counters_set_made_at_s(const struct weir__counters_set *counters_set); /* Unix time */

void weir__counters_set_sum(struct weir__counters_set *counters_set, struct weir__counters_sum *ret_sum);

/* Whether a log line of this kind may be written. All workers together may write 10 lines a second about authentication
 * failures, one a second about attempts that were not checked, failed TLS handshakes and each reason to close connections, and one in 10
 * s about pauses, so that password guessing or too many connections do not fill the log. *ret_left_out is the number of
 * events without a line since the last line. It is set only if true is returned. */
enum weir__counters_line {
	WEIR__COUNTERS_LINE_AUTH_FAILURE,
	WEIR__COUNTERS_LINE_AUTH_LIMITED,
	WEIR__COUNTERS_LINE_PAUSE,
	WEIR__COUNTERS_LINE_MEMORY,
	WEIR__COUNTERS_LINE_ADDRESS,
	WEIR__COUNTERS_LINE_TLS,
	WEIR__COUNTERS_LINE_N,
};
bool weir__counters_set_may_log(struct weir__counters_set *counters_set, enum weir__counters_line what,
				uint64_t *ret_left_out);

/* Whether to log unmatched requests: at most once a minute for all workers together, by the time `now_s`. If true,
 * *ret_n is their number since the last such line. Until then workers only read a shared line, so any number of
 * unmatched requests is cheap. */
bool weir__counters_set_log_unmatched(struct weir__counters_set *counters_set, uint64_t now_s, uint64_t *ret_n);

/* Only by the worker that owns the counter. A negative n subtracts. */
static inline void weir__counters_add(_Atomic uint64_t *counter, int64_t n)
{
	const uint64_t before = atomic_load_explicit(counter, memory_order_relaxed);

	atomic_store_explicit(counter, before + (uint64_t)n, memory_order_relaxed);
}

#endif
