/* vectors.c: plays vector files (tests/vectors/README.md) on every engine and compares each stated verdict.
 *
 *     vectors FILE...        - is standard input
 *
 * Prints mismatches with file and line, then how many vectors passed on each engine. Exits 1 if a vector failed, 2 if a
 * file cannot be read or has a syntax error. */
#include <err.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/table/decision.h"
#include "vector_engine.h"

/* Engines that have `begin` play MANY vectors, then every SAMPLEth. */
enum { ENGINES_MAX = 8, WORDS_MAX = 64, LIMITS_MAX = 64, MISMATCHES_SHOWN = 20, MANY = 20000, SAMPLE = 20 };

/* Engines that do not skip the current vector. */
#define for_each_playing_engine(engine)                                                                                \
	for (size_t engine = 0; (engine) < vector_engines_n; (engine)++)                                               \
		if (now_at.skipped[engine] == NULL)

enum verdict_word { ALLOW, DENY, NEVER, ERROR };
static const char *const verdict_words[] = { "allow", "deny", "never", "error" };

struct answer {
	enum verdict_word word;
	struct weir_verdict verdict; /* of several limits: joined */
	const char *by;              /* several limits: the name of the one that decided; otherwise NULL */
	bool is_shown_otherwise;     /* the decision's numbers differ from those of the limit that decided */
};

struct limit {
	char *name;
	struct weir_limit limit;
	uint64_t initial; /* UINT64_MAX: none */
	uint64_t log_room;
	void *subjects[ENGINES_MAX]; /* NULL: the limit was rejected */
	bool is_started[ENGINES_MAX];
};

struct tagged {
	char *tag;
	size_t limit;
	struct weir_reservation reservations[ENGINES_MAX];
};

/* The file being read and the current vector. */
static struct {
	const char *file;
	unsigned long line;
	char *text; /* buffer of getline */
	size_t room;
	char *words[WORDS_MAX];
	size_t n_words;
	bool in_vector, has_failed[ENGINES_MAX];
	const char *skipped[ENGINES_MAX]; /* why the engine skips this vector; NULL: it plays it */
	struct limit limits[LIMITS_MAX];
	size_t n_limits;
	struct tagged *tagged;
	size_t n_tagged;
} now_at;

static uint64_t passed[ENGINES_MAX], failed[ENGINES_MAX], rows;

/* Vectors that an engine does not play, by reason. */
enum { REASONS_MAX = 8 };
static struct {
	const char *reason;
	uint64_t vectors;
} skipped[ENGINES_MAX][REASONS_MAX];

static void __attribute__((noreturn, format(printf, 1, 2))) malformed(const char *format, ...)
{
	va_list arguments;

	fprintf(stderr, "%s:%lu: ", now_at.file, now_at.line);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	exit(2);
}

static uint64_t number_of(const char *word)
{
	uint64_t number = 0;

	if (*word == '\0')
		malformed("a number is missing");
	for (const char *at = word; *at; at++)
		if (*at < '0' || *at > '9' || __builtin_mul_overflow(number, UINT64_C(10), &number) ||
		    __builtin_add_overflow(number, (uint64_t)(*at - '0'), &number))
			malformed("invalid number \"%s\"; use 0 to 18446744073709551615", word);
	return number;
}

/* The value if word is `name=value`, else NULL. */
static const char *value_of(const char *word, const char *name)
{
	const size_t length = strlen(name);

	return strncmp(word, name, length) == 0 && word[length] == '=' ? word + length + 1 : NULL;
}

static void read_rate(const char *value, struct weir_limit *limit)
{
	char *copy = strdup(value);
	char *slash = copy ? strchr(copy, '/') : NULL;

	if (slash == NULL)
		malformed("invalid rate \"%s\"; use COUNT/PERIOD", value);
	*slash = '\0';
	limit->count = number_of(copy);
	limit->period = number_of(slash + 1);
	free(copy);
}

static bool is_one_of(const char *value, const char *plain, const char *other)
{
	if (strcmp(value, plain) != 0 && strcmp(value, other) != 0)
		malformed("\"%s\": expected %s or %s", value, plain, other);
	return strcmp(value, other) == 0;
}

