/* redis_engine.c: plays the vectors on the script in a real Redis, with the vectors' times. A subject is a plan and one
 * key. */
#include "redis_server.h"

#include "store/redis/redis_call.h"
#include "store/table/decision.h"
#include "vector_engine.h"

enum { GRAIN_NS = 1000, NAME_SIZE = 24 };

static struct redis_server server;

struct subject {
	struct weir__redis_plan plan;
	char name[NAME_SIZE];
};

/* Started by the first limit, so that a run without limits needs no Redis. */
static void need_server(void)
{
	static bool is_started;

	if (is_started)
		return;
	is_started = true;
	redis_server_start(&server);
	redis_server_load(&server, weir__redis_script.text, weir__redis_script.length);
}

static void __attribute__((destructor)) stop_server(void)
{
	if (server.pid > 0)
		redis_server_stop(&server);
}

static const char *skips_limit(const struct weir_limit *limit, uint64_t costs)
{
	struct weir__redis_plan redis_plan;
	struct weir_plan plan;

	if (weir_plan_compile(limit, &plan, NULL) != WEIR_OK)
		return NULL;
	if (limit->count_all && limit->algorithm == WEIR_SLIDING_COUNTER &&
	    costs > WEIR__REDIS_COUNTS_MAX / (limit->segments + 1))
		return "counts beyond the maxima";
	return weir__redis_plan_init(&redis_plan, &plan, NULL) == WEIR_OK ? NULL : "limits beyond the maxima";
}

static const char *skips_times(weir_ns earliest, weir_ns latest)
{
	(void)earliest;
	return latest / GRAIN_NS > WEIR__REDIS_TIME_MAX_US ? "times beyond the maxima" : NULL;
}

static void *make(const struct weir_limit *limit, uint64_t log_room)
{
	static unsigned subjects;
	struct subject *const subject = malloc(sizeof(*subject));
	struct weir_plan plan;

	(void)log_room;
	if (subject == NULL)
		abort();
	if (weir_plan_compile(limit, &plan, NULL) != WEIR_OK) {
		free(subject);
		return NULL;
	}
	need_server();
	if (weir__redis_plan_init(&subject->plan, &plan, NULL) != WEIR_OK)
		abort();
	(void)snprintf(subject->name, sizeof(subject->name), "%u", subjects++);
	return subject;
}

static void decide(const struct weir__redis_request *request, weir_ns now, struct weir_verdict *verdicts)
{
	const struct weir__redis_call call = {
		.sha1 = weir__redis_script.sha1, .prefix = { "weir:", 5 }, .requests = request, .n = 1, .test_now = &now
	};
	struct weir__redis_reply reply;

	redis_server_begin(&server);
	if (weir__redis_call_write(&call, &server.out) != WEIR_OK)
		errx(1, "a call was not written");
	redis_server_ask(&server);
	reply = weir__redis_call_read(&call, server.tokens, server.reply.n, verdicts);
	if (reply.answer != WEIR__REDIS_DECIDED || reply.anew != 0 || reply.now != now)
		errx(1, "the script answered %d, %u began anew: %.*s", (int)reply.answer, reply.anew,
		     (int)reply.error.length, reply.error.bytes);
}

static struct weir__redis_claim claim_of(const struct subject *subject, uint64_t cost)
{
	return (struct weir__redis_claim){ .plan = &subject->plan,
					   .name = { subject->name, strlen(subject->name) },
					   .key = { "key", 3 },
					   .cost = cost };
}

static struct weir_verdict step(const void *subject, enum weir__redis_operation operation, weir_ns now, uint64_t cost)
{
	const struct weir__redis_claim claim = claim_of(subject, cost);
	const struct weir__redis_request request = { .operation = operation, .claims = &claim, .n = 1 };
	struct weir_verdict verdict;

	decide(&request, now, &verdict);
	return verdict;
}

static struct weir_verdict take(void *subject, weir_ns now, uint64_t cost)
{
	return step(subject, WEIR__REDIS_TAKE, now, cost);
}

static struct weir_verdict upto(void *subject, weir_ns now, uint64_t cost)
{
	return step(subject, WEIR__REDIS_UP_TO, now, cost);
}

static struct weir_verdict peek(void *subject, weir_ns now, uint64_t cost)
{
	return step(subject, WEIR__REDIS_PEEK, now, cost);
}

static struct weir_verdict refund(void *subject, weir_ns now, uint64_t n)
{
	return step(subject, WEIR__REDIS_REFUND, now, n);
}

static struct weir_verdict undo(void *subject, weir_ns now, uint64_t n, weir_ns charged_at, uint64_t cost)
{
	struct weir__redis_claim claim = claim_of(subject, n);
	const struct weir__redis_request request = { .operation = WEIR__REDIS_UNDO, .claims = &claim, .n = 1 };
	struct weir_verdict verdict;

	claim.charged_at = charged_at;
	claim.charged_cost = cost;
	decide(&request, now, &verdict);
	return verdict;
}

/* The next request converts the key, which the vectors send at once. */
static int change(void *subject_, weir_ns now, const struct weir_limit *limit)
{
	struct subject *const subject = subject_;
	struct weir_plan plan;
	const int error = weir_plan_compile(limit, &plan, NULL);

	return error != WEIR_OK ? error : weir__redis_plan_change(&subject->plan, &plan, now, NULL);
}

static struct weir_decision all(void *const *subjects, const uint64_t *costs, size_t n, weir_ns now,
				struct weir_verdict *verdicts)
{
	struct weir__redis_claim claims[VECTOR_CLAIMS_MAX];
	const struct weir__redis_request request = { .operation = WEIR__REDIS_TAKE, .claims = claims, .n = n };

	for (size_t i = 0; i < n; i++)
		claims[i] = claim_of(subjects[i], costs[i]);
	decide(&request, now, verdicts);
	return weir__decision_of(verdicts, n);
}

static void end(void)
{
	if (server.pid > 0)
		REDIS_COMMAND(&server, "FLUSHALL");
}

static const struct vector_engine redis_engine = {
	.name = "redis",
	.end = end,
	.grain = GRAIN_NS,
	.skips_limit = skips_limit,
	.skips_times = skips_times,
	.make = make,
	.drop = free,
	.take = take,
	.upto = upto,
	.peek = peek,
	.refund = refund,
	.undo = undo,
	.change = change,
	.all = all,
};

const struct vector_engine *const vector_engines[] = { &redis_engine };
const size_t vector_engines_n = sizeof(vector_engines) / sizeof(vector_engines[0]);
