/* witness.c: spans and lines of rejections, made of decisions. */
#include "serve/witness.h"

#include <weir/limiter.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guard/guard.h"
#include "os/memory.h"
#include "serve/limits.h"
#include "serve/log.h"
#include "serve/settings.h"
#include "serve/traces.h"
#include "store/store.h"

enum { NAME_SIZE = WEIR_LIMIT_TEXT_MAX > WEIR_TABLE_NAME_MAX ? WEIR_LIMIT_TEXT_MAX : WEIR_TABLE_NAME_MAX + 1 };

struct weir__witness {
	_Alignas(64) struct weir__witnesses *all;
	struct weir__span_ring *ring; /* NULL: nothing is traced */
	struct weir_guard *guard;     /* of whose limits keys are; NULL: there is none */
	uint64_t until_sampled;       /* requests, the one that is sampled with them; 0: none is */
	uint64_t random[2];
	_Atomic uint64_t left_out; /* lines; written by this worker alone */
	struct weir__asking asking;
	/* Of a request that a policy decides. */
	bool is_open, is_chosen, is_sampled; /* by the first that was heard of it */
	bool has_span;
	const char *path_before; /* that of HTTP, while it is the attribute's */
	size_t path_before_length;
	struct weir__span span;
};

struct weir__witnesses {
	struct weir_table *table;
	const struct weir_table_limit *counted_as; /* under which limits that come with requests are */
	struct weir__log *log;
	struct weir__traces *traces; /* NULL: nothing is traced */
	uint64_t one_in;
	enum weir__log_rejections rejections;
	struct weir_limiter *limiter; /* of their lines; NULL: there are none */
	_Atomic uint64_t told;        /* of those that were left out */
	uint32_t n;
	struct weir__witness of[];
};

/* --- all of them --------------------------------------------------------------------------------------------------- */

void weir__witnesses_check(struct weir__settings *settings)
{
	struct weir_limit limit;
	struct weir_message why;

	if (settings->trace_to[0] != '\0' && weir__traces_check(settings->trace_to, &why) != WEIR_OK)
		weir__settings_fault(settings, weir__settings_place(settings, "trace_to"), "trace_to", "\"%s\": %s",
				     settings->trace_to, why.text);
	if (weir_limit_parse(settings->log_rejections_limit, strlen(settings->log_rejections_limit), &limit, &why) !=
	    WEIR_OK)
		weir__settings_fault(settings, weir__settings_place(settings, "log_rejections_limit"),
				     "log_rejections_limit", "%s", why.text);
}

static bool init_limiter(struct weir__witnesses *witnesses, const char *text)
{
	struct weir_limit limit;
	struct weir_message why;
	size_t size;
	void *memory;

	if (weir_limit_parse(text, strlen(text), &limit, &why) != WEIR_OK)
		return false;
	size = (weir_limiter_size(&limit) + 63) / 64 * 64;
	memory = size > 0 ? aligned_alloc(64, size) : NULL;
	if (memory && weir_limiter_init(memory, size, &limit, &witnesses->limiter, &why) == WEIR_OK)
		return true;
	free(memory);
	return false;
}

/* xoroshiro128+: nothing depends on that nobody guesses it, but no two servers may say the same. */
static uint64_t next_random(struct weir__witness *witness)
{
	const uint64_t first = witness->random[0], mixed = first ^ witness->random[1], sum = first + witness->random[1];

	witness->random[0] = (first << 24 | first >> 40) ^ mixed ^ mixed << 16;
	witness->random[1] = mixed << 37 | mixed >> 27;
	return sum;
}

/* 1 to 2 n - 1, which is n on average: not in step with those who ask in turns. */
static uint64_t next_step(struct weir__witness *witness)
{
	const uint64_t n = witness->all->one_in;

	return n == 0 ? 0 : 1 + next_random(witness) % (2 * n - 1);
}

static void init_witness(struct weir__witnesses *witnesses, uint32_t number)
{
	struct weir__witness *const witness = &witnesses->of[number];

	witness->all = witnesses;
	witness->ring = witnesses->traces ? weir__traces_ring(witnesses->traces, number) : NULL;
	if (weir__memory_random(witness->random, sizeof(witness->random)) != 0)
		witness->random[0] = weir_table_now(witnesses->table);
	witness->random[1] |= 1; /* all of it 0 would stay so */
	witness->until_sampled = next_step(witness);
}

