/* redis_call.c: encodes calls of the script, and decodes their replies. */
#include "store/redis/redis_call.h"

#include <string.h>

#include "core/uninitialized.h"
#include "core/wide.h"

enum {
	RUN_BYTES = 13, /* operation, number of claims, plan, cost, repeats */
	CHARGE_BYTES =
		23, /* for UNDO when, and how many units; for CANCEL also until when; for DEPART the longest delay;
		     * for leases and pushes two numbers */
	RUN_MAX = UINT16_MAX,
	REQUESTS_BYTES = 1 + WEIR__REDIS_CALL_CLAIMS_MAX * (RUN_BYTES + CHARGE_BYTES),
	SEEN_BITS = 10, /* twice as many places as claims */
	SEEN_TRIES = 8,
	HEAD_BYTES = 12,
	VERSION = 1,
	NS = 1000, /* per microsecond */
	NUMBER_BYTES = 20,
};

/* Costs are capped, which keeps the script's sums exact. A cost this high exceeds every limit anyway. */
static const uint64_t cost_most = UINT64_C(1) << 52;

/* The claims of a request, grouped into parts: claims with the same key are one part. */
struct parts {
	size_t n;
	uint64_t costs[WEIR__REDIS_CLAIMS_MAX];
	size_t first[WEIR__REDIS_CLAIMS_MAX]; /* the first claim of each part */
	size_t of[WEIR__REDIS_CLAIMS_MAX];    /* the part of each claim */
};

static bool is_same(struct weir__resp_slice a, struct weir__resp_slice b)
{
	return a.length == b.length && (a.length == 0 || memcmp(a.bytes, b.bytes, a.length) == 0);
}

static bool is_same_key(const struct weir__redis_claim *a, const struct weir__redis_claim *b)
{
	return is_same(a->key, b->key) && is_same(a->name, b->name);
}

static int parts_of(const struct weir__redis_request *request, struct parts *parts)
{
	if (request->operation == WEIR__REDIS_FORGOTTEN || request->n < 1 || request->n > WEIR__REDIS_CLAIMS_MAX ||
	    (request->n > 1 && request->operation != WEIR__REDIS_TAKE && request->operation != WEIR__REDIS_DEPART))
		return WEIR_ERR_LIMIT;
	if (request->operation == WEIR__REDIS_GRANT &&
	    (request->claims[0].lease_duration == 0 || request->claims[0].lease_duration > WEIR__REDIS_LEASE_MAX))
		return WEIR_ERR_LIMIT;
	parts->n = 0;
	for (size_t i = 0; i < request->n; i++) {
		const struct weir__redis_claim *const claim = &request->claims[i];
		size_t part = 0;

		while (part < parts->n && !is_same_key(&request->claims[parts->first[part]], claim))
			part++;
		if (part == parts->n) {
			parts->first[part] = i;
			parts->costs[part] = 0;
			parts->n++;
		} else if (request->claims[parts->first[part]].plan != claim->plan) {
			return WEIR_ERR_LIMIT;
		}
		parts->costs[part] = weir__add_saturating(parts->costs[part], claim->cost);
		parts->of[i] = part;
	}
	return WEIR_OK;
}

size_t weir__redis_call_answers(const struct weir__redis_request *request)
{
	struct parts parts;

	return parts_of(request, &parts) == WEIR_OK ? parts.n : 0;
}

/* --- writing ----------------------------------------------------------------------------------------------------- */

/* A hash table of the keys in a call. A place has the number of the claim, counted from 1; 0: free. */
struct seen {
	bool is_distinct;
	const struct weir__redis_claim *claims[WEIR__REDIS_CALL_CLAIMS_MAX];
	uint16_t places[1 << SEEN_BITS];
};

struct draft {
	size_t claims, length; /* parts of all requests; bytes used */
	unsigned char bytes[REQUESTS_BYTES];
	size_t run; /* offset of the run that the last request belongs to; 0: none */
	size_t plans;
	const struct weir__redis_plan *plan[WEIR__REDIS_CALL_PLANS_MAX];
	bool has_logs;
	struct seen seen;
};

