/* redis_nodes.c: plays random traces of several nodes on the script in a real Redis, and compares every answer.
 *
 *     redis_nodes FILE        as tests/model/nodes.py or leases.py prints it
 *
 * Exits 1 if an answer differs. A key is skipped and counted if Redis cannot hold one of its plans. */
#include "redis_server.h"

#include <ctype.h>
#include <inttypes.h>

#include "store/redis/redis_call.h"

enum {
	NODES = 3,
	ROW_SIZE = 512,
	SHOWN_MOST = 20,
	PLAN_WORDS = 11,
	ANSWER_WORDS = 12,
	LEASE_WORDS = 14,
	WORDS_MOST = 16
};

static struct redis_server server;
static struct weir__redis_plan plans[NODES];
static unsigned long line, keys, skipped, asked, wrong;

static void __attribute__((noreturn)) malformed(const char *what)
{
	errx(2, "line %lu: %s", line, what);
}

static uint64_t number_of(const char *word)
{
	char *end;
	const uint64_t number = strtoull(word, &end, 10);

	if (!isdigit((unsigned char)*word) || *end != '\0')
		malformed("a number was expected");
	return number;
}

static size_t node_of(const char *word)
{
	const size_t node = (size_t)(word[0] - 'a');

	if (word[0] < 'a' || node >= NODES)
		malformed("a node was expected");
	return node;
}

static size_t split(char *row, char *words[WORDS_MOST])
{
	size_t n = 0;
	char *rest = row;

	for (char *word; (word = strtok_r(rest, " \n", &rest)) != NULL && n < WORDS_MOST; n++)
		words[n] = word;
	return n;
}

/* --- plans ------------------------------------------------------------------------------------------------------- */

static enum weir_algorithm algorithm_of(const char *name)
{
	for (int i = WEIR_TOKEN_BUCKET; i <= WEIR_SLIDING_COUNTER; i++)
		if (strcmp(name, weir_algorithm_name((enum weir_algorithm)i)) == 0)
			return (enum weir_algorithm)i;
	malformed("an algorithm was expected");
}

/* Returns false if Redis cannot hold the plan. */
static bool read_plan(char *const *words, bool is_police, struct weir__redis_plan *ret_plan)
{
	struct weir_limit limit = weir_limit_of(algorithm_of(words[3]), number_of(words[4]), number_of(words[5]));
	struct weir_plan plan;

	limit.burst = number_of(words[6]);
	limit.refill_interval = number_of(words[7]);
	limit.align_first = number_of(words[8]);
	limit.count_all = number_of(words[9]);
	limit.segments = number_of(words[10]);
	limit.shape = limit.algorithm == WEIR_LEAKY_BUCKET && !is_police;
	if (weir_plan_compile(&limit, &plan, NULL) != WEIR_OK)
		malformed("the limit is invalid");
	if (weir__redis_plan_init(ret_plan, &plan, NULL) != WEIR_OK)
		return false;
	weir__redis_plan_set_at(ret_plan, number_of(words[2]));
	return true;
}

/* --- requests ---------------------------------------------------------------------------------------------------- */

static enum weir__redis_operation operation_of(const char *word)
{
	static const struct {
		const char *word;
		enum weir__redis_operation operation;
	} operations[] = { { "take", WEIR__REDIS_TAKE },     { "upto", WEIR__REDIS_UP_TO },
			   { "peek", WEIR__REDIS_PEEK },     { "refund", WEIR__REDIS_REFUND },
			   { "undo", WEIR__REDIS_UNDO },     { "grant", WEIR__REDIS_GRANT },
			   { "return", WEIR__REDIS_RETURN }, { "push", WEIR__REDIS_PUSH } };

	for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++)
		if (strcmp(word, operations[i].word) == 0)
			return operations[i].operation;
	malformed("an operation was expected");
}

/* The numbers of a lease row are those of the operation that it has. */
static struct weir__redis_claim claim_of(char *const *words, enum weir__redis_operation operation, bool is_lease)
{
	const uint64_t first = is_lease ? number_of(words[5]) : 0, second = is_lease ? number_of(words[6]) : 0;

