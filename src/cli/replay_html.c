/* replay_html.c: the report of weir replay as one page, with plots as SVG.
 *
 * The page has no scripts, and its Content-Security-Policy allows only its own style, by hash. So bytes of a log could
 * do nothing even if escaping failed. Plots are stretched, so all text is HTML beside them. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/replay.h"
#include "cli/words.h"
#include "core/utf8.h"
#include "os/memory.h"
#include "policy/policy.h"
#include "store/table/hash.h"

extern const char weir__replay_style[], weir__replay_style_hash[];
extern const unsigned long weir__replay_style_length, weir__replay_style_hash_length;

enum { PLOT = 1000 /* width and height of plots in their own units */, SHADES = 5 };

#define SECOND UINT64_C(1000000000)
#define DAY (86400 * SECOND)

struct page {
	const struct replay_run *run;
	FILE *out;
	struct weir__hash_secret secret; /* of the pseudonyms in this page */
};

/* --- text -------------------------------------------------------------------------------------------------------- */

static void put(const struct page *page, const char *html)
{
	fputs(html, page->out);
}

static void put_character(FILE *out, const unsigned char *at, size_t n)
{
	switch (*at) {
	case '&':
		fputs("&amp;", out);
		break;
	case '<':
		fputs("&lt;", out);
		break;
	case '>':
		fputs("&gt;", out);
		break;
	case '"':
		fputs("&quot;", out);
		break;
	case '\'':
		fputs("&#39;", out);
		break;
	default:
		fwrite(at, 1, n, out);
	}
}

/* Any bytes as text. Bytes that are not visible characters become \xHH. */
static void put_bytes(const struct page *page, const void *bytes, size_t n)
{
	const unsigned char *at = bytes;

	while (n > 0) {
		const struct weir__utf8 first = weir__utf8_first(at, n);

		if (first.is_character && !weir__utf8_is_hidden(first.character))
			put_character(page->out, at, first.length);
		else
			for (size_t i = 0; i < first.length; i++)
				fprintf(page->out, "\\x%02x", at[i]);
		at += first.length;
		n -= first.length;
	}
}

static void put_text(const struct page *page, const char *text)
{
	put_bytes(page, text, strlen(text));
}

/* With commas between thousands. */
static void put_number(const struct page *page, uint64_t number)
{
	char digits[24];
	const int n = snprintf(digits, sizeof(digits), "%" PRIu64, number);

	for (int i = 0; i < n; i++) {
		if (i > 0 && (n - i) % 3 == 0)
			putc(',', page->out);
		putc(digits[i], page->out);
	}
}

static void put_share(const struct page *page, uint64_t part, uint64_t whole)
{
	const uint64_t hundredths = whole == 0 ? 0 : (uint64_t)(((unsigned __int128)part * 10000 + whole / 2) / whole);

	if (part > 0 && hundredths == 0)
		put(page, "&lt;0.01 %");
	else
		fprintf(page->out, "%" PRIu64 ".%02" PRIu64 " %%", hundredths / 100, hundredths % 100);
}

/* 2026-11-18 20:30:00 UTC */
static void put_instant(const struct page *page, weir_ns at)
{
	char text[WEIR__WORDS_SIZE];

	weir__words_instant(at / SECOND * SECOND, text);
	fprintf(page->out, "%.10s %.8s UTC", text, text + 11);
}

static void put_span(const struct page *page, weir_ns span)
{
	char text[WEIR__WORDS_SIZE];

	if (span == 0) {
		putc('-', page->out);
		return;
	}
	weir__words_span(span, text);
	put_text(page, text);
}

/* part of whole, in the units of a plot. A number above 0 is always visible. */
static uint64_t scaled(uint64_t part, uint64_t whole)
{
	const uint64_t units = whole == 0 ? 0 : (uint64_t)((unsigned __int128)part * PLOT / whole);

	return part > 0 && units < 4 ? 4 : units;
}

