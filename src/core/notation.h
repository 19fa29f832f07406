/* notation.h: the words of a limit's notation, as tables for both parsing (limit_parse.c) and printing (limit.c). */
#ifndef WEIR_CORE_NOTATION_H
#define WEIR_CORE_NOTATION_H

#include <weir/limit.h>

struct weir__period_word {
	const char *word;
	weir_ns period;
};

/* Longest first: a period prints in the first unit that divides it. libweir-redis parses its durations by the same
 * table. */
#define WEIR__PERIOD_WORDS 7
extern WEIR_API const struct weir__period_word weir__period_words[WEIR__PERIOD_WORDS];

/* Other words for periods, which are parsed but never printed, so that a limit has one shortest form. */
#define WEIR__PERIOD_ALIASES 16
extern WEIR_API const struct weir__period_word weir__period_aliases[WEIR__PERIOD_ALIASES];

#define WEIR__ALGORITHMS 5
extern const char *const weir__algorithm_words[WEIR__ALGORITHMS];

enum weir__option {
	WEIR__OPTION_BURST,
	WEIR__OPTION_QUEUE,
	WEIR__OPTION_REFILL,
	WEIR__OPTION_ALIGN,
	WEIR__OPTION_COUNT,
	WEIR__OPTION_SEGMENTS,
	WEIR__OPTIONS
};

struct weir__option_word {
	const char *word;
	unsigned algorithms;       /* 1 << algorithm for each algorithm that has the option */
	const char *plain, *other; /* the two words that it accepts as value; NULL: it takes a number */
};

extern const struct weir__option_word weir__option_words[WEIR__OPTIONS];

/* Whether the limit is a bucket, whose maximum is its burst. All others are windows, whose maximum is their count. */
static inline bool weir__limit_is_bucket(const struct weir_limit *limit)
{
	return limit->algorithm == WEIR_TOKEN_BUCKET || limit->algorithm == WEIR_LEAKY_BUCKET;
}

#endif
