/* tune_report.c: prints a proposal: the limit, why, the trade-off curve, what the replay said, and the policy. */
#include <inttypes.h>
#include <string.h>

#include "cli/tune.h"
#include "cli/words.h"
#include "core/wide.h"
#include "policy/policy.h"

enum { ROWS_SHOWN = 17, BAR_WIDTH = 24, NUMBER_SIZE = 64, CAUTION = 4 };

static const struct weir__tuning_point *best_of(const struct weir__tune_found *found)
{
	return &found->tuning->points[found->tuning->best];
}

static const struct weir__policy_limit *limit_of(const struct weir__tune_found *found)
{
	return &found->policy->limits[found->limit];
}

static bool has_bad(const struct weir__tune_found *found)
{
	return found->tuning->bad_requests > 0;
}

static uint64_t allowed_of(const struct weir__demand_tried *tried)
{
	return tried->requests + tried->marked - tried->denied - tried->marked_denied;
}

bool weir__tune_keeps(const struct weir__tune_found *found, enum weir__tune_part_name part_name)
{
	const struct weir__tuning_wish *const wish = found->wish;
	const struct weir__tune_part *const part = &found->check->parts[part_name];

	if (wish->has_denied_keys &&
	    weir__mul(part->keys_denied, WEIR__TUNING_PPM) > weir__mul(part->keys, wish->denied_keys_ppm))
		return false;
	if (wish->has_denied &&
	    weir__mul(part->tried.denied, WEIR__TUNING_PPM) > weir__mul(part->tried.requests, wish->denied_ppm))
		return false;
	if (wish->passed.count > 0 && part->passed_most > wish->passed.count)
		return false;
	return !wish->has_wait || weir__tuning_waits_keep(wish, part->tried.late, allowed_of(&part->tried));
}

/* --- numbers ----------------------------------------------------------------------------------------------------- */

/* A share in percent, rounded to hundredths: 0.13 %. */
static const char *percent(uint64_t part, uint64_t of, char text[NUMBER_SIZE])
{
	const uint64_t hundredths = of == 0 ? 0 : (uint64_t)((weir__mul(part, 10000) + of / 2) / of);

	(void)snprintf(text, NUMBER_SIZE, "%" PRIu64 ".%02" PRIu64 " %%", hundredths / 100, hundredths % 100);
	return text;
}

/* 12 of 3400 (0.35 %) */
static const char *share(uint64_t part, uint64_t of, char text[NUMBER_SIZE])
{
	char number[NUMBER_SIZE];

	(void)snprintf(text, NUMBER_SIZE, "%" PRIu64 " of %" PRIu64 " (%.12s)", part, of, percent(part, of, number));
	return text;
}

static const char *instant(weir_ns at, char text[WEIR__WORDS_SIZE])
{
	weir__words_instant(at, text);
	memcpy(text + strlen("2026-11-16T00:31:00"), "Z", 2);
	return text;
}

static const char *span(weir_ns span, char text[WEIR__WORDS_SIZE])
{
	weir__words_span(span, text);
	return text;
}

static const char *limit_text(const struct weir__tuning_point *point, char text[WEIR_LIMIT_TEXT_MAX])
{
	weir_limit_print(&point->limit, text);
	return text;
}

/* --- why --------------------------------------------------------------------------------------------------------- */

/* The best of the other algorithm, if there is one. */
static const struct weir__tuning_point *rival_of(const struct weir__tune_found *found)
{
	const struct weir__tuning *const tuning = found->tuning;
	const bool is_on_curve = tuning->best < tuning->n_curve;
	const struct weir__tuning_point *rival = NULL;

	for (size_t i = is_on_curve ? tuning->n_curve : 0; i < (is_on_curve ? tuning->n : tuning->n_curve); i++) {
		const struct weir__tuning_point *const point = &tuning->points[i];
		const uint64_t denied = point->tried.denied + point->tried.marked_denied;
		bool is_better = rival == NULL;

		if (!point->keeps)
			continue;
		if (rival && !weir__tuning_is_of_shares(found->wish))
			is_better = denied < rival->tried.denied + rival->tried.marked_denied;
		else if (rival && has_bad(found))
			is_better = point->tried.marked_denied > rival->tried.marked_denied;
		else if (rival)
			is_better = point->most < rival->most;
		if (is_better)
			rival = point;
	}
	return rival;
}

