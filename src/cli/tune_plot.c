/* tune_plot.c: the trade-off curve as an SVG file: rate against burst, both logarithmic. It has no scripts and loads
 * nothing. Its colours follow the reader's light or dark mode. The only text from outside is the limit's name, which
 * cannot contain special characters of XML. */
#include <inttypes.h>

#include "cli/tune.h"
#include "core/wide.h"
#include "policy/policy.h"

#define SECOND UINT64_C(1000000000)
#define DAY (86400 * SECOND)

enum {
	WIDTH = 720,
	HEIGHT = 420,
	LEFT = 70,
	RIGHT = 30,
	TOP = 50,
	BOTTOM = 50,
	OCTAVE = 256, /* parts of a doubling */
};

/* The logarithm to base 2 of a number of 1 or more, linear within a doubling. */
static unsigned logarithm(uint64_t number)
{
	const unsigned doublings = 63u - (unsigned)__builtin_clzll(number);
	const uint64_t part = doublings >= 8 ? number >> (doublings - 8) : number << (8 - doublings);

	return doublings * OCTAVE + (unsigned)(part - OCTAVE);
}

/* Rates of a curve are 1/day or more. */
static unsigned rate_logarithm(uint64_t count, weir_ns period)
{
	const uint64_t a_day = weir__saturate(weir__mul(count, DAY) / period);

	return logarithm(a_day > 0 ? a_day : 1);
}

struct scale {
	unsigned least, most; /* logarithms */
};

static void widen(struct scale *scale, unsigned value)
{
	scale->least = value < scale->least ? value : scale->least;
	scale->most = value > scale->most ? value : scale->most;
}

static unsigned place(const struct scale *scale, unsigned value, unsigned length)
{
	const unsigned wide = scale->most - scale->least;

	return wide == 0 ? length / 2 : (value - scale->least) * length / wide;
}

static unsigned x_of(const struct scale *rates, unsigned value)
{
	return LEFT + place(rates, value, WIDTH - LEFT - RIGHT);
}

static unsigned y_of(const struct scale *bursts, unsigned value)
{
	return HEIGHT - BOTTOM - place(bursts, value, HEIGHT - TOP - BOTTOM);
}

static bool is_within(const struct scale *scale, unsigned value)
{
	return value >= scale->least && value <= scale->most;
}

static void put_rates(FILE *out, const struct scale *rates)
{
	static const struct {
		uint64_t count;
		weir_ns period;
		const char *name;
	} ticks[] = {
		{ 1, DAY, "1/day" },          { 1, DAY / 24, "1/hour" },      { 10, DAY / 24, "10/hour" },
		{ 1, DAY / 1440, "1/min" },   { 10, DAY / 1440, "10/min" },   { 1, SECOND, "1/s" },
		{ 10, SECOND, "10/s" },       { 100, SECOND, "100/s" },       { 1000, SECOND, "1000/s" },
		{ 10000, SECOND, "10000/s" }, { 100000, SECOND, "100000/s" },
	};

	for (size_t i = 0; i < sizeof(ticks) / sizeof(ticks[0]); i++) {
		const unsigned value = rate_logarithm(ticks[i].count, ticks[i].period);

		if (!is_within(rates, value))
			continue;
		fprintf(out, "<line x1='%u' y1='%d' x2='%u' y2='%d'/>\n", x_of(rates, value), TOP, x_of(rates, value),
			HEIGHT - BOTTOM);
		fprintf(out, "<text x='%u' y='%d' text-anchor='middle'>%s</text>\n", x_of(rates, value),
			HEIGHT - BOTTOM + 18, ticks[i].name);
	}
}

static void put_bursts(FILE *out, const struct scale *bursts)
{
	for (uint64_t burst = 1; burst < UINT64_MAX / 10; burst *= 10) {
		for (uint64_t times = 1; times <= 5; times += times == 1 ? 1 : 3) { /* 1, 2 and 5 */
			const unsigned value = logarithm(burst * times);

			if (!is_within(bursts, value))
				continue;
			fprintf(out, "<line x1='%d' y1='%u' x2='%d' y2='%u'/>\n", LEFT, y_of(bursts, value),
				WIDTH - RIGHT, y_of(bursts, value));
			fprintf(out, "<text x='%d' y='%u' text-anchor='end'>%" PRIu64 "</text>\n", LEFT - 8,
				y_of(bursts, value) + 4, burst * times);
		}
	}
}

static void put_points(FILE *out, const struct weir__tuning *tuning, const struct scale *rates,
		       const struct scale *bursts)
{
	fputs("<polyline points='", out);
	for (size_t i = 0; i < tuning->n_curve; i++) {
		const struct weir_limit *const limit = &tuning->points[i].limit;

		fprintf(out, "%u,%u ", x_of(rates, rate_logarithm(limit->count, limit->period)),
			y_of(bursts, logarithm(limit->burst)));
	}
	fputs("'/>\n", out);
	for (size_t i = 0; i < tuning->n_curve; i++) {
		const struct weir__tuning_point *const point = &tuning->points[i];
		char text[WEIR_LIMIT_TEXT_MAX];

		weir_limit_print(&point->limit, text);
		fprintf(out, "<circle class='%s' cx='%u' cy='%u' r='%d'><title>%s</title></circle>\n",
			i == tuning->best ? "best" :
			point->keeps      ? "keeps" :
					    "misses",
			x_of(rates, rate_logarithm(point->limit.count, point->limit.period)),
			y_of(bursts, logarithm(point->limit.burst)), i == tuning->best ? 7 : 4, text);
	}
}

void weir__tune_plot(FILE *out, const struct weir__tune_found *found)
{
	static const char head[] =
		"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 720 420' font-family='system-ui, sans-serif' font-size='12'>\n"
		"<style>\n"
		"svg { color-scheme: light dark; background: #ffffff; }\n"
		"text { fill: #57606b; } .title { fill: #1a1f26; font-size: 15px; }\n"
		"line { stroke: #dde1e6; } polyline { fill: none; stroke: #6fa5dd; stroke-width: 2; }\n"
		".keeps { fill: #6fa5dd; } .best { fill: #d9503f; } .misses { fill: #ffffff; stroke: #6fa5dd; }\n"
		"@media (prefers-color-scheme: dark) {\n"
		"svg { background: #161b21; } text { fill: #9ba6b2; } .title { fill: #e4e8ed; } line { stroke: #2a323b; }\n"
		".misses { fill: #161b21; }\n"
		"}\n"
		"</style>\n";
	const struct weir__tuning *const tuning = found->tuning;
	struct scale rates = { UINT32_MAX, 0 }, bursts = { UINT32_MAX, 0 };
	char text[WEIR_LIMIT_TEXT_MAX];

	for (size_t i = 0; i < tuning->n_curve; i++) {
		const struct weir_limit *const limit = &tuning->points[i].limit;

		widen(&rates, rate_logarithm(limit->count, limit->period));
		widen(&bursts, logarithm(limit->burst));
	}
	weir_limit_print(&tuning->points[tuning->best].limit, text);
	fputs(head, out);
	fprintf(out, "<text class='title' x='%d' y='28'>%s: %s</text>\n", LEFT,
		weir_policy_limit_name(found->policy, found->limit), text);
	fprintf(out, "<text x='%d' y='28' text-anchor='end'>%s against rate; hollow: misses the wish</text>\n",
		WIDTH - RIGHT, found->wish->has_wait && found->wish->passed.count == 0 ? "queue" : "burst");
	put_rates(out, &rates);
	put_bursts(out, &bursts);
	put_points(out, tuning, &rates, &bursts);
	fputs("</svg>\n", out);
}