/* --- the head ---------------------------------------------------------------------------------------------------- */

static void put_sources(const struct page *page)
{
	const struct replay_run *const run = page->run;
	const size_t n = weir__log_reader_inputs(run->reader);

	put_text(page, weir__log_reader_input(run->reader, 0)->path);
	if (n > 1)
		fprintf(page->out, " and %zu more", n - 1);
	put(page, ", decided by ");
	put_text(page, run->options.policy_path);
	if (run->changes) {
		put(page, ", compared with ");
		put_text(page, run->options.old_path);
	}
}

static void put_head(const struct page *page)
{
	const struct weir__replay_stats *const stats = page->run->now.stats;

	put(page, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
		  "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src ");
	fwrite(weir__replay_style_hash, 1, weir__replay_style_hash_length, page->out);
	put(page, "; base-uri 'none'; form-action 'none'\">\n"
		  "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
		  "<meta name=\"referrer\" content=\"no-referrer\">\n<title>Weir replay</title>\n<style>");
	fwrite(weir__replay_style, 1, weir__replay_style_length, page->out);
	put(page, "</style>\n</head>\n<body>\n<header>\n<h1>Weir replay</h1>\n<p>");
	put_sources(page);
	put(page, "</p>\n<p>");
	put_instant(page, stats->first);
	put(page, " to ");
	put_instant(page, stats->last);
	put(page, "</p>\n</header>\n<main>\n");
}

static void open_tile(const struct page *page, const char *name)
{
	fprintf(page->out, "<div><dt>%s</dt><dd><b>", name);
}

static void put_tile(const struct page *page, const char *name, uint64_t number, uint64_t whole, const char *of)
{
	open_tile(page, name);
	put_number(page, number);
	put(page, "</b><small>");
	if (of) {
		put_share(page, number, whole);
		fprintf(page->out, " %s", of);
	}
	put(page, "</small></dd></div>\n");
}

static uint64_t highest_step(const struct weir__replay_stats *stats)
{
	uint64_t most = 0;

	for (size_t i = 0; i < WEIR__REPLAY_TIMES; i++)
		most = stats->course.steps[i].all > most ? stats->course.steps[i].all : most;
	return most;
}

/* Requests in a second, of a number in some steps, with three digits: 0.25/s, 12.5/s. */
static void put_rate(const struct page *page, const struct weir__replay_stats *stats, uint64_t number, unsigned steps)
{
	const unsigned __int128 width = (unsigned __int128)(stats->course.width > 0 ? stats->course.width : SECOND) *
					steps;
	const uint64_t hundredths = (uint64_t)(((unsigned __int128)number * SECOND * 100 + width / 2) / width);

	if (hundredths == 0 && number > 0)
		put(page, "&lt;0.01");
	else
		put_number(page, hundredths >= 10000 ? (hundredths + 50) / 100 : hundredths / 100);
	if (hundredths > 0 && hundredths < 1000 && hundredths % 100 != 0)
		fprintf(page->out, ".%02" PRIu64, hundredths % 100);
	else if (hundredths > 0 && hundredths < 10000 && hundredths % 100 / 10 != 0)
		fprintf(page->out, ".%" PRIu64, hundredths % 100 / 10);
	put(page, "/s");
}

static void put_tiles(const struct page *page)
{
	const struct replay_run *const run = page->run;
	const struct weir__replay_stats *const stats = run->now.stats;

	put(page, "<dl class=\"tiles\">\n");
	put_tile(page, "Requests", stats->requests, 0, NULL);
	put_tile(page, "Denied", stats->denied, stats->requests, "of requests");
	if (run->changes) {
		put_tile(page, "Newly denied", run->changes->newly_denied, stats->requests, "of requests");
		put_tile(page, "Newly allowed", run->changes->newly_allowed, stats->requests, "of requests");
	} else {
		put_tile(page, "Delayed", stats->delayed, stats->requests, "of requests");
	}
	put_tile(page, "Clients", stats->clients.n, 0, NULL);
	put_tile(page, "Clients denied", stats->clients.with_denied, stats->clients.n, "of clients");
	if (run->changes == NULL) {
		open_tile(page, "Highest rate");
		put_rate(page, stats, highest_step(stats), 1);
		put(page, "</b><small>over ");
		put_span(page, stats->course.width);
		put(page, "</small></dd></div>\n");
	}
	put(page, "</dl>\n");
}