static enum weir_algorithm algorithm_of(const char *name)
{
	for (int i = WEIR_TOKEN_BUCKET; i <= WEIR_SLIDING_COUNTER; i++)
		if (strcmp(name, weir_algorithm_name((enum weir_algorithm)i)) == 0)
			return (enum weir_algorithm)i;
	malformed("unknown algorithm \"%s\"", name);
}

static void read_limit(void)
{
	struct limit *limit = &now_at.limits[now_at.n_limits];
	bool has_burst = false;

	if (!now_at.in_vector || now_at.n_words < 4 || now_at.n_limits == LIMITS_MAX)
		malformed("expected a limit line of a vector, at most %d of them", LIMITS_MAX);
	*limit = (struct limit){ .name = strdup(now_at.words[1]), .initial = UINT64_MAX };
	limit->limit = weir_limit_of(WEIR_TOKEN_BUCKET, 0, 0);
	for (size_t i = 2; i < now_at.n_words; i++) {
		const char *const word = now_at.words[i], *value;

		if ((value = value_of(word, "algorithm")))
			limit->limit.algorithm = algorithm_of(value);
		else if ((value = value_of(word, "rate")))
			read_rate(value, &limit->limit);
		else if ((value = value_of(word, "burst")))
			limit->limit.burst = number_of(value), has_burst = true;
		else if ((value = value_of(word, "refill")))
			limit->limit.refill_interval = is_one_of(value, "smooth", "interval");
		else if ((value = value_of(word, "align")))
			limit->limit.align_first = is_one_of(value, "clock", "first");
		else if ((value = value_of(word, "count")))
			limit->limit.count_all = is_one_of(value, "admitted", "all");
		else if ((value = value_of(word, "segments")))
			limit->limit.segments = number_of(value);
		else if ((value = value_of(word, "initial")))
			limit->initial = number_of(value);
		else
			malformed("unknown option \"%s\" of a limit", word);
	}
	if (!has_burst)
		limit->limit.burst = limit->limit.count;
	limit->limit.shape = limit->limit.algorithm == WEIR_LEAKY_BUCKET;
	limit->log_room = limit->limit.count;
	now_at.n_limits++;
}

static size_t limit_named(const char *name, size_t length)
{
	for (size_t i = 0; i < now_at.n_limits; i++)
		if (strlen(now_at.limits[i].name) == length && memcmp(now_at.limits[i].name, name, length) == 0)
			return i;
	malformed("no limit is named \"%.*s\"", (int)length, name);
}

static enum verdict_word word_of(const struct weir_verdict *verdict)
{
	return verdict->allowed ? ALLOW : verdict->never ? NEVER : DENY;
}

/* Returns the limit's subject, NULL if the limit was rejected. At its first use, takes all but `initial` tokens. */
static void *subject_of(size_t engine, struct limit *limit, weir_ns now)
{
	void *const subject = limit->subjects[engine];

	if (subject && !limit->is_started[engine] && limit->initial < limit->limit.burst)
		(void)vector_engines[engine]->take(subject, now, limit->limit.burst - limit->initial);
	limit->is_started[engine] = true;
	return subject;
}

typedef struct weir_verdict step(void *subject, weir_ns now, uint64_t cost);

static struct answer run_step(size_t engine, struct limit *limit, step *take_step, weir_ns now, uint64_t cost)
{
	void *const subject = subject_of(engine, limit, now);
	struct answer answer = { .word = ERROR };

	if (subject) {
		answer.verdict = take_step(subject, now, cost);
		answer.word = word_of(&answer.verdict);
	}
	return answer;
}

static struct answer run_set(size_t engine, struct limit *limit, weir_ns now, const struct weir_limit *changed)
{
	void *const subject = subject_of(engine, limit, now);

	if (subject == NULL || vector_engines[engine]->change(subject, now, changed) != WEIR_OK)
		return (struct answer){ .word = ERROR };
	return run_step(engine, limit, vector_engines[engine]->peek, now, 0);
}

