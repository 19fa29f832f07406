/* fallback_bound_test.c: what several servers allow together while the store that they share fails at random.
 *
 *     fallback_bound_test [ROUNDS]
 *
 * The shared store is a table with the same limits. It is up, unreachable, or stalled: then it decides, but its replies
 * are lost. Servers join, leave, hear of each other late, charge late what they allowed, and change the limit. The
 * clock stays within one period of every limit, so nothing refills. docs/internals/redis.md derives the bounds that are
 * checked. */
#include "store/fallback_store.h"

#include <inttypes.h>
#include <stdlib.h>

#include "tables.h"

enum { NODES = 3, STEPS = 150, ROUNDS_DEFAULT = 500, LIMIT = 60 };

enum weather { UP, OUT_OF_REACH, STALLED };

struct node {
	struct weir__store behind; /* first member: the two convert by a cast */
	struct weir_table *table;
	const struct weir_table_limit *limit;
	struct weir__store *store;
	struct weir__fallback_shared shared;
	bool is_there;
	uint32_t known; /* number of servers, as it last heard */
	weir_ns joined_at, heard_at;
	uint64_t charges, refunds;
	weir_ns charged_at; /* when its last charges were made */
};

static struct {
	struct weir_table *redis;
	const struct weir_table_limit *limit;
	enum weather weather;
	struct node nodes[NODES];
	weir_ns now;
	uint64_t most;    /* of the current limit */
	uint64_t allowed; /* units */
} world;

/* --- the store behind -------------------------------------------------------------------------------------------- */

static void decide_in_redis(const struct weir__store_request *request)
{
	struct weir_claim claim = request->claims[0];
	struct weir__store_request there = *request;

	claim.limit = world.limit;
	there.claims = &claim;
	there.now = world.now;
	there.is_each = true;
	weir__table_store_decide(world.redis, &there);
}

static bool is_behind(const struct node *node, weir_ns decided_at)
{
	return node->charges > 0 || node->refunds > 0 || decided_at <= node->charged_at;
}

static bool submit_behind(struct weir__store *store, struct weir__store_request *request)
{
	const struct node *const node = (struct node *)(void *)store;

	world.now++;
	request->is_closed = false;
	request->outcome = world.weather == UP      ? WEIR__STORE_DECIDED :
			   world.weather == STALLED ? WEIR__STORE_UNANSWERED :
						      WEIR__STORE_UNREACHED;
	if (world.weather != OUT_OF_REACH)
		decide_in_redis(request);
	request->decided_at = world.now;
	request->is_behind = is_behind(node, world.now);
	return true;
}

static void defer_behind(struct weir__store *store, const struct weir_claim *claim, enum weir__store_deferred what,
			 uint64_t units)
{
	struct node *const node = (struct node *)(void *)store;
	const uint64_t taken = weir__min(node->charges, units);

	(void)claim;
	if (what == WEIR__STORE_DEFER_CHARGE) {
		node->charges += units;
		return;
	}
	node->charges -= taken;
	if (what == WEIR__STORE_DEFER_REFUND)
		node->refunds += units - taken;
}

/* Until all others have counted it. */
static bool is_joining(const struct node *node)
{
	for (size_t i = 0; i < NODES; i++)
		if (&world.nodes[i] != node && world.nodes[i].is_there && world.nodes[i].heard_at < node->joined_at)
			return true;
	return false;
}

static void status_behind(struct weir__store *store, struct weir__store_status *ret_status)
{
	const struct node *const node = (struct node *)(void *)store;

	*ret_status = (struct weir__store_status){ .nodes = node->known, .is_joining = is_joining(node) };
}

static void free_behind(struct weir__store *store)
{
	(void)store;
}

static weir_ns now_of(struct weir_table *table)
{
	(void)table;
	return world.now;
}

/* --- servers ----------------------------------------------------------------------------------------------------- */

static uint32_t count_nodes(void)
{
	uint32_t n = 0;

	for (size_t i = 0; i < NODES; i++)
		n += world.nodes[i].is_there;
	return n;
}

