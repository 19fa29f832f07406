/* tracer.h: who hears of each decision together with what is known of the request: makes spans of those that are traced,
 * and lines of the log of rejections. Each worker has one, if either is wanted; it hears through the worker's sight.
 *
 * A span is of a request that was decided. Of requests that bring a traceparent, that says whether there is one; of others
 * one of so many, chosen by a countdown. */
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

/* What is known of the request that is being answered. */
struct weir__trace_context {
	enum weir__protocol protocol;
	bool has_parent; /* it brought one: */
	struct weir__trace_parent parent;
	const char *state; /* its tracestate, or NULL */
	size_t state_length;
	const char *path; /* of HTTP, or the attribute of this name; NULL: there is none */
	size_t path_length;
	weir_ns since; /* when the server was told of it; 0: when it was decided */
	bool has_hash; /* of the key, which is not known any more: */
	uint64_t hash;
};

/* Which rejections are logged: the words of the setting log_rejections. */
enum weir__log_rejections {
	WEIR__REJECTIONS_OFF,
	WEIR__REJECTIONS_HASH,
	WEIR__REJECTIONS_KEY,
};

struct weir__tracer_set_options {
	struct weir_table *table;
	const struct weir_table_limit *counted_as; /* under which inline limits are */
	struct weir__log *log;
	uint32_t workers;
	const char *trace_to; /* a URL; empty: nothing is traced */
	const char *service;
	uint64_t trace_one_in; /* of so many requests without a traceparent; 0: none */
	enum weir__log_rejections rejections;
	const char *rejections_limit; /* of log lines for rejections, as text */
};

/* For all workers. NULL in *ret_witnesses: neither is wanted. False: no memory, or no thread. */
bool weir__tracer_set_new(const struct weir__tracer_set_options *options, struct weir__tracer_set **ret_witnesses);
void weir__tracer_set_free(struct weir__tracer_set *tracers); /* NULL is allowed */

/* That of a worker; NULL if there are none. */
struct weir__tracer *weir__tracer_set_of(struct weir__tracer_set *tracers, uint32_t worker);

struct weir__tracer_set_info {
	uint64_t spans_sent, spans_dropped;
	uint64_t rejections_left_out; /* lines beyond log_rejections_limit */
};

void weir__tracer_set_info(const struct weir__tracer_set *tracers, struct weir__tracer_set_info *ret_info);

/* --- of the worker ------------------------------------------------------------------------------------------------- */

/* Of whose limits the keys are: it knows what they are made of. NULL: there is no policy. */
void weir__tracer_know(struct weir__tracer *tracer, struct weir_guard *guard);

/* What is known of the request, until weir__tracer_done. NULL: nobody hears, and nothing need be known. */
struct weir__trace_context *weir__tracer_context(struct weir__tracer *tracer);
void weir__tracer_done(struct weir__tracer *tracer);

/* Whether it wants to know of a traceparent. */
bool weir__tracer_wants_parents(const struct weir__tracer *tracer);

/* The traceparent of the request; what is none is ignored. */
void weir__tracer_parent(struct weir__tracer *tracer, const char *text, size_t length);

/* Whether the request has one: then it is decided by itself. */
bool weir__tracer_has_parent(const struct weir__tracer *tracer);

/* Decisions, as weir__limit_stats_each and weir__limit_stats_together have them. */
void weir__tracer_each(struct weir__tracer *tracer, const struct weir_claim *claims,
		       const struct weir_verdict *verdicts, size_t n, weir_ns now);
void weir__tracer_together(struct weir__tracer *tracer, const struct weir_claim *claims,
			   const struct weir_verdict *verdicts, size_t n, bool is_shadow, weir_ns now);

/* What is heard between these is one request, decided by a policy, with this answer; NULL: there is none. */
void weir__tracer_open(struct weir__tracer *tracer, const struct weir_attribute *attributes, size_t n);
void weir__tracer_close(struct weir__tracer *tracer, const struct weir_guard_answer *answer);

#endif
