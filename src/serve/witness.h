/* witness.h: who hears of each decision together with what is known of the request: makes spans of those that are traced,
 * and lines of the log of rejections. Each worker has one, if either is wanted; it hears through the worker's sight.
 *
 * A span is of a request that was decided. Of requests that bring a traceparent, that says whether there is one; of others
 * one of so many, chosen by a countdown. */
#ifndef WEIR_SERVE_WITNESS_H
#define WEIR_SERVE_WITNESS_H

#include <weir/guard.h>
#include <weir/table.h>

#include "serve/trace.h"
#include "serve/worker.h"

struct weir__log;
struct weir__settings;
struct weir__traces;
struct weir__witness;
struct weir__witnesses;

/* What is known of the request that is being answered. */
struct weir__asking {
	enum weir__wire_number wire;
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

/* As settings say, for all workers. NULL in *ret_witnesses: neither is wanted. False: no memory, or no thread. */
bool weir__witnesses_new(const struct weir__settings *settings, struct weir_table *table,
			 const struct weir_table_limit *counted_as, struct weir__log *log,
			 struct weir__witnesses **ret_witnesses);
void weir__witnesses_free(struct weir__witnesses *witnesses); /* NULL is allowed */

/* That of a worker; NULL if there are none. */
struct weir__witness *weir__witnesses_of(struct weir__witnesses *witnesses, uint32_t worker);

struct weir__witnesses_info {
	uint64_t spans_sent, spans_dropped;
	uint64_t rejections_left_out; /* lines beyond log_rejections_limit */
};

void weir__witnesses_info(const struct weir__witnesses *witnesses, struct weir__witnesses_info *ret_info);

/* What is wrong with the settings of both is told as a fault. */
void weir__witnesses_check(struct weir__settings *settings);

/* --- of the worker ------------------------------------------------------------------------------------------------- */

/* Of whose limits the keys are: it knows what they are made of. NULL: there is no policy. */
void weir__witness_know(struct weir__witness *witness, struct weir_guard *guard);

/* What is known of the request, until weir__witness_done. NULL: nobody hears, and nothing need be known. */
struct weir__asking *weir__witness_asking(struct weir__witness *witness);
void weir__witness_done(struct weir__witness *witness);

/* Whether it wants to know of a traceparent. */
bool weir__witness_traces(const struct weir__witness *witness);

/* The traceparent of the request; what is none is ignored. */
void weir__witness_parent(struct weir__witness *witness, const char *text, size_t length);

/* Whether the request has one: then it is decided by itself. */
bool weir__witness_has_parent(const struct weir__witness *witness);

/* Decisions, as weir__sight_each and weir__sight_together have them. */
void weir__witness_each(struct weir__witness *witness, const struct weir_claim *claims,
			const struct weir_verdict *verdicts, size_t n, weir_ns now);
void weir__witness_together(struct weir__witness *witness, const struct weir_claim *claims,
			    const struct weir_verdict *verdicts, size_t n, bool is_shadow, weir_ns now);

/* What is heard between these is one request, decided by a policy, with this answer; NULL: there is none. */
void weir__witness_open(struct weir__witness *witness, const struct weir_attribute *attributes, size_t n);
void weir__witness_close(struct weir__witness *witness, const struct weir_guard_answer *answer);

#endif
