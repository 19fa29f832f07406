/* redis_simulation_test.c: nodes with the real client, one or two Redis servers, sentinels, and all kinds of faults
 * between them, in virtual time. A seed is one run, repeatable to the byte.
 *
 *     redis_simulation_test [SEEDS [FIRST]]
 *
 * Checked at each step: a job completes once, and within its budget; a decided job was executed exactly once, with the
 * store's verdicts; a job that was not sent is never executed; no key is allowed more than its limit, plus one burst
 * for each time that the store has lost data. Nodes also hold units that the store has lent them, and spend these as
 * late as the lease allows: no interval and no window has more than the limit gives, as long as no data is lost. To one
 * key of each limit they push what they have allowed: there it is more by what the other nodes have not pushed, and by
 * what crashed nodes lost. When all faults have ended, each node is up within 1 s, and from then on
 * everything is decided. */
#include "store/redis/redis_client.h"

#include <inttypes.h>
#include <stdio.h>

#include "simulated_network.h"

enum { TIMERS = 64, HELD_MOST = 16, AHEAD = 3 };

static const weir_ns start = UINT64_C(1790000000) * 1000 * SIM_MS, up_within = 1000 * SIM_MS;

/* --- the world --------------------------------------------------------------------------------------------------- */

struct job {
	struct weir__redis_job job; /* first, so that a pointer to it can be cast */
	struct weir__redis_request requests[SIM_CLAIMS_MAX];
	struct weir__redis_claim claims[SIM_CLAIMS_MAX];
	struct weir_verdict verdicts[SIM_CLAIMS_MAX];
	char keys[SIM_CLAIMS_MAX][8];
	weir_ns asked_at;
	bool is_done;
	uint32_t node;
	uint64_t window; /* of a push: that of its units */
};

/* Units that a node holds. */
struct held {
	uint32_t plan, key;
	uint64_t units, end_us;
	weir_ns until; /* may be spent before this instant */
};

/* Units that a node has allowed and that no reply has confirmed, and what it knows of the store. */
struct ahead {
	uint64_t units, window, used; /* used in the window */
	weir_ns full_at;              /* of the bucket */
	bool is_known, is_pushing;
};

/* An exact limit that is charged when a unit is really spent. */
struct spent {
	uint64_t full_at_us, window, count;
};

enum timer_kind {
	RESTART_SERVER,
	RESUME_SERVER,
	EMPTY_SERVER,
	SWITCH,
	RESTART_SENTINEL,
	RESTART_NODE,
	END_DELAY,
	END_HANG
};

struct timer {
	weir_ns at;
	enum timer_kind kind;
	uint32_t which;
};

static struct {
	uint64_t seed, trace;
	weir_ns now, heals_at;
	bool is_healed, has_sentinels, must_decide, hangs, is_moving;
	weir_ns delay, next_fault, flush_at, crashed_at;
	uint32_t n_nodes, primary, told_primary, losses;
	struct weir__redis_url url;
	struct weir__redis_client *clients[SIM_NODES];
	weir_ns next_job[SIM_NODES];
	struct sim_redis servers[SIM_SERVERS];
	bool sentinel_is_up[2];
	struct timer timers[TIMERS];
	uint32_t n_timers, n_jobs;
	uint64_t admitted[SIM_PLANS][SIM_KEYS];
	struct held held[SIM_NODES][HELD_MOST]; /* of a free place, `units` is 0 */
	struct ahead ahead[SIM_NODES][SIM_PLANS];
	struct spent spent[SIM_PLANS][SIM_KEYS];
	uint32_t crashes; /* of nodes */
	uint64_t lent, returned, pushed;
	uint64_t outcomes[3];
	const char *fault; /* the first failed check */
} world;

static struct job jobs[SIM_JOBS_MAX];

static void require(bool holds, const char *what)
{
	struct weir__redis_client_info info;

	if (holds || world.fault != NULL)
		return;
	world.fault = what;
	for (uint32_t i = 0; i < world.n_nodes; i++)
		if (world.clients[i] != NULL) {
			weir__redis_client_info(world.clients[i], &info);
			printf("# node %u: health %d, %u ready, %s\n", i, (int)info.health, info.links_ready,
			       info.last_error);
		}
}

/* Call it once per expression: the order of evaluation may differ between compilers, and a seed is one run in all
 * builds. */
static uint64_t chance(uint64_t most)
{
	return weir__redis_random(&world.seed) % most;
}

/* Adds an event to the hash of the run. */
static void trace(uint64_t word)
{
	world.trace = (world.trace ^ word) * UINT64_C(0x9e3779b97f4a7c15);
	world.trace ^= world.trace >> 29;
}

static void trace_bytes(const char *bytes, size_t n)
{
	uint64_t word = 0;

	trace(world.now);
	trace(n);
	for (; n >= sizeof(word); bytes += sizeof(word), n -= sizeof(word)) {
		memcpy(&word, bytes, sizeof(word));
		trace(word);
	}
	word = 0;
	memcpy(&word, bytes, n);
	trace(word);
}

static weir_ns latency(void)
{
	const weir_ns usual = 30 * SIM_US + chance(400 * SIM_US);

	return usual + (world.delay > 0 ? chance(world.delay) : 0);
}