static void open_panel(const struct page *page, const char *title, const char *class, bool has_legend)
{
	fprintf(page->out, "<section class=\"panel%s\">\n<div class=\"head\"><h2>%s</h2>", class, title);
	if (has_legend)
		put(page, "<p class=\"legend\"><span><i class=\"allowed\"></i>allowed</span>"
			  "<span><i class=\"rejected\"></i>denied</span></p>");
	put(page, "</div>\n");
}

/* --- the rate over time ------------------------------------------------------------------------------------------ */

static void put_step(const struct page *page, const struct weir__replay_stats *stats, size_t i, size_t n, uint64_t most)
{
	const uint64_t all = stats->course.steps[i].all, denied = stats->course.steps[i].denied;
	const uint64_t whole = scaled(all, most), part = scaled(denied, most),
		       allowed = whole > part ? whole - part : 0;
	const uint64_t left = i * PLOT / n, width = (i + 1) * PLOT / n - left;

	if (all == 0)
		return;
	put(page, "<g><title>");
	put_instant(page, stats->course.begins + i * stats->course.width);
	put(page, ": ");
	put_number(page, all - denied);
	put(page, " allowed, ");
	put_number(page, denied);
	put(page, " denied</title>");
	if (all > denied)
		fprintf(page->out,
			"<rect class=\"allowed\" x=\"%" PRIu64 "\" y=\"%" PRIu64 "\" width=\"%" PRIu64
			"\" height=\"%" PRIu64 "\"/>",
			left, PLOT - allowed, width, allowed);
	if (denied > 0)
		fprintf(page->out,
			"<rect class=\"rejected\" x=\"%" PRIu64 "\" y=\"%" PRIu64 "\" width=\"%" PRIu64
			"\" height=\"%" PRIu64 "\"/>",
			left, PLOT - allowed - part, width, part);
	put(page, "</g>\n");
}

static void put_course(const struct page *page, const struct replay_side *side, const char *name, uint64_t most)
{
	const struct weir__replay_stats *const stats = side->stats;
	const weir_ns width = stats->course.width > 0 ? stats->course.width : 1;
	const uint64_t steps = stats->last > stats->course.begins ? (stats->last - stats->course.begins) / width + 1 :
								    1;
	const size_t n = steps < WEIR__REPLAY_TIMES ? (size_t)steps : WEIR__REPLAY_TIMES;

	put(page, "<figure>");
	if (name) {
		put(page, "<h3>");
		put_text(page, name);
		put(page, "</h3>");
	}
	fprintf(page->out,
		"\n<div class=\"plot\"><svg viewBox=\"0 0 %d %d\" preserveAspectRatio=\"none\" role=\"img\" "
		"aria-label=\"Requests over time\">\n",
		PLOT, PLOT);
	fprintf(page->out,
		"<line x1=\"0\" x2=\"%d\" y1=\"0\" y2=\"0\"/><line x1=\"0\" x2=\"%d\" y1=\"%d\" y2=\"%d\"/>\n", PLOT,
		PLOT, PLOT / 2, PLOT / 2);
	for (size_t i = 0; i < n; i++)
		put_step(page, stats, i, n, most);
	put(page, "</svg><span class=\"top\">");
	put_rate(page, stats, most, 1);
	put(page, "</span><span class=\"middle\">");
	put_rate(page, stats, most, 2);
	put(page, "</span></div>\n<div class=\"axis\"><span>");
	put_instant(page, stats->course.begins);
	put(page, "</span><span>");
	put_instant(page, stats->last);
	put(page, "</span></div></figure>\n");
}

