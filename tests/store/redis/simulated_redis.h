/* simulated_redis.h: a Redis for simulations: commands in, replies out, at given times. It knows the commands of Weir's
 * client, and decides with the core instead of the script; leases and pushes are in simulated_leases.h. It can be out of memory, a replica, or without the script,
 * and records what it has executed. */
#ifndef WEIR_TESTS_SIMULATED_REDIS_H
#define WEIR_TESTS_SIMULATED_REDIS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "simulated_leases.h"
#include "store/redis/redis_call.h"

enum {
	SIM_KEYS = 6,
	SIM_PUSHED_KEY = SIM_KEYS - 1, /* servers push to it; they take the others, and lend them */
	SIM_PLANS = 2,
	SIM_CLAIMS_MAX = 6, /* of a job */
	SIM_JOBS_MAX = 16384,
	SIM_WRITES_MAX = 1 << 16,
	SIM_SERVERS = 2,
};

/* What the simulation knows of a job. */
struct sim_job {
	uint32_t executed; /* how often */
	weir_ns executed_at;
	uint32_t n; /* verdicts that were given */
	struct weir_verdict verdicts[SIM_CLAIMS_MAX];
};

/* A write that a replica may not have yet. */
struct sim_write {
	weir_ns at;
	uint32_t plan, key;
	struct sim_value value;
};

struct sim_redis {
	bool is_up, is_stopped, is_replica, has_script, is_full, is_old;
	struct sim_value values[SIM_PLANS][SIM_KEYS];
	struct sim_write *writes; /* since the last copy to the replica */
	uint32_t n_writes;
};

static struct weir__redis_plan sim_plans[SIM_PLANS];

/* Is told of all units that are charged by a take. */
static void (*sim_admitted)(uint32_t plan, uint32_t key, uint64_t units);

static struct sim_job sim_jobs[SIM_JOBS_MAX];
static const char sim_names[SIM_PLANS] = { 'b', 'w' };

static void sim_abort(const char *what)
{
	printf("# the simulated Redis: %s\n", what);
	fflush(stdout);
	abort();
}

/* --- what the script would do ------------------------------------------------------------------------------------ */

struct sim_run {
	struct sim_redis *redis;
	weir_ns now;
	const struct weir__resp_slice *keys, *plans;
	size_t next_key;
	struct sim_job job; /* of which the mark is still to come */
	unsigned char answer[1 << 14];
	size_t length;
};

static uint64_t sim_get(const char *bytes, size_t n)
{
	uint64_t number = 0;

	for (size_t i = 0; i < n; i++)
		number |= (uint64_t)(unsigned char)bytes[i] << (8 * i);
	return number;
}

static void sim_put(struct sim_run *run, uint64_t number, size_t n)
{
	for (size_t i = 0; i < n; i++)
		run->answer[run->length++] = (unsigned char)(number >> (8 * i));
}

static void sim_put_span(struct sim_run *run, weir_ns duration)
{
	sim_put(run, duration / 1000, 7);
	sim_put(run, duration % 1000, 2);
}

static void sim_put_verdict(struct sim_run *run, unsigned operation, const struct weir_verdict *verdict)
{
	enum { ALLOWED = 1, NEVER = 2, HAS_WAIT = 4, HAS_GRANTED = 8 };
	unsigned word = verdict->allowed ? ALLOWED : verdict->never ? NEVER : HAS_WAIT;

	if (verdict->allowed && operation != WEIR__REDIS_TAKE)
		word |= HAS_GRANTED;
	if (verdict->allowed && operation == WEIR__REDIS_GRANT)
		word |= HAS_WAIT;
	sim_put(run, word, 1);
	sim_put(run, verdict->remaining, 6);
	sim_put_span(run, verdict->reset_after);
	if (word & HAS_WAIT)
		sim_put_span(run, verdict->allowed ? verdict->delay : verdict->retry_after);
	if (word & HAS_GRANTED)
		sim_put(run, verdict->granted, 6);
	if (run->job.n == SIM_CLAIMS_MAX)
		sim_abort("a job without a mark");
	run->job.verdicts[run->job.n++] = *verdict;
}

/* The state of a claim: weir:NAME:kN. The plan must belong to the name. */
static struct sim_value *sim_value_of(struct sim_run *run, size_t place, uint32_t *ret_plan, uint32_t *ret_key)
{
	const struct weir__resp_slice key = run->keys[run->next_key++];

	for (uint32_t plan = 0; plan < SIM_PLANS; plan++)
		if (key.length == 9 && key.bytes[5] == sim_names[plan] && key.bytes[7] == 'k') {
			if (run->plans->length < (place + 1) * WEIR__REDIS_PLAN_BYTES ||
			    memcmp(run->plans->bytes + place * WEIR__REDIS_PLAN_BYTES, sim_plans[plan].bytes,
				   WEIR__REDIS_PLAN_BYTES) != 0)
				sim_abort("a plan that differs from the plan of the key");
			*ret_plan = plan;
			*ret_key = (uint32_t)(key.bytes[8] - '0');
			return &run->redis->values[plan][*ret_key];
		}
	return NULL;
}