static void after(weir_ns duration, enum timer_kind kind, uint32_t which)
{
	if (world.n_timers == TIMERS)
		sim_abort("more timers than can be");
	world.timers[world.n_timers++] = (struct timer){ world.now + duration, kind, which };
}

/* --- jobs -------------------------------------------------------------------------------------------------------- */

static bool is_same_verdict(const struct weir_verdict *a, const struct weir_verdict *b)
{
	return a->allowed == b->allowed && a->never == b->never && a->limit == b->limit &&
	       a->remaining == b->remaining && a->granted == b->granted && a->retry_after == b->retry_after &&
	       a->reset_after == b->reset_after && a->delay == b->delay;
}

/* The most that a key can have been allowed by now: 100/s burst 20, 40 in 100 ms. */
static uint64_t most_admitted(uint32_t plan)
{
	const uint64_t ms = (world.now - start) / SIM_MS;

	return plan == 0 ? 20 * (uint64_t)(1 + world.losses) + ms / 10 + 1 : 40 * (ms / 100 + 2 + world.losses);
}

static void count_admitted(const struct job *job)
{
	const struct weir_verdict *verdict = job->verdicts;

	for (size_t i = 0; i < job->job.n; i++)
		for (size_t j = 0; j < job->requests[i].n; j++, verdict++) {
			const struct weir__redis_claim *const claim = &job->requests[i].claims[j];
			const uint32_t plan = claim->plan == &sim_plans[1];
			uint64_t *admitted;

			if (claim->name.bytes[0] == 'm' || job->requests[i].operation == WEIR__REDIS_PEEK ||
			    job->requests[i].operation >= WEIR__REDIS_GRANT)
				continue;
			/* One of several claims may be allowed but not charged, because another is denied. */
			if (job->requests[i].n == 2 && !(verdict[0].allowed && verdict[j == 0 ? 1 : -1].allowed))
				continue;
			admitted = &world.admitted[plan][claim->key.bytes[1] - '0'];
			*admitted += verdict->granted;
			require(*admitted <= most_admitted(plan), "more is admitted than the limit gives");
		}
}

/* --- leases and pushes ------------------------------------------------------------------------------------------- */

/* A unit that is spent: no interval has more than the burst and what refills in it, and no window more than its count.
 * After a loss of data, what was lent before may be spent, too. */
static void spend(uint32_t plan, uint32_t key, uint64_t units)
{
	const uint64_t now_us = world.now / SIM_US, losses = world.losses > 0 ? world.losses + 1 : 0;
	const uint64_t over = key == SIM_PUSHED_KEY ? (world.n_nodes - 1 + world.crashes) * (uint64_t)AHEAD : 0;
	struct spent *const spent = &world.spent[plan][key];

	if (plan == 0) {
		spent->full_at_us = (spent->full_at_us > now_us ? spent->full_at_us : now_us) + units * SIM_TOKEN_US;
		require(spent->full_at_us - now_us <= (SIM_BURST * (1 + losses) + over) * SIM_TOKEN_US,
			"an interval has more than the limit gives");
		return;
	}
	if (spent->window != now_us / SIM_WINDOW_US)
		spent->count = 0;
	spent->window = now_us / SIM_WINDOW_US;
	spent->count += units;
	require(spent->count <= SIM_COUNT * (1 + losses) + over, "a window has more than its count");
}

/* The node's clock is slow by a thousandth. It counts from before it has sent the call. */
static void hold(const struct job *job, const struct weir__redis_claim *claim, const struct weir_verdict *verdict)
{
	const uint32_t plan = claim->plan == &sim_plans[1];
	weir_ns duration = claim->lease_duration;

	if (plan == 1 && verdict->reset_after / 1000 * 999 < duration)
		duration = verdict->reset_after / 1000 * 999;
	if (job->asked_at + duration + duration / 1000 <= world.now)
		return;
	for (struct held *held = world.held[job->node]; held < world.held[job->node] + HELD_MOST; held++)
		if (held->units == 0) {
			*held = (struct held){ plan, (uint32_t)(claim->key.bytes[1] - '0'), verdict->granted,
					       (job->job.decided_at + verdict->delay) / 1000,
					       job->asked_at + duration + duration / 1000 };
			world.lent += verdict->granted;
			return;
		}
}

/* All that is left of leases that are about to end is spent. */
static void spend_last(uint32_t node)
{
	for (struct held *held = world.held[node]; held < world.held[node] + HELD_MOST; held++)
		if (held->units > 0 && held->until <= world.now + 1) {
			require(world.now < held->until, "units are spent after their lease has ended");
			spend(held->plan, held->key, held->units);
			held->units = 0;
		}
}

static void spend_some(uint32_t node)
{
	struct held *const held = &world.held[node][chance(HELD_MOST)];
	const uint64_t units = chance(4);

	if (held->units < units)
		return;
	spend(held->plan, held->key, units);
	held->units -= units;
}

static uint64_t window_now(void)
{
	return world.now / SIM_US / SIM_WINDOW_US;
}

/* Units of a window that has turned are dropped. */
static struct ahead *ahead_of(uint32_t node, uint32_t plan)
{
	struct ahead *const ahead = &world.ahead[node][plan];

	if (plan == 1 && ahead->window != window_now()) {
		ahead->window = window_now();
		ahead->units = ahead->used = 0;
	}
	return ahead;
}

