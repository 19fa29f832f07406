/* tracer.h: makes trace spans and denial log lines from decisions and the context of the request. Each worker has a
 * tracer, if either is on. It gets the decisions from the worker's limit_stats.
 *
 * A span covers a decided request. If a request has a traceparent, its sampled flag decides whether there is a span.
 * One in trace_one_in of all other requests is sampled, by a countdown. The reasons are in
 * docs/internals/observing.md. */
#ifndef WEIR_OBSERVE_TRACER_H
#define WEIR_OBSERVE_TRACER_H

#include <weir/guard.h>
#include <weir/table.h>

#include "observe/protocol.h"
#include "observe/trace.h"

struct weir__log;
struct weir__span_exporter;
struct weir__tracer;
struct weir__tracer_set;

/* Context for the trace span and the denial log, of the current request. */
struct weir__trace_context {
	enum weir__protocol protocol;
	bool has_parent; /* it has a traceparent */
	struct weir__trace_parent parent;
	const char *state; /* tracestate, or NULL */
	size_t state_length;
	const char *path; /* HTTP's path, or the attribute `path`; NULL: no path */
	size_t path_length;
	weir_ns since; /* when the request arrived; 0: use the time of the decision */
};

/* Which denials are logged. The values of the setting log_denials. */
enum weir__log_denials {
	WEIR__DENIALS_OFF,
	WEIR__DENIALS_HASH,
	WEIR__DENIALS_KEY,
};

struct weir__tracer_set_options {
	struct weir_table *table;
	const struct weir_table_limit *counted_as; /* the limit that counts inline limits */
	struct weir__log *log;
	uint32_t workers;
	const char *trace_to; /* a URL; empty: tracing is off */
	const char *service;
	uint64_t trace_one_in; /* sample one in this many requests without a traceparent; 0: none */
	enum weir__log_denials denials;
	const char *denials_limit; /* a rate limit on denial lines, as text */
};

/* *ret_tracers is NULL if neither tracing nor the denial log is on. Returns false if memory runs out, or the thread
 * cannot start. */
bool weir__tracer_set_new(const struct weir__tracer_set_options *options, struct weir__tracer_set **ret_tracers);
void weir__tracer_set_free(struct weir__tracer_set *tracers); /* NULL is allowed */

/* Returns the tracer of a worker; NULL if tracers is NULL. */
struct weir__tracer *weir__tracer_set_of(struct weir__tracer_set *tracers, uint32_t worker);

struct weir__tracer_set_info {
	uint64_t spans_sent, spans_dropped;
	uint64_t denials_left_out; /* lines beyond log_denials_limit */
};

void weir__tracer_set_info(const struct weir__tracer_set *tracers, struct weir__tracer_set_info *ret_info);

/* --- by the worker; `tracer` may be NULL, except for each and together ------------------------------------------- */

/* Sets the guard whose limits the keys belong to, to write keys as text. NULL: no policy. */
void weir__tracer_know(struct weir__tracer *tracer, struct weir_guard *guard);

/* The context of the current request, until weir__tracer_done. NULL: tracing and the denial log are off. */
struct weir__trace_context *weir__tracer_context(struct weir__tracer *tracer);
void weir__tracer_done(struct weir__tracer *tracer);

/* Whether the tracer uses a traceparent. */
bool weir__tracer_wants_parents(const struct weir__tracer *tracer);

/* Sets the traceparent of the request. An invalid one is ignored. */
void weir__tracer_parent(struct weir__tracer *tracer, const char *text, size_t length);

/* Whether the request has a traceparent. Such a request is decided by itself, not in a group. */
bool weir__tracer_has_parent(const struct weir__tracer *tracer);

/* Decisions, in the form of weir__limit_stats_each and weir__limit_stats_together. */
void weir__tracer_each(struct weir__tracer *tracer, const struct weir_claim *claims,
		       const struct weir_verdict *verdicts, size_t n, weir_ns now);
void weir__tracer_together(struct weir__tracer *tracer, const struct weir_claim *claims,
			   const struct weir_verdict *verdicts, size_t n, bool is_shadow, weir_ns now);

/* Decisions between open and close belong to one request, which a policy decides. `answer` is the result; NULL: no
 * result, and no span is made. */
void weir__tracer_open(struct weir__tracer *tracer, const struct weir_attribute *attributes, size_t n);
void weir__tracer_close(struct weir__tracer *tracer, const struct weir_guard_answer *answer);

#endif
