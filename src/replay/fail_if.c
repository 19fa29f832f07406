/* fail_if.c: conditions for CI. */
#include "replay/fail_if.h"

#include "core/nearest.h"
#include "core/notation.h"
#include "core/text.h"

static const struct metric {
	const char *name;
	const char *whole; /* the total for percentages */
	bool is_duration, of_limit, needs_old;
} metrics[WEIR__FAIL_METRICS] = {
	[WEIR__FAIL_REQUESTS] = { "requests", NULL, false, true, false },
	[WEIR__FAIL_DENIED] = { "denied", "requests", false, true, false },
	[WEIR__FAIL_DELAYED] = { "delayed", "requests", false, true, false },
	[WEIR__FAIL_UNDECIDED] = { "undecided", "requests", false, false, false },
	[WEIR__FAIL_UNMATCHED] = { "unmatched", "requests", false, false, false },
	[WEIR__FAIL_CLIENTS] = { "clients", NULL, false, false, false },
	[WEIR__FAIL_DENIED_CLIENTS] = { "denied_clients", "clients", false, false, false },
	[WEIR__FAIL_DENIED_KEYS] = { "denied_keys", NULL, false, true, false },
	[WEIR__FAIL_LONGEST_WAIT] = { "longest_wait", NULL, true, true, false },
	[WEIR__FAIL_LONGEST_DELAY] = { "longest_delay", NULL, true, true, false },
	[WEIR__FAIL_NEWLY_DENIED] = { "newly_denied", "requests", false, false, true },
	[WEIR__FAIL_NEWLY_ALLOWED] = { "newly_allowed", "requests", false, false, true },
	[WEIR__FAIL_NEWLY_DENIED_CLIENTS] = { "newly_denied_clients", "clients", false, false, true },
	[WEIR__FAIL_NEWLY_ALLOWED_CLIENTS] = { "newly_allowed_clients", "clients", false, false, true },
	[WEIR__FAIL_BAD_LINES] = { "bad_lines", "lines", false, false, false },
	[WEIR__FAIL_LATE_LINES] = { "late_lines", "lines", false, false, false },
	[WEIR__FAIL_EVICTED] = { "evicted", NULL, false, false, false },
};

struct reader {
	const char *start, *at;
	struct weir_message *message;
};

static int refuse(const struct reader *reader, const char *what, struct weir__slice word, const char *right)
{
	struct weir__text why = weir__text_of_message(reader->message, (size_t)(reader->at - reader->start));

	weir__text_add(&why, what);
	if (word.at)
		weir__text_add_quoted(&why, word.at, word.n);
	weir__text_add(&why, right);
	return WEIR_ERR_SYNTAX;
}

static int refuse_plain(const struct reader *reader, const char *what)
{
	return refuse(reader, what, (struct weir__slice){ NULL, 0 }, "");
}

static void skip_blanks(struct reader *reader)
{
	while (*reader->at == ' ')
		reader->at++;
}

static struct weir__slice take_word(struct reader *reader, const char *letters)
{
	const struct weir__slice word = { reader->at, strspn(reader->at, letters) };

	reader->at += word.n;
	return word;
}

static int take_metric(struct reader *reader, enum weir__fail_metric *ret_metric)
{
	const struct weir__slice word = take_word(reader, "abcdefghijklmnopqrstuvwxyz_");
	struct weir__nearest nearest = weir__nearest_of(word.at, word.n);

	for (enum weir__fail_metric i = 0; i < WEIR__FAIL_METRICS; i++) {
		if (weir__slice_is(word, metrics[i].name)) {
			*ret_metric = i;
			return WEIR_OK;
		}
		weir__nearest_offer(&nearest, metrics[i].name);
	}
	if (word.n == 0)
		return refuse_plain(reader, "expected a metric, as in denied_clients > 0.1%");
	reader->at = word.at;
	if (nearest.best == NULL)
		return refuse(reader, "unknown metric ", word, "; use one of weir replay --help");
	{
		struct weir__text why = weir__text_of_message(reader->message, (size_t)(word.at - reader->start));

		weir__text_add(&why, "unknown metric ");
		weir__text_add_quoted(&why, word.at, word.n);
		weir__text_add(&why, "; did you mean ");
		weir__text_add(&why, nearest.best);
		weir__text_add(&why, "?");
	}
	return WEIR_ERR_SYNTAX;
}

static int take_limit(struct reader *reader, struct weir__fail_comparison *comparison)
{
	const char *end;

	if (*reader->at != '[')
		return WEIR_OK;
	end = strchr(reader->at, ']');
	if (end == NULL)
		return refuse_plain(reader, "expected ] behind the name of the limit");
	if (!metrics[comparison->metric].of_limit)
		return refuse(reader, "single limits do not have the metric ",
			      weir__slice_of(metrics[comparison->metric].name), "; leave out the brackets");
	comparison->limit = (struct weir__slice){ reader->at + 1, (size_t)(end - reader->at - 1) };
	reader->at = end + 1;
	return WEIR_OK;
}

static int take_operator(struct reader *reader, struct weir__fail_comparison *comparison)
{
	const struct weir__slice word = take_word(reader, "<>=!");

	comparison->is_equal = weir__slice_is(word, "=") || weir__slice_is(word, "==") || weir__slice_is(word, ">=") ||
			       weir__slice_is(word, "<=");
	comparison->is_less = weir__slice_is(word, "<") || weir__slice_is(word, "<=") || weir__slice_is(word, "!=");
	comparison->is_greater = weir__slice_is(word, ">") || weir__slice_is(word, ">=") || weir__slice_is(word, "!=");
	if (comparison->is_equal || comparison->is_less || comparison->is_greater)
		return WEIR_OK;
	reader->at = word.at;
	return refuse_plain(reader, "expected one of > >= < <= == !=");
}