/* Allows a unit that is pushed later, if the node's mirror of the store says that one is left. */
static void allow_ahead(uint32_t node, uint32_t plan)
{
	struct ahead *const ahead = ahead_of(node, plan);
	const weir_ns token = SIM_TOKEN_US * SIM_US;

	if (!ahead->is_known || ahead->units == AHEAD)
		return;
	if (plan == 0) {
		if (ahead->full_at < world.now)
			ahead->full_at = world.now;
		if (ahead->full_at + token > world.now + SIM_BURST * token)
			return;
		ahead->full_at += token;
	} else if (ahead->used++ >= SIM_COUNT) {
		return;
	}
	ahead->units++;
	spend(plan, SIM_PUSHED_KEY, 1);
}

/* The reply overwrites the mirror, with the units that were allowed since the push was sent. */
static void pushed(const struct job *job, const struct weir__redis_claim *claim, const struct weir_verdict *verdict)
{
	const uint32_t plan = claim->plan == &sim_plans[1];
	struct ahead *const ahead = ahead_of(job->node, plan);

	ahead->is_pushing = false;
	if (job->job.outcome != WEIR__REDIS_JOB_DECIDED || (plan == 1 && job->window != ahead->window))
		return;
	world.pushed += claim->cost;
	ahead->is_known = true;
	ahead->units -= claim->cost;
	ahead->used = SIM_COUNT - verdict->remaining + ahead->units;
	ahead->full_at = job->job.decided_at + verdict->reset_after + ahead->units * SIM_TOKEN_US * SIM_US;
}

/* Grants, returns and pushes are the first request of a job. */
static void lease_done(const struct job *job)
{
	const struct weir__redis_claim *const claim = &job->claims[0];
	const bool is_decided = job->job.outcome == WEIR__REDIS_JOB_DECIDED;

	if (world.clients[job->node] == NULL) /* the node has crashed */
		return;
	if (job->requests[0].operation == WEIR__REDIS_GRANT && is_decided && job->verdicts[0].allowed)
		hold(job, claim, &job->verdicts[0]);
	else if (job->requests[0].operation == WEIR__REDIS_RETURN && is_decided)
		world.returned += job->verdicts[0].granted;
	else if (job->requests[0].operation == WEIR__REDIS_PUSH)
		pushed(job, claim, &job->verdicts[0]);
}

static void check_decided(const struct job *job, const struct sim_job *known)
{
	require(known->executed == 1, "a job is decided that was not executed exactly once");
	require(known->executed_at == job->job.decided_at, "decided at another time than it was executed");
	for (uint32_t i = 0; i < known->n; i++)
		require(is_same_verdict(&job->verdicts[i], &known->verdicts[i]), "another verdict than the store's");
	count_admitted(job);
}

static void on_done(struct weir__redis_job *done)
{
	struct job *const job = (struct job *)(void *)done;
	const size_t number = (size_t)(job - jobs);

	trace(number << 2 | done->outcome);
	require(!job->is_done, "a job is done twice");
	job->is_done = true;
	world.outcomes[done->outcome]++;
	require(world.now - job->asked_at <= done->budget, "a job is done after its budget");
	require(!world.must_decide || job->asked_at < world.heals_at + up_within ||
			done->outcome == WEIR__REDIS_JOB_DECIDED,
		"a job is not decided though all is well");
	if (done->outcome == WEIR__REDIS_JOB_DECIDED)
		check_decided(job, &sim_jobs[number]);
	else if (done->outcome == WEIR__REDIS_JOB_UNREACHED)
		require(sim_jobs[number].executed == 0, "a job is executed that was not asked");
	lease_done(job);
}

static size_t add_claim(struct job *job, size_t n, uint32_t plan, uint64_t cost)
{
	(void)snprintf(job->keys[n], sizeof(job->keys[n]), "k%u", (unsigned)chance(SIM_PUSHED_KEY));
	job->claims[n] = (struct weir__redis_claim){
		.plan = &sim_plans[plan], .name = { &sim_names[plan], 1 }, .key = { job->keys[n], 2 }, .cost = cost
	};
	return n + 1;
}

static void add_request(struct job *job, enum weir__redis_operation operation, size_t first, size_t n)
{
	job->requests[job->job.n++] = (struct weir__redis_request){ operation, &job->claims[first], n };
}

static size_t add_grant(struct job *job)
{
	const size_t n = add_claim(job, 0, (uint32_t)chance(SIM_PLANS), 1 + chance(8));

	job->claims[0].lease_duration = 5 * SIM_MS + chance(60) * SIM_MS;
	job->claims[0].lease_most = 1 + chance(30);
	add_request(job, WEIR__REDIS_GRANT, 0, 1);
	return n;
}

/* The node spends none of the units that it returns. */
static size_t add_return(struct job *job)
{
	struct held *const held = &world.held[job->node][chance(HELD_MOST)];
	const uint64_t units = held->units > 0 ? 1 + chance(held->units) : 0;
	const size_t n = add_claim(job, 0, held->plan, units);

	job->keys[0][1] = (char)('0' + held->key);
	job->claims[0].lease_end_us = held->end_us;
	held->units -= units;
	add_request(job, WEIR__REDIS_RETURN, 0, 1);
	return n;
}

