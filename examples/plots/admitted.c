/* admitted.c: draws which of the same bursty arrivals each algorithm allows, as SVG.
 *
 *     admitted DIRECTORY           writes token_bucket.svg, leaky_bucket.svg, ...
 *     admitted --check DIRECTORY   writes nothing; exits 1 if a file is not what it would write
 *
 * It uses real limiters with simulated time and draws whole numbers only, so the files are the same on every machine. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/limiter.h>

#define MS UINT64_C(1000000)
#define SECOND (1000 * MS)
#define END_MS 11000
#define BIN_MS 100
#define BINS (END_MS / BIN_MS)
#define SAMPLE_MS 20 /* of the lower panel */
#define RATE 10      /* a second, of every limit below */
#define REQUESTS_MAX 256

/* 2023-11-14T22:13:20Z. A whole second, so that windows aligned to the clock change on whole seconds. */
#define EPOCH (UINT64_C(1700000000) * SECOND)

static const struct plot {
	const char *file;
	const char *title;
	const char *limit;
} plots[] = {
	{ "token_bucket", "Token bucket", "10/s burst 20" },
	{ "leaky_bucket", "Leaky bucket with a queue", "10/s leaky queue 20" },
	{ "fixed_window", "Fixed window", "10/s fixed_window" },
	{ "sliding_log", "Sliding log", "10/s sliding_log" },
	{ "sliding_counter", "Sliding counter", "10/s sliding_counter" },
};

#define PLOTS (sizeof(plots) / sizeof(plots[0]))

/* n requests, the first at from_ms, then one every every_ms. Between the overload and the burst at the edge of the
 * sixth second every limit has time to become full again. */
static const struct phase {
	unsigned from_ms, every_ms, n;
} phases[] = {
	{ 0, 250, 8 },    /* a trickle, four a second */
	{ 2000, 40, 45 }, /* overload, 25 a second */
	{ 5900, 7, 15 },  /* a burst before the edge of a second, */
	{ 6000, 7, 15 },  /* and one after it */
	{ 8200, 8, 12 },  /* two bursts, less than a second apart, */
	{ 9000, 8, 12 },  /* in two seconds of the clock */
};

#define PHASES (sizeof(phases) / sizeof(phases[0]))

/* The results. Times in ns from the start. `passed` is when each request goes on, in order. */
struct outcome {
	weir_ns passed[REQUESTS_MAX];
	unsigned n_passed, n_denied;
	unsigned admitted_in[BINS], denied_in[BINS], passed_in[BINS];
	weir_ns longest_wait;
	bool shapes;
};

/* --- playing ---------------------------------------------------------------------------------------------------- */

static void arrive(struct weir_limiter *limiter, weir_ns at, struct outcome *outcome)
{
	const struct weir_verdict verdict = weir_limiter_take(limiter, EPOCH + at, 1);
	const weir_ns passes = at + verdict.delay;

	if (!verdict.allowed) {
		outcome->n_denied++;
		outcome->denied_in[at / (BIN_MS * MS)]++;
		return;
	}
	outcome->admitted_in[at / (BIN_MS * MS)]++;
	if (passes / (BIN_MS * MS) < BINS)
		outcome->passed_in[passes / (BIN_MS * MS)]++;
	outcome->passed[outcome->n_passed++] = passes;
	if (verdict.delay > outcome->longest_wait)
		outcome->longest_wait = verdict.delay;
}

static void play(const struct plot *plot, struct outcome *ret_outcome)
{
	static _Alignas(WEIR_LIMITER_ALIGN) unsigned char memory[WEIR_LIMITER_SIZE + 16 * RATE];
	struct weir_limiter *limiter;
	struct weir_message why;

	if (weir_limiter_init_text(memory, sizeof(memory), plot->limit, &limiter, &why) != WEIR_OK) {
		fprintf(stderr, "admitted: %s: %s\n", plot->limit, why.text);
		exit(2);
	}
	memset(ret_outcome, 0, sizeof(*ret_outcome));
	ret_outcome->shapes = weir_limiter_limit(limiter).shape;
	for (size_t i = 0; i < PHASES; i++)
		for (unsigned k = 0; k < phases[i].n; k++)
			arrive(limiter, (phases[i].from_ms + k * phases[i].every_ms) * MS, ret_outcome);
}