static struct answer run_reserve(size_t engine, struct limit *limit, weir_ns now, uint64_t cost, struct tagged *tagged)
{
	void *const subject = subject_of(engine, limit, now);
	struct answer answer = { .word = ERROR };

	if (subject &&
	    vector_engines[engine]->reserve(subject, now, cost, &tagged->reservations[engine], &answer.verdict) == 0)
		answer.word = word_of(&answer.verdict);
	return answer;
}

static struct answer run_undo(size_t engine, struct limit *limit, weir_ns now, uint64_t n, weir_ns charged_at,
			      uint64_t cost)
{
	void *const subject = subject_of(engine, limit, now);
	struct answer answer = { .word = ERROR };

	if (subject) {
		answer.verdict = vector_engines[engine]->undo(subject, now, n, charged_at, cost);
		answer.word = word_of(&answer.verdict);
	}
	return answer;
}

/* The claims of an `all` row, in its order. A limit may occur twice. */
struct claims {
	size_t n, limits[LIMITS_MAX];
	uint64_t costs[LIMITS_MAX];
};

/* Claims of the same limit are one claim with their costs added. */
static struct claims merge(const struct claims *claims)
{
	struct claims merged = { .n = 0 };

	for (size_t i = 0; i < claims->n; i++) {
		size_t place = 0;

		while (place < merged.n && merged.limits[place] != claims->limits[i])
			place++;
		if (place == merged.n)
			merged.limits[merged.n++] = claims->limits[i];
		if (__builtin_add_overflow(merged.costs[place], claims->costs[i], &merged.costs[place]))
			merged.costs[place] = UINT64_MAX;
	}
	return merged;
}

/* Decides by peeks and takes. A denied request charges no limit, except that limits with `count all` count it. */
static struct weir_decision decide_one_by_one(size_t engine, const struct claims *claims, weir_ns now,
					      struct weir_verdict *verdicts)
{
	const struct vector_engine *const e = vector_engines[engine];
	bool allowed = true;

	for (size_t i = 0; i < claims->n; i++) {
		verdicts[i] =
			run_step(engine, &now_at.limits[claims->limits[i]], e->peek, now, claims->costs[i]).verdict;
		allowed = allowed && verdicts[i].allowed;
	}
	for (size_t i = 0; i < claims->n; i++) {
		struct limit *const limit = &now_at.limits[claims->limits[i]];
		const bool was_allowed = verdicts[i].allowed;

		if (!allowed && !limit->limit.count_all)
			continue;
		verdicts[i] = run_step(engine, limit, e->take, now, claims->costs[i]).verdict;
		if (!allowed)
			verdicts[i] = run_step(engine, limit, e->peek, now, claims->costs[i]).verdict;
		verdicts[i].allowed = was_allowed;
	}
	return weir__decision_of(verdicts, claims->n);
}

static struct weir_decision decide_at_once(size_t engine, const struct claims *claims, weir_ns now,
					   struct weir_verdict *verdicts)
{
	void *subjects[VECTOR_CLAIMS_MAX];

	for (size_t i = 0; i < claims->n; i++)
		subjects[i] = subject_of(engine, &now_at.limits[claims->limits[i]], now);
	return vector_engines[engine]->all(subjects, claims->costs, claims->n, now, verdicts);
}

/* Whether the decision has the numbers of the limit that decided. Its delay is the longest of all limits. */
static bool is_of_decider(const struct weir_decision *decision, const struct weir_verdict *joined,
			  const struct weir_verdict *decider)
{
	const struct weir_verdict *const shown = &decision->verdict;

	return shown->allowed == joined->allowed && shown->never == joined->never && shown->delay == joined->delay &&
	       shown->limit == decider->limit && shown->remaining == decider->remaining &&
	       shown->granted == decider->granted && shown->retry_after == decider->retry_after &&
	       shown->reset_after == decider->reset_after;
}

static struct answer run_all(size_t engine, const struct claims *named, weir_ns now)
{
	const bool is_at_once = vector_engines[engine]->all && named->n <= VECTOR_CLAIMS_MAX;
	const struct claims claims = is_at_once ? *named : merge(named);
	struct weir_verdict verdicts[LIMITS_MAX];
	struct weir_decision decision;
	struct answer answer;