static void print_merit(const struct weir__tune_found *found, const struct weir__tuning_point *point)
{
	char text[NUMBER_SIZE];

	if (!weir__tuning_is_of_shares(found->wish))
		printf("denies %s requests", share(point->tried.denied, point->tried.requests, text));
	else if (has_bad(found))
		printf("denies %s bad requests", share(point->tried.marked_denied, point->tried.marked, text));
	else
		printf("lets %s take %" PRIu64 " in %s",
		       limit_of(found)->n_parts > 0 ? "one client" : "all clients together", point->most,
		       span(found->wish->horizon, text));
}

/* With one less, more would be denied than may. */
static void print_least(const struct weir__tune_found *found, const char *what, uint64_t least)
{
	printf("  %-9s  %" PRIu64 " is the least", what, least);
	if (least > 1 && !found->wish->has_denied)
		printf(": with %" PRIu64 ", more than %" PRIu64 " clients would be denied", least - 1,
		       found->tuning->keys_may);
	else if (least > 1 && !found->wish->has_denied_keys)
		printf(": with %" PRIu64 ", more than %" PRIu64 " requests would be denied", least - 1,
		       found->tuning->requests_may);
	else if (least > 1)
		printf(": with %" PRIu64 ", more clients or requests would be denied than may", least - 1);
	puts(".");
}

/* A small share of the clients may send a large share of the requests. */
static void print_caution(const struct weir__tune_found *found)
{
	const struct weir__demand_tried *const tried = &best_of(found)->tried;
	char text[NUMBER_SIZE];

	if (weir__mul(tried->denied, WEIR__TUNING_PPM) <=
		    weir__mul(tried->requests, CAUTION * (uint64_t)found->wish->denied_keys_ppm) ||
	    tried->denied == 0 || found->wish->has_denied)
		return;
	printf("  caution    the clients that are denied send a lot: %s of all requests are denied.\n"
	       "             If they may, give them a limit or an override of their own, and tune the rest.\n",
	       percent(tried->denied, tried->requests, text));
}

static void print_why_denied(const struct weir__tune_found *found)
{
	const struct weir__tuning *const tuning = found->tuning;
	const struct weir__tuning_point *const best = best_of(found);

	if (found->wish->has_denied_keys)
		printf("  clients    %" PRIu64 " of %" PRIu64 " may be denied.\n", tuning->keys_may, tuning->keys);
	if (found->wish->has_denied)
		printf("  requests   %" PRIu64 " of %" PRIu64 " may be denied.\n", tuning->requests_may,
		       tuning->requests);
	if (best->limit.algorithm == WEIR_TOKEN_BUCKET) {
		print_least(found, "burst", best->limit.burst);
		fputs("  rate       of all pairs of rate and least burst, this one ", stdout);
	} else {
		print_least(found, "count", best->limit.count);
		fputs("  algorithm  a sliding log ", stdout);
	}
	print_merit(found, best);
	puts(".");
	print_caution(found);
}

/* Whether another point of the curve denies as few as the best. */
static bool is_tied(const struct weir__tune_found *found)
{
	const struct weir__tuning *const tuning = found->tuning;
	size_t n = 0;

	if (tuning->best >= tuning->n_curve)
		return false;
	for (size_t i = 0; i < tuning->n_curve; i++)
		n += tuning->points[i].tried.denied == best_of(found)->tried.denied;
	return n > 1;
}