bool weir__witnesses_new(const struct weir__settings *settings, struct weir_table *table,
			 const struct weir_table_limit *counted_as, struct weir__log *log,
			 struct weir__witnesses **ret_witnesses)
{
	const bool has_traces = settings->trace_to[0] != '\0',
		   has_log = settings->log_rejections != WEIR__REJECTIONS_OFF;
	const uint32_t n = (uint32_t)settings->workers;
	struct weir__witnesses *witnesses;

	*ret_witnesses = NULL;
	if (!has_traces && !has_log)
		return true;
	witnesses = aligned_alloc(_Alignof(struct weir__witnesses), sizeof(*witnesses) + n * sizeof(witnesses->of[0]));
	if (witnesses == NULL)
		return false;
	memset(witnesses, 0, sizeof(*witnesses) + n * sizeof(witnesses->of[0]));
	witnesses->table = table;
	witnesses->counted_as = counted_as;
	witnesses->log = log;
	witnesses->one_in = settings->trace_one_in;
	witnesses->rejections = (enum weir__log_rejections)settings->log_rejections;
	if (has_traces)
		witnesses->traces = weir__traces_new(settings->trace_to, settings->service, n, log);
	if ((has_traces && witnesses->traces == NULL) ||
	    (has_log && !init_limiter(witnesses, settings->log_rejections_limit))) {
		weir__witnesses_free(witnesses);
		return false;
	}
	for (; witnesses->n < n; witnesses->n++)
		init_witness(witnesses, witnesses->n);
	*ret_witnesses = witnesses;
	return true;
}

void weir__witnesses_free(struct weir__witnesses *witnesses)
{
	if (witnesses == NULL)
		return;
	weir__traces_free(witnesses->traces);
	free(witnesses->limiter);
	free(witnesses);
}

struct weir__witness *weir__witnesses_of(struct weir__witnesses *witnesses, uint32_t worker)
{
	return witnesses ? &witnesses->of[worker] : NULL;
}

static uint64_t count_left_out(const struct weir__witnesses *witnesses)
{
	uint64_t left_out = 0;

	for (uint32_t i = 0; i < witnesses->n; i++)
		left_out += atomic_load_explicit(&witnesses->of[i].left_out, memory_order_relaxed);
	return left_out;
}

void weir__witnesses_info(const struct weir__witnesses *witnesses, struct weir__witnesses_info *ret_info)
{
	struct weir__traces_info traces;

	*ret_info = (struct weir__witnesses_info){ .spans_sent = 0 };
	if (witnesses == NULL)
		return;
	weir__traces_info(witnesses->traces, &traces);
	ret_info->spans_sent = traces.sent;
	ret_info->spans_dropped = traces.dropped;
	ret_info->rejections_left_out = count_left_out(witnesses);
}

/* --- the request --------------------------------------------------------------------------------------------------- */

void weir__witness_know(struct weir__witness *witness, struct weir_guard *guard)
{
	if (witness)
		witness->guard = guard;
}

struct weir__asking *weir__witness_asking(struct weir__witness *witness)
{
	return witness ? &witness->asking : NULL;
}

void weir__witness_done(struct weir__witness *witness)
{
	if (witness)
		witness->asking = (struct weir__asking){ .wire = WEIR__WIRE_RESP };
}

bool weir__witness_traces(const struct weir__witness *witness)
{
	return witness && witness->ring;
}

void weir__witness_parent(struct weir__witness *witness, const char *text, size_t length)
{
	if (witness)
		witness->asking.has_parent = weir__traceparent_read(text, length, &witness->asking.parent);
}

bool weir__witness_has_parent(const struct weir__witness *witness)
{
	return witness && witness->asking.has_parent;
}

/* --- limits and keys ----------------------------------------------------------------------------------------------- */

static size_t write_limit(const struct weir__witnesses *witnesses, const struct weir_table_limit *limit,
			  char ret_name[NAME_SIZE])
{
	weir__limits_write_name(witnesses->counted_as, limit, ret_name, NAME_SIZE);
	return strlen(ret_name);
}

static uint64_t hash_of(const struct weir__witness *witness, const struct weir_claim *claim)
{
	return witness->asking.has_hash ? witness->asking.hash :
					  weir__hash(&claim->limit->secret, claim->key, claim->key_length);
}

/* --- spans --------------------------------------------------------------------------------------------------------- */

/* Whether the next request that brings no traceparent is traced. */
static bool is_next_sampled(struct weir__witness *witness)
{
	if (witness->until_sampled == 0 || --witness->until_sampled > 0)
		return false;
	witness->until_sampled = next_step(witness);
	return true;
}