static uint64_t mix(uint64_t hash, struct weir__resp_slice slice)
{
	for (size_t i = 0; i < slice.length; i++)
		hash = (hash ^ (unsigned char)slice.bytes[i]) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 32;
}

/* Gives up after SEEN_TRIES collisions and reports the keys as not distinct: keys chosen to collide only make the
 * script slower. */
static void note_key(struct seen *seen, const struct weir__redis_claim *claim, size_t n)
{
	const uint64_t hash = mix(mix(1, claim->name), claim->key) * UINT64_C(0x9e3779b97f4a7c15);

	seen->claims[n] = claim;
	for (size_t i = 0; seen->is_distinct; i++) {
		uint16_t *const place = &seen->places[((hash >> (64 - SEEN_BITS)) + i) % (1 << SEEN_BITS)];

		if (*place == 0) {
			*place = (uint16_t)(n + 1);
			return;
		}
		seen->is_distinct = i < SEEN_TRIES && !is_same_key(seen->claims[*place - 1], claim);
	}
}

static void draft_init(struct draft *draft)
{
	draft->claims = draft->run = draft->plans = 0;
	draft->length = 1; /* the first byte is for flags */
	draft->has_logs = false;
	draft->seen.is_distinct = true;
	memset(draft->seen.places, 0, sizeof(draft->seen.places));
}

static void put_at(struct draft *draft, size_t at, uint64_t number, unsigned bytes)
{
	for (unsigned i = 0; i < bytes; i++)
		draft->bytes[at + i] = (unsigned char)(number >> (8 * i));
}

static void put(struct draft *draft, uint64_t number, unsigned bytes)
{
	put_at(draft, draft->length, number, bytes);
	draft->length += bytes;
}

/* Microseconds, then nanoseconds. */
static void put_time(struct draft *draft, weir_ns time)
{
	put(draft, weir__min(time / NS, WEIR__REDIS_TIME_MAX_US), 7);
	put(draft, time % NS, 2);
}

/* Returns the index of a plan in the call, or WEIR__REDIS_CALL_PLANS_MAX if the call is full. Checks the newest plan
 * first: most calls have few plans, and most claims use the newest. */
static size_t place_of(struct draft *draft, const struct weir__redis_plan *plan)
{
	size_t i = 0;

	if (draft->plans > 0 && draft->plan[draft->plans - 1] == plan)
		return draft->plans - 1;
	while (i < draft->plans && draft->plan[i] != plan)
		i++;
	if (i == draft->plans && i < WEIR__REDIS_CALL_PLANS_MAX)
		draft->plan[draft->plans++] = plan;
	return i;
}

/* If the request differs from the run before it only in its key, extends that run. A run ends with its number of
 * repeats. */
static void end_run(struct draft *draft, size_t begin)
{
	enum { REPEATS_AT = RUN_BYTES - 2 };
	unsigned repeats;

	put(draft, 1, 2);
	if (draft->run != 0 && memcmp(&draft->bytes[draft->run], &draft->bytes[begin], REPEATS_AT) == 0) {
		repeats = draft->bytes[draft->run + REPEATS_AT] | (unsigned)draft->bytes[draft->run + REPEATS_AT + 1]
									  << 8;
		put_at(draft, draft->run + REPEATS_AT, repeats + 1, 2);
		draft->length = begin;
	} else {
		draft->run = begin;
	}
}

/* An undo is a run of its own. */
static void end_undo(struct draft *draft, const struct weir__redis_request *request)
{
	const struct weir__redis_claim *const claim = &request->claims[0];

	put(draft, 1, 2);
	put(draft, weir__min(claim->charged_at / NS, WEIR__REDIS_TIME_MAX_US), 7);
	put(draft, weir__min(claim->charged_cost, cost_most), 7);
	if (request->operation == WEIR__REDIS_CANCEL)
		put_time(draft, claim->charged_full_at);
	draft->run = 0;
}

