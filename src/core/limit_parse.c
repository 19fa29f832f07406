/* limit_parse.c: parses the notation of limit.h. Every error names the position and what was expected there. */
#include <weir/limit.h>

#include "core/argument.h"
#include "core/duration.h"
#include "core/notation.h"
#include "core/text.h"

struct parser {
	const char *text;
	size_t length;
	size_t at;
	struct weir_message *ret_message;
};

struct word {
	const char *start;
	size_t length;
	size_t at;
};

/* Begins an error message. It quotes the word `found`, unless the text has ended. The caller may append what was
 * expected. */
static struct weir__text refusal(const struct parser *parser, const struct word *found, const char *what)
{
	struct weir__text why = weir__text_of_message(parser->ret_message, found->at);

	weir__text_add(&why, "at ");
	weir__text_add_number(&why, found->at);
	weir__text_add(&why, ": ");
	if (found->length > 0) {
		weir__text_add_quoted(&why, found->start, found->length);
		weir__text_add(&why, ": ");
	} else {
		weir__text_add(&why, "the text ends here: ");
	}
	weir__text_add(&why, what);
	return why;
}

static int refuse(const struct parser *parser, const struct word *found, const char *what)
{
	refusal(parser, found, what);
	return WEIR_ERR_SYNTAX;
}

/* Returns the next word, empty at the end. */
static struct word next_word(struct parser *parser)
{
	struct word word;

	while (parser->at < parser->length && parser->text[parser->at] == ' ')
		parser->at++;
	word.start = parser->text + parser->at;
	word.at = parser->at;
	while (parser->at < parser->length && parser->text[parser->at] != ' ')
		parser->at++;
	word.length = parser->at - word.at;
	return word;
}

static struct word rest_of(const struct word *word, size_t skipped)
{
	return (struct word){ word->start + skipped, word->length - skipped, word->at + skipped };
}

static bool is(const struct word *word, const char *name)
{
	for (size_t i = 0; i < word->length; i++)
		if (name[i] == '\0' || word->start[i] != name[i]) /* a word may also contain a NUL */
			return false;
	return name[word->length] == '\0';
}

/* Reads digits. Returns how many there were, or 0 if the number is above 2^64-1. */
static size_t read_number(const struct word *word, uint64_t *ret_number)
{
	uint64_t number = 0;
	size_t n = 0;

	for (; n < word->length && word->start[n] >= '0' && word->start[n] <= '9'; n++)
		if (__builtin_mul_overflow(number, UINT64_C(10), &number) ||
		    __builtin_add_overflow(number, (uint64_t)(word->start[n] - '0'), &number))
			return 0;
	*ret_number = number;
	return n;
}

/* Rejects words that people use for periods of unknown length. */
static int refuse_period(const struct parser *parser, const struct word *word, const struct word *unit)
{
	if (is(unit, "m"))
		return refuse(parser, word, "min or month? Use min, or 30day for a month");
	if (is(unit, "month") || is(unit, "months") || is(unit, "mo"))
		return refuse(parser, word, "months differ in length; use days, as in 1000/30day");
	if (is(unit, "year") || is(unit, "years") || is(unit, "y"))
		return refuse(parser, word, "years differ in length; use days, as in 1000/365day");
	return refuse(parser, word, "unknown period; use ns, us, ms, s, min, hour, day or week, as in 10/30s");
}

/* Parses an optional number, 1 by default, and a unit. The period is `times` as long. */
static int parse_period(const struct parser *parser, const struct word *word, uint64_t times, weir_ns *ret_period)
{
	uint64_t number = 1;
	const size_t digits = read_number(word, &number);
	const struct word unit = rest_of(word, digits);
	weir_ns period = weir__duration_unit(unit.start, unit.length);

	if (period == 0)
		return refuse_period(parser, word, &unit);
	if (digits == 0)
		number = 1;
	if (__builtin_mul_overflow(number, period, &period) || __builtin_mul_overflow(times, period, ret_period))
		return refuse(parser, word, "the period exceeds 18446744073709551615 ns; use a shorter one");
	return WEIR_OK;
}

/* Reads the decimals of a count, which follow a point, and makes a fraction of both: 2.5 is 5 in 2 periods. Returns
 * their length in bytes, with the point, or 0 if there are none or the fraction is too large. */
static size_t read_decimals(const struct word *word, uint64_t *count, uint64_t *ret_periods)
{
	uint64_t number = *count, periods = 1;
	size_t n = 1;

	for (; n < word->length && word->start[n] >= '0' && word->start[n] <= '9'; n++)
		if (__builtin_mul_overflow(number, UINT64_C(10), &number) ||
		    __builtin_add_overflow(number, (uint64_t)(word->start[n] - '0'), &number) ||
		    __builtin_mul_overflow(periods, UINT64_C(10), &periods))
			return 0;
	for (unsigned factor = 2; factor <= 5; factor += 3) /* 10 has no others */
		while (periods % factor == 0 && number % factor == 0) {
			periods /= factor;
			number /= factor;
		}
	*count = number;
	*ret_periods = periods;
	return n > 1 ? n : 0;
}

/* COUNT/PERIOD */
static int parse_rate(struct parser *parser, struct weir_limit *limit)
{
	const struct word word = next_word(parser);
	size_t digits = read_number(&word, &limit->count);
	struct word rest = rest_of(&word, digits);
	uint64_t periods = 1;

	if (digits > 0 && rest.length > 0 && *rest.start == '.') {
		const size_t decimals = read_decimals(&rest, &limit->count, &periods);

		if (decimals == 0)
			return refuse(parser, &word,
				      "expected a count of at most 19 digits, or whole numbers, as in 1/2s for 0.5/s");
		digits += decimals;
		rest = rest_of(&word, digits);
	}
	if (digits == 0 || rest.length == 0 || *rest.start != '/')
		return refuse(parser, &word,
			      "expected a rate, COUNT/PERIOD with a count up to 18446744073709551615, as in 100/min");
	rest = rest_of(&rest, 1);
	return parse_period(parser, &rest, periods, &limit->period);
}