static size_t add_push(struct job *job, uint32_t plan)
{
	struct ahead *const ahead = ahead_of(job->node, plan);
	const size_t n = add_claim(job, 0, plan, ahead->units);

	job->keys[0][1] = '0' + SIM_PUSHED_KEY;
	job->claims[0].charged_at = world.now;
	job->window = ahead->window;
	ahead->is_pushing = true;
	add_request(job, WEIR__REDIS_PUSH, 0, 1);
	return n;
}

/* One to three requests, and the mark. */
static void fill_in(struct job *job, size_t number)
{
	const uint64_t what = chance(8);
	size_t n = 0;

	switch (what) {
	case 4:
		n = add_grant(job);
		break;
	case 5:
		n = add_return(job);
		break;
	case 6:
	case 7:
		if (!world.ahead[job->node][what == 7].is_pushing) {
			n = add_push(job, what == 7);
			break;
		}
		n = add_claim(job, 0, 0, 1);
		add_request(job, WEIR__REDIS_TAKE, 0, 1);
		break;
	case 0:
		n = add_claim(job, add_claim(job, 0, 0, 1), 1, 2);
		add_request(job, WEIR__REDIS_TAKE, 0, 2);
		break;
	case 1:
		n = add_claim(job, add_claim(job, 0, 0, 5), 1, 1);
		add_request(job, WEIR__REDIS_UP_TO, 0, 1);
		add_request(job, WEIR__REDIS_TAKE, 1, 1);
		break;
	case 2:
		n = add_claim(job, 0, 1, 1);
		add_request(job, WEIR__REDIS_PEEK, 0, 1);
		break;
	default:
		n = add_claim(job, 0, 0, 1 + chance(3));
		add_request(job, WEIR__REDIS_TAKE, 0, 1);
	}
	(void)snprintf(job->keys[n], sizeof(job->keys[n]), "j%u", (unsigned)number);
	job->claims[n] = (struct weir__redis_claim){
		.plan = &sim_plans[0], .name = { "m", 1 }, .key = { job->keys[n], strlen(job->keys[n]) }, .cost = 1
	};
	add_request(job, WEIR__REDIS_PEEK, n, 1);
}

static void ask(uint32_t node)
{
	struct job *const job = &jobs[world.n_jobs];

	if (world.n_jobs == SIM_JOBS_MAX)
		sim_abort("more jobs than can be");
	memset(job, 0, sizeof(*job));
	memset(&sim_jobs[world.n_jobs], 0, sizeof(sim_jobs[0]));
	job->node = node;
	fill_in(job, world.n_jobs++);
	job->asked_at = world.now;
	job->job.requests = job->requests;
	job->job.verdicts = job->verdicts;
	job->job.budget = chance(8) == 0 ? 1 * SIM_MS + chance(20 * SIM_MS) : 10 * SIM_MS;
	if (world.is_healed)
		job->job.budget = 10 * SIM_MS;
	job->job.done = on_done;
	weir__redis_client_ask(world.clients[node], &job->job, world.now);
}

/* --- servers ----------------------------------------------------------------------------------------------------- */

static void reply_to(struct sim_connection *connection, const char *bytes, size_t n)
{
	sim_pipe_put(&connection->to_client, bytes, n, world.now + latency(), &world.seed);
}

static void execute_at_sentinel(struct sim_connection *connection, const struct weir__resp_slice *words,
				struct weir__resp_writer *reply)
{
	static const struct sim_redis modern;

	if (sim_is(words[0], "HELLO")) {
		sim_hello(&modern, reply);
	} else if (sim_is(words[0], "SUBSCRIBE")) {
		connection->is_subscribed = true;
		weir__resp_write_push(reply, 3);
		weir__resp_write_bulk(reply, "subscribe", 9);
		weir__resp_write_bulk(reply, words[1].bytes, words[1].length);
		weir__resp_write_integer(reply, 1);
	} else if (sim_is(words[0], "SENTINEL")) {
		weir__resp_write_array(reply, 2);
		weir__resp_write_bulk(reply, world.told_primary == 0 ? "r0" : "r1", 2);
		weir__resp_write_bulk(reply, "7000", 4);
	} else {
		sim_abort("a command that no sentinel knows");
	}
}

static bool is_serving(const struct sim_connection *connection)
{
	if (connection->host >= SIM_SENTINEL)
		return world.sentinel_is_up[connection->host - SIM_SENTINEL];
	return world.servers[connection->host].is_up && !world.servers[connection->host].is_stopped;
}

/* Executes all complete commands that have arrived. */
static void serve(struct sim_connection *connection)
{
	static struct weir__resp_slice words[1100];
	static char bytes[1 << 17];
	struct weir__resp_request request = {
		.arguments = words, .arguments_max = 1100, .line_max = 100, .bulk_max = 1 << 17
	};
	size_t at = 0, used;

	while (connection->has_server && is_serving(connection) && at < connection->input_length) {
		struct weir__resp_writer reply = { .bytes = bytes,
						   .size = sizeof(bytes),
						   .resp_version = connection->protocol };

		weir__resp_request_init(&request);
		if (weir__resp_request_read(&request, connection->input + at, connection->input_length - at, &used) !=
		    WEIR__RESP_COMPLETE)
			break;
		at += used;
		if (connection->host >= SIM_SENTINEL)
			execute_at_sentinel(connection, words, &reply);
		else
			sim_execute(&world.servers[connection->host], words, request.n, world.now, &reply);
		connection->protocol = reply.resp_version;
		trace_bytes(bytes, reply.length);
		reply_to(connection, bytes, reply.length);
	}
	connection->input_length -= at;
	if (at > 0)
		memmove(connection->input, connection->input + at, connection->input_length);
}