static void put_courses(const struct page *page)
{
	const struct replay_run *const run = page->run;
	const uint64_t most = highest_step(run->now.stats);

	open_panel(page, "Requests over time", " wide", true);
	put_course(page, &run->now, run->changes ? run->options.policy_path : NULL, most);
	if (run->changes)
		put_course(page, &run->old, run->options.old_path, most);
	put(page, "<p class=\"note\">Each bar is ");
	put_span(page, run->now.stats->course.width);
	put(page, ". Point at a bar for its numbers.</p>\n</section>\n");
}

/* --- hours ------------------------------------------------------------------------------------------------------- */

/* 0: none; 1 to SHADES: how much of the highest. */
static unsigned shade_of(uint64_t part, uint64_t most)
{
	const uint64_t shade = most == 0 ? 0 : (uint64_t)(((unsigned __int128)part * SHADES + most - 1) / most);

	return shade < SHADES ? (unsigned)shade : SHADES;
}

static void put_cell(const struct page *page, const struct weir__plots_cell *cell, uint64_t most, const char *name,
		     unsigned hour)
{
	fprintf(page->out, "<td class=\"h%u\" title=\"%s %02u:00: ", shade_of(cell->all, most), name, hour);
	put_number(page, cell->all);
	put(page, " requests, ");
	put_share(page, cell->denied, cell->all);
	put(page, " denied\">");
	if (cell->denied > 0)
		fprintf(page->out, "<i class=\"d%u\"></i>", shade_of(cell->denied, cell->all));
	put(page, "</td>");
}

static void put_row(const struct page *page, const struct weir__plots_cell cells[WEIR__PLOTS_HOURS], uint64_t most,
		    const char *name)
{
	fprintf(page->out, "<tr><th scope=\"row\">%s</th>", name);
	for (unsigned hour = 0; hour < WEIR__PLOTS_HOURS; hour++)
		put_cell(page, &cells[hour], most, name, hour);
	put(page, "</tr>\n");
}

static int by_number(const void *a, const void *b)
{
	const uint64_t first = *(const uint64_t *)a, second = *(const uint64_t *)b;

	return (first > second) - (first < second);
}

/* The p95 of the hours, so that one busy hour does not make all others look the same. */
static uint64_t darkest_cell(const struct weir__plots_cell (*rows)[WEIR__PLOTS_HOURS], uint32_t n)
{
	uint64_t sorted[WEIR__PLOTS_DAYS * WEIR__PLOTS_HOURS];
	size_t n_sorted = 0;

	for (uint32_t row = 0; row < n; row++)
		for (unsigned hour = 0; hour < WEIR__PLOTS_HOURS; hour++)
			if (rows[row][hour].all > 0)
				sorted[n_sorted++] = rows[row][hour].all;
	qsort(sorted, n_sorted, sizeof(sorted[0]), by_number);
	return n_sorted > 0 ? sorted[(n_sorted - 1) * 95 / 100] : 0;
}

static void put_heat(const struct page *page, const struct weir__replay_plots *plots, const char *title)
{
	static const char *const weekdays[] = { "Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun" };
	uint32_t n;
	const bool has_days = weir__replay_plots_has_days(plots, &n);
	const struct weir__plots_cell(*const rows)[WEIR__PLOTS_HOURS] = has_days ? plots->days : plots->weekdays;
	uint64_t most;

	n = has_days ? n : WEIR__PLOTS_WEEKDAYS;
	most = darkest_cell(rows, n);
	if (title) {
		put(page, "<h3>");
		put_text(page, title);
		put(page, "</h3>\n");
	}
	put(page, "<table class=\"heat\">\n<thead><tr><td></td>");
	for (unsigned hour = 0; hour < WEIR__PLOTS_HOURS; hour += 6)
		fprintf(page->out, "<th scope=\"col\" colspan=\"6\">%02u:00</th>", hour);
	put(page, "</tr></thead>\n<tbody>\n");
	for (uint32_t row = 0; row < n; row++) {
		char text[WEIR__WORDS_SIZE];

		weir__words_instant(plots->first_day + row * DAY, text);
		text[10] = '\0';
		put_row(page, rows[row], most, has_days ? text + 5 : weekdays[row]);
	}
	put(page, "</tbody></table>\n");
}