/* Two numbers follow, and the request is a run of its own. */
static void end_lease(struct draft *draft, const struct weir__redis_request *request)
{
	const struct weir__redis_claim *const claim = &request->claims[0];
	uint64_t first = claim->charged_at / NS, second = weir__min(claim->reserved, cost_most); /* PUSH */

	if (request->operation == WEIR__REDIS_GRANT) {
		first = claim->lease_duration / NS + (claim->lease_duration % NS != 0);
		second = weir__min(claim->lease_most, cost_most);
	} else if (request->operation == WEIR__REDIS_RETURN) {
		first = claim->lease_end_us;
		second = 0;
	}
	put(draft, 1, 2);
	put(draft, weir__min(first, WEIR__REDIS_TIME_MAX_US), 7);
	put(draft, second, 7);
	draft->run = 0;
}

/* It goes before the second claim, so that the script knows it when it looks at the other claims. */
static void put_max_delay(struct draft *draft, const struct weir__redis_request *request)
{
	weir_ns max_delay = WEIR_NEVER;

	for (size_t i = 0; i < request->n; i++)
		max_delay = weir__min(max_delay, request->claims[i].max_delay);
	put_time(draft, max_delay);
}

static int add_request(struct draft *draft, const struct weir__redis_request *request)
{
	const bool is_departure = request->operation == WEIR__REDIS_DEPART;
	const size_t begin = draft->length;
	struct parts parts;
	const int error = parts_of(request, &parts);

	if (error != WEIR_OK)
		return error;
	if (parts.n > WEIR__REDIS_CALL_CLAIMS_MAX - draft->claims)
		return WEIR_ERR_FULL;
	put(draft, request->operation, 1);
	put(draft, parts.n, 1);
	for (size_t i = 0; i < parts.n; i++) {
		const struct weir__redis_claim *const claim = &request->claims[parts.first[i]];
		const size_t place = place_of(draft, claim->plan);

		if (place == WEIR__REDIS_CALL_PLANS_MAX)
			return WEIR_ERR_FULL;
		draft->has_logs |= claim->plan->plan.kind == WEIR_KIND_LOG;
		note_key(&draft->seen, claim, draft->claims++);
		put(draft, place, 2);
		put(draft, weir__min(parts.costs[i], cost_most), 7);
		if (i == 0 && (parts.n > 1 || is_departure))
			put(draft, 1, 2);
		if (i == 0 && is_departure)
			put_max_delay(draft, request);
	}
	if (request->operation == WEIR__REDIS_UNDO || request->operation == WEIR__REDIS_CANCEL)
		end_undo(draft, request);
	else if (request->operation >= WEIR__REDIS_GRANT)
		end_lease(draft, request);
	else if (parts.n == 1 && !is_departure)
		end_run(draft, begin);
	else
		draft->run = 0;
	return WEIR_OK;
}

static void write_number(struct weir__resp_writer *writer, uint64_t number)
{
	char digits[NUMBER_BYTES];
	size_t at = sizeof(digits);

	do {
		digits[--at] = (char)('0' + number % 10);
		number /= 10;
	} while (number > 0);
	weir__resp_write_bulk(writer, digits + at, sizeof(digits) - at);
}

static void write_keys(const struct weir__redis_call *call, struct weir__resp_writer *writer)
{
	struct parts parts;

	for (size_t i = 0; i < call->n; i++) {
		parts_of(&call->requests[i], &parts);
		for (size_t part = 0; part < parts.n; part++) {
			const struct weir__redis_claim *const claim = &call->requests[i].claims[parts.first[part]];
			const struct weir__resp_slice slices[] = { call->prefix, claim->name, { ":", 1 }, claim->key };

			weir__resp_write_bulk_of(writer, slices, sizeof(slices) / sizeof(slices[0]));
		}
	}
}

static void write_plans(const struct draft *draft, struct weir__resp_writer *writer)
{
	struct weir__resp_slice slices[WEIR__REDIS_CALL_PLANS_MAX];

	for (size_t i = 0; i < draft->plans; i++)
		slices[i] = (struct weir__resp_slice){ (const char *)draft->plan[i]->bytes, WEIR__REDIS_PLAN_BYTES };
	weir__resp_write_bulk_of(writer, slices, draft->plans);
}

static bool is_time(weir_ns now)
{
	return now % NS == 0 && now / NS <= WEIR__REDIS_TIME_MAX_US;
}

