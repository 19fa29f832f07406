/* tracer.c: makes spans and denial log lines from decisions. */
#include "observe/tracer.h"

#include <weir/limiter.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guard/guard.h"
#include "observe/log_key.h"
#include "observe/span_exporter.h"
#include "os/memory.h"
#include "store/store.h"
#include "store/table/decision.h"
#include "store/table/inline_limit.h"

enum { NAME_SIZE = WEIR_LIMIT_TEXT_MAX > WEIR_TABLE_NAME_MAX ? WEIR_LIMIT_TEXT_MAX : WEIR_TABLE_NAME_MAX + 1 };

struct weir__tracer {
	_Alignas(64) struct weir__tracer_set *all;
	struct weir__span_ring *ring; /* NULL: tracing is off */
	struct weir_guard *guard;     /* whose limits the keys belong to; NULL: no policy */
	uint64_t until_sampled;       /* requests up to and including the next sampled one; 0: none is sampled */
	uint64_t random[2];
	_Atomic uint64_t left_out; /* log lines; written by this worker only */
	struct weir__trace_context trace_context;
	/* The request that a policy is deciding. */
	bool is_open, is_chosen, is_sampled; /* set by the request's first decision */
	bool has_span;
	const char *path_before; /* HTTP's, while trace_context.path is the attribute */
	size_t path_before_length;
	struct weir__span span;
};

struct weir__tracer_set {
	struct weir_table *table;
	const struct weir_table_limit *counted_as; /* the limit that counts inline limits */
	struct weir__log *log;
	struct weir__span_exporter *traces; /* NULL: tracing is off */
	uint64_t one_in;
	enum weir__log_denials denials;
	struct weir_limiter *limiter; /* of denial lines; NULL: they are off */
	_Atomic uint64_t told;        /* left-out lines that have been reported */
	uint32_t n;
	struct weir__tracer of[];
};

/* --- the set ----------------------------------------------------------------------------------------------------- */

static bool init_limiter(struct weir__tracer_set *tracers, const char *text)
{
	struct weir_limit limit;
	struct weir_message why;
	size_t size;
	void *memory;

	if (weir_limit_parse(text, strlen(text), &limit, &why) != WEIR_OK)
		return false;
	size = (weir_limiter_size(&limit) + 63) / 64 * 64;
	memory = size > 0 ? aligned_alloc(64, size) : NULL;
	if (memory && weir_limiter_init(memory, size, &limit, &tracers->limiter, &why) == WEIR_OK)
		return true;
	free(memory);
	return false;
}

/* xoroshiro128+. It need not be unpredictable, but ids must be unique among servers. */
static uint64_t next_random(struct weir__tracer *tracer)
{
	const uint64_t first = tracer->random[0], mixed = first ^ tracer->random[1], sum = first + tracer->random[1];

	tracer->random[0] = (first << 24 | first >> 40) ^ mixed ^ mixed << 16;
	tracer->random[1] = mixed << 37 | mixed >> 27;
	return sum;
}

/* 1 to 2 n - 1, which is n on average. Random, so as not to be in step with clients that take turns. */
static uint64_t next_step(struct weir__tracer *tracer)
{
	const uint64_t n = tracer->all->one_in;

	return n == 0 ? 0 : 1 + next_random(tracer) % (2 * n - 1);
}

static void init_tracer(struct weir__tracer_set *tracers, uint32_t number)
{
	struct weir__tracer *const tracer = &tracers->of[number];

	tracer->all = tracers;
	tracer->ring = tracers->traces ? weir__span_exporter_ring(tracers->traces, number) : NULL;
	if (weir__memory_random(tracer->random, sizeof(tracer->random)) != 0)
		tracer->random[0] = weir_table_now(tracers->table);
	tracer->random[1] |= 1; /* an all-zero state would stay zero */
	tracer->until_sampled = next_step(tracer);
}

