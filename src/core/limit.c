/* limit.c: the words of the notation, and printing a limit in them. */
#include <weir/limit.h>

#include "core/notation.h"
#include "core/text.h"

const struct weir__period_word weir__period_words[WEIR__PERIOD_WORDS] = {
	{ "day", UINT64_C(86400000000000) },
	{ "hour", UINT64_C(3600000000000) },
	{ "min", UINT64_C(60000000000) },
	{ "s", UINT64_C(1000000000) },
	{ "ms", UINT64_C(1000000) },
	{ "us", UINT64_C(1000) },
	{ "ns", 1 },
};

#define SECOND UINT64_C(1000000000)
#define DAY (86400 * SECOND)

const struct weir__period_word weir__period_aliases[WEIR__PERIOD_ALIASES] = {
	{ "sec", SECOND },         { "second", SECOND },       { "seconds", SECOND },
	{ "minute", 60 * SECOND }, { "minutes", 60 * SECOND }, { "h", 3600 * SECOND },
	{ "hr", 3600 * SECOND },   { "hours", 3600 * SECOND }, { "d", DAY },
	{ "days", DAY },           { "w", 7 * DAY },           { "week", 7 * DAY },
	{ "weeks", 7 * DAY },      { "secs", SECOND },         { "mins", 60 * SECOND },
	{ "hrs", 3600 * SECOND },
};

const char *const weir__algorithm_words[WEIR__ALGORITHMS] = {
	[WEIR_TOKEN_BUCKET] = "token_bucket",       [WEIR_LEAKY_BUCKET] = "leaky",
	[WEIR_FIXED_WINDOW] = "fixed_window",       [WEIR_SLIDING_LOG] = "sliding_log",
	[WEIR_SLIDING_COUNTER] = "sliding_counter",
};

#define BIT(algorithm) (1u << (algorithm))

const struct weir__option_word weir__option_words[WEIR__OPTIONS] = {
	[WEIR__OPTION_BURST] = { "burst", BIT(WEIR_TOKEN_BUCKET) | BIT(WEIR_LEAKY_BUCKET), NULL, NULL },
	[WEIR__OPTION_QUEUE] = { "queue", BIT(WEIR_LEAKY_BUCKET), NULL, NULL },
	[WEIR__OPTION_REFILL] = { "refill", BIT(WEIR_TOKEN_BUCKET), "smooth", "interval" },
	[WEIR__OPTION_ALIGN] = { "align", BIT(WEIR_FIXED_WINDOW), "clock", "first" },
	[WEIR__OPTION_COUNT] = { "count", BIT(WEIR_FIXED_WINDOW) | BIT(WEIR_SLIDING_LOG) | BIT(WEIR_SLIDING_COUNTER),
				 "admitted", "all" },
	[WEIR__OPTION_SEGMENTS] = { "segments", BIT(WEIR_SLIDING_COUNTER), NULL, NULL },
};

static void add_period(struct weir__text *text, weir_ns period)
{
	const struct weir__period_word *unit = weir__period_words;

	while (period % unit->period != 0) /* stops at ns at the latest */
		unit++;
	if (period != unit->period)
		weir__text_add_number(text, period / unit->period);
	weir__text_add(text, unit->word);
}

/* Adds the option with its number, or with the word that is not its default. */
static void add_option(struct weir__text *text, enum weir__option option, uint64_t number)
{
	const struct weir__option_word *const words = &weir__option_words[option];

	weir__text_add(text, " ");
	weir__text_add(text, words->word);
	weir__text_add(text, " ");
	if (words->other == NULL)
		weir__text_add_number(text, number);
	else
		weir__text_add(text, words->other);
}

size_t weir_limit_print(const struct weir_limit *limit, char *text)
{
	const unsigned algorithm = BIT((unsigned)limit->algorithm % WEIR__ALGORITHMS);
	/* Options whose values differ from what the parser assumes without them. */
	const bool differs[WEIR__OPTIONS] = {
		[WEIR__OPTION_BURST] = !limit->shape && limit->burst != limit->count,
		[WEIR__OPTION_QUEUE] = limit->shape,
		[WEIR__OPTION_REFILL] = limit->refill_interval,
		[WEIR__OPTION_ALIGN] = limit->align_first,
		[WEIR__OPTION_COUNT] = limit->count_all,
		[WEIR__OPTION_SEGMENTS] = limit->segments != 1,
	};
	struct weir__text out = { text, 0, WEIR_LIMIT_TEXT_MAX };

	weir__text_add_number(&out, limit->count);
	weir__text_add(&out, "/");
	add_period(&out, limit->period);
	if (limit->algorithm != WEIR_TOKEN_BUCKET) {
		weir__text_add(&out, " ");
		weir__text_add(&out, weir__algorithm_words[(unsigned)limit->algorithm % WEIR__ALGORITHMS]);
	}
	for (unsigned option = 0; option < WEIR__OPTIONS; option++)
		if (differs[option] && weir__option_words[option].algorithms & algorithm)
			add_option(&out, (enum weir__option)option,
				   option == WEIR__OPTION_SEGMENTS ? limit->segments : limit->burst);
	return out.length;
}

const char *weir_algorithm_name(enum weir_algorithm algorithm)
{
	return algorithm == WEIR_LEAKY_BUCKET ? "leaky_bucket" :
						weir__algorithm_words[(unsigned)algorithm % WEIR__ALGORITHMS];
}