static bool is_sampled(struct weir__witness *witness)
{
	return witness->ring &&
	       (witness->asking.has_parent ? witness->asking.parent.is_sampled : is_next_sampled(witness));
}

static void put_random(struct weir__witness *witness, unsigned char *bytes, size_t n)
{
	for (size_t i = 0; i < n; i += sizeof(uint64_t)) {
		uint64_t word = next_random(witness);

		word += word == 0; /* no id is all zero */
		memcpy(bytes + i, &word, sizeof(word));
	}
}

static void put_ids(struct weir__witness *witness, struct weir__span *span)
{
	const struct weir__asking *const asking = &witness->asking;

	span->has_parent = asking->has_parent;
	if (asking->has_parent) {
		memcpy(span->trace, asking->parent.trace, WEIR__TRACE_ID);
		memcpy(span->parent, asking->parent.span, WEIR__SPAN_ID);
	} else {
		put_random(witness, span->trace, WEIR__TRACE_ID);
	}
	put_random(witness, span->id, WEIR__SPAN_ID);
	span->state[0] = '\0';
	if (asking->has_parent && asking->state && asking->state_length <= WEIR__TRACESTATE_MAX) {
		memcpy(span->state, asking->state, asking->state_length);
		span->state[asking->state_length] = '\0';
	}
}

/* Of HTTP, and of what brings a traceparent, the span is of the request; of other requests of RESP, which come in groups, it is
 * of the decision. */
static void make_span(struct weir__witness *witness, const struct weir_claim *claim, const struct weir_verdict *verdict,
		      weir_ns now)
{
	const struct weir__asking *const asking = &witness->asking;
	struct weir__span *const span = &witness->span;
	char name[NAME_SIZE];

	put_ids(witness, span);
	span->is_server = asking->has_parent || asking->wire == WEIR__WIRE_HTTP;
	span->is_allowed = verdict->allowed;
	span->algorithm = weir_algorithm_name(weir_table_limit_limit(claim->limit).algorithm);
	span->shadow_denied = 0;
	span->key_hash = hash_of(witness, claim);
	span->begun = asking->since ? asking->since : now;
	span->delay = verdict->allowed ? verdict->delay : 0;
	(void)weir__log_escape(name, write_limit(witness->all, claim->limit, name), span->limit, sizeof(span->limit));
}

static void put_span(struct weir__witness *witness, struct weir__span *span)
{
	span->ended = weir_table_now(witness->all->table);
	if (span->ended < span->begun) /* the clock may have been set back */
		span->ended = span->begun;
	(void)weir__span_ring_put(witness->ring, span);
}

/* --- rejections ---------------------------------------------------------------------------------------------------- */

static void add_key(struct weir__log_line *line, const struct weir__witness *witness, const struct weir_claim *claim)
{
	const bool is_of_policy = witness->guard && claim->limit->index != witness->all->counted_as->index;
	char text[WEIR__KEY_TEXT_SIZE], hash[17];

	if (witness->all->rejections == WEIR__REJECTIONS_KEY && !witness->asking.has_hash) {
		if (is_of_policy)
			weir__log_text(line, "key", text,
				       weir__guard_key_text(witness->guard, weir_table_limit_name(claim->limit),
							    claim->key, claim->key_length, claim->key_length, text,
							    sizeof(text)));
		else
			weir__log_text(line, "key", claim->key, claim->key_length);
		return;
	}
	(void)snprintf(hash, sizeof(hash), "%016llx", (unsigned long long)hash_of(witness, claim));
	weir__log_word(line, "key_hash", hash);
}

static void add_asking(struct weir__log_line *line, const struct weir__asking *asking)
{
	char trace[2 * WEIR__TRACE_ID + 1];

	weir__log_word(line, "wire", asking->wire == WEIR__WIRE_HTTP ? "http" : "resp");
	if (asking->has_parent) {
		weir__trace_write_hex(asking->parent.trace, WEIR__TRACE_ID, trace);
		weir__log_word(line, "trace_id", trace);
	}
}

/* How many were left out that no line has told of: of two workers that ask at once only one is told of each. */
static uint64_t take_untold(struct weir__witnesses *witnesses)
{
	const uint64_t left_out = count_left_out(witnesses);
	uint64_t told = atomic_load_explicit(&witnesses->told, memory_order_relaxed);

	while (told < left_out && !atomic_compare_exchange_weak_explicit(&witnesses->told, &told, left_out,
									 memory_order_relaxed, memory_order_relaxed))
		;
	return told < left_out ? left_out - told : 0;
}