	for (size_t i = 0; i < claims.n; i++)
		if (now_at.limits[claims.limits[i]].subjects[engine] == NULL)
			return (struct answer){ .word = ERROR };
	decision = (is_at_once ? decide_at_once : decide_one_by_one)(engine, &claims, now, verdicts);
	answer.verdict = weir_verdict_join(verdicts, claims.n);
	answer.word = word_of(&answer.verdict);
	answer.by = now_at.limits[claims.limits[decision.decided_by]].name;
	answer.is_shown_otherwise = !is_of_decider(&decision, &answer.verdict, &verdicts[decision.decided_by]);
	return answer;
}

static bool is_stated_so(const char *word, const struct answer *answer)
{
	const struct weir_verdict *const verdict = &answer->verdict;
	const char *value;

	if ((value = value_of(word, "by")))
		return answer->by && strcmp(value, answer->by) == 0;

	if ((value = value_of(word, "remaining")))
		return number_of(value) == verdict->remaining;
	if ((value = value_of(word, "retry")))
		return number_of(value) == verdict->retry_after;
	if ((value = value_of(word, "reset")))
		return number_of(value) == verdict->reset_after;
	if ((value = value_of(word, "delay")))
		return number_of(value) == verdict->delay;
	if ((value = value_of(word, "granted")))
		return number_of(value) == verdict->granted;
	malformed("unknown field \"%s\" of a verdict", word);
}

static void compare(size_t engine, const struct answer *answer, size_t stated)
{
	static unsigned shown;
	bool is_right = strcmp(now_at.words[stated], verdict_words[answer->word]) == 0;

	for (size_t i = stated + 1; i < now_at.n_words; i++)
		is_right &= is_stated_so(now_at.words[i], answer);
	if (is_right && !answer->is_shown_otherwise)
		return;
	now_at.has_failed[engine] = true;
	if (shown++ >= MISMATCHES_SHOWN)
		return;
	printf("%s:%lu: %s:", now_at.file, now_at.line, vector_engines[engine]->name);
	for (size_t i = 0; i < now_at.n_words; i++)
		printf(" %s", now_at.words[i]);
	printf("\n    answered: %s remaining=%" PRIu64 " retry=%" PRIu64 " reset=%" PRIu64 " delay=%" PRIu64
	       " granted=%" PRIu64 " by=%s%s\n",
	       verdict_words[answer->word], answer->verdict.remaining, answer->verdict.retry_after,
	       answer->verdict.reset_after, answer->verdict.delay, answer->verdict.granted,
	       answer->by ? answer->by : "none",
	       answer->is_shown_otherwise ? ", but the decision shows other numbers than those of that limit" : "");
}

static size_t reservation_tagged(const char *tag, bool is_new, size_t limit)
{
	for (size_t i = 0; i < now_at.n_tagged; i++)
		if (strcmp(now_at.tagged[i].tag, tag) == 0) {
			if (is_new)
				malformed("a second reservation tagged \"%s\"", tag);
			return i;
		}
	if (!is_new)
		malformed("no reservation is tagged \"%s\"", tag);
	now_at.tagged = realloc(now_at.tagged, (now_at.n_tagged + 1) * sizeof(*now_at.tagged));
	if (now_at.tagged == NULL)
		err(2, "realloc");
	now_at.tagged[now_at.n_tagged] = (struct tagged){ .tag = strdup(tag), .limit = limit };
	return now_at.n_tagged++;
}

/* `at` rows, kept until the vector ends: only then are the largest limits and times known. */
static char **pending;
static unsigned long *pending_lines;
static weir_ns *earliest_to_come; /* earliest time in a row and all after it */
static size_t n_pending;