static void arrive_at_server(struct sim_connection *connection)
{
	const struct weir__resp_slice chunk = sim_pipe_take(&connection->to_server);

	sim_reserve(&connection->input, &connection->input_size, connection->input_length + chunk.length);
	memcpy(connection->input + connection->input_length, chunk.bytes, chunk.length);
	connection->input_length += chunk.length;
	serve(connection);
}

static void serve_all(uint32_t host)
{
	for (size_t i = 0; i < SIM_CONNECTIONS; i++)
		if (sim_connections[i].is_used && sim_connections[i].host == host)
			serve(&sim_connections[i]);
}

/* With pending replies, or without. */
static void cut(struct sim_connection *connection, const char *why)
{
	const bool loses_answers = chance(2) == 0;

	sim_cut(connection, why, world.now + latency(), loses_answers);
}

static void cut_all(uint32_t host, const char *why)
{
	for (size_t i = 0; i < SIM_CONNECTIONS; i++)
		if (sim_connections[i].is_used && sim_connections[i].host == host && sim_connections[i].has_server)
			cut(&sim_connections[i], why);
}

static void tell_switch(void)
{
	static const char *const texts[] = {
		">3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n$20\r\nmain r1 7000 r0 7000\r\n",
		">3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n$20\r\nmain r0 7000 r1 7000\r\n"
	};

	world.told_primary = world.primary;
	for (size_t i = 0; i < SIM_CONNECTIONS; i++)
		if (sim_connections[i].is_used && sim_connections[i].is_subscribed && is_serving(&sim_connections[i]))
			reply_to(&sim_connections[i], texts[world.primary], strlen(texts[world.primary]));
}

/* --- faults ------------------------------------------------------------------------------------------------------ */

static struct sim_connection *any_connection(void)
{
	struct sim_connection *const connection = &sim_connections[chance(SIM_CONNECTIONS / 4)];

	return connection->is_used && connection->has_client && connection->has_server && connection->is_open ?
		       connection :
		       NULL;
}

static void cut_one(void)
{
	struct sim_connection *const connection = any_connection();

	if (connection != NULL)
		cut(connection, "reset by peer");
}

/* From now on nothing arrives, in one direction or both. */
static void swallow(void)
{
	struct sim_connection *const connection = any_connection();
	const uint64_t directions = 1 + chance(3);

	if (connection == NULL)
		return;
	if (directions & 1) {
		sim_pipe_reset(&connection->to_server);
		connection->to_server.is_dead = true;
	}
	if (directions & 2) {
		sim_pipe_reset(&connection->to_client);
		connection->to_client.is_dead = true;
	}
}

/* Without a replica all data is lost; with one, the writes that it had not received. */
static void crash_server(void)
{
	struct sim_redis *const server = &world.servers[world.primary];

	if (!server->is_up || world.is_moving)
		return;
	server->is_up = server->is_stopped = server->has_script = false;
	cut_all(world.primary, "connection closed");
	if (world.has_sentinels) {
		world.is_moving = true;
		world.crashed_at = world.now;
		after(50 * SIM_MS + chance(400 * SIM_MS), SWITCH, world.primary);
		return;
	}
	sim_forget(server);
	world.losses++;
	after(5 * SIM_MS + chance(chance(3) == 0 ? 4000 * SIM_MS : 500 * SIM_MS), RESTART_SERVER, world.primary);
}

/* The primary becomes a replica while all connections stay. */
static void demote(void)
{
	if (!world.has_sentinels || world.is_moving || !world.servers[0].is_up || !world.servers[1].is_up)
		return;
	sim_promote(&world.servers[world.primary], &world.servers[1 - world.primary], world.now - chance(50 * SIM_MS));
	world.losses++;
	world.primary = 1 - world.primary;
	world.is_moving = true;
	world.crashed_at = 0;
	after(1 + chance(200 * SIM_MS), SWITCH, world.primary);
}

static void stop_server(void)
{
	struct sim_redis *const server = &world.servers[world.primary];

	if (!server->is_up || server->is_stopped)
		return;
	server->is_stopped = true;
	after(3 * SIM_MS + chance(chance(2) ? 40 * SIM_MS : 900 * SIM_MS), RESUME_SERVER, world.primary);
}

static void crash_node(void)
{
	const uint32_t node = (uint32_t)chance(world.n_nodes);
	struct weir__redis_client *client;

	if (world.clients[node] == NULL)
		return;
	client = world.clients[node];
	world.clients[node] = NULL;
	weir__redis_client_free(client);
	memset(world.held[node], 0, sizeof(world.held[node]));
	memset(world.ahead[node], 0, sizeof(world.ahead[node]));
	world.crashes++;
	for (size_t i = 0; i < SIM_CONNECTIONS; i++)
		if (sim_connections[i].is_used && sim_connections[i].has_client && sim_connections[i].node == node)
			sim_close(&sim_connections[i]);
	after(1 + chance(200 * SIM_MS), RESTART_NODE, node);
}

static void crash_sentinel(void)
{
	const uint32_t which = (uint32_t)chance(2);

	if (!world.has_sentinels || !world.sentinel_is_up[which])
		return;
	world.sentinel_is_up[which] = false;
	cut_all(SIM_SENTINEL + which, "connection closed");
	after(10 * SIM_MS + chance(400 * SIM_MS), RESTART_SENTINEL, which);
}