bool weir__tracer_set_new(const struct weir__tracer_set_options *options, struct weir__tracer_set **ret_tracers)
{
	const bool has_traces = options->trace_to[0] != '\0', has_log = options->denials != WEIR__DENIALS_OFF;
	const uint32_t n = options->workers;
	struct weir__tracer_set *tracers;

	*ret_tracers = NULL;
	if (!has_traces && !has_log)
		return true;
	tracers = aligned_alloc(_Alignof(struct weir__tracer_set), sizeof(*tracers) + n * sizeof(tracers->of[0]));
	if (tracers == NULL)
		return false;
	memset(tracers, 0, sizeof(*tracers) + n * sizeof(tracers->of[0]));
	tracers->table = options->table;
	tracers->counted_as = options->counted_as;
	tracers->log = options->log;
	tracers->one_in = options->trace_one_in;
	tracers->denials = options->denials;
	if (has_traces)
		tracers->traces = weir__span_exporter_new(options->trace_to, options->service, n, options->log);
	if ((has_traces && tracers->traces == NULL) || (has_log && !init_limiter(tracers, options->denials_limit))) {
		weir__tracer_set_free(tracers);
		return false;
	}
	for (; tracers->n < n; tracers->n++)
		init_tracer(tracers, tracers->n);
	*ret_tracers = tracers;
	return true;
}

void weir__tracer_set_free(struct weir__tracer_set *tracers)
{
	if (tracers == NULL)
		return;
	weir__span_exporter_free(tracers->traces);
	free(tracers->limiter);
	free(tracers);
}

struct weir__tracer *weir__tracer_set_of(struct weir__tracer_set *tracers, uint32_t worker)
{
	return tracers ? &tracers->of[worker] : NULL;
}

static uint64_t count_left_out(const struct weir__tracer_set *tracers)
{
	uint64_t left_out = 0;

	for (uint32_t i = 0; i < tracers->n; i++)
		left_out += atomic_load_explicit(&tracers->of[i].left_out, memory_order_relaxed);
	return left_out;
}

void weir__tracer_set_info(const struct weir__tracer_set *tracers, struct weir__tracer_set_info *ret_info)
{
	struct weir__span_exporter_info traces;

	*ret_info = (struct weir__tracer_set_info){ .spans_sent = 0 };
	if (tracers == NULL)
		return;
	weir__span_exporter_info(tracers->traces, &traces);
	ret_info->spans_sent = traces.sent;
	ret_info->spans_dropped = traces.dropped;
	ret_info->denials_left_out = count_left_out(tracers);
}

/* --- the request ------------------------------------------------------------------------------------------------- */

void weir__tracer_know(struct weir__tracer *tracer, struct weir_guard *guard)
{
	if (tracer)
		tracer->guard = guard;
}

struct weir__trace_context *weir__tracer_context(struct weir__tracer *tracer)
{
	return tracer ? &tracer->trace_context : NULL;
}

void weir__tracer_done(struct weir__tracer *tracer)
{
	if (tracer)
		tracer->trace_context = (struct weir__trace_context){ .protocol = WEIR__PROTOCOL_RESP };
}

bool weir__tracer_wants_parents(const struct weir__tracer *tracer)
{
	return tracer && tracer->ring;
}

void weir__tracer_parent(struct weir__tracer *tracer, const char *text, size_t length)
{
	if (tracer)
		tracer->trace_context.has_parent = weir__traceparent_read(text, length, &tracer->trace_context.parent);
}

bool weir__tracer_has_parent(const struct weir__tracer *tracer)
{
	return tracer && tracer->trace_context.has_parent;
}

/* --- limits and keys --------------------------------------------------------------------------------------------- */

static size_t write_limit(const struct weir__tracer_set *tracers, const struct weir_table_limit *limit,
			  char ret_name[NAME_SIZE])
{
	weir__inline_limit_write_name(tracers->counted_as, limit, ret_name, NAME_SIZE);
	return strlen(ret_name);
}

static uint64_t hash_of(const struct weir_claim *claim)
{
	return weir__hash(&claim->limit->secret, claim->key, claim->key_length);
}

/* --- spans ------------------------------------------------------------------------------------------------------- */

/* Whether to trace this request, which has no traceparent. */
static bool is_next_sampled(struct weir__tracer *tracer)
{
	if (tracer->until_sampled == 0 || --tracer->until_sampled > 0)
		return false;
	tracer->until_sampled = next_step(tracer);
	return true;
}

static bool is_sampled(struct weir__tracer *tracer)
{
	return tracer->ring &&
	       (tracer->trace_context.has_parent ? tracer->trace_context.parent.is_sampled : is_next_sampled(tracer));
}

static void put_random(struct weir__tracer *tracer, unsigned char *bytes, size_t n)
{
	for (size_t i = 0; i < n; i += sizeof(uint64_t)) {
		uint64_t word = next_random(tracer);

		word += word == 0; /* an id must not be all zero */
		memcpy(bytes + i, &word, sizeof(word));
	}
}