/* True if the word is the name of an algorithm. */
static bool read_algorithm(const struct word *word, enum weir_algorithm *ret_algorithm)
{
	for (unsigned i = 0; i < WEIR__ALGORITHMS; i++)
		if (is(word, weir__algorithm_words[i]) || is(word, weir_algorithm_name((enum weir_algorithm)i))) {
			*ret_algorithm = (enum weir_algorithm)i;
			return true;
		}
	return false;
}

static void add_options_of(struct weir__text *why, enum weir_algorithm algorithm)
{
	const char *separator = " ";

	for (unsigned i = 0; i < WEIR__OPTIONS; i++)
		if (weir__option_words[i].algorithms & 1u << algorithm) {
			weir__text_add(why, separator);
			weir__text_add(why, weir__option_words[i].word);
			separator = ", ";
		}
}

static int refuse_unknown(const struct parser *parser, const struct word *word, enum weir_algorithm algorithm,
			  bool may_be_algorithm)
{
	struct weir__text why = refusal(parser, word, "expected");

	if (may_be_algorithm)
		weir__text_add(&why, " token_bucket, leaky, fixed_window, sliding_log, sliding_counter, or");
	weir__text_add(&why, " an option of ");
	weir__text_add(&why, weir__algorithm_words[algorithm]);
	weir__text_add(&why, ":");
	add_options_of(&why, algorithm);
	return WEIR_ERR_SYNTAX;
}

static void set_option(struct weir_limit *limit, enum weir__option option, bool other, uint64_t number)
{
	switch (option) {
	case WEIR__OPTION_QUEUE:
		limit->shape = true;
		limit->burst = number;
		break;
	case WEIR__OPTION_BURST:
		limit->burst = number;
		break;
	case WEIR__OPTION_REFILL:
		limit->refill_interval = other;
		break;
	case WEIR__OPTION_ALIGN:
		limit->align_first = other;
		break;
	case WEIR__OPTION_COUNT:
		limit->count_all = other;
		break;
	default: /* WEIR__OPTION_SEGMENTS */
		limit->segments = number;
		break;
	}
}

static int parse_value(struct parser *parser, struct weir_limit *limit, enum weir__option option)
{
	const struct weir__option_word *const words = &weir__option_words[option];
	const struct word value = next_word(parser);
	uint64_t number = 0;
	struct weir__text why;

	if (words->other == NULL) {
		const size_t digits = read_number(&value, &number);

		if (digits == 0 || digits != value.length)
			return refuse(parser, &value, "expected a number up to 18446744073709551615");
	} else if (!is(&value, words->plain) && !is(&value, words->other)) {
		why = refusal(parser, &value, "expected ");
		weir__text_add(&why, words->plain);
		weir__text_add(&why, " or ");
		weir__text_add(&why, words->other);
		return WEIR_ERR_SYNTAX;
	}
	set_option(limit, option, words->other != NULL && is(&value, words->other), number);
	return WEIR_OK;
}

static int parse_option(struct parser *parser, const struct word *name, struct weir_limit *limit, unsigned *given,
			bool may_be_algorithm)
{
	const unsigned burst_or_queue = 1u << WEIR__OPTION_BURST | 1u << WEIR__OPTION_QUEUE;

	for (unsigned i = 0; i < WEIR__OPTIONS; i++) {
		if (!is(name, weir__option_words[i].word) ||
		    !(weir__option_words[i].algorithms & 1u << limit->algorithm))
			continue;
		if (*given & 1u << i)
			return refuse(parser, name, "given twice; use each option at most once");
		*given |= 1u << i;
		if ((*given & burst_or_queue) == burst_or_queue)
			return refuse(parser, name, "burst and queue exclude each other: burst polices, queue shapes");
		return parse_value(parser, limit, (enum weir__option)i);
	}
	return refuse_unknown(parser, name, limit->algorithm, may_be_algorithm);
}

/* The length without newlines at the end: text often comes from a file or another program. */
static size_t without_newline(const char *text, size_t length)
{
	while (length > 0 && (text[length - 1] == '\n' || text[length - 1] == '\r'))
		length--;
	return length;
}

int weir_limit_parse(const char *text, size_t length, struct weir_limit *ret_limit, struct weir_message *ret_message)
{
	if (length > 0)
		WEIR__NOT_NULL(text, ret_message);
	WEIR__NOT_NULL(ret_limit, ret_message);

	struct parser parser = { text, without_newline(text, length), 0, ret_message };
	struct weir_limit limit = weir_limit_of(WEIR_TOKEN_BUCKET, 0, 0);
	bool may_be_algorithm = true;
	unsigned given = 0;
	int error = parse_rate(&parser, &limit);

	limit.burst = limit.count;
	while (error == WEIR_OK) {
		const struct word word = next_word(&parser);

		if (word.length == 0)
			break;
		if (!may_be_algorithm || !read_algorithm(&word, &limit.algorithm))
			error = parse_option(&parser, &word, &limit, &given, may_be_algorithm);
		may_be_algorithm = false;
	}
	if (error == WEIR_OK)
		*ret_limit = limit;
	return error;
}