static void put_hours(const struct page *page)
{
	const struct replay_run *const run = page->run;

	open_panel(page, "Requests by hour, UTC", "", true);
	put_heat(page, run->now.plots, run->changes ? run->options.policy_path : NULL);
	if (run->changes)
		put_heat(page, run->old.plots, run->options.old_path);
	put(page, "<p class=\"note\">The darker the hour, the more requests. The higher its red strip, the larger the "
		  "share that was denied.</p>\n</section>\n");
}

/* --- clients ----------------------------------------------------------------------------------------------------- */

/* By default a pseudonym, which differs from report to report. */
static void put_client(const struct page *page, const struct weir__top_row *row)
{
	if (page->run->options.has_plain_names) {
		put_bytes(page, row->text, row->length < WEIR__TOP_TEXT ? row->length : WEIR__TOP_TEXT);
		return;
	}
	fprintf(page->out, "#%012" PRIx64, weir__hash(&page->secret, &row->hash, sizeof(row->hash)) >> 16);
}

static void put_client_row(const struct page *page, const struct weir__top_row *row, uint64_t most)
{
	const uint64_t whole = scaled(row->all, most), denied = scaled(row->number, most);
	const uint64_t allowed = whole > denied ? whole - denied : 0;

	put(page, "<tr><th scope=\"row\">");
	put_client(page, row);
	fprintf(page->out,
		"</th><td class=\"bar\"><svg viewBox=\"0 0 %d 1\" preserveAspectRatio=\"none\" aria-hidden=\"true\">",
		PLOT);
	fprintf(page->out, "<rect class=\"allowed\" width=\"%" PRIu64 "\" height=\"1\"/>", allowed);
	fprintf(page->out,
		"<rect class=\"rejected\" x=\"%" PRIu64 "\" width=\"%" PRIu64 "\" height=\"1\"/></svg></td><td>",
		allowed, denied);
	put_number(page, row->all);
	put(page, "</td><td>");
	put_number(page, row->number);
	put(page, "</td><td class=\"more\">");
	put_share(page, row->number, row->all);
	put(page, "</td></tr>\n");
}

static void put_top(const struct page *page, const struct weir__top *top, const char *title)
{
	uint64_t most = 0;

	for (size_t i = 0; i < top->n; i++)
		most = top->rows[i].all > most ? top->rows[i].all : most;
	if (title) {
		put(page, "<h3>");
		put_text(page, title);
		put(page, "</h3>\n");
	}
	if (top->n == 0) {
		put(page, "<p class=\"note\">No client was denied.</p>\n");
		return;
	}
	put(page,
	    "<table class=\"rows\">\n<thead><tr><th scope=\"col\">Client</th><td></td><th scope=\"col\">Requests</th>"
	    "<th scope=\"col\">Denied</th><th scope=\"col\" class=\"more\">Share</th></tr></thead>\n<tbody>\n");
	for (size_t i = 0; i < top->n; i++)
		put_client_row(page, &top->rows[i], most);
	put(page, "</tbody></table>\n");
}