static void sim_wrote(struct sim_run *run, uint32_t plan, uint32_t key, const struct sim_value *value)
{
	if (run->redis->n_writes == SIM_WRITES_MAX)
		sim_abort("more writes than can be");
	run->redis->writes[run->redis->n_writes++] = (struct sim_write){ run->now, plan, key, *value };
}

/* The last request of each job peeks at weir:m:jN, which identifies the job. */
static void sim_mark(struct sim_run *run, struct weir__resp_slice key)
{
	struct sim_job *job;
	char digits[8] = { 0 };

	if (key.length < 9 || key.length > 15 || key.bytes[5] != 'm')
		sim_abort("an unknown key");
	memcpy(digits, key.bytes + 8, key.length - 8);
	job = &sim_jobs[strtoul(digits, NULL, 10) % SIM_JOBS_MAX];
	run->job.executed = job->executed + 1;
	run->job.executed_at = run->now;
	*job = run->job;
	run->job.n = 0;
}

static void sim_charge(struct sim_run *run, uint32_t plan, uint32_t key, uint64_t units)
{
	struct sim_value *const value = &run->redis->values[plan][key];

	if (units > 0 && !weir_step_take(&sim_plans[plan].plan, &value->state, run->now, units).allowed)
		sim_abort("what a look allows is not left");
	if (units > 0)
		sim_admitted(plan, key, units);
	sim_wrote(run, plan, key, value);
}

static void sim_one(struct sim_run *run, unsigned operation, size_t place, uint64_t cost, const char *more)
{
	uint32_t plan, key;
	struct sim_value *const value = sim_value_of(run, place, &plan, &key);
	const struct weir_plan *of;
	struct weir_state view = { 0, 0 };
	struct weir_verdict verdict;

	if (value == NULL) {
		verdict = weir_step_peek(&sim_plans[0].plan, &view, run->now, cost);
		sim_put_verdict(run, WEIR__REDIS_PEEK, &verdict);
		sim_mark(run, run->keys[run->next_key - 1]);
		return;
	}
	of = &sim_plans[plan].plan;
	view = sim_view(value, of, run->now);
	switch (operation) {
	case WEIR__REDIS_TAKE:
		verdict = weir_step_take(of, &view, run->now, cost);
		break;
	case WEIR__REDIS_UP_TO:
		verdict = weir_step_upto(of, &view, run->now, cost);
		break;
	case WEIR__REDIS_GRANT:
		verdict = sim_grant(value, of, run->now, cost, sim_get(more, 7), sim_get(more + 7, 7));
		break;
	case WEIR__REDIS_RETURN:
		verdict = sim_return(value, of, run->now, cost, sim_get(more, 7));
		break;
	case WEIR__REDIS_PUSH:
		verdict = sim_push(value, of, run->now, cost, sim_get(more, 7) * 1000);
		break;
	default:
		verdict = weir_step_peek(of, &view, run->now, cost);
	}
	sim_put_verdict(run, operation, &verdict);
	sim_charge(run, plan, key,
		   operation == WEIR__REDIS_TAKE || operation == WEIR__REDIS_UP_TO ? verdict.granted : 0);
}

/* All or nothing. */
static void sim_together(struct sim_run *run, size_t n, const size_t *places, const uint64_t *costs)
{
	struct weir_verdict verdicts[WEIR__REDIS_CLAIMS_MAX];
	struct weir_state view;
	uint32_t plans[WEIR__REDIS_CLAIMS_MAX], keys[WEIR__REDIS_CLAIMS_MAX];
	bool all = true;

	for (size_t i = 0; i < n; i++) {
		struct sim_value *const value = sim_value_of(run, places[i], &plans[i], &keys[i]);

		if (value == NULL)
			sim_abort("a mark among claims");
		view = sim_view(value, &sim_plans[plans[i]].plan, run->now);
		verdicts[i] = weir_step_peek(&sim_plans[plans[i]].plan, &view, run->now, costs[i]);
		all = all && verdicts[i].allowed;
	}
	for (size_t i = 0; i < n; i++) {
		if (all) {
			view = sim_view(&run->redis->values[plans[i]][keys[i]], &sim_plans[plans[i]].plan, run->now);
			verdicts[i] = weir_step_take(&sim_plans[plans[i]].plan, &view, run->now, costs[i]);
			sim_charge(run, plans[i], keys[i], costs[i]);
		}
		sim_put_verdict(run, all ? WEIR__REDIS_TAKE : WEIR__REDIS_PEEK, &verdicts[i]);
	}
}