static void print_why_passed(const struct weir__tune_found *found)
{
	const struct weir__tuning_point *const best = best_of(found);
	char rate[WEIR__WORDS_SIZE];

	switch (best->limit.algorithm) {
	case WEIR_SLIDING_LOG:
		printf("  algorithm  a sliding log never passes more than %" PRIu64 " in any %s, wherever it begins.\n",
		       best->limit.count, span(best->limit.period, rate));
		break;
	case WEIR_TOKEN_BUCKET:
		printf("  algorithm  a bucket passes at most its burst and what flows in: %" PRIu64 " + %" PRIu64
		       " in any %s.\n",
		       best->limit.burst, best->limit.count, span(best->limit.period, rate));
		break;
	default:
		printf("  algorithm  a queue lets requests pass evenly, never more than %" PRIu64 " in any %s.\n",
		       best->limit.count, span(best->limit.period, rate));
		printf("  queue      %" PRIu64
		       " places: with more, too many requests would wait longer, or none would be denied.\n",
		       best->limit.burst);
		break;
	}
	fputs("  denials    it ", stdout);
	print_merit(found, best);
	puts(".");
	if (is_tied(found))
		puts("  growth     other bursts deny as few: this one would deny fewest if traffic doubled, and doubled again.");
}

static void print_why_wait(const struct weir__tune_found *found)
{
	const struct weir__tuning_point *const best = best_of(found);
	char text[WEIR__WORDS_SIZE], number[NUMBER_SIZE];

	printf("  rate       the least at which %s", percent(found->wish->wait_ppm, WEIR__TUNING_PPM, number));
	printf(" of the requests wait no longer than %s.\n", span(found->wish->wait, text));
	printf("  queue      %" PRIu64 " places deny none: the longest wait would be %s.\n", best->limit.burst,
	       span(best->tried.longest_delay, text));
}

static void print_rival(const struct weir__tune_found *found)
{
	const struct weir__tuning_point *const rival = rival_of(found);
	char text[WEIR_LIMIT_TEXT_MAX];

	if (rival == NULL)
		return;
	printf("  instead    %s ", limit_text(rival, text));
	print_merit(found, rival);
	if (rival->limit.algorithm == WEIR_SLIDING_LOG)
		printf(", but needs up to %" PRIu64 " bytes%s", 24 + 16 * rival->limit.count,
		       limit_of(found)->n_parts > 0 ? " a client" : "");
	puts(".");
}

static void print_wishes(const struct weir__tune_found *found)
{
	const struct weir__tuning_wish *const wish = found->wish;
	char text[WEIR__WORDS_SIZE];

	printf("  wish       ");
	for (size_t i = 0; i < found->options->n_wishes; i++) {
		fputs(i > 0 ? ", " : "", stdout);
		weir__words_safe(stdout, found->options->wishes[i]);
	}
	if (has_bad(found)) {
		printf("; deny most from %s", instant(wish->bad.from, text));
		printf(" to %s", instant(wish->bad.until, text));
	}
	puts("");
}

/* --- the curve --------------------------------------------------------------------------------------------------- */

/* The logarithm of a number of 1 or more, in quarters of a doubling. */
static unsigned quarters_of(uint64_t number)
{
	const unsigned doublings = 63u - (unsigned)__builtin_clzll(number);
	const uint64_t wide = doublings < 2 ? number << (2 - doublings) : number >> (doublings - 2);

	return 4 * doublings + (unsigned)(wide & 3);
}

static void print_bar(uint64_t number, uint64_t most)
{
	static const char bar[] = "########################";

	printf("  %.*s", (int)(1 + quarters_of(number) * (BAR_WIDTH - 1) / (quarters_of(most) + 1)), bar);
}

static void print_curve_row(const struct weir__tune_found *found, const struct weir__tuning_point *point,
			    uint64_t burst_most)
{
	const struct weir__demand_tried *const tried = &point->tried;
	char rate[WEIR_LIMIT_TEXT_MAX], number[NUMBER_SIZE];
	const struct weir_limit plain = weir_limit_of(WEIR_TOKEN_BUCKET, point->limit.count, point->limit.period);

	weir_limit_print(&plain, rate);
	printf("%c %12s %10" PRIu64, point == best_of(found) ? '>' : ' ', rate, point->limit.burst);
	if (weir__tuning_is_of_shares(found->wish))
		printf(" %12" PRIu64 " %10" PRIu64, point->most, point->keys_denied);
	printf(" %10s", percent(tried->denied, tried->requests, number));
	if (has_bad(found))
		printf(" %10s", percent(tried->marked_denied, tried->marked, number));
	if (found->wish->has_wait)
		printf(" %10s", percent(tried->late, allowed_of(tried), number));
	print_bar(point->limit.burst, burst_most);
	puts("");
}

