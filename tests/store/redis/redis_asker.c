/* redis_asker.c: the library with a Redis, controlled by lines of standard input; for redis_test.py.
 *
 *     redis_asker URL
 *
 *     limit NAME TEXT...             change NAME TEXT...
 *     take|upto|peek|refund NAME KEY COST     reset NAME KEY
 *     decide|batch NAME KEY COST [NAME KEY COST]...
 *     wait MS                        status
 *     flood THREADS N NAME KEY       each thread takes N times
 *     pause MS N NAME KEY            takes N times with pauses
 *     storm THREADS MS NAME KEY      each thread takes for MS milliseconds, with pauses of 1 ms
 *
 * Prints one line for each: "error CODE why", or the result. */
#include <err.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <weir/redis.h>

enum { WORDS_MAX = 256, THREADS_MAX = 16, MS = 1000000 };

static struct weir_redis *redis;

static uint64_t number_of(const char *text)
{
	return strtoull(text, NULL, 10);
}

static uint64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void print_error(int error, const char *why)
{
	printf("error %d %s\n", error, why);
}

static void print_verdict(const struct weir_verdict *verdict, const char *end)
{
	printf("%d %d %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "%s", verdict->allowed, verdict->never,
	       verdict->limit, verdict->remaining, verdict->granted, verdict->retry_after, verdict->reset_after, end);
}

/* --- limits by their names ---------------------------------------------------------------------------------------- */

static struct {
	char name[WEIR_REDIS_NAME_MAX + 1];
	const struct weir_redis_limit *limit;
} limits[WEIR_REDIS_BATCH_MAX + 8];

static size_t n_limits;

static const struct weir_redis_limit *limit_of(const char *name)
{
	for (size_t i = 0; i < n_limits; i++)
		if (strcmp(limits[i].name, name) == 0)
			return limits[i].limit;
	errx(1, "no limit %s", name);
}

static void limit(const char *name, const char *text)
{
	const struct weir_redis_limit *added;
	struct weir_message why;
	const int error = weir_redis_add_limit_text(redis, name, text, &added, &why);

	if (error != WEIR_OK) {
		print_error(error, why.text);
		return;
	}
	if (n_limits == sizeof(limits) / sizeof(limits[0]))
		errx(1, "too many limits");
	(void)snprintf(limits[n_limits].name, sizeof(limits[0].name), "%s", name);
	limits[n_limits++].limit = added;
	printf("ok\n");
}

static void change(const char *name, const char *text)
{
	struct weir_message why;
	struct weir_limit to;
	int error = weir_limit_parse(text, strlen(text), &to, &why);

	if (error == WEIR_OK)
		error = weir_redis_change_limit(redis, limit_of(name), &to, &why);
	if (error != WEIR_OK)
		print_error(error, why.text);
	else
		printf("ok\n");
}

/* --- questions --------------------------------------------------------------------------------------------------- */

typedef int ask_function(struct weir_redis *redis, const struct weir_redis_limit *limit, const void *key,
			 size_t key_length, uint64_t cost, struct weir_verdict *ret_verdict);

static void ask(ask_function *function, char **words)
{
	struct weir_verdict verdict;
	const int error = function(redis, limit_of(words[1]), words[2], strlen(words[2]), number_of(words[3]),
				   &verdict);

	if (error != WEIR_OK)
		print_error(error, weir_strerror(error));
	else
		print_verdict(&verdict, "\n");
}

static void reset(char **words)
{
	bool was_stored;
	const int error = weir_redis_reset(redis, limit_of(words[1]), words[2], strlen(words[2]), &was_stored);

	if (error != WEIR_OK)
		print_error(error, weir_strerror(error));
	else
		printf("%d\n", was_stored);
}

static size_t claims_of(char **words, size_t n, struct weir_redis_claim *claims)
{
	size_t i = 0;

	for (; 3 * i + 3 < n && i < WEIR_REDIS_BATCH_MAX; i++)
		claims[i] = (struct weir_redis_claim){ limit_of(words[3 * i + 1]), words[3 * i + 2],
						       strlen(words[3 * i + 2]), number_of(words[3 * i + 3]) };
	return i;
}

static void decide(char **words, size_t n_words)
{
	struct weir_redis_claim claims[WEIR_REDIS_BATCH_MAX];
	struct weir_verdict verdicts[WEIR_REDIS_BATCH_MAX];
	const size_t n = claims_of(words, n_words, claims);
	struct weir_decision decision;
	const int error = weir_redis_decide(redis, claims, n, verdicts, &decision);

	if (error != WEIR_OK) {
		print_error(error, weir_strerror(error));
		return;
	}
	printf("%zu | ", decision.decided_by);
	print_verdict(&decision.verdict, "");
	for (size_t i = 0; i < n; i++) {
		printf(" | ");
		print_verdict(&verdicts[i], "");
	}
	printf("\n");
}

static void batch(char **words, size_t n_words)
{
	struct weir_redis_claim claims[WEIR_REDIS_BATCH_MAX];
	struct weir_verdict verdicts[WEIR_REDIS_BATCH_MAX];
	const size_t n = claims_of(words, n_words, claims);
	const int error = weir_redis_take_batch(redis, claims, n, verdicts);

	if (error != WEIR_OK) {
		print_error(error, weir_strerror(error));
		return;
	}
	for (size_t i = 0; i < n; i++)
		print_verdict(&verdicts[i], i + 1 < n ? " | " : "\n");
}

static void wait_for_it(char **words)
{
	struct weir_message why;
	const int error = weir_redis_wait(redis, number_of(words[1]) * MS, &why);

	if (error != WEIR_OK)
		print_error(error, why.text);
	else
		printf("ok\n");
}