static void fill_server(void)
{
	if (world.servers[world.primary].is_full)
		return;
	world.servers[world.primary].is_full = true;
	after(10 * SIM_MS + chance(300 * SIM_MS), EMPTY_SERVER, world.primary);
}

static void slow_down(void)
{
	if (world.delay > 0)
		return;
	world.delay = 1 * SIM_MS + chance(40 * SIM_MS);
	after(10 * SIM_MS + chance(200 * SIM_MS), END_DELAY, 0);
}

static void hang(void)
{
	if (world.hangs)
		return;
	world.hangs = true;
	after(10 * SIM_MS + chance(700 * SIM_MS), END_HANG, 0);
	cut_one();
}

static void flush_script(void)
{
	world.servers[world.primary].has_script = false;
}

static void add_fault(void)
{
	static void (*const faults[])(void) = { cut_one,        cut_one,     swallow,      swallow,      slow_down,
						crash_server,   demote,      stop_server,  stop_server,  crash_node,
						crash_sentinel, fill_server, flush_script, flush_script, hang };
	const uint64_t which = chance(sizeof(faults) / sizeof(faults[0]));

	trace(which);
	faults[which]();
	world.next_fault = world.now + chance(chance(3) == 0 ? 10 * SIM_MS : 200 * SIM_MS);
}

static void end_fault(struct timer timer)
{
	trace(timer.kind);
	switch (timer.kind) {
	case RESTART_SERVER:
		world.servers[timer.which].is_up = true;
		break;
	case RESUME_SERVER:
		world.servers[timer.which].is_stopped = false;
		serve_all(timer.which);
		break;
	case EMPTY_SERVER:
		world.servers[timer.which].is_full = false;
		break;
	case SWITCH:
		if (world.crashed_at > 0) {
			sim_promote(&world.servers[world.primary], &world.servers[1 - world.primary],
				    world.crashed_at - chance(50 * SIM_MS));
			world.losses++;
			world.primary = 1 - world.primary;
			after(chance(300 * SIM_MS), RESTART_SERVER, 1 - world.primary);
		}
		world.is_moving = false;
		tell_switch();
		break;
	case RESTART_SENTINEL:
		world.sentinel_is_up[timer.which] = true;
		break;
	case RESTART_NODE:
		world.clients[timer.which] = weir__redis_client_new(&world.url, weir__redis_random(&world.seed),
								    world.now);
		world.next_job[timer.which] = world.now;
		break;
	case END_DELAY:
		world.delay = 0;
		break;
	case END_HANG:
		world.hangs = false;
		break;
	}
}

/* Ends all faults that have not ended by themselves. Dead connections are cut if there are several links: a link that
 * is never used is not known to be dead. */
static void heal(void)
{
	world.is_healed = true;
	world.next_fault = WEIR_NEVER;
	while (world.n_timers > 0)
		end_fault(world.timers[--world.n_timers]);
	for (size_t i = 0; i < SIM_CONNECTIONS; i++)
		if (world.url.pool > 1 && sim_connections[i].is_used && sim_connections[i].has_server &&
		    (sim_connections[i].to_server.is_dead || sim_connections[i].to_client.is_dead))
			sim_cut(&sim_connections[i], "reset by peer", world.now + latency(), false);
}

/* --- nodes ------------------------------------------------------------------------------------------------------- */

static uint32_t host_of(const char *name)
{
	return (uint32_t)(name[1] - '0') + (name[0] == 's' ? SIM_SENTINEL : 0);
}

static void fulfil(uint32_t node, const struct weir__redis_wish *wish)
{
	struct sim_connection *connection = sim_ends[node][wish->link];

	trace(wish->kind << 8 | wish->link);
	if (wish->kind == WEIR__REDIS_CLOSE) {
		require(connection != NULL, "a wish to close what is not open");
		if (connection != NULL)
			sim_close(connection);
		return;
	}
	require(connection == NULL, "a wish to open what is open");
	connection = sim_connect(node, wish->link, host_of(wish->place.host));
	if (world.hangs)
		return;
	connection->opens_at = world.now + latency();
}

static void open_connection(struct sim_connection *connection)
{
	const uint32_t host = connection->host;

	connection->opens_at = WEIR_NEVER;
	if (host >= SIM_SENTINEL ? !world.sentinel_is_up[host - SIM_SENTINEL] : !world.servers[host].is_up) {
		sim_cut(connection, "connection refused", world.now, false);
		return;
	}
	connection->is_open = true;
	weir__redis_client_opened(world.clients[connection->node], connection->link, world.now);
}

static void send_output(uint32_t node, uint32_t link)
{
	struct sim_connection *const connection = sim_ends[node][link];
	struct weir__resp_slice output;

	if (connection == NULL || !connection->is_open)
		return;
	output = weir__redis_client_output(world.clients[node], link);
	if (output.length == 0)
		return;
	if (chance(16) == 0) { /* a part now, the rest a little later */
		output.length = chance(output.length);
		world.flush_at = world.now + 50 * SIM_US;
	}
	trace_bytes(output.bytes, output.length);
	sim_pipe_put(&connection->to_server, output.bytes, output.length, world.now + latency(), &world.seed);
	weir__redis_client_sent(world.clients[node], link, output.length);
}