/* The rows around the best one. --json has all. */
static void print_curve(const struct weir__tune_found *found)
{
	const struct weir__tuning *const tuning = found->tuning;
	const size_t n = tuning->n_curve < ROWS_SHOWN ? tuning->n_curve : ROWS_SHOWN;
	const size_t best = tuning->best < tuning->n_curve ? tuning->best : tuning->n_curve / 2;
	size_t from = best > n / 2 ? best - n / 2 : 0;
	uint64_t burst_most = 1;
	char text[WEIR__WORDS_SIZE];

	if (n == 0)
		return;
	if (from + n > tuning->n_curve)
		from = tuning->n_curve - n;
	for (size_t i = from; i < from + n; i++)
		if (tuning->points[i].limit.burst > burst_most)
			burst_most = tuning->points[i].limit.burst;
	printf("\n  %12s %10s", "rate",
	       weir__tuning_is_of_shares(found->wish) || found->wish->passed.count > 0 ? "burst" : "queue");
	if (weir__tuning_is_of_shares(found->wish))
		printf(" %12s %10s", "most in", "clients");
	printf(" %10s", "requests");
	if (has_bad(found))
		printf(" %10s", "bad");
	if (found->wish->has_wait)
		printf(" %10s", "wait more");
	printf("\n  %12s %10s", "", "");
	if (weir__tuning_is_of_shares(found->wish))
		printf(" %12s %10s", span(found->wish->horizon, text), "denied");
	printf(" %10s", "denied");
	if (has_bad(found))
		printf(" %10s", "denied");
	if (found->wish->has_wait)
		printf(" %10.9s", span(found->wish->wait, text));
	puts("");
	for (size_t i = from; i < from + n; i++)
		print_curve_row(found, &tuning->points[i], burst_most);
	if (n < tuning->n_curve)
		printf("  %zu more rates are in the output of --json\n", tuning->n_curve - n);
}

/* --- the replay -------------------------------------------------------------------------------------------------- */

static void print_part(const struct weir__tune_found *found, enum weir__tune_part_name name)
{
	const struct weir__tune_part *const part = &found->check->parts[name];
	const struct weir__demand_tried *const tried = &part->tried;
	const bool is_held_out = name == WEIR__TUNE_HELD_OUT;
	char from[WEIR__WORDS_SIZE], to[WEIR__WORDS_SIZE], number[NUMBER_SIZE];

	printf("  %s  %s to %s\n", is_held_out ? "held out " : "chosen by",
	       instant(is_held_out ? found->wish->until : found->first, from),
	       instant(is_held_out || found->wish->until == UINT64_MAX ? found->last : found->wish->until, to));
	printf("             requests denied: %s\n", share(tried->denied, tried->requests, number));
	if (weir__tuning_is_of_shares(found->wish))
		printf("             clients denied: %s%s\n", share(part->keys_denied, part->keys, number),
		       found->check->keys.shift > 0 ? ", of a sample" : "");
	if (tried->marked > 0)
		printf("             bad requests denied: %s\n", share(tried->marked_denied, tried->marked, number));
	if (found->wish->passed.count > 0)
		printf("             most that passed in any %s: %s%" PRIu64 "\n",
		       span(found->wish->passed.period, from),
		       part->passed_most > found->wish->passed.count ? "more than " : "",
		       part->passed_most > found->wish->passed.count ? found->wish->passed.count : part->passed_most);
	if (found->wish->has_wait)
		printf("             waited longer than %s: %s; longest: %s\n", span(found->wish->wait, from),
		       share(tried->late, allowed_of(tried), number), span(tried->longest_delay, to));
	printf("             the wish is %s\n", weir__tune_keeps(found, name) ? "kept" : "MISSED");
}