static void play_all(const char *names, const char *costs, weir_ns now, size_t stated)
{
	struct claims claims = { .n = 0 };
	const bool is_one_cost = strchr(costs, ',') == NULL;

	while (*names) {
		const size_t length = strcspn(names, ","), cost_length = strcspn(costs, ",");
		char cost[32] = "";

		if (claims.n == LIMITS_MAX)
			malformed("more than %d limits", LIMITS_MAX);
		if (cost_length < sizeof(cost))
			memcpy(cost, costs, cost_length);
		claims.limits[claims.n] = limit_named(names, length);
		claims.costs[claims.n++] = number_of(cost);
		names += length + (names[length] == ',');
		if (!is_one_cost)
			costs += cost_length + (costs[cost_length] == ',');
	}
	for_each_playing_engine(engine)
	{
		const struct answer answer = run_all(engine, &claims, now);

		compare(engine, &answer, stated);
	}
}

/* The limit of a row. With several limits, the row's next argument is its name. */
static struct limit *limit_of_row(size_t *argument)
{
	if (now_at.n_limits == 1 && strcmp(now_at.words[*argument], now_at.limits[0].name) != 0)
		return &now_at.limits[0];
	(*argument)++;
	return &now_at.limits[limit_named(now_at.words[*argument - 1], strlen(now_at.words[*argument - 1]))];
}

/* The limit as a `set` row changes it. */
static struct weir_limit read_set(const struct weir_limit *limit, size_t first)
{
	struct weir_limit changed = *limit;

	for (size_t i = first; i < now_at.n_words && strcmp(now_at.words[i], "->") != 0; i++) {
		const char *value;

		if ((value = value_of(now_at.words[i], "rate")))
			read_rate(value, &changed);
		else if ((value = value_of(now_at.words[i], "burst")) && limit->algorithm <= WEIR_LEAKY_BUCKET)
			changed.burst = number_of(value);
		else
			malformed("\"%s\" is nothing to set", now_at.words[i]);
	}
	return changed;
}

static void play_set(struct limit *limit, weir_ns now, size_t first, size_t stated)
{
	const struct weir_limit changed = read_set(&limit->limit, first);
	bool is_refused = false;

	for_each_playing_engine(engine)
	{
		const struct answer answer = run_set(engine, limit, now, &changed);

		compare(engine, &answer, stated);
		is_refused = answer.word == ERROR;
	}
	if (!is_refused)
		limit->limit = changed;
}

/* N of=COST charged=INSTANT */
static void play_undo(struct limit *limit, weir_ns now, size_t first, size_t stated)
{
	const char *const cost = value_of(now_at.words[first + 1], "of");
	const char *const charged_at = cost ? value_of(now_at.words[first + 2], "charged") : NULL;

	if (charged_at == NULL)
		malformed("expected: at NOW undo [NAME] N of=COST charged=INSTANT -> VERDICT");
	for_each_playing_engine(engine)
	{
		const struct answer answer = run_undo(engine, limit, now, number_of(now_at.words[first]),
						      number_of(charged_at), number_of(cost));

		compare(engine, &answer, stated);
	}
}

/* at NOW OP [NAME] ARGUMENT... -> VERDICT FIELD... */
static void play_row(void)
{
	const weir_ns now = number_of(now_at.words[1]);
	const char *const op = now_at.words[2];
	size_t stated = 0, argument = 3;
	struct limit *limit;

	while (stated < now_at.n_words && strcmp(now_at.words[stated], "->") != 0)
		stated++;
	if (++stated >= now_at.n_words || stated < 5)
		malformed("expected: at NOW OP ARGUMENTS -> VERDICT");
	if (strcmp(op, "cancel") == 0) {
		const char *const tag = value_of(now_at.words[3], "tag");
		struct tagged *tagged = &now_at.tagged[reservation_tagged(tag ? tag : "", false, 0)];

		limit = &now_at.limits[tagged->limit];
		for_each_playing_engine(engine)
		{
			struct answer answer = { .word = ERROR };

			if (subject_of(engine, limit, now)) {
				vector_engines[engine]->cancel(limit->subjects[engine], now,
							       &tagged->reservations[engine]);
				answer = run_step(engine, limit, vector_engines[engine]->peek, now, 0);
			}
			compare(engine, &answer, stated);
		}
		return;
	}
	if (strcmp(op, "all") == 0) {
		play_all(now_at.words[3], now_at.words[4], now, stated);
		return;
	}
	limit = limit_of_row(&argument);
	if (strcmp(op, "set") == 0) {
		play_set(limit, now, argument, stated);
	} else if (strcmp(op, "undo") == 0) {
		play_undo(limit, now, argument, stated);
	} else if (strcmp(op, "reserve") == 0) {
		const char *const tag = value_of(now_at.words[argument + 1], "tag");
		const size_t tagged = reservation_tagged(tag ? tag : "", true, (size_t)(limit - now_at.limits));

		for_each_playing_engine(engine)
		{
			const struct answer answer = run_reserve(engine, limit, now, number_of(now_at.words[argument]),
								 &now_at.tagged[tagged]);

			compare(engine, &answer, stated);
		}
	} else {
		for_each_playing_engine(engine)
		{
			const struct vector_engine *const e = vector_engines[engine];
			step *const take_step = strcmp(op, "take") == 0   ? e->take :
						strcmp(op, "peek") == 0   ? e->peek :
						strcmp(op, "upto") == 0   ? e->upto :
						strcmp(op, "refund") == 0 ? e->refund :
									    NULL;
			struct answer answer;

			if (take_step == NULL)
				malformed("unknown operation \"%s\"", op);
			answer = run_step(engine, limit, take_step, now, number_of(now_at.words[argument]));
			compare(engine, &answer, stated);
		}
	}
}