static void drive(uint32_t node)
{
	struct weir__redis_client *const client = world.clients[node];
	struct weir__redis_wish wish;
	struct weir__redis_job *job;

	if (client == NULL)
		return;
	if (weir__redis_client_next(client) <= world.now) {
		weir__redis_client_tick(client, world.now);
		require(weir__redis_client_next(client) > world.now, "time stands still");
	}
	while (weir__redis_client_wish(client, &wish))
		fulfil(node, &wish);
	for (uint32_t link = 0; link < SIM_LINKS; link++)
		send_output(node, link);
	while ((job = weir__redis_client_done(client)) != NULL)
		job->done(job);
}

/* --- time -------------------------------------------------------------------------------------------------------- */

static weir_ns earlier(weir_ns a, weir_ns b)
{
	return a < b ? a : b;
}

static weir_ns connection_next(const struct sim_connection *connection)
{
	if (!connection->is_used)
		return WEIR_NEVER;
	return earlier(earlier(connection->opens_at, connection->lost_at),
		       earlier(sim_pipe_next(&connection->to_server), sim_pipe_next(&connection->to_client)));
}

static weir_ns next_event(void)
{
	weir_ns next = earlier(world.next_fault, world.flush_at);

	if (!world.is_healed)
		next = earlier(next, world.heals_at);
	for (uint32_t i = 0; i < world.n_timers; i++)
		next = earlier(next, world.timers[i].at);
	for (uint32_t i = 0; i < world.n_nodes; i++)
		if (world.clients[i] != NULL)
			next = earlier(next, earlier(world.next_job[i], weir__redis_client_next(world.clients[i])));
	for (uint32_t i = 0; i < world.n_nodes; i++)
		for (size_t k = 0; k < HELD_MOST; k++)
			if (world.held[i][k].units > 0)
				next = earlier(next, world.held[i][k].until - 1);
	for (size_t i = 0; i < SIM_CONNECTIONS; i++)
		next = earlier(next, connection_next(&sim_connections[i]));
	return next;
}

static void step_connection(struct sim_connection *connection)
{
	struct weir__resp_slice chunk;

	while (connection->is_used && connection_next(connection) <= world.now) {
		if (connection->opens_at <= world.now) {
			open_connection(connection);
		} else if (sim_pipe_next(&connection->to_server) <= world.now) {
			arrive_at_server(connection);
		} else if (sim_pipe_next(&connection->to_client) <= world.now) {
			chunk = sim_pipe_take(&connection->to_client);
			weir__redis_client_received(world.clients[connection->node], connection->link, chunk.bytes,
						    chunk.length, world.now);
		} else {
			sim_close(connection);
			weir__redis_client_lost(world.clients[connection->node], connection->link, connection->why,
						world.now);
		}
		drive(connection->node);
	}
	if (connection->is_used)
		sim_sweep(connection);
}

static void step(void)
{
	if (!world.is_healed && world.heals_at <= world.now)
		heal();
	if (world.next_fault <= world.now)
		add_fault();
	for (uint32_t i = 0; i < world.n_timers;) {
		const struct timer timer = world.timers[i];

		if (timer.at > world.now) {
			i++;
			continue;
		}
		world.timers[i] = world.timers[--world.n_timers];
		end_fault(timer);
	}
	if (world.flush_at <= world.now)
		world.flush_at = WEIR_NEVER;
	for (size_t i = 0; i < SIM_CONNECTIONS; i++)
		step_connection(&sim_connections[i]);
	for (uint32_t i = 0; i < world.n_nodes; i++)
		spend_last(i);
	for (uint32_t i = 0; i < world.n_nodes; i++) {
		if (world.clients[i] != NULL && world.next_job[i] <= world.now) {
			spend_some(i);
			for (uint32_t plan = 0; plan < SIM_PLANS; plan++)
				allow_ahead(i, plan);
			for (uint64_t n = 1 + chance(4); n > 0; n--)
				ask(i);
			world.next_job[i] = world.now + 1 + chance(8 * SIM_MS);
		}
		drive(i);
	}
}

/* --- a run ------------------------------------------------------------------------------------------------------- */

static void begin(uint64_t seed)
{
	static struct sim_write *writes[SIM_SERVERS];
	static const char *const urls[] = { "redis://r0", "redis://r0?pool=1", "redis+sentinel://s0,s1/main",
					    "redis+sentinel://s0,s1/main?pool=3" };
	const char *url;

	memset(&world, 0, sizeof(world));
	for (size_t i = 0; i < SIM_CONNECTIONS; i++)
		sim_connections[i].is_used = false;
	memset(sim_ends, 0, sizeof(sim_ends));
	world.seed = seed * UINT64_C(0x2545f4914f6cdd1d);
	world.now = start;
	world.heals_at = start + 200 * SIM_MS + chance(chance(4) == 0 ? 5000 * SIM_MS : 1500 * SIM_MS);
	world.next_fault = start + chance(100 * SIM_MS);
	world.flush_at = WEIR_NEVER;
	world.sentinel_is_up[0] = world.sentinel_is_up[1] = true;
	url = urls[chance(sizeof(urls) / sizeof(urls[0]))];
	if (weir__redis_url_read(url, strlen(url), &world.url, NULL) != WEIR_OK)
		sim_abort("no such URL");
	world.has_sentinels = world.url.is_sentinel;
	for (size_t i = 0; i < SIM_SERVERS; i++) {
		if (writes[i] == NULL)
			writes[i] = malloc(SIM_WRITES_MAX * sizeof(*writes[i]));
		world.servers[i] = (struct sim_redis){ .is_up = true, .is_replica = i > 0, .writes = writes[i] };
		world.servers[i].is_old = seed % 5 == 0;
	}
	world.n_nodes = 1 + (uint32_t)chance(SIM_NODES);
	for (uint32_t i = 0; i < world.n_nodes; i++) {
		world.clients[i] = weir__redis_client_new(&world.url, weir__redis_random(&world.seed), world.now);
		world.next_job[i] = world.now + chance(5 * SIM_MS);
	}
}