static void sim_requests(struct sim_run *run, struct weir__resp_slice requests)
{
	size_t at = 1;

	while (at + 13 <= requests.length) {
		const char *const bytes = requests.bytes + at;
		const unsigned operation = (unsigned char)bytes[0];
		const size_t claims = (unsigned char)bytes[1];
		size_t places[WEIR__REDIS_CLAIMS_MAX] = { (size_t)sim_get(bytes + 2, 2) };
		uint64_t costs[WEIR__REDIS_CLAIMS_MAX] = { sim_get(bytes + 4, 7) };
		const uint64_t repeats = sim_get(bytes + 11, 2);

		at += 13;
		for (size_t i = 1; i < claims; i++, at += 9) {
			places[i] = (size_t)sim_get(requests.bytes + at, 2);
			costs[i] = sim_get(requests.bytes + at + 2, 7);
		}
		if (claims > 1)
			sim_together(run, claims, places, costs);
		for (uint64_t i = 0; claims == 1 && i < repeats; i++)
			sim_one(run, operation, places[0], costs[0], requests.bytes + at);
		if (operation >= WEIR__REDIS_GRANT)
			at += 14;
	}
}

static void sim_call(struct sim_redis *redis, const struct weir__resp_slice *words, uint32_t n, weir_ns now,
		     struct weir__resp_writer *reply)
{
	static struct sim_run run;

	run = (struct sim_run){ .redis = redis, .now = now / 1000 * 1000, .keys = words + 3, .plans = &words[n - 1] };
	sim_put(&run, 1, 1);
	sim_put(&run, 0, 4);
	sim_put(&run, run.now / 1000, 7);
	sim_requests(&run, words[n - 2]);
	if (run.next_key != n - 5 || run.job.n != 0)
		sim_abort("a call that is not of whole jobs");
	weir__resp_write_bulk(reply, run.answer, run.length);
}

/* --- commands ---------------------------------------------------------------------------------------------------- */

static bool sim_is(struct weir__resp_slice word, const char *text)
{
	return word.length == strlen(text) && memcmp(word.bytes, text, word.length) == 0;
}

static void sim_error(struct weir__resp_writer *reply, const char *text)
{
	weir__resp_write_error(reply, text, strlen(text));
}

static void sim_hello(const struct sim_redis *redis, struct weir__resp_writer *reply)
{
	if (redis->is_old) {
		sim_error(reply, "ERR unknown command `HELLO`, with args beginning with: `3`");
		return;
	}
	reply->resp_version = 3;
	weir__resp_write_map(reply, 1);
	weir__resp_write_bulk(reply, "server", 6);
	weir__resp_write_bulk(reply, "redis", 5);
}

/* Executes one command at one instant. */
static void sim_execute(struct sim_redis *redis, const struct weir__resp_slice *words, uint32_t n, weir_ns now,
			struct weir__resp_writer *reply)
{
	const bool is_call = sim_is(words[0], "EVALSHA"), is_beat = sim_is(words[0], "EVAL");

	if (sim_is(words[0], "HELLO")) {
		sim_hello(redis, reply);
	} else if (sim_is(words[0], "CLIENT")) {
		weir__resp_write_simple(reply, "OK", 2);
	} else if (sim_is(words[0], "ROLE")) {
		weir__resp_write_array(reply, 2);
		weir__resp_write_bulk(reply, redis->is_replica ? "slave" : "master", redis->is_replica ? 5 : 6);
		weir__resp_write_integer(reply, 0);
	} else if (sim_is(words[0], "SCRIPT")) {
		redis->has_script = true;
		weir__resp_write_bulk(reply, weir__redis_script.sha1, WEIR__REDIS_SHA1_LENGTH);
	} else if (is_call && !redis->has_script) {
		sim_error(reply, "NOSCRIPT No matching script. Please use EVAL.");
	} else if ((is_call || is_beat) && redis->is_replica) {
		sim_error(reply, "READONLY You can't write against a read only replica.");
	} else if ((is_call || is_beat) && redis->is_full) {
		sim_error(reply, "OOM command not allowed when used memory > 'maxmemory'.");
	} else if (is_call && n > 5) {
		sim_call(redis, words, n, now, reply);
	} else if (is_beat) {
		weir__resp_write_integer(reply, 1);
	} else {
		sim_abort("a command that it does not know");
	}
}

/* --- copies ------------------------------------------------------------------------------------------------------ */

/* The replica takes over the state up to an instant: later writes are lost. */
static void sim_promote(struct sim_redis *from, struct sim_redis *to, weir_ns until)
{
	for (uint32_t i = 0; i < from->n_writes && from->writes[i].at <= until; i++)
		to->values[from->writes[i].plan][from->writes[i].key] = from->writes[i].value;
	from->n_writes = to->n_writes = 0;
	to->is_replica = false;
	from->is_replica = true;
	memcpy(from->values, to->values, sizeof(from->values)); /* it copies everything when it is back */
}

static void sim_forget(struct sim_redis *redis)
{
	memset(redis->values, 0, sizeof(redis->values));
	redis->n_writes = 0;
	redis->has_script = false;
}

#endif