static void put_ids(struct weir__tracer *tracer, struct weir__span *span)
{
	const struct weir__trace_context *const trace_context = &tracer->trace_context;

	span->has_parent = trace_context->has_parent;
	if (trace_context->has_parent) {
		memcpy(span->trace, trace_context->parent.trace, WEIR__TRACE_ID);
		memcpy(span->parent, trace_context->parent.span, WEIR__SPAN_ID);
	} else {
		put_random(tracer, span->trace, WEIR__TRACE_ID);
	}
	put_random(tracer, span->id, WEIR__SPAN_ID);
	span->state[0] = '\0';
	if (trace_context->has_parent && trace_context->state && trace_context->state_length <= WEIR__TRACESTATE_MAX) {
		memcpy(span->state, trace_context->state, trace_context->state_length);
		span->state[trace_context->state_length] = '\0';
	}
}

/* For HTTP, and for requests with a traceparent, the span covers the request. Other RESP requests come in groups, and
 * the span covers the decision. */
static void make_span(struct weir__tracer *tracer, const struct weir_claim *claim, const struct weir_verdict *verdict,
		      weir_ns now)
{
	const struct weir__trace_context *const trace_context = &tracer->trace_context;
	struct weir__span *const span = &tracer->span;
	char name[NAME_SIZE];

	put_ids(tracer, span);
	span->is_server = trace_context->has_parent || trace_context->protocol != WEIR__PROTOCOL_RESP;
	span->is_allowed = verdict->allowed;
	span->algorithm = weir_algorithm_name(weir_table_limit_limit(claim->limit).algorithm);
	span->shadow_denied = 0;
	span->key_hash = hash_of(claim);
	span->begun = trace_context->since ? trace_context->since : now;
	span->delay = verdict->allowed ? verdict->delay : 0;
	(void)weir__log_escape(name, write_limit(tracer->all, claim->limit, name), span->limit, sizeof(span->limit));
}

static void put_span(struct weir__tracer *tracer, struct weir__span *span)
{
	span->ended = weir_table_now(tracer->all->table);
	if (span->ended < span->begun) /* the clock may have been set back */
		span->ended = span->begun;
	(void)weir__span_ring_put(tracer->ring, span);
}

/* --- denials ----------------------------------------------------------------------------------------------------- */

static void add_key(struct weir__log_line *line, const struct weir__tracer *tracer, const struct weir_claim *claim)
{
	if (tracer->all->denials == WEIR__DENIALS_KEY)
		weir__log_key(line, tracer->guard, tracer->all->counted_as, claim);
	else
		weir__log_key_hash(line, hash_of(claim));
}

static void add_trace_context(struct weir__log_line *line, const struct weir__trace_context *trace_context)
{
	char trace[2 * WEIR__TRACE_ID + 1];

	weir__log_word(line, "protocol", weir__protocol_word(trace_context->protocol));
	if (trace_context->has_parent) {
		weir__trace_write_hex(trace_context->parent.trace, WEIR__TRACE_ID, trace);
		weir__log_word(line, "trace_id", trace);
	}
}

/* The number of left-out lines that no line has reported yet. If two workers call this at once, only one of them
 * reports each. */
static uint64_t take_untold(struct weir__tracer_set *tracers)
{
	const uint64_t left_out = count_left_out(tracers);
	uint64_t told = atomic_load_explicit(&tracers->told, memory_order_relaxed);

	while (told < left_out && !atomic_compare_exchange_weak_explicit(&tracers->told, &told, left_out,
									 memory_order_relaxed, memory_order_relaxed))
		;
	return told < left_out ? left_out - told : 0;
}

static void log_denial(struct weir__tracer *tracer, const struct weir_claim *claim, const struct weir_verdict *verdict,
		       bool is_shadow, weir_ns now)
{
	struct weir__tracer_set *const all = tracer->all;
	struct weir__log_line line;
	char name[NAME_SIZE];
	uint64_t untold;

	if (!weir_limiter_allow(all->limiter, now, 1)) {
		atomic_store_explicit(&tracer->left_out,
				      atomic_load_explicit(&tracer->left_out, memory_order_relaxed) + 1,
				      memory_order_relaxed);
		return;
	}
	weir__log_begin(&line, weir__log_is_json(all->log), WEIR__LOG_INFO, "denied");
	weir__log_text(&line, "limit", name, write_limit(all, claim->limit, name));
	weir__log_number(&line, "cost", claim->cost);
	if (verdict->never)
		weir__log_word(&line, "retry_after", "never");
	else
		weir__log_number(&line, "retry_after_ns", verdict->retry_after);
	weir__log_truth(&line, "shadow", is_shadow);
	untold = take_untold(all);
	if (untold > 0)
		weir__log_number(&line, "left_out", untold);
	add_trace_context(&line, &tracer->trace_context);
	/* Long fields come last, because a line that is too long is cut. */
	add_key(&line, tracer, claim);
	if (tracer->trace_context.path)
		weir__log_text(&line, "path", tracer->trace_context.path, tracer->trace_context.path_length);
	weir__log_end(&line, all->log);
}