static struct weir__store_request *keep(struct weir__store_request *request)
{
	return request;
}

static void complete(struct weir__store_request *request)
{
	(void)request;
}

static struct weir_verdict ask(struct node *node, enum weir__store_operation operation, uint64_t cost)
{
	static const struct weir__store_caller caller = { keep, complete };
	const struct weir_claim claim = { node->limit, "k", 1, cost };
	struct weir_verdict verdict = { .allowed = false };
	struct weir__store_request request = { .operation = operation,
					       .n = 1,
					       .claims = &claim,
					       .verdicts = &verdict,
					       .now = world.now,
					       .caller = &caller };

	CHECK(weir__store_submit(node->store, &request));
	CHECK_EQ(request.outcome, WEIR__STORE_DECIDED);
	return verdict;
}

static void count_others(struct node *node)
{
	node->known = count_nodes();
	world.now += MS(200); /* a server reads that number ten times a second */
	node->heard_at = world.now;
}

/* A server counts the others by a heartbeat. The first is its first contact. */
static void join(struct node *node, const char *text)
{
	struct weir__fallback_options options = { .store = &node->behind,
						  .otherwise = { .mode = WEIR__FALLBACK_SHARE, .budget = MS(1) },
						  .shared = &node->shared,
						  .now = now_of };
	struct weir_limit now_is;

	*node = (struct node){ .behind = { .submit = submit_behind,
					   .defer = defer_behind,
					   .status = status_behind,
					   .free = free_behind },
			       .is_there = true };
	options.table = node->table = table_with_arena(100, 1 << 20);
	node->limit = limit_in(node->table, text);
	now_is = weir_table_limit_limit(world.limit);
	CHECK_EQ(weir_table_change_limit(node->table, node->limit, &now_is, world.now, NULL), WEIR_OK);
	node->store = weir__fallback_store_new(&options);
	CHECK(node->store != NULL);
	node->joined_at = ++world.now;
	count_others(node);
}

static void leave(struct node *node)
{
	node->store->free(node->store);
	weir_table_free(node->table);
	node->is_there = false;
}

/* Charges what was allowed during an outage, up to what is left. */
static void charge(struct node *node)
{
	world.now++;
	if (node->refunds > 0)
		(void)weir_table_refund(world.redis, world.limit, "k", 1, world.now, node->refunds);
	if (node->charges > 0)
		(void)weir_table_upto(world.redis, world.limit, "k", 1, world.now, node->charges);
	node->charges = node->refunds = 0;
	node->charged_at = world.now;
}

/* Raises the limit on all servers. A lower limit would cut the usage above it. */
static void raise_limit(void)
{
	struct weir_limit to = weir_table_limit_limit(world.limit);
	const bool is_bucket = to.burst > 0 && to.burst == world.most;

	world.most++;
	to.burst += is_bucket;
	to.count += !is_bucket || to.count == world.most - 1;
	CHECK_EQ(weir_table_change_limit(world.redis, world.limit, &to, world.now, NULL), WEIR_OK);
	for (size_t i = 0; i < NODES; i++)
		if (world.nodes[i].is_there)
			CHECK_EQ(weir_table_change_limit(world.nodes[i].table, world.nodes[i].limit, &to, world.now,
							 NULL),
				 WEIR_OK);
}

/* --- rounds ------------------------------------------------------------------------------------------------------ */

static void hear_all(void)
{
	for (size_t i = 0; i < NODES; i++)
		if (world.nodes[i].is_there)
			(void)ask(&world.nodes[i], WEIR__STORE_PEEK, 0);
}

/* is_known: every server hears of the key before the state of the store changes, and all charge before it decides
 * again. */
static void turn_weather(bool is_known)
{
	if (world.weather == UP) {
		if (is_known)
			hear_all();
		world.weather = 1 + (enum weather)below(2);
		return;
	}
	world.weather = UP;
	for (size_t i = 0; i < NODES && is_known; i++)
		if (world.nodes[i].is_there)
			charge(&world.nodes[i]);
}