/* How many passed in the second that ends at `at`: after at - 1 s, not after at. */
static unsigned passed_in_second(const struct outcome *outcome, weir_ns at)
{
	unsigned n = 0;

	for (unsigned i = 0; i < outcome->n_passed; i++)
		n += outcome->passed[i] <= at && outcome->passed[i] + SECOND > at;
	return n;
}

/* A fullest second ends at a request that passed, so it is enough to look at these. */
static unsigned fullest_second(const struct outcome *outcome)
{
	unsigned most = 0;

	for (unsigned i = 0; i < outcome->n_passed; i++) {
		const unsigned n = passed_in_second(outcome, outcome->passed[i]);

		most = n > most ? n : most;
	}
	return most;
}

/* --- drawing ---------------------------------------------------------------------------------------------------- */

/* Sizes in pixels, or in tenths of a pixel if the name ends in _T. */
enum {
	WIDTH = 800,
	HEIGHT = 300,
	LEFT = 58,
	BIN_T = 66, /* width of a bin */
	BAR_T = 56, /* of its bar */
	RIGHT = LEFT + BINS * BIN_T / 10,
	TOP_ZERO = 168, /* y of the upper panel's zero */
	TOP_UNIT_T = 68,
	TOP_MAX = 15,
	LOW_ZERO = 262, /* y of the lower panel's zero */
	LOW_UNIT_T = 20,
	LOW_MAX = 30,
};

/* Colours that colour-blind readers can tell apart, on a white background. */
#define INK "#24292f"
#define FAINT "#d8dee4"
#define ADMITTED "#0b63b5"
#define DENIED "#f3b49b"
#define DENIED_EDGE "#c2410c"
#define DEPARTED "#0f766e"

/* A coordinate given in tenths. */
struct tenths {
	char text[16];
};

static struct tenths tenths(int value)
{
	struct tenths result;
	const char *sign = value < 0 ? "-" : "";

	value = abs(value);
	if (value % 10 == 0)
		snprintf(result.text, sizeof(result.text), "%s%d", sign, value / 10);
	else
		snprintf(result.text, sizeof(result.text), "%s%d.%d", sign, value / 10, value % 10);
	return result;
}

static int bin_x(int bin)
{
	return LEFT * 10 + bin * BIN_T + (BIN_T - BAR_T) / 2;
}

/* A bar from `from` to `to` units above zero_t, as a piece of a path. */
static void add_bar(FILE *out, int bin, int zero_t, int unit_t, int from, int to)
{
	fprintf(out, "M%s %sh%sv%sh%sz", tenths(bin_x(bin)).text, tenths(zero_t - from * unit_t).text,
		tenths(BAR_T).text, tenths((from - to) * unit_t).text, tenths(-BAR_T).text);
}

__attribute__((format(printf, 5, 6))) static void text_at(FILE *out, int x, int y, const char *attributes,
							  const char *format, ...)
{
	va_list arguments;

	fprintf(out, "<text x=\"%d\" y=\"%d\"%s%s>", x, y, *attributes ? " " : "", attributes);
	va_start(arguments, format);
	vfprintf(out, format, arguments);
	va_end(arguments);
	fputs("</text>\n", out);
}

static void draw_scale(FILE *out, int zero, int unit_t, int most, int step)
{
	for (int value = 0; value <= most; value += step) {
		const struct tenths y = tenths(zero * 10 - value * unit_t);

		fprintf(out, "<path d=\"M%d %sH%d\" stroke=\"%s\"/>\n", LEFT, y.text, RIGHT, value ? FAINT : INK);
		fprintf(out, "<text x=\"%d\" y=\"%s\" dy=\"4\" text-anchor=\"end\">%d</text>\n", LEFT - 6, y.text,
			value);
	}
}

static void draw_axes(FILE *out)
{
	draw_scale(out, TOP_ZERO, TOP_UNIT_T, TOP_MAX, 5);
	draw_scale(out, LOW_ZERO, LOW_UNIT_T, LOW_MAX, 10);
	for (int second = 0; second * 1000 <= END_MS; second++) {
		const int x = LEFT * 10 + second * 1000 / BIN_MS * BIN_T;

		fprintf(out, "<path d=\"M%s %dv5\" stroke=\"%s\"/>\n", tenths(x).text, LOW_ZERO, INK);
		text_at(out, x / 10, LOW_ZERO + 17, "text-anchor=\"middle\"", "%d", second);
	}
	text_at(out, (LEFT + RIGHT) / 2, HEIGHT - 6, "text-anchor=\"middle\"", "time, s");
	text_at(out, 0, 0, "transform=\"translate(16 116) rotate(-90)\" text-anchor=\"middle\"", "per 0.1 s");
	text_at(out, 0, 0, "transform=\"translate(16 232) rotate(-90)\" text-anchor=\"middle\"", "in the last 1 s");
}