static void put_clients(const struct page *page)
{
	const struct replay_run *const run = page->run;

	open_panel(page, "Clients with the most denied requests", "", true);
	put_top(page, &run->now.stats->top_clients, run->changes ? run->options.policy_path : NULL);
	if (run->changes)
		put_top(page, &run->old.stats->top_clients, run->options.old_path);
	if (!run->options.has_plain_names)
		put(page,
		    "<p class=\"note\">Names are hashed, with a secret that was not kept. With --html-names plain the "
		    "report has them.</p>\n");
	put(page, "</section>\n");
}

/* --- the distribution of peak rates ------------------------------------------------------------------------------ */

static void put_peak(const struct page *page, const struct weir__plots_peaks *peaks, unsigned i, uint64_t most)
{
	const uint64_t whole = scaled(peaks->clients[i], most), denied = scaled(peaks->denied[i], most);
	const uint64_t allowed = whole > denied ? whole - denied : 0;

	put(page, "<li><b>");
	put_number(page, peaks->clients[i]);
	fprintf(page->out, "</b><svg viewBox=\"0 0 1 %d\" preserveAspectRatio=\"none\" aria-hidden=\"true\">", PLOT);
	fprintf(page->out, "<rect class=\"allowed\" y=\"%" PRIu64 "\" width=\"1\" height=\"%" PRIu64 "\"/>",
		PLOT - allowed, allowed);
	fprintf(page->out, "<rect class=\"rejected\" y=\"%" PRIu64 "\" width=\"1\" height=\"%" PRIu64 "\"/></svg>",
		PLOT - allowed - denied, denied);
	put(page, i > 1 ? "&le;" : "");
	put_number(page, UINT64_C(1) << i);
	put(page, "</li>\n");
}

static void put_distribution(const struct page *page, const struct weir__replay_plots *plots, const char *title)
{
	struct weir__plots_peaks peaks;
	unsigned last = 0;
	uint64_t most = 0;

	weir__replay_plots_peaks(plots, &peaks);
	for (unsigned i = 0; i < WEIR__PLOTS_PEAKS; i++) {
		last = peaks.clients[i] > 0 ? i : last;
		most = peaks.clients[i] > most ? peaks.clients[i] : most;
	}
	if (title) {
		put(page, "<h3>");
		put_text(page, title);
		put(page, "</h3>\n");
	}
	put(page, "<ol class=\"peaks\">\n");
	for (unsigned i = 0; i <= last; i++)
		put_peak(page, &peaks, i, most);
	put(page, "</ol>\n<p class=\"note\">Half of the clients never had more than ");
	put_number(page, peaks.median);
	put(page, " requests in a second, 99 % never more than ");
	put_number(page, peaks.p99);
	put(page, ". The highest was ");
	put_number(page, peaks.highest);
	put(page, ". Red: clients with a denied request.</p>\n");
	if (plots->uncounted > 0) {
		put(page, "<p class=\"note\">");
		put_number(page, plots->uncounted);
		put(page, " requests of further clients are not counted here.</p>\n");
	}
}

static void put_peaks(const struct page *page)
{
	const struct replay_run *const run = page->run;

	open_panel(page, "Clients by their highest rate per second", "", true);
	put_distribution(page, run->now.plots, run->changes ? run->options.policy_path : NULL);
	if (run->changes)
		put_distribution(page, run->old.plots, run->options.old_path);
	put(page, "</section>\n");
}

/* --- limits ------------------------------------------------------------------------------------------------------ */

static void put_limit(const struct page *page, const struct replay_side *side, uint32_t plan)
{
	const struct weir__replay_limit *const limit = &side->stats->limits[plan];
	char text[WEIR_LIMIT_TEXT_MAX];

	put(page, "<tr><th scope=\"row\">");
	put_text(page, weir__replay_plan(side, plan));
	if (!weir_policy_plan_of(side->stats->policy, plan)->is_unlimited) {
		(void)weir_limit_print(&weir_policy_plan_of(side->stats->policy, plan)->limit, text);
		put(page, " <span class=\"note\">");
		put_text(page, text);
		put(page, limit->is_shadow ? ", in shadow</span>" : "</span>");
	}
	put(page, "</th><td>");
	put_number(page, limit->requests);
	fprintf(page->out, "</td><td%s>", limit->denied > 0 ? " class=\"wrong\"" : "");
	put_number(page, limit->denied);
	put(page, "</td><td class=\"more\">");
	put_number(page, limit->keys_denied);
	put(page, "</td><td class=\"more\">");
	put_span(page, limit->longest_wait > limit->longest_delay ? limit->longest_wait : limit->longest_delay);
	put(page, "</td></tr>\n");
}