static void come_or_go(const char *text)
{
	struct node *const node = &world.nodes[below(NODES)];

	if (!node->is_there) {
		join(node, text);
	} else if (count_nodes() > 1) {
		charge(node);
		leave(node);
	}
}

static struct node *any_node(void)
{
	struct node *node = &world.nodes[below(NODES)];

	while (!node->is_there)
		node = &world.nodes[below(NODES)];
	return node;
}

static void take(struct node *node, uint64_t cost_most)
{
	const uint64_t cost = 1 + below(cost_most);

	world.allowed += below(4) ? ask(node, WEIR__STORE_TAKE, cost).allowed * cost :
				    ask(node, WEIR__STORE_UPTO, cost).granted;
}

static void step(const char *text, bool is_known, uint64_t cost_most)
{
	struct node *const node = any_node();

	world.now += below(MS(300));
	switch (below(24)) {
	case 0:
	case 1:
		turn_weather(is_known);
		break;
	case 2:
		if (world.weather == UP)
			come_or_go(text);
		break;
	case 3:
	case 4:
		if (world.weather == UP)
			count_others(node);
		break;
	case 5:
		if (world.weather == UP)
			charge(node);
		break;
	case 6:
		if (below(8) == 0)
			raise_limit();
		break;
	default:
		take(node, cost_most);
	}
}

static void play(const char *text, bool is_known, uint64_t cost_most)
{
	uint64_t bound;
	const uint64_t n = 2 + below(2);

	memset(&world, 0, sizeof(world));
	world.now = MADE_AT + S(1000);
	world.most = LIMIT;
	world.redis = table_with_arena(100, 1 << 20);
	world.limit = limit_in(world.redis, text);
	for (uint64_t i = 0; i < n; i++)
		join(&world.nodes[i], text);
	for (size_t i = 0; i < NODES; i++)
		if (world.nodes[i].is_there)
			count_others(&world.nodes[i]);
	for (int i = 0; i < STEPS; i++)
		step(text, is_known, cost_most);
	bound = is_known ? world.most + NODES * (cost_most - 1) : 2 * world.most;
	CHECK(world.allowed <= bound);
	if (world.allowed > bound)
		printf("# %s: %" PRIu64 " of %" PRIu64 " allowed\n", text, world.allowed, world.most);
	for (size_t i = 0; i < NODES; i++)
		if (world.nodes[i].is_there)
			leave(&world.nodes[i]);
	weir_table_free(world.redis);
}

static const char *const texts[] = {
	"60/2000day",
	"60/2000day leaky burst 60",
	"60/2000day refill interval",
	"60/2000day fixed_window",
	"60/2000day fixed_window align first",
	"60/2000day sliding_counter",
	"60/2000day sliding_counter segments 4",
	"60/2000day sliding_log",
};

static uint64_t rounds = ROUNDS_DEFAULT;

static void play_rounds(bool is_known, uint64_t cost_most)
{
	for (uint64_t i = 0; i < rounds; i++)
		play(texts[below(sizeof(texts) / sizeof(texts[0]))], is_known, cost_most);
}

static void what_all_have_heard_of_is_allowed_once(void)
{
	play_rounds(true, 1);
}

/* Redis may deny a request that a share allows, because a request that the share denied has taken a part of its
 * units. */
static void requests_of_several_units_round_by_less_than_one_each(void)
{
	play_rounds(true, 3);
}

static void anything_else_at_most_twice(void)
{
	play_rounds(false, 3);
}

int main(int argc, char **argv)
{
	static const struct check_test tests[] = { TEST(what_all_have_heard_of_is_allowed_once),
						   TEST(requests_of_several_units_round_by_less_than_one_each),
						   TEST(anything_else_at_most_twice) };

	if (argc > 1)
		rounds = strtoull(argv[1], NULL, 10);
	return check_run(tests, sizeof(tests) / sizeof(tests[0]));
}