static void status(void)
{
	struct weir_redis_status is;

	weir_redis_status(redis, &is);
	printf("%d %" PRIu32 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %s\n", is.is_up,
	       is.connections, is.decided, is.unreachable, is.unanswered, is.calls, is.failovers, is.last_error);
}

/* --- many -------------------------------------------------------------------------------------------------------- */

struct flood {
	const struct weir_redis_limit *limit;
	const char *key;
	uint64_t n, pause_ms;
	uint64_t end_us; /* 0: none */
	_Atomic uint64_t admitted, denied, unreachable, unanswered, longest_us;
};

static void flood_once(struct flood *flood)
{
	const uint64_t begin_us = now_us();
	struct weir_verdict verdict = { 0 };
	const int error = weir_redis_take(redis, flood->limit, flood->key, strlen(flood->key), 1, &verdict);
	const uint64_t took_us = now_us() - begin_us;
	uint64_t longest_us = atomic_load(&flood->longest_us);

	atomic_fetch_add(error == WEIR_ERR_UNREACHABLE ? &flood->unreachable :
			 error == WEIR_ERR_UNANSWERED  ? &flood->unanswered :
			 verdict.allowed               ? &flood->admitted :
							 &flood->denied,
			 1);
	while (took_us > longest_us && !atomic_compare_exchange_weak(&flood->longest_us, &longest_us, took_us))
		;
}

static void *run_flood(void *context)
{
	struct flood *const flood = context;
	const struct timespec pause = { .tv_sec = (time_t)(flood->pause_ms / 1000),
					.tv_nsec = (long)(flood->pause_ms % 1000 * MS) };

	for (uint64_t i = 0; i < flood->n && (flood->end_us == 0 || now_us() < flood->end_us); i++) {
		flood_once(flood);
		if (flood->pause_ms > 0)
			nanosleep(&pause, NULL);
	}
	return NULL;
}

static void run_floods(struct flood *flood, uint64_t n)
{
	pthread_t threads[THREADS_MAX];

	if (n > THREADS_MAX)
		errx(1, "at most %d threads", THREADS_MAX);
	for (uint64_t i = 0; i < n; i++)
		if (pthread_create(&threads[i], NULL, run_flood, flood) != 0)
			errx(1, "no thread");
	for (uint64_t i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	printf("%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", flood->admitted, flood->denied,
	       flood->unreachable, flood->unanswered, flood->longest_us);
}

static void flood(char **words)
{
	struct flood flood = { .limit = limit_of(words[3]), .key = words[4], .n = number_of(words[2]) };

	run_floods(&flood, number_of(words[1]));
}

static void pause_between(char **words)
{
	struct flood flood = {
		.limit = limit_of(words[3]), .key = words[4], .n = number_of(words[2]), .pause_ms = number_of(words[1])
	};

	run_floods(&flood, 1);
}

static void storm(char **words)
{
	struct flood flood = { .limit = limit_of(words[3]),
			       .key = words[4],
			       .n = UINT64_MAX,
			       .pause_ms = 1,
			       .end_us = now_us() + number_of(words[2]) * 1000 };

	run_floods(&flood, number_of(words[1]));
}

/* --- lines ------------------------------------------------------------------------------------------------------- */

/* The text of a limit is the rest of the line after its name. */
static const char *rest(const char *line)
{
	line += strcspn(line, " ");
	line += strspn(line, " ");
	line += strcspn(line, " ");
	return line + strspn(line, " ");
}

static void answer(char *line)
{
	char *words[WORDS_MAX + 1] = { NULL }, whole[1 << 14];
	size_t n = 0;

	(void)snprintf(whole, sizeof(whole), "%s", line);
	for (char *word = strtok(line, " "); word && n < WORDS_MAX; word = strtok(NULL, " "))
		words[n++] = word;
	if (n >= 3 && strcmp(words[0], "limit") == 0)
		limit(words[1], rest(whole));
	else if (n >= 3 && strcmp(words[0], "change") == 0)
		change(words[1], rest(whole));
	else if (n == 4 && strcmp(words[0], "take") == 0)
		ask(weir_redis_take, words);
	else if (n == 4 && strcmp(words[0], "upto") == 0)
		ask(weir_redis_upto, words);
	else if (n == 4 && strcmp(words[0], "peek") == 0)
		ask(weir_redis_peek, words);
	else if (n == 4 && strcmp(words[0], "refund") == 0)
		ask(weir_redis_refund, words);
	else if (n == 3 && strcmp(words[0], "reset") == 0)
		reset(words);
	else if (n >= 4 && strcmp(words[0], "decide") == 0)
		decide(words, n);
	else if (n >= 4 && strcmp(words[0], "batch") == 0)
		batch(words, n);
	else if (n == 2 && strcmp(words[0], "wait") == 0)
		wait_for_it(words);
	else if (n == 1 && strcmp(words[0], "status") == 0)
		status();
	else if (n == 5 && strcmp(words[0], "flood") == 0)
		flood(words);
	else if (n == 5 && strcmp(words[0], "pause") == 0)
		pause_between(words);
	else if (n == 5 && strcmp(words[0], "storm") == 0)
		storm(words);
	else
		errx(1, "no such line: %s", whole);
}

int main(int argc, char **argv)
{
	struct weir_message why;
	char line[1 << 14];
	int error;

	if (argc != 2)
		errx(2, "usage: redis_asker URL");
	error = weir_redis_new(argv[1], &redis, &why);
	if (error != WEIR_OK) {
		print_error(error, why.text);
		return 1;
	}
	printf("ok\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = '\0';
		answer(line);
		fflush(stdout);
	}
	weir_redis_free(redis);
	return 0;
}