static void split(char *text)
{
	char *rest = text;

	now_at.n_words = 0;
	while (rest) {
		if (now_at.n_words == WORDS_MAX)
			malformed("more than %d words", WORDS_MAX);
		now_at.words[now_at.n_words++] = strsep(&rest, " ");
	}
}

/* A `set` may raise how many events a log must hold, so find the maximum before making the limits. */
static void note_log_room(char *text)
{
	char *copy = strdup(text);
	struct weir_limit set = { 0 };

	split(copy);
	if (now_at.n_words > 4 && strcmp(now_at.words[2], "set") == 0)
		for (size_t i = 3; i < now_at.n_words; i++)
			if (value_of(now_at.words[i], "rate")) {
				read_rate(value_of(now_at.words[i], "rate"), &set);
				for (size_t limit = 0; limit < now_at.n_limits; limit++)
					if (now_at.limits[limit].log_room < set.count)
						now_at.limits[limit].log_room = set.count;
			}
	free(copy);
}

static void keep_row(const char *text)
{
	if (!now_at.in_vector)
		malformed("a row outside a vector");
	pending = realloc(pending, (n_pending + 1) * sizeof(*pending));
	pending_lines = realloc(pending_lines, (n_pending + 1) * sizeof(*pending_lines));
	earliest_to_come = realloc(earliest_to_come, (n_pending + 1) * sizeof(*earliest_to_come));
	if (pending == NULL || pending_lines == NULL || earliest_to_come == NULL)
		err(2, "realloc");
	pending[n_pending] = strdup(text);
	pending_lines[n_pending++] = now_at.line;
}

static uint64_t vectors_begun;

/* The times of the vector's rows, and which optional operations it needs. */
struct outline {
	weir_ns earliest, latest;
	weir_ns grain;  /* all times are multiples of this */
	uint64_t costs; /* of all rows, saturating */
	bool has_reserve, has_undo, has_set;
};

