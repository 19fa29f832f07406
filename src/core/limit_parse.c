/* limit_parse.c: parses the notation of limit.h. Every error names the position and what was expected there. */
#include <weir/limit.h>

#include "core/argument.h"
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

static int parse_period(const struct parser *parser, const struct word *word, weir_ns *ret_period)
{
	uint64_t number = 1;
	const size_t digits = read_number(word, &number);
	const struct word unit = rest_of(word, digits);

	if (digits == 0)
		number = 1;
	for (size_t i = 0; i < WEIR__PERIOD_WORDS; i++) {
		if (!is(&unit, weir__period_words[i].word))
			continue;
		if (__builtin_mul_overflow(number, weir__period_words[i].period, ret_period))
			return refuse(parser, word, "a period of more than 18446744073709551615 ns; use a shorter one");
		return WEIR_OK;
	}
	return refuse(parser, word, "unknown period; use ns, us, ms, s, min, hour or day, as in 10/30s");
}

/* COUNT/PERIOD */
static int parse_rate(struct parser *parser, struct weir_limit *limit)
{
	const struct word word = next_word(parser);
	const size_t digits = read_number(&word, &limit->count);
	struct word period;

	if (digits == 0 || digits == word.length || word.start[digits] != '/')
		return refuse(parser, &word,
			      "expected a rate, COUNT/PERIOD with a count up to 18446744073709551615, as in 100/min");
	period = rest_of(&word, digits + 1);
	return parse_period(parser, &period, &limit->period);
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
			return refuse(parser, name, "given twice; each option may come once");
		*given |= 1u << i;
		if ((*given & burst_or_queue) == burst_or_queue)
			return refuse(parser, name, "burst and queue exclude each other: burst polices, queue shapes");
		return parse_value(parser, limit, (enum weir__option)i);
	}
	return refuse_unknown(parser, name, limit->algorithm, may_be_algorithm);
}

int weir_limit_parse(const char *text, size_t length, struct weir_limit *ret_limit, struct weir_message *ret_message)
{
	if (length > 0)
		WEIR__NOT_NULL(text, ret_message);
	WEIR__NOT_NULL(ret_limit, ret_message);

	struct parser parser = { text, length, 0, ret_message };
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