int weir__redis_call_write(const struct weir__redis_call *call, struct weir__resp_writer *writer)
{
	enum { FIXED_ARGUMENTS = 5 }; /* EVALSHA, SHA-1, number of keys, requests, plans */
	struct draft draft WEIR__UNINITIALIZED;
	int error;

	if (call->n == 0 || (call->test_now && !is_time(*call->test_now)))
		return WEIR_ERR_LIMIT;
	draft_init(&draft);
	for (size_t i = 0; i < call->n; i++) {
		error = add_request(&draft, &call->requests[i]);
		if (error != WEIR_OK)
			return error;
	}
	draft.bytes[0] = (unsigned char)(draft.seen.is_distinct | draft.has_logs << 1);
	weir__resp_write_array(writer, FIXED_ARGUMENTS + draft.claims + (call->test_now != NULL));
	weir__resp_write_bulk(writer, "EVALSHA", strlen("EVALSHA"));
	weir__resp_write_bulk(writer, call->sha1, WEIR__REDIS_SHA1_LENGTH);
	write_number(writer, draft.claims);
	write_keys(call, writer);
	weir__resp_write_bulk(writer, draft.bytes, draft.length);
	write_plans(&draft, writer);
	if (call->test_now)
		write_number(writer, *call->test_now / NS);
	return writer->length <= writer->size ? WEIR_OK : WEIR_ERR_ROOM;
}

/* --- reading ----------------------------------------------------------------------------------------------------- */

/* The unread part of a reply. Reading past its end yields 0 and sets `is_short`. */
struct answers {
	const unsigned char *at;
	size_t left;
	bool is_short;
};

static uint64_t get(struct answers *answers, unsigned bytes)
{
	uint64_t number = 0;

	if (answers->left < bytes) {
		answers->is_short = true;
		return 0;
	}
	for (unsigned i = 0; i < bytes; i++)
		number |= (uint64_t)answers->at[i] << (8 * i);
	answers->at += bytes;
	answers->left -= bytes;
	return number;
}

/* Microseconds, then nanoseconds, which may be 1000 because they are rounded up. */
static weir_ns get_duration(struct answers *answers, bool *is_strange)
{
	const uint64_t us = get(answers, 7), ns = get(answers, 2);

	*is_strange |= us > WEIR__REDIS_TIME_MAX_US || ns > NS;
	return us * NS + ns;
}

enum { ALLOWED = 1, NEVER = 2, HAS_WAIT = 4, HAS_GRANTED = 8, HAS_LIMIT = 16, IS_RETRY = 32, WORDS = 64 };

/* Skips a verdict whose claim is gone. Without the claim only the ranges of the fields can be checked. */
static bool skip_verdict(struct answers *answers)
{
	const uint64_t word = get(answers, 1);
	bool is_strange = word >= WORDS;

	get(answers, 6);
	get_duration(answers, &is_strange);
	if (word & HAS_WAIT)
		get_duration(answers, &is_strange);
	if (word & HAS_GRANTED)
		get(answers, 6);
	if (word & HAS_LIMIT)
		get(answers, 6);
	return !answers->is_short && !is_strange;
}

/* Returns false if the fields are impossible for a verdict on this claim. HAS_LIMIT: the key was decided by a plan that
 * another node has set later. */
