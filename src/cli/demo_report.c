/* demo_report.c: prints the demo's lines and tables. Every number is counted from the limiters' verdicts. */
#include "cli/demo_report.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/demo_screen.h"

#define SPAN_MAX 24
#define DENIED_WIDTH 4

static double seconds(weir_ns span)
{
	return (double)span / (double)DEMO_SECOND;
}

/* --- seconds ---------------------------------------------------------------------------------------------------- */

static size_t longer(size_t a, size_t b)
{
	return a > b ? a : b;
}

/* The heading of a column shows the limit in two lines. Returns the index of the space at which to break it, so that
 * the column is as narrow as possible. */
static size_t split(const char *text)
{
	size_t length = strlen(text), best = 0;

	for (size_t i = 1; i < length; i++)
		if (text[i] == ' ' && (best == 0 || longer(i, length - i) < longer(best, length - best)))
			best = i;
	return best;
}

static int column_width(const struct demo_lane *lane)
{
	size_t space = split(lane->text);

	return (int)longer(space, strlen(lane->text) - space - 1);
}

void weir__demo_report_head(const struct demo_traffic *traffic)
{
	printf("weir demo: the same %zu requests, five ways to allow %d a second.\n", traffic->arrivals.n, DEMO_RATE);
	printf("For each second: how many each limit allowed, and -denied.\n\nsecond  came");
	for (const struct demo_lane *lane = traffic->lanes; lane < traffic->lanes + DEMO_LANES; lane++)
		printf("  %*.*s", column_width(lane), (int)split(lane->text), lane->text);
	printf("\n            ");
	for (const struct demo_lane *lane = traffic->lanes; lane < traffic->lanes + DEMO_LANES; lane++)
		printf("  %*s", column_width(lane), lane->text + split(lane->text) + 1);
	puts("");
}

void weir__demo_report_second(const struct demo_traffic *traffic)
{
	weir_ns until = traffic->now, from = until - DEMO_SECOND;
	int blank = 0; /* width reserved for a denied count that was not printed: lines have no trailing blanks */

	printf("%6u  %4zu", (unsigned)(from / DEMO_SECOND),
	       weir__demo_instants_within(&traffic->arrivals, from, until));
	for (const struct demo_lane *lane = traffic->lanes; lane < traffic->lanes + DEMO_LANES; lane++) {
		size_t denied = weir__demo_instants_within(&lane->denied, from, until);

		printf("  %*zu", blank + column_width(lane) - DENIED_WIDTH,
		       weir__demo_instants_within(&lane->through, from, until));
		if (denied > 0)
			printf("%*d", DENIED_WIDTH, -(int)denied);
		blank = denied > 0 ? 0 : DENIED_WIDTH;
	}
	puts("");
}

/* --- the end ---------------------------------------------------------------------------------------------------- */

static const char *duration_text(weir_ns span, char text[SPAN_MAX])
{
	if (span == 0)
		snprintf(text, SPAN_MAX, "-");
	else if (span < DEMO_SECOND)
		snprintf(text, SPAN_MAX, "%g ms", (double)span / (double)DEMO_MS);
	else
		snprintf(text, SPAN_MAX, "%g s", seconds(span));
	return text;
}

static void table_row(const struct demo_lane *lane, bool coloured)
{
	size_t most = weir__demo_instants_peak(&lane->through).n;
	const char *normal = weir__demo_screen_ink(coloured, DEMO_INK_NONE);
	char wait[SPAN_MAX], closest[SPAN_MAX];

	printf("%s%-21s%s", weir__demo_screen_ink(coloured, DEMO_INK_BOLD), lane->text, normal);
	printf("%s%8zu%s", weir__demo_screen_ink(coloured, DEMO_INK_THROUGH), lane->through.n, normal);
	printf("%s%8zu%s", weir__demo_screen_ink(coloured, DEMO_INK_DENIED), lane->denied.n, normal);
	printf("%s%17zu%s", weir__demo_screen_ink(coloured && most > DEMO_RATE, DEMO_INK_OVER), most, normal);
	printf("%14s", duration_text(lane->longest_wait, wait));
	printf("%11s\n", duration_text(weir__demo_instants_closest(&lane->through), closest));
}

void weir__demo_report_table(const struct demo_traffic *traffic, bool coloured)
{
	printf("%s%-21s%8s%8s%17s%14s%11s%s\n", weir__demo_screen_ink(coloured, DEMO_INK_HEAD), "limit", "allowed",
	       "denied", "most in any 1 s", "longest wait", "closest", weir__demo_screen_ink(coloured, DEMO_INK_NONE));
	for (size_t i = 0; i < DEMO_LANES; i++)
		table_row(&traffic->lanes[i], coloured);
}

/* A fixed window allows twice its limit around a window edge: prints how many requests passed on each side of the edge
 * within the fullest second. */
static void note_window(const struct demo_lane *lane)
{
	struct demo_peak peak = weir__demo_instants_peak(&lane->through);
	weir_ns edge = peak.last / DEMO_SECOND * DEMO_SECOND;

	printf("- fixed_window allowed %zu in %g s: %zu before the edge at %g s, %zu after.\n", peak.n,
	       seconds(peak.last - peak.first), weir__demo_instants_within(&lane->through, peak.first, edge),
	       seconds(edge), weir__demo_instants_within(&lane->through, edge, peak.last + 1));
}

void weir__demo_report_notes(const struct demo_traffic *traffic)
{
	const struct demo_lane *bucket = &traffic->lanes[DEMO_BUCKET], *queue = &traffic->lanes[DEMO_QUEUE];
	const struct demo_lane *log = &traffic->lanes[DEMO_LOG], *counter = &traffic->lanes[DEMO_COUNTER];
	char apart[SPAN_MAX];

	note_window(&traffic->lanes[DEMO_WINDOW]);
	printf("- sliding_log allowed %zu at most in a second; sliding_counter, an estimate, %zu.\n",
	       weir__demo_instants_peak(&log->through).n, weir__demo_instants_peak(&counter->through).n);
	printf("- burst 20 allowed %zu, up to %zu in a second; queue 20 allowed %zu, %s apart.\n", bucket->through.n,
	       weir__demo_instants_peak(&bucket->through).n, queue->through.n,
	       duration_text(weir__demo_instants_closest(&queue->through), apart));
	printf("Try %s demo --speed 4, ./dev vectors tests/vectors/worked_examples.vec\n", program_invocation_name);
}