static void log_rejection(struct weir__witness *witness, const struct weir_claim *claim,
			  const struct weir_verdict *verdict, bool is_shadow, weir_ns now)
{
	struct weir__witnesses *const all = witness->all;
	struct weir__log_line line;
	char name[NAME_SIZE];
	uint64_t untold;

	if (!weir_limiter_allow(all->limiter, now, 1)) {
		atomic_store_explicit(&witness->left_out,
				      atomic_load_explicit(&witness->left_out, memory_order_relaxed) + 1,
				      memory_order_relaxed);
		return;
	}
	weir__log_begin(&line, weir__log_is_json(all->log), WEIR__LOG_INFO, "rejected");
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
	add_asking(&line, &witness->asking);
	add_key(&line, witness, claim); /* what may be long comes last: a line that is too long is cut */
	if (witness->asking.path)
		weir__log_text(&line, "path", witness->asking.path, witness->asking.path_length);
	weir__log_end(&line, all->log);
}

/* --- hearing ------------------------------------------------------------------------------------------------------- */

void weir__witness_each(struct weir__witness *witness, const struct weir_claim *claims,
			const struct weir_verdict *verdicts, size_t n, weir_ns now)
{
	if (witness->all->limiter == NULL && !witness->asking.has_parent && witness->until_sampled > n) {
		witness->until_sampled -= n;
		return;
	}
	for (size_t i = 0; i < n; i++) {
		if (WEIR__UNLIKELY(is_sampled(witness))) {
			make_span(witness, &claims[i], &verdicts[i], now);
			put_span(witness, &witness->span);
		}
		if (!verdicts[i].allowed && witness->all->limiter)
			log_rejection(witness, &claims[i], &verdicts[i], false, now);
	}
}

/* Whether the request is one of those that are traced: the first that is heard of it chooses. */
static bool is_chosen(struct weir__witness *witness)
{
	if (!witness->is_open || !witness->is_chosen)
		witness->is_sampled = is_sampled(witness);
	witness->is_chosen = true;
	return witness->is_sampled;
}

/* Enforced limits are heard of first, mostly together. One that denies says more than one that does not. */
static void trace(struct weir__witness *witness, const struct weir_claim *claim, const struct weir_verdict *verdict,
		  bool is_shadow, weir_ns now)
{
	if (witness->is_open && witness->has_span && (is_shadow || verdict->allowed || !witness->span.is_allowed))
		return;
	make_span(witness, claim, verdict, now);
	if (is_shadow) {
		witness->span.is_allowed = true;
		witness->span.delay = 0;
	}
	witness->has_span = witness->is_open;
	if (!witness->is_open)
		put_span(witness, &witness->span);
}

void weir__witness_together(struct weir__witness *witness, const struct weir_claim *claims,
			    const struct weir_verdict *verdicts, size_t n, bool is_shadow, weir_ns now)
{
	const bool is_traced = n > 0 && is_chosen(witness);
	struct weir_decision decision;

	if (n == 0 || WEIR__LIKELY(!is_traced && witness->all->limiter == NULL))
		return;
	decision = weir__store_join(verdicts, n);
	if (is_traced)
		trace(witness, &claims[decision.decided_by], &decision.verdict, is_shadow, now);
	if (!decision.verdict.allowed && witness->all->limiter)
		log_rejection(witness, &claims[decision.decided_by], &decision.verdict, is_shadow, now);
}

void weir__witness_open(struct weir__witness *witness, const struct weir_attribute *attributes, size_t n)
{
	if (witness == NULL)
		return;
	witness->is_open = true;
	witness->is_chosen = witness->has_span = false;
	witness->path_before = witness->asking.path;
	witness->path_before_length = witness->asking.path_length;
	for (size_t i = 0; i < n && witness->all->limiter; i++) /* only lines tell of it */
		if (attributes[i].name_length == 4 && memcmp(attributes[i].name, "path", 4) == 0) {
			witness->asking.path = attributes[i].value;
			witness->asking.path_length = attributes[i].value_length;
		}
}

void weir__witness_close(struct weir__witness *witness, const struct weir_guard_answer *answer)
{
	if (witness == NULL)
		return;
	witness->is_open = false;
	witness->asking.path = witness->path_before;
	witness->asking.path_length = witness->path_before_length;
	if (!witness->has_span || answer == NULL)
		return;
	witness->span.is_allowed = answer->verdict.allowed;
	witness->span.delay = answer->verdict.allowed ? answer->verdict.delay : 0;
	witness->span.shadow_denied = (uint32_t)answer->shadow_denied;
	put_span(witness, &witness->span);
}