static int take_number(struct reader *reader, struct weir__fail_comparison *comparison)
{
	const struct weir__slice whole = take_word(reader, "0123456789");
	struct weir__slice part = { NULL, 0 };
	uint64_t number = 0, divisor = 1;

	if (whole.n > 0 && *reader->at == '.') {
		reader->at++;
		part = take_word(reader, "0123456789");
		if (part.n == 0)
			return refuse_plain(reader, "expected digits behind the point");
	}
	if (whole.n == 0)
		return refuse_plain(reader, "expected a number, as in denied_clients > 0.1%");
	if (whole.n > 12 || part.n > 6)
		return refuse_plain(reader, "a number has at most 12 digits, and 6 behind the point");
	for (size_t i = 0; i < whole.n; i++)
		number = number * 10 + (uint64_t)(whole.at[i] - '0');
	for (size_t i = 0; i < part.n; i++) {
		number = number * 10 + (uint64_t)(part.at[i] - '0');
		divisor *= 10;
	}
	comparison->number = number;
	comparison->divisor = divisor;
	return WEIR_OK;
}

static int take_unit(struct reader *reader, struct weir__fail_comparison *comparison)
{
	const struct metric *const metric = &metrics[comparison->metric];
	struct weir__slice word;

	skip_blanks(reader);
	if (*reader->at == '%') {
		if (metric->whole == NULL || (comparison->limit.at && metric->is_duration))
			return refuse(reader, "percentages are not possible for ", weir__slice_of(metric->name),
				      "; use a number");
		comparison->is_share = true;
		reader->at++;
		return WEIR_OK;
	}
	word = (struct weir__slice){ reader->at, strspn(reader->at, "abcdefghijklmnopqrstuvwxyz") };
	if (!metric->is_duration)
		return WEIR_OK;
	for (size_t i = 0; i < WEIR__PERIOD_WORDS; i++)
		if (weir__slice_is(word, weir__period_words[i].word)) {
			if (comparison->number > UINT64_MAX / weir__period_words[i].period)
				return refuse_plain(reader, "the duration is longer than 500 years");
			comparison->number *= weir__period_words[i].period;
			reader->at += word.n;
			return WEIR_OK;
		}
	return refuse(reader, "", weir__slice_of(metric->name),
		      " is a duration; use ns, us, ms, s, min, hour or day, as in 10s or 5min");
}

static int take_comparison(struct reader *reader, struct weir__fail_comparison *comparison)
{
	int error;

	skip_blanks(reader);
	comparison->text.at = reader->at;
	error = take_metric(reader, &comparison->metric);
	if (error == WEIR_OK)
		error = take_limit(reader, comparison);
	skip_blanks(reader);
	if (error == WEIR_OK)
		error = take_operator(reader, comparison);
	skip_blanks(reader);
	if (error == WEIR_OK)
		error = take_number(reader, comparison);
	if (error == WEIR_OK)
		error = take_unit(reader, comparison);
	comparison->text.n = (size_t)(reader->at - comparison->text.at);
	while (comparison->text.n > 0 && comparison->text.at[comparison->text.n - 1] == ' ')
		comparison->text.n--;
	skip_blanks(reader);
	return error;
}

int weir__fail_if_add(struct weir__fail_if *fail_if, const char *text, struct weir_message *ret_message)
{
	struct reader reader = { text, text, ret_message };

	for (;;) {
		struct weir__fail_comparison comparison = { 0 };
		int error;

		if (fail_if->n == WEIR__FAIL_MAX) {
			(void)refuse_plain(&reader, "more than 32 comparisons");
			return WEIR_ERR_FULL;
		}
		error = take_comparison(&reader, &comparison);
		if (error != WEIR_OK)
			return error;
		fail_if->of[fail_if->n++] = comparison;
		if (*reader.at == '\0')
			return WEIR_OK;
		if (strncmp(reader.at, "or ", 3) != 0)
			return refuse_plain(&reader, "expected `or` and another comparison, or the end");
		reader.at += 3;
	}
}

bool weir__fail_needs_old(const struct weir__fail_comparison *comparison)
{
	return metrics[comparison->metric].needs_old;
}

bool weir__fail_holds(const struct weir__fail_comparison *comparison, uint64_t value, uint64_t whole)
{
	/* At most 2^64 * 10^8 and 2^64 * 10^18: both fit. */
	const unsigned __int128 left = (unsigned __int128)value * comparison->divisor *
				       (comparison->is_share ? 100 : 1);
	const unsigned __int128 right = (unsigned __int128)comparison->number * (comparison->is_share ? whole : 1);

	return left < right ? comparison->is_less : left > right ? comparison->is_greater : comparison->is_equal;
}

const char *weir__fail_metric_name(enum weir__fail_metric metric)
{
	return metrics[metric].name;
}

const char *weir__fail_metric_whole(enum weir__fail_metric metric)
{
	return metrics[metric].whole;
}

bool weir__fail_metric_is_duration(enum weir__fail_metric metric)
{
	return metrics[metric].is_duration;
}