static void draw_bars(FILE *out, const struct outcome *outcome)
{
	fprintf(out, "<path fill=\"%s\" d=\"", ADMITTED);
	for (int bin = 0; bin < BINS; bin++)
		if (outcome->admitted_in[bin] > 0)
			add_bar(out, bin, TOP_ZERO * 10, TOP_UNIT_T, 0, (int)outcome->admitted_in[bin]);
	fprintf(out, "\"/>\n<path fill=\"%s\" stroke=\"%s\" stroke-width=\"0.8\" d=\"", DENIED, DENIED_EDGE);
	for (int bin = 0; bin < BINS; bin++)
		if (outcome->denied_in[bin] > 0)
			add_bar(out, bin, TOP_ZERO * 10, TOP_UNIT_T, (int)outcome->admitted_in[bin],
				(int)(outcome->admitted_in[bin] + outcome->denied_in[bin]));
	fputs("\"/>\n", out);
	if (!outcome->shapes)
		return;
	fprintf(out, "<path fill=\"%s\" d=\"", DEPARTED);
	for (int bin = 0; bin < BINS; bin++)
		if (outcome->passed_in[bin] > 0)
			add_bar(out, bin, TOP_ZERO * 10 + 15, TOP_UNIT_T, 0, -(int)outcome->passed_in[bin]);
	fputs("\"/>\n", out);
}

/* Requests that passed in the last second, as a step line, filled below. */
static void draw_last_second(FILE *out, const struct outcome *outcome)
{
	const char *colour = outcome->shapes ? DEPARTED : ADMITTED;
	unsigned before = 0;

	fprintf(out, "<path fill=\"%s\" fill-opacity=\"0.25\" stroke=\"%s\" stroke-width=\"1.5\" d=\"M%d %d", colour,
		colour, LEFT, LOW_ZERO);
	for (int at_ms = 0; at_ms <= END_MS; at_ms += SAMPLE_MS) {
		const unsigned n = passed_in_second(outcome, (weir_ns)at_ms * MS);

		if (n != before)
			fprintf(out, "H%sV%s", tenths(LEFT * 10 + at_ms * BIN_T / BIN_MS).text,
				tenths(LOW_ZERO * 10 - (int)n * LOW_UNIT_T).text);
		before = n;
	}
	fprintf(out, "H%dV%d\"/>\n", RIGHT, LOW_ZERO);
	fprintf(out, "<path d=\"M%d %sH%d\" stroke=\"%s\" stroke-width=\"1.2\" stroke-dasharray=\"5 4\"/>\n", LEFT,
		tenths(LOW_ZERO * 10 - RATE * LOW_UNIT_T).text, RIGHT, INK);
}

static void draw_legend(FILE *out, const struct outcome *outcome)
{
	int x = LEFT;
	const struct {
		const char *fill, *edge, *text;
		int width;
	} entries[] = {
		{ ADMITTED, ADMITTED, "allowed", 84 },
		{ DENIED, DENIED_EDGE, "denied (the whole bar: arrived)", 214 },
		{ DEPARTED, DEPARTED, "departed", 84 },
	};

	for (size_t i = 0; i < (outcome->shapes ? 3u : 2u); i++) {
		fprintf(out, "<rect x=\"%d\" y=\"41\" width=\"10\" height=\"10\" fill=\"%s\" stroke=\"%s\"/>\n", x,
			entries[i].fill, entries[i].edge);
		text_at(out, x + 15, 50, "", "%s", entries[i].text);
		x += entries[i].width;
	}
	fprintf(out, "<path d=\"M%d 46h22\" stroke=\"%s\" stroke-width=\"1.2\" stroke-dasharray=\"5 4\"/>\n", x, INK);
	text_at(out, x + 27, 50, "", "%d a second", RATE);
}

static void tell_counts(FILE *out, const struct outcome *outcome)
{
	fprintf(out, "%u arrive, %u allowed, %u denied", outcome->n_passed + outcome->n_denied, outcome->n_passed,
		outcome->n_denied);
}