/* Adds the costs of a row. They are its last word before the arrow: one number, or several. */
static void add_costs(struct outline *outline)
{
	size_t arrow = 0;
	char *rest, *one;

	while (arrow < now_at.n_words && strcmp(now_at.words[arrow], "->") != 0)
		arrow++;
	rest = arrow > 0 ? now_at.words[arrow - 1] : NULL;
	while ((one = strsep(&rest, ",")) != NULL)
		if (*one >= '0' && *one <= '9' &&
		    __builtin_add_overflow(outline->costs, number_of(one), &outline->costs))
			outline->costs = UINT64_MAX;
}

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
	while (b != 0) {
		const uint64_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

static struct outline outline_of_rows(void)
{
	struct outline outline = { .earliest = UINT64_MAX };

	for (size_t i = n_pending; i-- > 0;) {
		char *const copy = strdup(pending[i]);
		weir_ns now;

		now_at.line = pending_lines[i];
		split(copy);
		if (now_at.n_words < 3)
			malformed("expected: at NOW OP ARGUMENTS -> VERDICT");
		now = number_of(now_at.words[1]);
		outline.earliest = now < outline.earliest ? now : outline.earliest;
		earliest_to_come[i] = outline.earliest;
		outline.latest = now > outline.latest ? now : outline.latest;
		outline.grain = common_divisor(outline.grain, now);
		outline.has_reserve |= strcmp(now_at.words[2], "reserve") == 0;
		outline.has_undo |= strcmp(now_at.words[2], "undo") == 0;
		outline.has_set |= strcmp(now_at.words[2], "set") == 0;
		if (strcmp(now_at.words[2], "set") != 0)
			add_costs(&outline);
		free(copy);
	}
	return outline;
}

/* As skips_limit, for the limits that `set` rows make. */
static const char *skips_sets(const struct vector_engine *engine, const struct outline *outline)
{
	struct weir_limit limits[LIMITS_MAX];
	const char *why = NULL;

	for (size_t i = 0; i < now_at.n_limits; i++)
		limits[i] = now_at.limits[i].limit;
	for (size_t i = 0; why == NULL && i < n_pending; i++) {
		char *const copy = strdup(pending[i]);
		size_t argument = 3;

		now_at.line = pending_lines[i];
		split(copy);
		if (strcmp(now_at.words[2], "set") == 0) {
			struct weir_limit *const limit = &limits[limit_of_row(&argument) - now_at.limits];
			const struct weir_limit changed = read_set(limit, argument);
			struct weir_plan from, to;

			why = engine->skips_limit(&changed, outline->costs);
			if (weir_plan_compile(limit, &from, NULL) == WEIR_OK &&
			    weir_plan_compile(&changed, &to, NULL) == WEIR_OK &&
			    weir_step_convertible(&from, &to, NULL) == WEIR_OK)
				*limit = changed;
		}
		free(copy);
	}
	return why;
}

static const char *reason_to_skip(const struct vector_engine *engine, const struct outline *outline)
{
	const char *why = NULL;

	if (engine->begin && vectors_begun > MANY && vectors_begun % SAMPLE != 0)
		return "for want of time";
	if (outline->has_reserve && engine->reserve == NULL)
		return "reserve";
	if (outline->has_undo && engine->undo == NULL)
		return "undo";
	if (outline->has_set && engine->change == NULL)
		return "changes";
	if (engine->grain && outline->grain % engine->grain != 0)
		return "times between its grains";
	if (engine->skips_times)
		why = engine->skips_times(outline->earliest, outline->latest);
	for (size_t i = 0; why == NULL && engine->skips_limit && i < now_at.n_limits; i++)
		why = engine->skips_limit(&now_at.limits[i].limit, outline->costs);
	if (why == NULL && engine->skips_limit)
		why = skips_sets(engine, outline);
	return why;
}

static void note_skipped(size_t engine, const char *reason)
{
	size_t i = 0;

	while (i < REASONS_MAX - 1 && skipped[engine][i].reason && strcmp(skipped[engine][i].reason, reason) != 0)
		i++;
	skipped[engine][i].reason = reason;
	skipped[engine][i].vectors++;
}

static void begin_engine(size_t engine, const struct outline *outline)
{
	const struct vector_engine *const e = vector_engines[engine];

	now_at.skipped[engine] = reason_to_skip(e, outline);
	if (now_at.skipped[engine]) {
		note_skipped(engine, now_at.skipped[engine]);
		return;
	}
	if (e->begin)
		e->begin(outline->earliest, outline->latest);
	for (size_t i = 0; i < now_at.n_limits; i++)
		now_at.limits[i].subjects[engine] = e->make(&now_at.limits[i].limit, now_at.limits[i].log_room);
}

static void end_engine(size_t engine)
{
	const struct vector_engine *const e = vector_engines[engine];

	(now_at.has_failed[engine] ? failed : passed)[engine]++;
	now_at.has_failed[engine] = false;
	for (size_t i = 0; i < now_at.n_limits; i++)
		e->drop(now_at.limits[i].subjects[engine]);
	if (e->end)
		e->end();
}

static void play_rows(void)
{
	weir_ns last = 0;
	bool is_played = false;

	for_each_playing_engine(engine)
	{
		is_played = true;
	}
	for (size_t i = 0; i < n_pending; i++) {
		const weir_ns earliest = last < earliest_to_come[i] ? last : earliest_to_come[i];

		now_at.line = pending_lines[i];
		split(pending[i]);
		for_each_playing_engine(engine)
		{
			if (vector_engines[engine]->between)
				vector_engines[engine]->between(earliest);
		}
		last = number_of(now_at.words[1]);
		play_row();
		rows += is_played;
		free(pending[i]);
	}
}

static void end_vector(void)
{
	const unsigned long end = now_at.line;
	struct outline outline;

	if (!now_at.in_vector)
		return;
	for (size_t i = 0; i < n_pending; i++)
		note_log_room(pending[i]);
	outline = outline_of_rows();
	vectors_begun++;
	for (size_t engine = 0; engine < vector_engines_n; engine++)
		begin_engine(engine, &outline);
	play_rows();
	for_each_playing_engine(engine)
	{
		end_engine(engine);
	}
	for (size_t i = 0; i < now_at.n_limits; i++)
		free(now_at.limits[i].name);
	for (size_t i = 0; i < now_at.n_tagged; i++)
		free(now_at.tagged[i].tag);
	now_at.n_limits = now_at.n_tagged = n_pending = 0;
	now_at.in_vector = false;
	now_at.line = end;
}

static void read_statement(char *text)
{
	if (*text == '\0') {
		end_vector();
	} else if (strncmp(text, "vector ", 7) == 0) {
		end_vector();
		now_at.in_vector = true;
	} else if (strncmp(text, "limit ", 6) == 0) {
		split(text);
		read_limit();
	} else if (strncmp(text, "at ", 3) == 0) {
		keep_row(text);
	} else if (*text != '#') {
		malformed("expected vector, limit, at, # or an empty line");
	}
}

static void play_file(const char *name)
{
	FILE *file = strcmp(name, "-") == 0 ? stdin : fopen(name, "re");
	ssize_t length;

	if (file == NULL)
		err(2, "%s", name);
	now_at.file = name;
	now_at.line = 0;
	while ((length = getline(&now_at.text, &now_at.room, file)) >= 0) {
		now_at.line++;
		if (length > 0 && now_at.text[length - 1] == '\n')
			now_at.text[length - 1] = '\0';
		read_statement(now_at.text);
	}
	if (ferror(file))
		err(2, "%s", name);
	end_vector();
	if (file != stdin)
		fclose(file);
}

static void print_engine(size_t engine)
{
	uint64_t all_skipped = 0;

	for (size_t i = 0; i < REASONS_MAX; i++)
		all_skipped += skipped[engine][i].vectors;
	printf("%-14s %" PRIu64 " vectors passed, %" PRIu64 " failed, %" PRIu64 " skipped",
	       vector_engines[engine]->name, passed[engine], failed[engine], all_skipped);
	for (size_t i = 0; i < REASONS_MAX && skipped[engine][i].reason; i++)
		printf("%s %" PRIu64 " %s", i == 0 ? ":" : ",", skipped[engine][i].vectors, skipped[engine][i].reason);
	printf("\n");
}

int main(int argc, char **argv)
{
	uint64_t all_passed = 0, all_failed = 0;

	if (argc < 2 || vector_engines_n > ENGINES_MAX) {
		fprintf(stderr, "usage: vectors FILE...\n");
		return 2;
	}
	for (int i = 1; i < argc; i++)
		play_file(argv[i]);
	for (size_t engine = 0; engine < vector_engines_n; engine++) {
		print_engine(engine);
		all_passed += passed[engine];
		all_failed += failed[engine];
	}
	printf("%" PRIu64 " rows\n%" PRIu64 " passed, %" PRIu64 " failed\n", rows, all_passed, all_failed);
	free(now_at.text);
	free(now_at.tagged);
	free(pending);
	free(pending_lines);
	free(earliest_to_come);
	return all_failed > 0 || all_passed == 0;
}