	return (struct weir__redis_claim){ .plan = &plans[node_of(words[1])],
					   .name = { "l", 1 },
					   .key = { "k", 1 },
					   .cost = number_of(words[4]),
					   .charged_at = operation == WEIR__REDIS_PUSH ? first * 1000 : first,
					   .charged_cost = second,
					   .lease_duration = first,
					   .lease_most = second,
					   .lease_end_us = first };
}

static struct weir_verdict ask(char *const *words, bool is_lease)
{
	const weir_ns now = number_of(words[2]);
	const enum weir__redis_operation operation = operation_of(words[3]);
	const struct weir__redis_claim claim = claim_of(words, operation, is_lease);
	const struct weir__redis_request request = { operation, &claim, 1 };
	const struct weir__redis_call call = {
		.sha1 = weir__redis_script.sha1, .prefix = { "p:", 2 }, .requests = &request, .n = 1, .test_now = &now
	};
	struct weir_verdict verdict;
	struct weir__redis_reply reply;

	redis_server_begin(&server);
	if (weir__redis_call_write(&call, &server.out) != WEIR_OK)
		malformed("the call was not written");
	redis_server_ask(&server);
	reply = weir__redis_call_read(&call, server.tokens, server.reply.n, &verdict);
	if (reply.answer != WEIR__REDIS_DECIDED || reply.anew != 0)
		errx(1, "line %lu: the script answered %d, %u values were damaged: %.*s", line, (int)reply.answer,
		     reply.anew, (int)reply.error.length, reply.error.bytes);
	return verdict;
}

static bool is_so(const char *word, uint64_t found)
{
	return strcmp(word, "-") == 0 || number_of(word) == found;
}

static bool compare(char *const *words, bool is_lease)
{
	const struct weir_verdict found = ask(words, is_lease);
	const char *const verdict = found.allowed ? "allow" : found.never ? "never" : "deny";
	char *const *const told = words + (is_lease ? LEASE_WORDS : ANSWER_WORDS) - 7;
	const bool is_right = strcmp(told[0], verdict) == 0 && is_so(told[1], found.limit) &&
			      is_so(told[2], found.remaining) && is_so(told[3], found.retry_after) &&
			      is_so(told[4], found.reset_after) && is_so(told[5], found.delay) &&
			      is_so(told[6], found.granted);

	asked++;
	if (!is_right && wrong++ < SHOWN_MOST) {
		printf("line %lu:", line);
		for (char *const *word = words; word < told + 7; word++)
			printf(" %s", *word);
		printf("\n    answered: %s %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
		       verdict, found.limit, found.remaining, found.retry_after, found.reset_after, found.delay,
		       found.granted);
	}
	return is_right;
}

/* After a wrong answer, or a plan that Redis cannot hold, the rest of the key is skipped. */
static bool play(char *const *words, size_t n)
{
	const bool is_police = n == PLAN_WORDS + 1 && strcmp(words[PLAN_WORDS], "police") == 0;

	if ((n == PLAN_WORDS || is_police) && strcmp(words[0], "plan") == 0) {
		const bool fits = read_plan(words, is_police, &plans[node_of(words[1])]);

		skipped += !fits;
		return fits;
	}
	if (n == LEASE_WORDS && strcmp(words[0], "lease") == 0)
		return compare(words, true);
	if (n != ANSWER_WORDS || strcmp(words[0], "ask") != 0)
		malformed("expected key, plan, ask or lease");
	return compare(words, false);
}

int main(int argc, char **argv)
{
	FILE *const file = argc == 2 ? fopen(argv[1], "r") : NULL;
	char row[ROW_SIZE], *words[WORDS_MOST];
	bool is_passed_over = true;

	if (file == NULL)
		err(2, "usage: redis_nodes FILE");
	redis_server_start(&server);
	redis_server_load(&server, weir__redis_script.text, weir__redis_script.length);
	while (fgets(row, sizeof(row), file)) {
		const size_t n = split(row, words);

		line++;
		if (n == 1 && strcmp(words[0], "key") == 0) {
			REDIS_COMMAND(&server, "DEL", "p:l:k");
			is_passed_over = false;
			keys++;
		} else if (!is_passed_over) {
			is_passed_over = !play(words, n);
		}
	}
	fclose(file);
	redis_server_stop(&server);
	printf("%lu keys, %lu of them cut short by plans beyond the maxima, %lu answers, %lu wrong\n", keys, skipped,
	       asked, wrong);
	return wrong > 0 || asked == 0;
}