static void put_limits_of(const struct page *page, const struct replay_side *side, const char *title)
{
	if (title) {
		put(page, "<h3>");
		put_text(page, title);
		put(page, "</h3>\n");
	}
	put(page, "<table class=\"rows\">\n<thead><tr><th scope=\"col\">Limit</th><th scope=\"col\">Requests</th>"
		  "<th scope=\"col\">Denied</th><th scope=\"col\" class=\"more\">Keys denied</th>"
		  "<th scope=\"col\" class=\"more\">Longest wait</th></tr></thead>\n<tbody>\n");
	for (uint32_t i = 0; i < side->stats->n_limits; i++)
		if (side->stats->limits[i].requests > 0)
			put_limit(page, side, i);
	put(page, "</tbody></table>\n");
}

static void put_limits(const struct page *page)
{
	const struct replay_run *const run = page->run;

	open_panel(page, "Limits", "", false);
	put_limits_of(page, &run->now, run->changes ? run->options.policy_path : NULL);
	if (run->changes)
		put_limits_of(page, &run->old, run->options.old_path);
	put(page, "</section>\n");
}

/* --- what to know about it --------------------------------------------------------------------------------------- */

static void put_count_note(const struct page *page, uint64_t number, const char *what)
{
	if (number == 0)
		return;
	put(page, "<li>");
	put_number(page, number);
	fprintf(page->out, " %s</li>\n", what);
}

/* The notes of the report, each of which begins with "- " and may go on in lines that begin with two blanks. */
static bool put_report_notes(const struct page *page)
{
	char *text = NULL;
	size_t n = 0;
	FILE *const notes = open_memstream(&text, &n);
	bool is_good = notes != NULL;

	if (notes == NULL)
		return false;
	weir__replay_notes(notes, page->run);
	is_good = fclose(notes) == 0;
	for (char *line = text, *end; is_good && *line; line = end + 1) {
		end = line + strcspn(line, "\n");
		put(page, *line != '-' ? " " : line == text ? "<li>" : "</li>\n<li>");
		put_bytes(page, line + 2, (size_t)(end - line) - 2);
	}
	put(page, "</li>\n");
	free(text);
	return is_good;
}

static bool put_notes(const struct page *page)
{
	const struct replay_run *const run = page->run;
	const struct weir__replay_stats *const stats = run->now.stats;

	open_panel(page, "What to know about these numbers", " wide", false);
	put(page, "<ul class=\"notes\">\n");
	put_count_note(page, run->totals.bad, "lines were bad and left out.");
	put_count_note(page, stats->undecided, "requests could not be decided: a server would return an error.");
	put_count_note(page, stats->unmatched, "requests matched no limit.");
	if (!put_report_notes(page))
		return false;
	put(page, "</ul>\n</section>\n");
	return true;
}

bool weir__replay_html(const struct replay_run *run, FILE *out)
{
	struct page page = { .run = run, .out = out };

	if (weir__memory_random(&page.secret, sizeof(page.secret)) != 0)
		return false;
	put_head(&page);
	put_tiles(&page);
	put_courses(&page);
	put_hours(&page);
	put_peaks(&page);
	put_clients(&page);
	put_limits(&page);
	if (!put_notes(&page))
		return false;
	put(&page, "</main>\n</body>\n</html>\n");
	return !ferror(out);
}