/* --- decisions --------------------------------------------------------------------------------------------------- */

void weir__tracer_each(struct weir__tracer *tracer, const struct weir_claim *claims,
		       const struct weir_verdict *verdicts, size_t n, weir_ns now)
{
	if (tracer->all->limiter == NULL && !tracer->trace_context.has_parent && tracer->until_sampled > n) {
		tracer->until_sampled -= n;
		return;
	}
	for (size_t i = 0; i < n; i++) {
		if (WEIR__UNLIKELY(is_sampled(tracer))) {
			make_span(tracer, &claims[i], &verdicts[i], now);
			put_span(tracer, &tracer->span);
		}
		if (!verdicts[i].allowed && tracer->all->limiter)
			log_denial(tracer, &claims[i], &verdicts[i], false, now);
	}
}

/* Whether to trace the request. The first decision of a request chooses. */
static bool is_chosen(struct weir__tracer *tracer)
{
	if (!tracer->is_open || !tracer->is_chosen)
		tracer->is_sampled = is_sampled(tracer);
	tracer->is_chosen = true;
	return tracer->is_sampled;
}

/* Enforced limits come first, mostly together. A denial replaces the span of an allowed decision. */
static void trace(struct weir__tracer *tracer, const struct weir_claim *claim, const struct weir_verdict *verdict,
		  bool is_shadow, weir_ns now)
{
	if (tracer->is_open && tracer->has_span && (is_shadow || verdict->allowed || !tracer->span.is_allowed))
		return;
	make_span(tracer, claim, verdict, now);
	if (is_shadow) {
		tracer->span.is_allowed = true;
		tracer->span.delay = 0;
	}
	tracer->has_span = tracer->is_open;
	if (!tracer->is_open)
		put_span(tracer, &tracer->span);
}

void weir__tracer_together(struct weir__tracer *tracer, const struct weir_claim *claims,
			   const struct weir_verdict *verdicts, size_t n, bool is_shadow, weir_ns now)
{
	const bool is_traced = n > 0 && is_chosen(tracer);
	struct weir_decision decision;

	if (n == 0 || WEIR__LIKELY(!is_traced && tracer->all->limiter == NULL))
		return;
	decision = weir__decision_of(verdicts, n);
	if (is_traced)
		trace(tracer, &claims[decision.decided_by], &decision.verdict, is_shadow, now);
	if (!decision.verdict.allowed && tracer->all->limiter)
		log_denial(tracer, &claims[decision.decided_by], &decision.verdict, is_shadow, now);
}

void weir__tracer_open(struct weir__tracer *tracer, const struct weir_attribute *attributes, size_t n)
{
	if (tracer == NULL)
		return;
	tracer->is_open = true;
	tracer->is_chosen = tracer->has_span = false;
	tracer->path_before = tracer->trace_context.path;
	tracer->path_before_length = tracer->trace_context.path_length;
	for (size_t i = 0; i < n && tracer->all->limiter; i++) /* only the log uses the path */
		if (attributes[i].name_length == 4 && memcmp(attributes[i].name, "path", 4) == 0) {
			tracer->trace_context.path = attributes[i].value;
			tracer->trace_context.path_length = attributes[i].value_length;
		}
}

void weir__tracer_close(struct weir__tracer *tracer, const struct weir_guard_answer *answer)
{
	if (tracer == NULL)
		return;
	tracer->is_open = false;
	tracer->trace_context.path = tracer->path_before;
	tracer->trace_context.path_length = tracer->path_before_length;
	if (!tracer->has_span || answer == NULL)
		return;
	tracer->span.is_allowed = answer->verdict.allowed;
	tracer->span.delay = answer->verdict.allowed ? answer->verdict.delay : 0;
	tracer->span.shadow_denied = (uint32_t)answer->shadow_denied;
	put_span(tracer, &tracer->span);
}