static void print_replay(const struct weir__tune_found *found)
{
	char size[WEIR__WORDS_SIZE];

	printf("\nReplayed with the proposal%s:\n",
	       found->policy->n_limits > 1 ? " and the other limits of the policy" : "");
	print_part(found, WEIR__TUNE_CHOSEN_BY);
	if (found->options->hold_out > 0)
		print_part(found, WEIR__TUNE_HELD_OUT);
	weir__words_size(found->bytes, size);
	printf("\nThe limit applies to %" PRIu64 " of %" PRIu64 " requests in the log. They took %s of memory.\n",
	       found->applies, found->totals.records, size);
	if (found->elsewhere > 0)
		printf("Not tuned: %" PRIu64 " requests to which an override of the limit applies.\n",
		       found->elsewhere);
	if (found->shift > 0)
		printf("They did not fit --memory: one of %" PRIu64
		       " clients was used to choose, selected by a hash.\n",
		       UINT64_C(1) << found->shift);
	if (found->totals.bad > 0)
		printf("Lines that could not be read: %" PRIu64 ".\n", found->totals.bad);
	if (found->check->undecided > 0)
		printf("Requests that the policy cannot decide: %" PRIu64 ".\n", found->check->undecided);
	if (found->totals.late > 0)
		printf("Lines later than --reorder: %" PRIu64 ". They count at the time of the line before.\n",
		       found->totals.late);
	if (found->evicted > 0)
		printf("The table of the replay was short of memory and evicted %" PRIu64
		       " keys: fewer requests were denied.\n",
		       found->evicted);
	if (found->was_spread)
		puts("The log has whole seconds: the n requests of a second are spread evenly over it. Real bursts are sharper,\n"
		     "so allow some more, or log fractions of a second.");
}

/* --- the policy -------------------------------------------------------------------------------------------------- */

/* A name as YAML: in quotes, unless it is plain. */
static void print_name(FILE *out, const char *name, size_t n)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-.0123456789";
	const bool begins_with_letter = n > 0 && strchr("-.0123456789", name[0]) == NULL;
	size_t i = 0;

	while (i < n && name[i] != '\0' && strchr(plain, name[i]))
		i++;
	if (i == n && begins_with_letter) {
		fwrite(name, 1, n, out);
		return;
	}
	putc('\'', out);
	for (i = 0; i < n; i++)
		fputs(name[i] == '\'' ? "''" : (char[]){ name[i], '\0' }, out);
	putc('\'', out);
}

void weir__tune_report_policy(FILE *out, const struct weir__tune_found *found)
{
	const struct weir__policy_limit *const limit = limit_of(found);
	const char *const name = weir_policy_limit_name(found->policy, found->limit);
	char text[WEIR_LIMIT_TEXT_MAX];
	const struct weir_limit *const proposed = &best_of(found)->limit;

	fputs("limits:\n  - name: ", out);
	print_name(out, name, strlen(name));
	fputs("\n    mode: shadow # decides and counts, but never denies; remove this line to enforce\n", out);
	for (unsigned i = 0; i < limit->n_parts; i++) {
		const struct weir__slice part = found->policy->attributes.of[limit->parts[i].attribute].name;

		fputs(i == 0 ? "    key: [" : ", ", out);
		print_name(out, part.at, part.n);
	}
	fprintf(out, "%s    limit: %s\n", limit->n_parts > 0 ? "]\n" : "", limit_text(best_of(found), text));
	if (proposed->shape) {
		const weir_ns ms = 1000000, longest = best_of(found)->tried.longest_delay;

		fputs("    wait: ", out);
		weir__tune_duration(out, longest < ms ? ms : (longest + ms - 1) / ms * ms);
		fputs("\n", out);
	}
}

void weir__tune_report_text(const struct weir__tune_found *found)
{
	char text[WEIR_LIMIT_TEXT_MAX];

	printf("%s: %s\n\n", weir_policy_limit_name(found->policy, found->limit), limit_text(best_of(found), text));
	print_wishes(found);
	if (weir__tuning_is_of_shares(found->wish))
		print_why_denied(found);
	else if (found->wish->passed.count > 0)
		print_why_passed(found);
	else
		print_why_wait(found);
	print_rival(found);
	print_curve(found);
	print_replay(found);
	if (found->options->policy)
		printf("\nIn the policy, change the limit in line %" PRIu32
		       ". As a policy of its own, without match and overrides:\n\n",
		       limit_of(found)->at.line);
	else
		puts("");
	weir__tune_report_policy(stdout, found);
}

/* --- JSON -------------------------------------------------------------------------------------------------------- */