static void check_up(void)
{
	struct weir__redis_client_info info;

	for (uint32_t i = 0; i < world.n_nodes; i++) {
		weir__redis_client_info(world.clients[i], &info);
		require(info.health == WEIR__REDIS_UP, "a node is not up 1 s after all faults have ended");
	}
	world.must_decide = true;
}

static void end(void)
{
	for (uint32_t i = 0; i < world.n_nodes; i++)
		weir__redis_client_free(world.clients[i]);
	for (uint32_t i = 0; i < world.n_jobs; i++) {
		const enum weir__redis_outcome outcome = jobs[i].job.outcome;
		const uint32_t executed = sim_jobs[i].executed;

		require(jobs[i].is_done, "a job is never done");
		require(outcome != WEIR__REDIS_JOB_DECIDED || executed == 1, "a decided job is executed again");
		require(outcome != WEIR__REDIS_JOB_UNREACHED || executed == 0, "a job is executed that was not asked");
		require(executed <= 1, "a job is executed twice");
	}
}

/* The hash of the run, or world.fault. */
static uint64_t run(uint64_t seed)
{
	begin(seed);
	while (world.fault == NULL && world.now < world.heals_at + up_within + 100 * SIM_MS) {
		const weir_ns next = next_event();

		if (!world.must_decide && world.is_healed && next > world.heals_at + up_within)
			check_up();
		world.now = next > world.now ? next : world.now;
		step();
	}
	/* The last jobs are still to come. */
	for (uint32_t i = 0; i < SIM_NODES; i++)
		world.next_job[i] = WEIR_NEVER;
	while (world.fault == NULL && world.now < world.heals_at + up_within + 130 * SIM_MS) {
		const weir_ns next = next_event();

		world.now = next > world.now ? next : world.now;
		step();
	}
	end();
	return world.trace;
}

static void prepare(void)
{
	static const char *const texts[SIM_PLANS] = { "100/s burst 20", "40/100ms fixed_window" };
	struct weir_limit limit;
	struct weir_plan plan;

	for (size_t i = 0; i < SIM_PLANS; i++)
		if (weir_limit_parse(texts[i], strlen(texts[i]), &limit, NULL) != WEIR_OK ||
		    weir_plan_compile(&limit, &plan, NULL) != WEIR_OK ||
		    weir__redis_plan_init(&sim_plans[i], &plan, NULL) != WEIR_OK)
			sim_abort("no such limit");
}

/* How many of some seeds differ when they are repeated, or equal their neighbour. */
static uint64_t count_unrepeatable(uint64_t first)
{
	enum { SEEDS = 10 };
	uint64_t unrepeatable = 0;

	for (uint64_t seed = first; seed < first + SEEDS; seed++) {
		const uint64_t once = run(seed), again = run(seed), another = run(seed + 1);

		unrepeatable += once != again || once == another;
	}
	return unrepeatable;
}

int main(int argc, char **argv)
{
	const uint64_t seeds = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000;
	const uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
	uint64_t outcomes[3] = { 0, 0, 0 }, leases[3] = { 0, 0, 0 }, traces = 0, failed = 0, unrepeatable;

	prepare();
	sim_admitted = spend;
	printf("1..2\n");
	for (uint64_t seed = first; seed < first + seeds && failed < 10; seed++) {
		traces += run(seed);
		for (size_t i = 0; i < 3; i++)
			outcomes[i] += world.outcomes[i];
		leases[0] += world.lent;
		leases[1] += world.returned;
		leases[2] += world.pushed;
		if (world.fault != NULL) {
			printf("# seed %" PRIu64 " at %" PRIu64 " us: %s\n", seed, (world.now - start) / SIM_US,
			       world.fault);
			failed++;
		}
	}
	printf("# decided %" PRIu64 ", not asked %" PRIu64 ", not answered %" PRIu64 "; traces %016" PRIx64 "\n",
	       outcomes[0], outcomes[1], outcomes[2], traces);
	printf("# units lent %" PRIu64 ", returned %" PRIu64 ", pushed %" PRIu64 "\n", leases[0], leases[1], leases[2]);
	failed += leases[0] == 0 || leases[1] == 0 || leases[2] == 0;
	failed += outcomes[0] == 0 || outcomes[1] == 0 || outcomes[2] == 0;
	printf("%s 1 - %" PRIu64 " seeds\n", failed == 0 ? "ok" : "not ok", seeds);
	unrepeatable = count_unrepeatable(first);
	printf("%s 2 - the same seed is the same run\n", unrepeatable == 0 ? "ok" : "not ok");
	return failed + unrepeatable > 0;
}