static void tell_extremes(FILE *out, const struct outcome *outcome)
{
	fprintf(out, "%s in the fullest second: %u", outcome->shapes ? "departed" : "allowed", fullest_second(outcome));
	if (outcome->shapes)
		fprintf(out, "; longest wait: %u ms", (unsigned)(outcome->longest_wait / MS));
}

static void draw(FILE *out, const struct plot *plot, const struct outcome *outcome)
{
	fprintf(out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" role=\"img\" "
		"font-family=\"sans-serif\" font-size=\"12\" fill=\"%s\">\n",
		WIDTH, HEIGHT, WIDTH, HEIGHT, INK);
	fprintf(out, "<title>%s: %s</title>\n<desc>", plot->title, plot->limit);
	tell_counts(out, outcome);
	fputs("; ", out);
	tell_extremes(out, outcome);
	fprintf(out, "</desc>\n<rect width=\"%d\" height=\"%d\" rx=\"6\" fill=\"#fff\"/>\n", WIDTH, HEIGHT);
	fprintf(out, "<text x=\"%d\" y=\"25\" font-size=\"16\" font-weight=\"bold\">%s", LEFT, plot->title);
	fprintf(out,
		"<tspan dx=\"12\" font-family=\"monospace\" font-size=\"13\" font-weight=\"normal\">%s</tspan></text>\n",
		plot->limit);
	fprintf(out, "<text x=\"%d\" y=\"25\" text-anchor=\"end\">", RIGHT);
	tell_counts(out, outcome);
	fprintf(out, "</text>\n<text x=\"%d\" y=\"%d\" text-anchor=\"end\">", RIGHT,
		LOW_ZERO - LOW_MAX * LOW_UNIT_T / 10 - 6);
	tell_extremes(out, outcome);
	fputs("</text>\n", out);
	draw_legend(out, outcome);
	draw_axes(out);
	draw_bars(out, outcome);
	draw_last_second(out, outcome);
	fputs("</svg>\n", out);
}

/* --- files ------------------------------------------------------------------------------------------------------ */

static bool put(const char *path, const char *bytes, size_t size)
{
	FILE *file = fopen(path, "wb");
	bool written;

	if (file == NULL) {
		fprintf(stderr, "admitted: %s: %s\n", path, strerror(errno));
		return false;
	}
	written = fwrite(bytes, 1, size, file) == size;
	if (fclose(file) != 0 || !written) {
		fprintf(stderr, "admitted: %s: could not be written\n", path);
		return false;
	}
	return true;
}

static bool is(const char *path, const char *bytes, size_t size)
{
	FILE *file = fopen(path, "rb");
	size_t i = 0;
	int c;

	if (file == NULL) {
		fprintf(stderr, "admitted: %s: %s\n", path, strerror(errno));
		return false;
	}
	while ((c = getc(file)) != EOF && i < size && (char)c == bytes[i])
		i++;
	fclose(file);
	if (c == EOF && i == size)
		return true;
	fprintf(stderr, "admitted: %s: not what the engine does; draw it again with admitted DIRECTORY\n", path);
	return false;
}

static bool make(const struct plot *plot, const char *directory, bool check)
{
	struct outcome outcome;
	char path[4096], *bytes;
	size_t size;
	FILE *out = open_memstream(&bytes, &size);
	bool good;

	if (out == NULL) {
		perror("admitted");
		return false;
	}
	play(plot, &outcome);
	draw(out, plot, &outcome);
	if (fclose(out) != 0) {
		perror("admitted");
		return false;
	}
	snprintf(path, sizeof(path), "%s/%s.svg", directory, plot->file);
	good = (check ? is : put)(path, bytes, size);
	free(bytes);
	return good;
}

int main(int argc, char **argv)
{
	const bool check = argc > 1 && strcmp(argv[1], "--check") == 0;
	bool good = true;

	if (argc != (check ? 3 : 2) || (!check && argv[1][0] == '-')) {
		fputs("usage: admitted [--check] DIRECTORY\n", stderr);
		return 2;
	}
	for (size_t i = 0; i < PLOTS; i++)
		good = make(&plots[i], argv[argc - 1], check) && good;
	if (good)
		printf("admitted: %zu plots %s\n", PLOTS, check ? "are as the engine decides" : "written");
	return good ? 0 : 1;
}