static bool get_verdict(struct answers *answers, enum weir__redis_operation operation, const struct weir_plan *plan,
			uint64_t cost, struct weir_verdict *verdict)
{
	const uint64_t word = get(answers, 1);
	bool is_strange = word >= WORDS || (word & ALLOWED && word & NEVER) || (word & NEVER && word & HAS_WAIT) ||
			  (word & IS_RETRY && !(word & ALLOWED));
	weir_ns wait = 0;

	is_strange |= operation == WEIR__REDIS_RESET && (word & ~(uint64_t)HAS_GRANTED) != ALLOWED; /* never waits */
	is_strange |= operation == WEIR__REDIS_GRANT && word & ALLOWED && (word & (HAS_WAIT | IS_RETRY)) != HAS_WAIT;
	*verdict = (struct weir_verdict){ .allowed = word & ALLOWED, .never = word & NEVER, .limit = plan->most };
	verdict->remaining = get(answers, 6);
	verdict->reset_after = get_duration(answers, &is_strange);
	if (word & HAS_WAIT)
		wait = get_duration(answers, &is_strange);
	if (word & HAS_GRANTED)
		verdict->granted = get(answers, 6);
	else if (verdict->allowed && (operation == WEIR__REDIS_TAKE || operation == WEIR__REDIS_DEPART))
		verdict->granted = cost;
	if (word & HAS_LIMIT)
		verdict->limit = get(answers, 6);
	if (verdict->allowed && operation == WEIR__REDIS_GRANT) {
		verdict->delay = wait; /* until the lease ends */
		is_strange |= verdict->granted == 0 || wait == 0;
	} else if (verdict->allowed) {
		/* IS_RETRY: a limit with count all allowed the request, a different limit denied it, and the attempt
		 * counted. */
		verdict->retry_after = word & IS_RETRY ? wait : 0;
		verdict->delay = !(word & IS_RETRY) && (plan->flags & WEIR_PLAN_SHAPE || word & HAS_LIMIT) ? wait : 0;
	} else {
		verdict->retry_after = verdict->never ? WEIR_NEVER : wait;
	}
	if (operation == WEIR__REDIS_RESET) { /* for a reset, `granted` says whether the key had a state */
		verdict->allowed = verdict->granted == 1;
		verdict->granted = 0;
	}
	return !answers->is_short && !is_strange && verdict->remaining <= verdict->limit && verdict->granted <= cost &&
	       (verdict->allowed || verdict->granted == 0);
}

/* The verdicts of all requests, in order. Returns false if they are not valid. */
static bool get_verdicts(const struct weir__redis_call *call, struct answers *answers, struct weir_verdict *verdicts)
{
	struct weir_verdict of_parts[WEIR__REDIS_CLAIMS_MAX];
	struct parts parts;

	for (size_t i = 0; i < call->n; i++) {
		const struct weir__redis_request *const request = &call->requests[i];

		if (request->operation == WEIR__REDIS_FORGOTTEN) {
			for (size_t part = 0; part < request->n; part++)
				if (!skip_verdict(answers))
					return false;
			continue;
		}
		if (parts_of(request, &parts) != WEIR_OK)
			return false;
		for (size_t part = 0; part < parts.n; part++)
			if (!get_verdict(answers, request->operation, &request->claims[parts.first[part]].plan->plan,
					 parts.costs[part], &of_parts[part]))
				return false;
		for (size_t claim = 0; claim < request->n; claim++)
			*verdicts++ = of_parts[parts.of[claim]];
	}
	return answers->left == 0;
}

static bool begins_with(struct weir__resp_slice text, const char *word)
{
	const size_t length = strlen(word);

	return text.length >= length && memcmp(text.bytes, word, length) == 0;
}

struct weir__redis_reply weir__redis_call_read(const struct weir__redis_call *call,
					       const struct weir__resp_token *tokens, uint32_t n,
					       struct weir_verdict *verdicts)
{
	struct weir__redis_reply reply = { .answer = WEIR__REDIS_STRANGE };
	struct answers answers;
	uint64_t now_us;

	if (n != 1)
		return reply;
	if (tokens[0].type == WEIR__RESP_ERROR) {
		reply.answer = begins_with(tokens[0].text, "NOSCRIPT") ? WEIR__REDIS_NOSCRIPT : WEIR__REDIS_ERROR;
		reply.error = tokens[0].text;
		return reply;
	}
	if (tokens[0].type != WEIR__RESP_BULK || tokens[0].text.length < HEAD_BYTES)
		return reply;
	answers = (struct answers){ .at = (const unsigned char *)tokens[0].text.bytes, .left = tokens[0].text.length };
	if (get(&answers, 1) != VERSION)
		return reply;
	reply.anew = (uint32_t)get(&answers, 4);
	now_us = get(&answers, 7);
	if (now_us > WEIR__REDIS_TIME_MAX_US || !get_verdicts(call, &answers, verdicts))
		return reply;
	reply.now = now_us * NS;
	reply.answer = WEIR__REDIS_DECIDED;
	return reply;
}