static void json_tried(struct weir__json *json, const struct weir__tune_found *found,
		       const struct weir__demand_tried *tried)
{
	weir__json_number(json, "requests", tried->requests);
	weir__json_number(json, "denied", tried->denied);
	if (has_bad(found)) {
		weir__json_number(json, "bad_requests", tried->marked);
		weir__json_number(json, "bad_denied", tried->marked_denied);
	}
	if (found->wish->has_wait) {
		weir__json_number(json, "waited_longer", tried->late);
		weir__json_number(json, "longest_wait_ns", tried->longest_delay);
	}
}

static void json_points(struct weir__json *json, const struct weir__tune_found *found, const char *name, size_t from,
			size_t to)
{
	char text[WEIR_LIMIT_TEXT_MAX];

	weir__json_open(json, name, '[');
	for (size_t i = from; i < to; i++) {
		const struct weir__tuning_point *const point = &found->tuning->points[i];

		weir__json_open(json, NULL, '{');
		weir__json_text(json, "limit", limit_text(point, text));
		weir__json_text(json, "algorithm", weir_algorithm_name(point->limit.algorithm));
		weir__json_number(json, "count", point->limit.count);
		weir__json_number(json, "period_ns", point->limit.period);
		weir__json_number(json, "burst", point->limit.burst);
		weir__json_number(json, "most_in_horizon", point->most);
		if (weir__tuning_is_of_shares(found->wish))
			weir__json_number(json, "clients_denied", point->keys_denied);
		json_tried(json, found, &point->tried);
		weir__json_word(json, "keeps_wish", point->keeps ? "true" : "false");
		weir__json_close(json, '}');
	}
	weir__json_close(json, ']');
}

static void json_part(struct weir__json *json, const struct weir__tune_found *found, const char *name,
		      enum weir__tune_part_name part_name)
{
	const struct weir__tune_part *const part = &found->check->parts[part_name];

	weir__json_open(json, name, '{');
	json_tried(json, found, &part->tried);
	if (weir__tuning_is_of_shares(found->wish)) {
		weir__json_number(json, "clients", part->keys);
		weir__json_number(json, "clients_denied", part->keys_denied);
	}
	if (found->wish->passed.count > 0)
		weir__json_number(json, "most_passed", part->passed_most);
	weir__json_word(json, "keeps_wish", weir__tune_keeps(found, part_name) ? "true" : "false");
	weir__json_close(json, '}');
}

void weir__tune_report_json(const struct weir__tune_found *found)
{
	const struct weir__tuning *const tuning = found->tuning;
	struct weir__json json = { .out = stdout };
	char text[WEIR_LIMIT_TEXT_MAX];

	weir__json_open(&json, NULL, '{');
	weir__json_text(&json, "name", weir_policy_limit_name(found->policy, found->limit));
	weir__json_text(&json, "limit", limit_text(best_of(found), text));
	weir__json_open(&json, "wishes", '[');
	for (size_t i = 0; i < found->options->n_wishes; i++)
		weir__json_text(&json, NULL, found->options->wishes[i]);
	weir__json_close(&json, ']');
	weir__json_number(&json, "horizon_ns", found->wish->horizon);
	weir__json_number(&json, "requests", found->totals.records);
	weir__json_number(&json, "bad_lines", found->totals.bad);
	weir__json_number(&json, "late_lines", found->totals.late);
	weir__json_number(&json, "applies", found->applies);
	weir__json_number(&json, "overridden", found->elsewhere);
	weir__json_number(&json, "clients_sampled_one_of", UINT64_C(1) << found->shift);
	weir__json_number(&json, "memory_bytes", found->bytes);
	weir__json_word(&json, "times_were_spread", found->was_spread ? "true" : "false");
	json_part(&json, found, "chosen_by", WEIR__TUNE_CHOSEN_BY);
	if (found->options->hold_out > 0)
		json_part(&json, found, "held_out", WEIR__TUNE_HELD_OUT);
	json_points(&json, found, "curve", 0, tuning->n_curve);
	json_points(&json, found, "alternatives", tuning->n_curve, tuning->n);
	weir__json_close(&json, '}');
}
